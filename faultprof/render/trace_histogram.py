"""One traced function, drawn in the terminal: its durations, and how often it is called.

Knows: which buckets share a row, and how long the bars are.
Leaves to others: the buckets (``recording.histogram``), the header (``trace_header``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from faultprof.analysis.calls import Calls, together
from faultprof.analysis.selection import Selection, no_trace
from faultprof.analysis.trace_tree import Edge, TraceTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.histogram import BUCKETS, Histogram, bucket_lower_ns, bucket_of
from faultprof.recording.per_call import NO_END, fewest
from faultprof.recording.reader import Recording
from faultprof.render.bars import bar
from faultprof.render.header import entry
from faultprof.render.names import label
from faultprof.render.terminal import Glyphs, Terminal
from faultprof.render.trace_header import trace_header_lines
from faultprof.render.units import NOTHING, duration, prose, three_digits

_MOST_ROWS = 24  # with more of them, buckets share rows; up to four, which is a power of two
_SHARED = (1, 2, 4)
_SHORTEST_BAR = 10
_GAP = "  "
_TITLE = "#   from     below"
_MARKS = "  p50 p99"
_TIMES = "#   calls each time"
_BOUND = 8  # columns of a bound


class Bar(NamedTuple):
    """A row: durations from ``lower_ns`` to below ``end_ns`` (None: no end), and its calls."""

    lower_ns: int
    end_ns: int | None
    calls: int


def histogram_lines(
    recording: Recording, function: str, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    """Yield the histogram of all calls of ``function`` in the chosen tree.

    Raises:
        FaultprofError: exit code 2, when the recording holds no trace, or none of the function,
            or its calls were only counted.
    """
    if not recording.has_trace:
        raise no_trace(recording)
    tree = selection.trace_tree(recording)
    calls = timed_calls(tree, function)
    yield from trace_header_lines(recording, tree, selection, terminal)
    for key, text in _about(tree, function, calls, selection, terminal.glyphs):
        yield from entry(key, text, terminal)
    yield "#"
    yield from _rows(calls, terminal)
    for edge in tree.edges(function):
        yield "#"
        yield from _edge_lines(edge, terminal)


def bars(histogram: Histogram) -> list[Bar]:
    """Return the rows of a histogram that is not empty, from its first to its last call.

    As few buckets as possible share a row, so that there are at most ``_MOST_ROWS`` rows; but
    never more buckets than make a power of two.
    """
    counts = {bucket_of(upper): count for upper, count in histogram}
    first, last = min(counts), max(counts)
    shared = next(
        (size for size in _SHARED if last // size - first // size < _MOST_ROWS), _SHARED[-1]
    )
    rows = []
    for start in range(first // shared * shared, last + 1, shared):
        end = start + shared
        calls = sum(counts.get(bucket, 0) for bucket in range(start, end))
        rows.append(
            Bar(bucket_lower_ns(start), bucket_lower_ns(end) if end < BUCKETS else None, calls)
        )
    return rows


def timed_calls(tree: TraceTree, function: str) -> Calls:
    """Return all calls of ``function``, some of which have a duration.

    Raises:
        FaultprofError: exit code 2, when there are none.
    """
    found = [one.calls for one in tree.functions() if one.frame.function == function]
    if not found:
        raise tree.unknown(function)
    calls = together(found)
    if not calls.timed_calls:
        only = "were only counted" if not calls.timed else "did not return"
        raise FaultprofError(
            f"there are no durations of {function}: its {calls.begun:,} calls {only}",
            "see its calls in the tree: faultprof report --wide",
            ExitCode.USAGE,
        )
    return calls


def _about(
    tree: TraceTree, function: str, calls: Calls, selection: Selection, glyphs: Glyphs
) -> Iterator[tuple[str, str]]:
    paths = sum(node.frame.function == function for node in tree.nodes)
    where = f"on {paths:,} paths together" if paths > 1 else "on one path"
    if selection.root is not None:
        where += f" below {selection.root}"
    if selection.comms:
        where += f", of tasks named {', '.join(selection.comms)}"
    count = f"{calls.timed_calls:,} call{'s' * (calls.timed_calls != 1)}"
    yield "function", f"{function}: {count} {where}"
    figures = {
        "min": calls.min_ns,
        "avg": calls.avg_ns,
        "p50": calls.p50_ns,
        "p99": calls.p99_ns,
        "max": calls.max_ns,
    }
    yield "duration", ", ".join(f"{name} {prose(ns, glyphs)}" for name, ns in figures.items())


def _rows(calls: Calls, terminal: Terminal) -> Iterator[str]:
    rows = bars(calls.histogram)
    most = max(row.calls for row in rows)
    bounds = [_bounds(row, terminal.glyphs) for row in rows]
    counts = [f"{row.calls:,}" for row in rows]
    width = max(len("calls"), *map(len, counts))
    room = terminal.layout_width - len(_TITLE) - width - 2 * len(_GAP) - len(_MARKS) - 1
    yield f"{_TITLE}{_GAP}{'calls':>{width}}"
    for row, bound, count in zip(rows, bounds, counts, strict=True):
        drawn = bar(row.calls / most, max(_SHORTEST_BAR, room), terminal.glyphs)
        marks = _marks(row, calls, terminal.glyphs)
        yield f"{bound}{_GAP}{count:>{width}}{_GAP}{drawn}{marks}".rstrip()


def _edge_lines(edge: Edge, terminal: Terminal) -> Iterator[str]:
    """Draw how many calls of a caller called the function how often."""
    mean = NOTHING if edge.mean is None else three_digits(edge.mean)
    text = f"{label(edge.caller)}: {edge.caller_calls:,} calls, {mean} each in the mean"
    yield from entry("called by", text, terminal)
    if not edge.per_call:
        return
    most = max(count for _, count in edge.per_call)
    counts = [f"{count:,}" for _, count in edge.per_call]
    width = max(len("callers"), *map(len, counts))
    room = terminal.layout_width - len(_TIMES) - width - 2 * len(_GAP)
    yield f"{_TIMES}{_GAP}{'callers':>{width}}"
    for (upper, count), text in zip(edge.per_call, counts, strict=True):
        drawn = bar(count / most, max(_SHORTEST_BAR, room), terminal.glyphs)
        yield f"{_times(upper):>{len(_TIMES)}}{_GAP}{text:>{width}}{_GAP}{drawn}".rstrip()


def _times(most: int) -> str:
    """Name the bucket of numbers up to ``most``."""
    if most < 3:
        return str(most)
    return f"{fewest(most)} and more" if most == NO_END else f"{fewest(most)} to {most}"


def _bounds(row: Bar, glyphs: Glyphs) -> str:
    end = "and more" if row.end_ns is None else duration(row.end_ns, glyphs)
    return f"{duration(row.lower_ns, glyphs):>{_BOUND}}{_GAP}{end:>{_BOUND}}"


def _marks(row: Bar, calls: Calls, glyphs: Glyphs) -> str:
    """Say which quantiles lie in a row."""
    quantiles = (("p50", calls.p50_ns), ("p99", calls.p99_ns))
    here = [
        name
        for name, ns in quantiles
        if ns is not None and row.lower_ns <= ns and (row.end_ns is None or ns < row.end_ns)
    ]
    return f" {glyphs.mark} {' '.join(here)}" if here else ""

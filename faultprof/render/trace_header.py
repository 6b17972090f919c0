"""The lines above a report of traced calls.

Knows: how calls were traced, what the percentages are of, and what the columns mean.
Leaves to others: what every header says (``header``), the figures (``trace_text``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from faultprof.analysis.cross_check import cross_check
from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import FAULT, TraceTree
from faultprof.recording.calibration import calibration_of
from faultprof.recording.metadata import Metadata
from faultprof.recording.reader import Recording
from faultprof.render.calibration import UNKNOWN, cost_text
from faultprof.render.contention.worst import contended_entries
from faultprof.render.cross_check import check_text, probes_text
from faultprof.render.header import entries, entry, runs_text
from faultprof.render.terminal import Terminal
from faultprof.render.units import prose

CLOCK = "monotonic"  # bpf_ktime_get_ns(): nanoseconds that the machine was not suspended
_SHOWN = 3
_COLUMNS = (
    "incl.: inclusive time; avg to max: of single calls, p50 and p99 within 25%; off-CPU: the part "
    "of the inclusive time not running; -: not known; no branch: the only callee shown"
)
_WITHOUT_PROBES = (
    "; comp.: avg without the probes (! overhead-limited: they cost as much as what is left; ~ "
    "contended: waiting cannot be compensated, see perturb)"
)
_OFTEN = (
    "; {times}, {most}: where it is ever more than one, calls for one call of the caller, in the "
    "mean and at most (of 2, 4, 8 and so on)"
)
_RATIO = "; /caller: the mean of these calls"


def trace_header_lines(
    recording: Recording,
    tree: TraceTree,
    selection: Selection,
    terminal: Terminal,
    *,
    columns: Literal["tree", "flat"] | None = None,
) -> Iterator[str]:
    """Yield the header.

    Args:
        recording: what is reported.
        tree: the chosen tree, not cut.
        selection: how it was chosen.
        terminal: what the output can show.
        columns: which columns of percentages and times follow; None for others.
    """
    for key, text in traced_entries(recording, selection):
        yield from entry(key, text, terminal)
    if columns is None:
        return
    if selection.comms is None and recording.metadata.frequency:
        check = cross_check(recording, selection.root, runs=selection.runs)
        yield from entry("check", check_text(check), terminal)
        if check.in_probes:
            yield from entry("", probes_text(check), terminal)
    yield from entry("percent", _percent_of(tree, selection, terminal), terminal)
    if selection.per_fault:
        text = f"calls, total and self time are divided by the {tree.faults:,} calls of {FAULT}"
        yield from entry("per fault", text, terminal)
    if len(tree):
        more = ""
        if columns == "tree":
            glyphs = terminal.glyphs
            more = _OFTEN.format(times=glyphs.times, most=glyphs.most) + _RATIO * selection.wide
        if recording.metadata.calibration is not None:
            more += _WITHOUT_PROBES
        yield from entry("columns", _COLUMNS + more, terminal)


def traced_entries(recording: Recording, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield what a header says of a recording of traced calls."""
    metadata = recording.metadata
    calls = sum(
        node.calls
        for run, nodes in recording.traced.items()
        if selection.run in (None, run)
        for node in nodes
    )
    measured = [("mode", _mode(metadata))]
    if metadata.functions:
        measured.append(("probes", _probes(metadata)))
    calibration = calibration_of(metadata.calibration)
    cost = UNKNOWN if calibration is None else cost_text(calibration, metadata.functions)
    measured.append(("cost", cost))
    measured.append(("calls", f"{calls:,} in {runs_text(metadata, selection)}"))
    yield from entries(metadata, measured)
    yield from contended_entries(selection.chosen_runs(metadata))


def _mode(metadata: Metadata) -> str:
    beside = ""
    if metadata.frequency:
        clock = f"clock {metadata.clock} at " if metadata.clock not in ("", CLOCK) else ""
        beside = f"; beside it a sampler, {clock}{metadata.frequency} Hz"
    return f"trace, clock {CLOCK}{beside}"


def _probes(metadata: Metadata) -> str:
    """Say how many functions were traced and how, the usual way first."""
    ways = Counter(way for one in metadata.functions.values() if (way := _way(one)))
    count = ways.total()
    said = ", ".join(f"{number} {way}" for way, number in ways.most_common())
    return f"{count:,} function{'s' * (count != 1)}" + (f": {said}" if said else "")


def _way(function: object) -> str | None:
    """Return how a function was probed, by its entry in the metadata; None if it was not."""
    if not isinstance(function, dict) or not function.get("traced", True):
        return None
    how, method = function.get("how"), function.get("method")
    possible = function.get("kprobe") or function.get("fentry")
    if how == "inlined" and possible:
        return "only counted, where inlined"
    if how == "condition" and possible:
        return "by a condition in another"
    return f"by {method}" if method else None


def _percent_of(tree: TraceTree, selection: Selection, terminal: Terminal) -> str:
    """Say what time the 100 percent are."""
    names = ", ".join(tree.roots[:_SHOWN])
    if len(tree.roots) > _SHOWN:
        names += f" and {len(tree.roots) - _SHOWN} more"
    time = prose(tree.total_ns, terminal.glyphs)
    tasks = f"tasks named {', '.join(selection.comms)}" if selection.comms else ""
    if selection.relative:
        within = ", ".join(part for part in (names, tasks) if part)
        return f"relative: of the {time} in {within}"
    among = f" (of faults alone: --root {FAULT} --relative)" if _is_one_of_many(tree) else ""
    shown = f"; shown are {tasks}" if tasks else ""
    return f"absolute: of all time traced, {time}" + f" in {names}{among}" * bool(names) + shown


def _is_one_of_many(tree: TraceTree) -> bool:
    return len(tree.roots) > 1 and FAULT in tree.roots

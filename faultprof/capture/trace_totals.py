"""What the kernel adds up for each node of a trace, and how its parts come together.

Knows: the layout of ``struct totals`` in probes/trace.bpf.c; that a path may have several nodes, a
node a part for each CPU, and calls that had not returned when the recording ended.
Leaves to others: reading maps (tracing), what the numbers mean (analysis).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HISTOGRAM_BUCKETS = 144
PER_CALL_BUCKETS = 8

_FIGURES = 8  # calls, unfinished, what was below these, inclusive, self, min, max, off-CPU
_WORDS = _FIGURES + HISTOGRAM_BUCKETS + PER_CALL_BUCKETS


class NodeTotals(NamedTuple):
    """What the kernel added up for one node; times in nanoseconds.

    ``per_call``: the calls of its caller that called it, by ``recording.per_call``'s buckets.
    """

    calls: int
    unfinished: int
    inclusive_ns: int
    self_ns: int
    min_ns: int
    max_ns: int
    offcpu_ns: int | None
    histogram: tuple[int, ...]
    per_call: tuple[int, ...] = ()


def totals_of(figures: tuple[int, ...]) -> NodeTotals:
    """Return the 64-bit words of one CPU's part as totals."""
    calls, unfinished, below, inclusive, own, least, most, off_cpu = figures[:_FIGURES]
    histogram, per_call = figures[_FIGURES:-PER_CALL_BUCKETS], figures[-PER_CALL_BUCKETS:]
    return NodeTotals(
        calls, unfinished, inclusive + below, own, least, most, off_cpu, histogram, per_call
    )


def brief_totals(records: bytes, nodes: int) -> list[tuple[int, int, int]]:
    """Return calls, inclusive and self ns of all CPUs together, from ``nodes`` raw elements."""
    import numpy as np

    words = np.frombuffer(records, np.uint64).reshape(nodes, -1, _WORDS)[:, :, :_FIGURES]
    calls, _, below, inclusive, own = words.sum(axis=1, dtype=np.uint64).T[:5].tolist()
    inclusive = [a + b for a, b in zip(inclusive, below, strict=True)]
    return list(zip(calls, inclusive, own, strict=True))


def added_up(parts: list[NodeTotals]) -> NodeTotals:
    """Add up the totals of several CPUs, or of several nodes of one path."""
    called = [part for part in parts if part.calls]
    return NodeTotals(
        calls=sum(part.calls for part in parts),
        unfinished=sum(part.unfinished for part in parts),
        inclusive_ns=sum(part.inclusive_ns for part in parts),
        self_ns=sum(part.self_ns for part in parts),
        min_ns=min((part.min_ns for part in called), default=0),
        max_ns=max((part.max_ns for part in called), default=0),
        offcpu_ns=sum(part.offcpu_ns or 0 for part in parts),
        histogram=tuple(map(sum, zip(*(part.histogram for part in parts), strict=True)))
        or (0,) * HISTOGRAM_BUCKETS,
        # One CPU may have one too few, which it wrote as a number without a sign.
        per_call=tuple(
            sum(counts) % (1 << 64)
            for counts in zip(*(part.per_call for part in parts), strict=True)
        ),
    )


def close_open_frames(totals: dict[int, NodeTotals], tasks: Iterable[list[tuple[int, int]]]) -> int:
    """Count calls that have not returned like those that never will: with their children's time.

    As drop_top() of the program does it, so that inclusive = self + children holds here too.
    """
    count = 0
    for frames in tasks:
        from_below = 0
        for node, children_ns in reversed(frames):
            from_below += children_ns
            count += 1
            if node in totals:
                before = totals[node]
                totals[node] = before._replace(
                    unfinished=before.unfinished + 1,
                    inclusive_ns=before.inclusive_ns + from_below,
                )
    return count


def by_path(
    nodes: dict[int, tuple[int, int]], totals: dict[int, NodeTotals]
) -> dict[tuple[int, ...], NodeTotals]:
    """Add up the nodes of one path: two CPUs may have made one each."""
    parts: dict[tuple[int, ...], list[NodeTotals]] = {}
    paths: dict[int, tuple[int, ...]] = {0: ()}
    for number, (parent, function) in nodes.items():
        paths[number] = (*paths[parent], function)  # a parent is older than its children
        parts.setdefault(paths[number], []).append(totals[number])
    added = {path: added_up(found) for path, found in parts.items()}
    # What has none of these is from another run.
    return {path: one for path, one in added.items() if one.calls or one.unfinished}

"""From traced paths to the nodes of a trace, and what must hold of those.

Knows: what a traced call tree is made of, and the arithmetic that no trace may violate.
Leaves to others: the tracing (``capture``), the file (``writer``, ``reader``), and what the figures
mean (``analysis``).

All times are nanoseconds. A node's inclusive time is its self time plus the inclusive time of its
children, exactly. A call that never returned (``unfinished``) has no duration: it is not among the
calls, and the time of what it called counts in the inclusive times above it and nowhere else.
Functions of which only the entry can be seen are *counted only*: they have calls and no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import NamedTuple

from faultprof.recording.frames import Frame
from faultprof.recording.histogram import Histogram, bucket_of, bucket_upper_ns, histogram_of
from faultprof.recording.paths import PathCount, nodes_from_paths
from faultprof.recording.per_call import PerCall, per_call_fault, per_call_of
from faultprof.recording.schema import TRACE

_LARGEST = 2**63 - 1


class TracedPath(NamedTuple):
    """A path (root first, at least one frame) and what all calls of its last function came to.

    Args:
        comm: name of the task or command.
        frames: the path.
        calls: calls that returned, or, where they are only counted, all calls.
        unfinished: calls that did not return.
        inclusive_ns: time between entry and return, what was called included.
        self_ns: the same without what was called.
        min_ns: shortest call; whatever it is, it is ignored when there are no timed calls.
        max_ns: longest call; likewise.
        offcpu_ns: the part of ``inclusive_ns`` in which the task did not run; None when nobody
            looked.
        histogram: calls by bucket, see ``recording.histogram``; may be empty without timed calls.
        per_call: the caller's calls that called this, by how often, see ``recording.per_call``;
            empty for a root, and when nobody looked.
        timed: False where calls are only counted; then all times must be 0.
    """

    comm: str
    frames: tuple[Frame, ...]
    calls: int
    unfinished: int = 0
    inclusive_ns: int = 0
    self_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    offcpu_ns: int | None = 0
    histogram: Sequence[int] = ()
    per_call: Sequence[int] = ()
    timed: bool = True


@dataclass(frozen=True, slots=True)
class TracedNode:
    """One node of a traced call tree, among the nodes of its run, which stand in preorder.

    Args:
        comm: name of the task or command.
        frame: the function.
        parent: place of the caller's node in the run; -1 for a root.
        depth: callers above the node.
        calls: calls that returned, or, where they are only counted, all calls.
        unfinished: calls that did not return.
        inclusive_ns: time in the calls.
        self_ns: time in the calls and in nothing that they called.
        min_ns: shortest call; None when no call has a time.
        max_ns: longest call; likewise.
        offcpu_ns: the part of ``inclusive_ns`` in which the task did not run; None when nobody
            looked.
        histogram: (upper bound in ns, calls) of the non-empty buckets.
        per_call: (most, calls of the caller) of the non-empty buckets.
        timed: False where calls are only counted.
    """

    comm: str
    frame: Frame
    parent: int = -1
    depth: int = 0
    calls: int = 0
    unfinished: int = 0
    inclusive_ns: int = 0
    self_ns: int = 0
    min_ns: int | None = None
    max_ns: int | None = None
    offcpu_ns: int | None = 0
    histogram: Histogram = ()
    per_call: PerCall = ()
    timed: bool = True


def nodes_from_traced(paths: Iterable[TracedPath]) -> list[TracedNode]:
    """Build the nodes of one run's trace, in preorder; equal paths are added up.

    A caller that has no totals of its own gets a node without calls, whose off-CPU time is unknown.

    Raises:
        ValueError: for a path that is empty or too deep, and for totals that contradict each other
            or those of other paths.
    """
    totals = _added_up(paths)
    forest = nodes_from_paths(0, (PathCount(*path, 0) for path in totals), source=TRACE)
    nodes: list[TracedNode] = []
    given: list[bool] = []
    stack: list[Frame] = []
    for comm, parent, depth, frame in zip(
        forest.comm, forest.parent, forest.depth, forest.frame, strict=True
    ):
        stack[depth:] = [frame]
        node = TracedNode(comm, frame, parent, depth, offcpu_ns=None)
        found = totals.get((comm, tuple(stack)))
        given.append(found is not None)
        nodes.append(node if found is None else _with_totals(node, found))
    _fill_in_callers(nodes, given)
    if fault := contradiction(nodes):
        raise ValueError(fault)
    return nodes


def contradiction(nodes: Sequence[TracedNode]) -> str | None:
    """Return what cannot be in the figures of one run's nodes; None when all is well."""
    below_ns = _children_ns(nodes)
    for node, children_ns in zip(nodes, below_ns, strict=True):
        fault = _own_fault(node)
        if fault is None and node.inclusive_ns != node.self_ns + children_ns:
            fault = "the inclusive time is not self time and children"
        if fault is not None:
            return f"{fault} ({node.frame.function!r}, depth {node.depth})"
    return None


def _own_fault(node: TracedNode) -> str | None:
    """Return what is wrong with a node whatever the others are."""
    times = (node.inclusive_ns, node.self_ns, node.offcpu_ns or 0)
    figures = (node.calls, node.unfinished, *times)
    if min(figures) < 0 or max(figures) > _LARGEST:
        return "a figure is out of range"
    if fault := per_call_fault(node.per_call):
        return fault
    extremes = (node.min_ns, node.max_ns)
    if not node.timed:
        untimed = not any(times) and extremes == (None, None) and not node.histogram
        return None if untimed else "calls that are only counted have times"
    if sum(count for _, count in node.histogram) != node.calls:
        return "the histogram does not hold all calls"
    if node.min_ns is None or node.max_ns is None:
        return None if extremes == (None, None) and not node.calls else "shortest or longest lacks"
    if not (node.calls and 0 <= node.min_ns <= node.max_ns):
        return "the shortest call is not the shortest"
    return _histogram_fault(node.histogram, node.min_ns, node.max_ns)


def _histogram_fault(histogram: Histogram, min_ns: int, max_ns: int) -> str | None:
    buckets = [bucket_of(max(0, upper)) for upper, _ in histogram]
    rising = all(a < b for a, b in pairwise(buckets))
    if not rising or any(
        count <= 0 or bucket_upper_ns(bucket) != upper
        for bucket, (upper, count) in zip(buckets, histogram, strict=True)
    ):
        return "the histogram has other buckets than it can have"
    if (bucket_of(min_ns), bucket_of(max_ns)) != (buckets[0], buckets[-1]):
        return "the histogram does not begin at the shortest and end at the longest call"
    return None


def sum_known(figures: Iterable[int | None]) -> int | None:
    """Return the sum of the figures that are known; None when none is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _added_up(paths: Iterable[TracedPath]) -> dict[tuple[str, tuple[Frame, ...]], TracedPath]:
    totals: dict[tuple[str, tuple[Frame, ...]], TracedPath] = {}
    for path in paths:
        key = path.comm, path.frames
        totals[key] = _sum(totals[key], path) if key in totals else path
    return totals


def _sum(one: TracedPath, other: TracedPath) -> TracedPath:
    if one.timed != other.timed:
        raise ValueError(f"the calls of {one.frames[-1].function!r} are timed and only counted")
    called = [path for path in (one, other) if path.calls]
    return one._replace(
        calls=one.calls + other.calls,
        unfinished=one.unfinished + other.unfinished,
        inclusive_ns=one.inclusive_ns + other.inclusive_ns,
        self_ns=one.self_ns + other.self_ns,
        min_ns=min((path.min_ns for path in called), default=0),
        max_ns=max((path.max_ns for path in called), default=0),
        offcpu_ns=sum_known((one.offcpu_ns, other.offcpu_ns)),
        histogram=[a + b for a, b in zip_longest(one.histogram, other.histogram, fillvalue=0)],
        per_call=[a + b for a, b in zip_longest(one.per_call, other.per_call, fillvalue=0)],
    )


def _with_totals(node: TracedNode, totals: TracedPath) -> TracedNode:
    has_extremes = totals.timed and totals.calls > 0
    return replace(
        node,
        calls=totals.calls,
        unfinished=totals.unfinished,
        inclusive_ns=totals.inclusive_ns,
        self_ns=totals.self_ns,
        min_ns=totals.min_ns if has_extremes else None,
        max_ns=totals.max_ns if has_extremes else None,
        offcpu_ns=totals.offcpu_ns,
        histogram=histogram_of(totals.histogram),
        per_call=per_call_of(totals.per_call) if node.parent >= 0 else (),
        timed=totals.timed,
    )


def _children_ns(nodes: Sequence[TracedNode]) -> list[int]:
    """Return for each node the inclusive time of its children."""
    below = [0] * len(nodes)
    for node in nodes:
        if node.parent >= 0:
            below[node.parent] += node.inclusive_ns
    return below


def _fill_in_callers(nodes: list[TracedNode], given: Sequence[bool]) -> None:
    """Give callers without totals the time of what they called; children come after them."""
    below = [0] * len(nodes)
    for place in range(len(nodes) - 1, -1, -1):
        if not given[place]:
            nodes[place] = replace(nodes[place], inclusive_ns=below[place])
        if nodes[place].parent >= 0:
            below[nodes[place].parent] += nodes[place].inclusive_ns

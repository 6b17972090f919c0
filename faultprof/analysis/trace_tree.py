"""The traced call tree: how often each function was called on each path, and how long that took.

Knows: one tree over the runs and tasks of a trace, its totals by function, the tree below a
function, and the part of it that is worth showing.
Leaves to others: reading (``recording``), the figures (``calls``), drawing (``render``).

The counterpart of :class:`faultprof.analysis.tree.CallTree` for exact calls and times. A node is
a path of functions here too; a trace has a few thousand of them at most, so each is an object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from faultprof.analysis.calls import Calls, Overhead, together
from faultprof.analysis.functions import Function, join_frames, unknown_function
from faultprof.analysis.percent import least_part, percent_of
from faultprof.analysis.statistics import Estimate
from faultprof.errors import FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.per_call import PerCall

if TYPE_CHECKING:
    from faultprof.recording.reader import Recording
    from faultprof.recording.traced import TracedNode

FAULT = "handle_mm_fault"  # called once for each fault, and once more for each retry


class TraceNode(NamedTuple):
    """A function on one path: its caller's place in the tree (-1: none), depth, and calls."""

    frame: Frame
    parent: int
    depth: int
    calls: Calls


class Edge(NamedTuple):
    """How often one caller calls a function, on the paths on which it does.

    Args:
        caller: the caller.
        caller_calls: its calls, whether they returned or not.
        calls: the calls of the function that it made.
        per_call: (most, calls of the caller) by how often each called the function, 0 first, see
            ``recording.per_call``; empty where that was not counted.
    """

    caller: Frame
    caller_calls: int
    calls: int
    per_call: PerCall

    @property
    def mean(self) -> float | None:
        """Calls for one call of the caller; None where no call of the caller was seen to begin."""
        return self.calls / self.caller_calls if self.caller_calls else None


class TracedFunction(NamedTuple):
    """A function, its resolution that of all its nodes, and what all its calls come to."""

    frame: Frame
    calls: Calls


@dataclass(frozen=True, slots=True)
class TraceTree:
    """Traced call trees of all roots, in preorder.

    In a whole tree, a node's inclusive time is its self time plus its children's inclusive time,
    to the nanosecond. In one that was :meth:`cut`, the time of hidden children remains in their
    callers'.

    Args:
        nodes: the nodes.
        root_ns: inclusive time of all roots together, of cut ones too: all that the tree holds.
        total_ns: how many ns are 100 percent.
        faults: calls of :data:`FAULT` in the chosen tasks, wherever the tree begins; None when
            it was not traced.
        roots: names of the functions that the 100 percent were spent in.
        hidden: how many nodes were cut.
    """

    nodes: tuple[TraceNode, ...]
    root_ns: int
    total_ns: int
    faults: int | None
    roots: tuple[str, ...]
    hidden: int = 0

    @classmethod
    def from_recording(
        cls,
        recording: Recording,
        *,
        runs: Collection[int] | None = None,
        comms: Collection[str] | None = None,
    ) -> TraceTree:
        """Merge the traces of a recording's runs and tasks.

        Args:
            recording: where the nodes come from.
            runs: numbers of the runs to take; None for all.
            comms: names of the tasks to take; None for all. Percentages stay those of all tasks.

        Raises:
            FaultprofError: exit code 4, when the trace is damaged.
        """
        recorded = [nodes for run, nodes in recording.traced.items() if runs is None or run in runs]
        roots = [node for nodes in recorded for node in nodes if node.parent < 0]
        chosen = _merged(_chosen(nodes, comms) for nodes in recorded)
        return cls(
            nodes=chosen,
            root_ns=_roots_ns(chosen),
            total_ns=sum(node.inclusive_ns for node in roots),
            faults=_faults(chosen),
            roots=tuple(sorted({node.frame.function for node in roots})),
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def unfinished(self) -> int:
        """Calls of all nodes that did not return."""
        return sum(node.calls.unfinished for node in self.nodes)

    def percent(self, ns: int) -> float:
        """Return ``ns`` as a percentage of the total; 0 when there is none."""
        return percent_of(ns, self.total_ns)

    def relative(self) -> TraceTree:
        """Return the same tree with percentages of its own time."""
        roots = {node.frame.function for node in self.nodes if node.parent < 0}
        return replace(self, total_ns=self.root_ns, roots=tuple(sorted(roots)))

    def edge(self, place: int) -> Edge | None:
        """Return how often a node's caller calls it; None for a root."""
        node = self.nodes[place]
        if node.parent < 0:
            return None
        return _edge([(self.nodes[node.parent], node)])

    def per_caller(self, place: int) -> float | None:
        """Return the mean of :meth:`edge`; None where there is none."""
        edge = self.edge(place)
        return edge.mean if edge is not None else None

    def edges(self, function: str) -> list[Edge]:
        """Return how often each of its callers calls a function, the most calls first."""
        pairs: dict[Function, list[tuple[TraceNode, TraceNode]]] = {}
        for node in self.nodes:
            if node.frame.function == function and node.parent >= 0:
                caller = self.nodes[node.parent]
                pairs.setdefault(caller.frame[:2], []).append((caller, node))
        edges = [_edge(found) for found in pairs.values()]
        return sorted(edges, key=lambda edge: (-edge.calls, edge.caller))

    def functions(self) -> list[TracedFunction]:
        """Return all calls of each function, the largest inclusive time first.

        Times in a function that was called from itself, directly or not, count once; its calls,
        their durations and the histogram are those of all calls.
        """
        parts: dict[Function, list[Calls]] = {}
        for node, nested in zip(self.nodes, self._nested(), strict=True):
            calls = _inner(node.calls) if nested else node.calls
            # How often a caller makes them is an edge's, not a function's.
            parts.setdefault(node.frame[:2], []).append(replace(calls, per_call=()))
        frames = join_frames(node.frame for node in self.nodes)
        totals = [TracedFunction(frames[key], together(calls)) for key, calls in parts.items()]
        return sorted(totals, key=_largest_first)

    def has(self, function: str, module: str | None = None) -> bool:
        """Whether some node is a call of ``function``, as :meth:`below` looks for it."""
        return any(_is_of(node.frame, function, module) for node in self.nodes)

    def below(self, function: str, module: str | None = None) -> TraceTree:
        """Return the tree whose roots are the calls of ``function``, from wherever, merged.

        A call of the function inside itself stays where it is, below the outer one.

        Args:
            function: name of the function.
            module: its module, "" for the kernel proper; None for the function in any module.

        Raises:
            FaultprofError: exit code 2, when the tree has no such function; names near ones.
        """
        inside: list[bool] = []
        for node in self.nodes:
            below = node.parent >= 0 and inside[node.parent]
            inside.append(below or _is_of(node.frame, function, module))
        if not any(inside):
            raise self.unknown(function)
        nodes = _merged([_picked(self.nodes, inside)])
        return replace(self, nodes=nodes, root_ns=_roots_ns(nodes))

    def cut(self, min_percent: float, max_depth: int | None = None) -> TraceTree:
        """Return the tree without the nodes below ``min_percent`` of the total.

        Calls that were only counted have no time to be small; they stay with their callers.

        Args:
            min_percent: least inclusive percentage to keep; 0 keeps everything.
            max_depth: how many levels to keep; None for all.
        """
        least = least_part(min_percent, self.total_ns)
        keep: list[bool] = []
        for node in self.nodes:
            calls = node.calls
            is_large = calls.inclusive_ns >= least or not calls.timed
            is_high = max_depth is None or node.depth < max_depth
            keep.append(is_large and is_high and (node.parent < 0 or keep[node.parent]))
        nodes = tuple(_picked(self.nodes, keep))
        return replace(self, nodes=nodes, hidden=self.hidden + len(self) - len(nodes))

    def largest_first(self) -> TraceTree:
        """Return the same tree with siblings ordered by inclusive time, calls, and name."""
        return replace(
            self,
            nodes=_in_preorder(self.nodes, lambda places: sorted(places, key=self._sort_key)),
        )

    def unknown(self, function: str) -> FaultprofError:
        """Return the error for a function that the tree does not have (exit code 2)."""
        names = {node.frame.function for node in self.nodes}
        return unknown_function(
            f"no call of a function named {function} was traced", function, names
        )

    def _sort_key(self, place: int) -> tuple[int, int, Frame]:
        node = self.nodes[place]
        return _largest_first(TracedFunction(node.frame, node.calls))

    def _nested(self) -> Iterator[bool]:
        """Yield of each node whether it lies below another node of the same function."""
        stack: list[Function] = []
        above: Counter[Function] = Counter()
        for node in self.nodes:
            above.subtract(stack[node.depth :])
            del stack[node.depth :]
            function = node.frame[:2]
            yield above[function] > 0
            stack.append(function)
            above[function] += 1


def _edge(pairs: Sequence[tuple[TraceNode, TraceNode]]) -> Edge:
    """Put together what a caller's nodes call; each is given with a callee's node."""
    (caller,) = join_frames(caller.frame for caller, _ in pairs).values()
    begun = sum(caller.calls.begun for caller, _ in pairs)
    calls = together(node.calls for _, node in pairs)
    never = begun - sum(count for _, count in calls.per_call)
    # Without numbers, or with some that a caller's lost end has made too many, nothing is said.
    known = bool(calls.per_call) and never >= 0
    per_call = (*([(0, never)] if never else []), *calls.per_call) if known else ()
    return Edge(caller, begun, calls.begun, per_call)


def _inner(calls: Calls) -> Calls:
    """Return calls whose time is in that of the outer calls of the same function."""
    overhead = calls.overhead
    return replace(
        calls,
        inclusive_ns=0,
        offcpu_ns=None if calls.offcpu_ns is None else 0,
        overhead=overhead and Overhead(Estimate(0, 0, 0), overhead.own),
    )


def _largest_first(one: TracedFunction) -> tuple[int, int, Frame]:
    return -one.calls.inclusive_ns, -one.calls.begun, one.frame


def _is_of(frame: Frame, function: str, module: str | None) -> bool:
    return frame.function == function and module in (None, frame.module)


def _roots_ns(nodes: Iterable[TraceNode]) -> int:
    return sum(node.calls.inclusive_ns for node in nodes if node.parent < 0)


def _faults(nodes: Iterable[TraceNode]) -> int | None:
    calls = [node.calls.calls for node in nodes if node.frame.function == FAULT]
    return sum(calls) if calls else None


def _chosen(nodes: Sequence[TracedNode], comms: Collection[str] | None) -> list[TraceNode]:
    """Return the nodes of some tasks of one run."""
    all_ = [TraceNode(node.frame, node.parent, node.depth, Calls.of(node)) for node in nodes]
    return _picked(all_, [comms is None or node.comm in comms for node in nodes])


def _picked(nodes: Sequence[TraceNode], keep: Sequence[bool]) -> list[TraceNode]:
    """Return some nodes; one whose caller is not among them becomes a root."""
    place: dict[int, int] = {}
    picked: list[TraceNode] = []
    for old, node in enumerate(nodes):
        if keep[old]:
            parent = place.get(node.parent, -1)
            depth = picked[parent].depth + 1 if parent >= 0 else 0
            place[old] = len(picked)
            picked.append(node._replace(parent=parent, depth=depth))
    return picked


def _merged(forests: Iterable[Sequence[TraceNode]]) -> tuple[TraceNode, ...]:
    """Put together what has the same path."""
    places: dict[tuple[int, Function], int] = {}
    parts: list[list[TraceNode]] = []
    parents: list[int] = []
    for forest in forests:
        place_of: list[int] = []
        for node in forest:
            parent = place_of[node.parent] if node.parent >= 0 else -1
            place = places.setdefault((parent, node.frame[:2]), len(parts))
            if place == len(parts):
                parts.append([])
                parents.append(parent)
            parts[place].append(node)
            place_of.append(place)
    nodes = []
    for same, parent in zip(parts, parents, strict=True):
        (frame,) = join_frames(node.frame for node in same).values()
        calls = together(node.calls for node in same)
        nodes.append(TraceNode(frame, parent, same[0].depth, calls))
    return _in_preorder(nodes, list)


def _in_preorder(
    nodes: Sequence[TraceNode], order: Callable[[list[int]], list[int]]
) -> tuple[TraceNode, ...]:
    """Return the nodes with callees after their callers, siblings as ``order`` puts them."""
    children: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(place)
    new_place: dict[int, int] = {-1: -1}
    ordered: list[TraceNode] = []
    waiting = order(children.get(-1, []))[::-1]
    while waiting:
        place = waiting.pop()
        new_place[place] = len(ordered)
        ordered.append(nodes[place]._replace(parent=new_place[nodes[place].parent]))
        waiting += order(children.get(place, []))[::-1]
    return tuple(ordered)

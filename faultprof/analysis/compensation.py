"""What the probes themselves cost a traced call tree, and the times without it.

Knows: the formulas of compensation, and when their result means little or nothing.
Leaves to others: what a probe costs on a machine (``capture.calibration``), the tree
(``trace_tree``), showing both times (``render``).

A pair of probes costs *a* (entry to clock read), *b* (clock read to the function's body), *c* (end
of the body to clock read) and *d* (clock read to return). b + c lie inside the function's own
interval, a + d in its caller's; everything lies in the intervals of the callers above. So

    inclusive(f) = measured(f) - N(f) (b + c)(f) - sum over descendants g of N(g) (a + b + c + d)(g)
    self(f) = inclusive(f) - sum over children of their inclusive

(Malony & Shende, Overhead Compensation in Performance Profiling, Euro-Par 2004, as TAU does it). A
probe that only counts has no interval: all of it lies in its caller's. A function that is told by a
condition in its host has no probe: it shares the host's interval, b + c of it once.

The subtraction is exact for each thread alone. It does not undo what the probes did to *other*
threads: who waited for whom (Malony & Shende 2005). Nothing is clamped: a negative time says that
the calibrated cost does not hold there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from faultprof.analysis.calls import Calls, Overhead
from faultprof.analysis.contended import SHARE, contended_places
from faultprof.analysis.statistics import Estimate, spread_of_sum
from faultprof.analysis.trace_tree import TraceNode, TraceTree
from faultprof.recording.calibration import (
    CONDITION,
    FAULT_FLAGS,
    FREE,
    HIT,
    OCCUPANCY,
    Calibration,
    Cost,
    calibration_of,
)

if TYPE_CHECKING:
    from faultprof.recording.metadata import Metadata
    from faultprof.recording.reader import Recording


BY_PATH = 0.03
"""By how much a pair's cost differs between paths, where nothing but instructions counts.

A call's first call of a function has more to do than its hundredth, and functions have more or
fewer arguments: on Linux 6.12 a kprobe pair took from 1% less to 3.5% more than in the loop.
"""


class Flag(StrEnum):
    """Why a compensated time is not to be relied on."""

    OVERHEAD_LIMITED = "overhead-limited"
    CONTENDED = "not compensable: contended"


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What one hit of a pair costs, in nanoseconds.

    Args:
        inner: b + c, inside the function's own interval.
        outer: a + d, in its caller's.
    """

    inner: Estimate
    outer: Estimate

    @property
    def total(self) -> Estimate:
        """The whole pair."""
        return _plus(self.inner, self.outer)


NO_COST = Estimate(0, 0, 0)

Costs = Mapping[str, ProbeCost]
"""Costs by the kind of probe: ``kprobe``, ``fentry``, these with a feature behind it, and HIT."""


def costs_of(calibration: Calibration) -> Costs:
    """Return the cost of each kind of probe that a calibration measured.

    It is that of one thread; where more threads made it dearer, the interval reaches up to there.
    Where a pair was measured on the fault path too, that is its cost, and the interval reaches from
    the least of the loop to the most of the fault path, and ``BY_PATH`` beyond both; what else
    stands at a function grows in proportion.
    """
    costs: dict[str, ProbeCost] = {}
    growths = _growths(calibration)
    for one in sorted(calibration.measured, key=lambda one: one.threads):
        growth = growths.get(_METHOD_OF.get(one.kind) or one.kind.partition("+")[0], _NO_GROWTH)
        inner, outer = growth.of(one.inside_ns or FREE), growth.of(one.outside_ns)
        if one.kind in costs:
            before = costs[one.kind]
            inner, outer = _reaching(before.inner, inner), _reaching(before.outer, outer)
        costs[one.kind] = ProbeCost(inner, outer)
    return costs


_METHOD_OF = {HIT: "kprobe"}


class _Growth(NamedTuple):
    """How many times its least a probe costs in use, and at the most; and how far paths differ."""

    usual: float
    most: float
    by_path: float

    def of(self, cost: Cost) -> Estimate:
        """Return a cost as it is in use."""
        most = max(cost.high, cost.value * self.most)
        return Estimate(
            cost.value * self.usual, cost.low * (1 - self.by_path), most * (1 + self.by_path)
        )


_NO_GROWTH = _Growth(1.0, 1.0, 0.0)


def _growths(calibration: Calibration) -> dict[str, _Growth]:
    """Return the growth by method, where a pair was measured in place."""
    found: dict[str, _Growth] = {}
    for one in calibration.measured:
        if one.in_place_ns is not None and one.total_ns.value > 0:
            usual = max(1.0, one.in_place_ns.value / one.total_ns.value)
            most = max(usual, one.in_place_ns.high / one.total_ns.value)
            found[one.kind] = _Growth(usual, most, BY_PATH)
    return found


def compensated_tree(
    recording: Recording,
    *,
    runs: Collection[int] | None = None,
    comms: Collection[str] | None = None,
) -> TraceTree:
    """Return a recording's traced tree, compensated where it knows what its probes cost.

    Of several runs, the intervals hold what these differ by too: the calibration's and Student's t
    of the runs, added up in squares.

    Args:
        recording: where the calls come from.
        runs: numbers of the runs to take; None for all.
        comms: names of the tasks to take; None for all.

    Raises:
        FaultprofError: exit code 4, when the trace or the calibration is damaged.
    """
    calibration = calibration_of(recording.metadata.calibration)
    tree = TraceTree.from_recording(recording, runs=runs, comms=comms)
    if calibration is None:
        return tree
    kinds, costs = kinds_of(recording.metadata), costs_of(calibration)
    whole = compensate(tree, kinds, costs)
    if comms is None:  # contention is not known by task
        whole = _with_contention(whole, contended_places(tree.nodes, recording.metadata.runs, runs))
    chosen = [run for run in recording.traced if runs is None or run in runs]
    if len(chosen) < 2:
        return whole
    single = [TraceTree.from_recording(recording, runs=(run,), comms=comms) for run in chosen]
    return _with_spread(whole, [compensate(one, kinds, costs) for one in single])


def _with_contention(tree: TraceTree, places: Collection[int]) -> TraceTree:
    """Mark the calls of the nodes at these places."""
    nodes = [
        node._replace(calls=replace(node.calls, contended=place in places))
        for place, node in enumerate(tree.nodes)
    ]
    return replace(tree, nodes=tuple(nodes))


Path = tuple[tuple[str, str], ...]


def _with_spread(whole: TraceTree, runs: Sequence[TraceTree]) -> TraceTree:
    """Widen the intervals of the runs' sum by what the runs differ by."""
    known = [dict(zip(_paths(run), run.nodes, strict=True)) for run in runs]
    nodes = []
    for path, node in zip(_paths(whole), whole.nodes, strict=True):
        overhead = node.calls.overhead
        if overhead is not None and node.calls.timed:
            calls = [run[path].calls if path in run else Calls() for run in known]
            inclusive = [one.inclusive_ns - _value(one, "inclusive") for one in calls]
            own = [one.self_ns - _value(one, "own") for one in calls]
            overhead = Overhead(
                _widened(overhead.inclusive, spread_of_sum(inclusive)),
                _widened(overhead.own, spread_of_sum(own)),
            )
        nodes.append(node._replace(calls=replace(node.calls, overhead=overhead)))
    return replace(whole, nodes=tuple(nodes))


def _value(calls: Calls, part: str) -> float:
    return getattr(calls.overhead, part).value if calls.overhead is not None else 0.0


def _widened(cost: Estimate, width: float) -> Estimate:
    below = math.hypot(cost.value - cost.low, width)
    above = math.hypot(cost.high - cost.value, width)
    return Estimate(cost.value, cost.value - below, cost.value + above)


def _paths(tree: TraceTree) -> list[Path]:
    paths: list[Path] = []
    for node in tree.nodes:
        above = paths[node.parent] if node.parent >= 0 else ()
        paths.append((*above, node.frame[:2]))
    return paths


class Kinds:
    """What kind of probe each traced function had.

    Args:
        functions: a recording's ``metadata.functions``; what is not understood has no cost.
        occupancy: whether the pairs noted what their CPUs were inside of.
    """

    def __init__(self, functions: Mapping[str, Any], *, occupancy: bool = False) -> None:
        self._occupancy = OCCUPANCY if occupancy else ""
        known = {name: one for name, one in functions.items() if isinstance(one, Mapping)}
        self._functions = known
        self._hosts = {one.get("symbol") for one in known.values() if one.get("how") == "condition"}

    def is_conditional(self, function: str) -> bool:
        """Whether the function is told by a condition in its host, without a probe of its own."""
        return bool(self._functions.get(function, {}).get("how") == "condition")

    def of(self, function: str) -> str | None:
        """Return the kind of probe; None when it has none of its own, or is not known."""
        one = self._functions.get(function)
        if one is None or not one.get("traced", True) or one.get("how") == "condition":
            return None
        if one.get("how") == "inlined":
            return HIT
        method = one.get("method")
        if not isinstance(method, str):
            return None
        if function == "handle_mm_fault":
            return method + FAULT_FLAGS + self._occupancy
        is_host = one.get("symbol") in self._hosts
        return method + (CONDITION if is_host else "") + self._occupancy


def kinds_of(metadata: Metadata) -> Kinds:
    """Return the kinds of probes that a recording had."""
    runs = metadata.runs
    return Kinds(metadata.functions, occupancy=any(OCCUPANCY[1:] in run.contention for run in runs))


def cost_of(kind: str | None, costs: Costs) -> ProbeCost | None:
    """Return what a kind of probe costs, without its features where these were not calibrated.

    Occupancy was measured on plain pairs: with another feature, what it adds to a plain one counts.
    """
    if kind is None:
        return None
    if kind in costs:
        return costs[kind]
    plain = kind.partition("+")[0]
    if kind.endswith(OCCUPANCY):
        without = cost_of(kind.removesuffix(OCCUPANCY), costs)
        noting, pair = costs.get(plain + OCCUPANCY), costs.get(plain)
        if without is None or noting is None or pair is None:
            return without
        return ProbeCost(
            _plus(without.inner, _more(noting.inner, pair.inner)),
            _plus(without.outer, _more(noting.outer, pair.outer)),
        )
    return costs.get(plain)


def _more(one: Estimate, other: Estimate) -> Estimate:
    """Return by how much a cost is above another, both off in the same direction."""
    value = one.value - other.value
    bounds = sorted((one.low - other.low, one.high - other.high))
    return Estimate(value, min(bounds[0], value), max(bounds[1], value))


def costs_by_function(functions: Mapping[str, Any], calibration: Calibration) -> dict[str, float]:
    """Return the nanoseconds that a hit of each traced function's probes costs, where known.

    Args:
        functions: how each was traced, as a recording's metadata has it.
        calibration: of the machine.
    """
    kinds, costs = Kinds(functions), costs_of(calibration)
    found = {name: cost_of(kinds.of(name), costs) for name in functions}
    return {name: cost.total.value for name, cost in found.items() if cost is not None}


def compensate(tree: TraceTree, kinds: Kinds, costs: Costs) -> TraceTree:
    """Return a whole tree whose calls know the overhead in their times.

    Args:
        tree: not cut: the overhead of a hidden node would be lost.
        kinds: of the functions' probes.
        costs: of each kind; nodes whose probe is not among them, and all above, stay without.
    """
    own = [_own_overhead(tree.nodes, place, kinds, costs) for place in range(len(tree))]
    inside: list[Estimate | None] = [None if one is None else one.inner for one in own]
    of_self = list(inside)
    for place in range(len(tree) - 1, -1, -1):  # children come after their callers
        parent = tree.nodes[place].parent
        if parent < 0:
            continue
        step, below = _outside(own[place]), inside[place]
        inside[parent] = _plus_known(inside[parent], step, below)
        of_self[parent] = _plus_known(of_self[parent], step)
    nodes = [
        node._replace(calls=replace(node.calls, overhead=_overhead(whole, part)))
        for node, whole, part in zip(tree.nodes, inside, of_self, strict=True)
    ]
    return replace(tree, nodes=tuple(nodes))


def _own_overhead(
    nodes: Sequence[TraceNode], place: int, kinds: Kinds, costs: Costs
) -> ProbeCost | None:
    """Return what a node's own probes cost over all its calls; None when that is not known."""
    node = nodes[place]
    function, calls = node.frame.function, node.calls.calls
    if kinds.is_conditional(function):
        if not node.calls.timed or node.parent < 0:
            return ProbeCost(NO_COST, NO_COST)  # counted where its host returns
        host = cost_of(kinds.of(nodes[node.parent].frame.function), costs)
        # The host's b + c, which the host's own calls have already: taken back outside.
        return None if host is None else _shared(_times(host.inner, calls))
    cost = cost_of(kinds.of(function), costs)
    if cost is None:
        return None
    return ProbeCost(_times(cost.inner, calls), _times(cost.outer, calls))


def _shared(inner: Estimate) -> ProbeCost:
    return ProbeCost(inner, Estimate(-inner.value, -inner.low, -inner.high))


def _outside(own: ProbeCost | None) -> Estimate | None:
    return None if own is None else own.outer


def _overhead(inclusive: Estimate | None, own: Estimate | None) -> Overhead | None:
    return None if inclusive is None or own is None else Overhead(inclusive, own)


def _times(cost: Estimate, count: int) -> Estimate:
    return Estimate(count * cost.value, count * cost.low, count * cost.high)


def _plus(*parts: Estimate) -> Estimate:
    """Add up costs that are off in the same direction, if they are off: their bounds add up."""
    return Estimate(
        sum(part.value for part in parts),
        sum(part.low for part in parts),
        sum(part.high for part in parts),
    )


def _reaching(one: Estimate, other: Estimate) -> Estimate:
    return Estimate(one.value, min(one.low, other.low), max(one.high, other.high))


def _plus_known(*parts: Estimate | None) -> Estimate | None:
    known = [part for part in parts if part is not None]
    return _plus(*known) if len(known) == len(parts) else None


def flags(calls: Calls) -> tuple[Flag, ...]:
    """Return why the compensated inclusive time of ``calls`` is not to be relied on.

    Calls that wait are contended: for locks, as far as that was recorded, or off the CPU.
    """
    found = []
    if calls.overhead is not None and calls.timed:
        left = calls.inclusive_ns - calls.overhead.inclusive.value
        if calls.calls and calls.overhead.inclusive.value >= left:
            found.append(Flag.OVERHEAD_LIMITED)
    waits = calls.contended or (calls.offcpu_share or 0.0) >= SHARE
    if calls.overhead is not None and waits:
        found.append(Flag.CONTENDED)
    return tuple(found)

"""Compensation recovers a deterministic simulation of nested probes exactly.

The simulation has a clock for each thread. It advances by a function's own work and by each of the
four parts of a pair of probes, where they happen; what the tracer would have measured is read from
that clock, and what the function took without probes is counted beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from faultprof.analysis.compensation import (
    Costs,
    Flag,
    Kinds,
    ProbeCost,
    compensate,
    compensated_tree,
    flags,
)
from faultprof.analysis.statistics import Estimate, spread_of_sum
from faultprof.analysis.trace_tree import TraceTree
from faultprof.recording.calibration import CONDITION, FAULT_FLAGS, HIT
from faultprof.recording.frames import Frame
from faultprof.recording.traced import TracedPath
from tests.unit.recordings import in_memory
from tests.unit.traces import histogram, traced, traced_metadata

FUNCTIONS = {
    "handle_mm_fault": {"how": "symbol", "symbol": "handle_mm_fault", "method": "fentry"},
    "do_fault": {"how": "symbol", "symbol": "do_fault", "method": "kprobe"},
    "do_read_fault": {"how": "condition", "symbol": "do_fault", "method": None},
    "alpha": {"how": "symbol", "symbol": "alpha", "method": "kprobe"},
    "beta": {"how": "variant", "symbol": "beta.isra.0", "method": "fentry"},
    "rmap": {"how": "inlined", "symbol": "rmap", "method": None},
}
KINDS = Kinds(FUNCTIONS)
PAIRED = ("handle_mm_fault", "do_fault", "alpha", "beta")


@dataclass(frozen=True)
class Parts:
    """The four parts of a pair, or the whole of a hit in ``a``; nanoseconds."""

    a: int
    b: int = 0
    c: int = 0
    d: int = 0


@dataclass(frozen=True)
class Step:
    """A call of a function: its own work, whether its condition holds, and what it calls."""

    function: str
    work: int
    conditional: bool = False
    calls: tuple[Step, ...] = ()


class Thread:
    """One thread's clock, and what a tracer and a bystander see of each path."""

    def __init__(self, parts: dict[str, Parts], seen: dict[tuple[str, ...], list[list[int]]]):
        self.parts = parts
        self.seen = seen
        self.clock = 0

    def run(self, step: Step, above: tuple[str, ...] = ()) -> int:
        """Run a call and return what it takes without any probe."""
        kind = KINDS.of(step.function)
        assert kind is not None
        parts = self.parts[kind]
        path = (*above, step.function)
        self.clock += parts.a
        if kind == HIT:
            self.seen.setdefault(path, []).append([])
            return 0  # its body is a part of its caller's
        start = self.clock
        self.clock += parts.b + step.work
        inner = (*path, "do_read_fault") if step.conditional else path
        true = step.work + sum(self.run(one, inner) for one in step.calls)
        self.clock += parts.c
        for shared in {path, inner}:
            self.seen.setdefault(shared, []).append([self.clock - start, true])
        self.clock += parts.d
        return true


small = st.integers(0, 500)
parts_of_pair = st.builds(Parts, small, small, small, small)
all_parts = st.fixed_dictionaries(
    {
        HIT: st.builds(Parts, small),
        **dict.fromkeys(
            ("kprobe", "fentry", "kprobe" + CONDITION, "fentry" + FAULT_FLAGS), parts_of_pair
        ),
    }
)
leaves = st.builds(Step, st.sampled_from([*PAIRED, "rmap"]), st.integers(0, 2_000))


def _callers(calls: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    def step(function: str, work: int, holds: bool, below: list[Step]) -> Step:
        return Step(function, work, holds and function == "do_fault", tuple(below))

    return st.builds(
        step,
        st.sampled_from(PAIRED),
        st.integers(0, 2_000),
        st.booleans(),
        st.lists(calls | leaves, max_size=4),
    )


steps = st.recursive(leaves, _callers, max_leaves=12)


def _costs(parts: dict[str, Parts]) -> Costs:
    def exactly(ns: int) -> Estimate:
        return Estimate(ns, ns, ns)

    return {
        kind: ProbeCost(exactly(one.b + one.c), exactly(one.a + one.d))
        for kind, one in parts.items()
    }


def _paths(comm: str, seen: dict[tuple[str, ...], list[list[int]]]) -> list[TracedPath]:
    paths = []
    for path, found in seen.items():
        times = [one[0] for one in found if one]
        below = sum(
            one[0] for other, calls in seen.items() if other[:-1] == path for one in calls if one
        )
        durations: dict[int, int] = {}
        for ns in times:
            durations[ns] = durations.get(ns, 0) + 1
        paths.append(
            TracedPath(
                comm,
                tuple(map(Frame, path)),
                calls=len(found),
                inclusive_ns=sum(times),
                self_ns=sum(times) - below,
                min_ns=min(times, default=0),
                max_ns=max(times, default=0),
                histogram=histogram(durations),
                timed=bool(times),
            )
        )
    return paths


def _tree(runs: list[list[TracedPath]]) -> TraceTree:
    metadata = replace(traced_metadata(), functions=FUNCTIONS)
    recording = in_memory(lambda path: traced(path, runs, ((),) * len(runs), metadata))
    return TraceTree.from_recording(recording)


def _paths_of(tree: TraceTree) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for node in tree.nodes:
        above = paths[node.parent] if node.parent >= 0 else ()
        paths.append((*above, node.frame.function))
    return paths


@given(all_parts, st.lists(st.lists(steps, max_size=3), min_size=1, max_size=3))
def test_simulated_calls_are_recovered_exactly(
    parts: dict[str, Parts], threads: list[list[Step]]
) -> None:
    seen: dict[tuple[str, ...], list[list[int]]] = {}
    for thread_steps in threads:
        thread = Thread(parts, seen)
        for step in thread_steps:
            thread.run(step)
    tree = compensate(_tree([_paths("usemem", seen)]), KINDS, _costs(parts))
    true = {path: sum(one[1] for one in calls if one) for path, calls in seen.items()}
    for path, node in zip(_paths_of(tree), tree.nodes, strict=True):
        if not node.calls.timed:
            assert node.calls.compensated_ns is None
            continue
        below = sum(ns for other, ns in true.items() if other[:-1] == path)
        assert node.calls.compensated_ns == Estimate(true[path], true[path], true[path])
        own = node.calls.compensated_self_ns
        assert own is not None
        assert own.value == true[path] - below


@given(all_parts, st.lists(steps, max_size=4))
def test_what_is_below_a_root_keeps_its_overhead(
    parts: dict[str, Parts], calls: list[Step]
) -> None:
    seen: dict[tuple[str, ...], list[list[int]]] = {}
    thread = Thread(parts, seen)
    for step in calls:
        thread.run(step)
    tree = compensate(_tree([_paths("usemem", seen)]), KINDS, _costs(parts))
    if not tree.has("alpha"):
        return
    outermost = [path for path in seen if path[-1] == "alpha" and "alpha" not in path[:-1]]
    (root,) = (node for node in tree.below("alpha").nodes if node.parent < 0)
    assert root.calls.compensated_ns is not None
    assert root.calls.compensated_ns.value == sum(
        one[1] for path in outermost for one in seen[path] if one
    )


def _single(inclusive_ns: int, calls: int, cost: ProbeCost, offcpu_ns: int = 0) -> TraceTree:
    each = inclusive_ns // calls
    path = TracedPath(
        "usemem",
        (Frame("alpha"),),
        calls=calls,
        inclusive_ns=inclusive_ns,
        self_ns=inclusive_ns,
        min_ns=each,
        max_ns=each,
        offcpu_ns=offcpu_ns,
        histogram=histogram({each: calls}),
    )
    return compensate(_tree([[path]]), KINDS, {"kprobe": cost})


COST = ProbeCost(Estimate(100, 90, 120), Estimate(300, 280, 330))


def test_an_interval_comes_from_the_calibration() -> None:
    calls = _single(10_000, 10, COST).nodes[0].calls
    assert calls.compensated_ns == Estimate(9_000, 8_800, 9_100)
    assert flags(calls) == ()


@pytest.mark.parametrize(("each", "limited"), [(201, False), (200, True), (60, True)])
def test_a_correction_as_large_as_the_value_is_flagged(each: int, limited: bool) -> None:
    calls = _single(10 * each, 10, COST).nodes[0].calls
    assert flags(calls) == ((Flag.OVERHEAD_LIMITED,) if limited else ())


def test_nothing_is_clamped() -> None:
    calls = _single(600, 10, COST).nodes[0].calls
    assert calls.compensated_ns == Estimate(-400, -600, -300)


def test_waiting_is_flagged_as_contention() -> None:
    assert flags(_single(10_000, 10, COST, offcpu_ns=499).nodes[0].calls) == ()
    assert flags(_single(10_000, 10, COST, offcpu_ns=500).nodes[0].calls) == (Flag.CONTENDED,)


def test_a_probe_of_unknown_cost_leaves_its_callers_uncompensated() -> None:
    seen = {
        ("alpha",): [[1_000, 0]],
        ("alpha", "beta"): [[400, 0]],
        ("beta",): [[10, 0]],
    }
    paths = _paths("usemem", seen)
    tree = compensate(_tree([paths]), KINDS, {"kprobe": COST})
    assert [node.calls.overhead for node in tree.nodes] == [None, None, None]
    tree = compensate(_tree([paths]), KINDS, {"kprobe": COST, "fentry": COST})
    assert all(node.calls.overhead is not None for node in tree.nodes)


def test_metadata_that_makes_no_sense_has_no_cost(tmp_path: Path) -> None:
    kinds = Kinds({"x": 1, "y": {"how": "symbol", "method": 5}, "z": {"traced": False}})
    assert [kinds.of(name) for name in "wxyz"] == [None, None, None, None]


def test_several_runs_widen_the_interval_by_what_they_differ_by() -> None:
    calibration = {
        "kernel": {"release": "x"},
        "cpu": {},
        "created": "",
        "tool_version": "",
        "probes": [
            {
                "kind": "kprobe",
                "threads": 1,
                "repeats": 9,
                "total_ns": dict(zip(("value", "low", "high"), (400, 370, 450), strict=True)),
                "inside_ns": dict(zip(("value", "low", "high"), (100, 90, 120), strict=True)),
            }
        ],
    }
    each = (1_000, 1_100, 900)
    runs = [
        [
            TracedPath(
                "usemem",
                (Frame("alpha"),),
                calls=10,
                inclusive_ns=10 * ns,
                self_ns=10 * ns,
                min_ns=ns,
                max_ns=ns,
                histogram=histogram({ns: 10}),
            )
        ]
        for ns in each
    ]
    metadata = replace(traced_metadata(), functions=FUNCTIONS, calibration=calibration)
    recording = in_memory(lambda path: traced(path, runs, ((),) * 3, metadata))
    whole = compensated_tree(recording).nodes[0].calls.compensated_ns
    one = compensated_tree(recording, runs=(1,)).nodes[0].calls.compensated_ns
    assert one == Estimate(11_000 - 1_000, 11_000 - 1_200, 11_000 - 900)
    assert whole is not None
    assert whole.value == 30_000 - 3_000
    low, high = stats.t.interval(0.95, 2, loc=9_000, scale=stats.sem([9_000, 10_000, 8_000]))
    assert high - low == pytest.approx(2 * spread_of_sum([9_000, 10_000, 8_000]) / 3)
    assert whole.high - whole.value == pytest.approx(math.hypot(3 * (high - 9_000), 300))
    assert whole.value - whole.low == pytest.approx(math.hypot(3 * (high - 9_000), 600))

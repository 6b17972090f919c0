"""Trees of weights: they add up, the largest stay, and two recordings make one tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.selection import Selection
from faultprof.analysis.shift import Step, step_of
from faultprof.analysis.weights import Measure, WeightTree, weigh_all
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording import preorder
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from tests.unit.recordings import Runs, all_paths, held, random_runs
from tests.unit.traces import TRACED, Tasks, events, held_calls, held_trace, random_tasks

EVERYTHING = Selection()


def path_weights(tree: WeightTree, side: int = 0) -> dict[tuple[str, ...], int]:
    """Return the weight of each path of function names."""
    weights: dict[tuple[str, ...], int] = {}
    stack: list[str] = []
    for depth, frame, weight in zip(
        tree.depth.tolist(), tree.frame.tolist(), tree.sides[side].weight.tolist(), strict=True
    ):
        del stack[depth:]
        stack.append(tree.frames[frame].function)
        weights[tuple(stack)] = weights.get(tuple(stack), 0) + weight
    return weights


def check(tree: WeightTree) -> None:
    """Check that a whole tree is one whose weights add up."""
    assert preorder.is_preorder(tree.depth)
    for side in tree.sides:
        below = preorder.children_sums(tree.parent, side.weight)
        assert (side.weight == side.own + below).all()
        assert side.root == side.weight[tree.depth == 0].sum()
        assert (side.own >= 0).all()


@settings(max_examples=25)
@given(runs=random_runs())
def test_samples_add_up(runs: Runs) -> None:
    tree = weigh_all([held(runs)], EVERYTHING, None)
    check(tree)
    assert tree.measure is Measure.SAMPLES
    assert tree.sides[0].root == sum(path.samples for path in all_paths(runs))


@settings(max_examples=25)
@given(tasks=random_tasks(), measure=st.sampled_from([Measure.TIME, Measure.CALLS]))
def test_traced_weights_add_up(tasks: Tasks, measure: Measure) -> None:
    tree = weigh_all([held_calls(tasks)], EVERYTHING, measure)
    check(tree)
    if measure is Measure.CALLS:
        begun = sum(1 for run in tasks for calls in run.values() for _ in events(calls))
        assert tree.sides[0].root == begun


def test_time_off_the_cpu() -> None:
    tree = weigh_all([held_trace(TRACED)], EVERYTHING, Measure.OFFCPU)
    check(tree)
    weights = path_weights(tree)
    assert weights["handle_mm_fault",] == 12_000_000
    deepest = next(path for path in weights if path[-1] == "folio_wait_bit_common")
    assert weights[deepest] == 12_000_000
    assert tree.sides[0].own[list(weights).index(deepest)] == 12_000_000


def test_what_a_recording_does_not_hold() -> None:
    plain = held([[PathCount("t", (Frame("f"),), 1)]])
    with pytest.raises(FaultprofError, match="holds no trace") as caught:
        weigh_all([plain], EVERYTHING, Measure.TIME)
    assert caught.value.exit_code == ExitCode.USAGE
    unknown = [[path._replace(offcpu_ns=None) for path in run] for run in TRACED]
    with pytest.raises(FaultprofError, match="does not say when tasks did not run"):
        weigh_all([held_trace(unknown)], EVERYTHING, Measure.OFFCPU)
    # Of a traced and a sampled recording, samples are what both have.
    assert weigh_all([plain, held_trace(TRACED)], EVERYTHING, None).measure is Measure.SAMPLES


@settings(max_examples=25)
@given(runs=random_runs(), most=st.integers(1, 30))
def test_the_largest_nodes_stay(runs: Runs, most: int) -> None:
    tree = weigh_all([held(runs)], EVERYTHING, None)
    thin = tree.thinned(most)
    heavy = int((tree.sides[0].weight > 0).sum())
    assert len(thin) == min(most, heavy)
    assert len(thin) + thin.hidden + thin.weightless == len(tree)
    assert preorder.is_preorder(thin.depth)
    kept, all_ = thin.sides[0].weight.tolist(), tree.sides[0].weight.tolist()
    assert sorted(kept, reverse=True) == sorted(all_, reverse=True)[: len(kept)]
    assert thin.sides[0].root == tree.sides[0].root


@settings(max_examples=25)
@given(runs=random_runs())
def test_siblings_stand_by_weight(runs: Runs) -> None:
    tree = weigh_all([held(runs)], EVERYTHING, None).largest_first()
    check(tree)
    last: dict[int, int] = {}
    for parent, weight in zip(tree.parent.tolist(), tree.sides[0].weight.tolist(), strict=True):
        assert weight <= last.get(parent, weight)
        last[parent] = weight


@settings(max_examples=25)
@given(first=random_runs(), second=random_runs())
def test_two_recordings_make_one_tree(first: Runs, second: Runs) -> None:
    before, after = held(first), held(second)
    both = weigh_all([before, after], EVERYTHING, None)
    check(both)
    for number, alone in enumerate((before, after)):
        expected = path_weights(weigh_all([alone], EVERYTHING, None))
        together = path_weights(both, number)
        assert {path: n for path, n in together.items() if n} == {
            path: n for path, n in expected.items() if n
        }
    turned = weigh_all([after, before], EVERYTHING, None)
    assert path_weights(turned, 0) == path_weights(both, 1)


def test_traced_calls_of_both_sides_are_kept() -> None:
    both = weigh_all([held_trace(TRACED), held_trace(TRACED[1:])], EVERYTHING, None)
    check(both)
    place = list(path_weights(both)).index(("handle_mm_fault", "__handle_mm_fault"))
    calls = [side.calls[place].calls for side in both.sides if side.calls and side.calls[place]]  # type: ignore[union-attr]
    assert calls == [923_008, 1_000]


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        (0, 0, Step.SAME),
        (0, 9_000, Step.NEW),
        (9_000, 0, Step.GONE),
        (4_000, 2_000, Step.HALF),
        (4_000, 2_100, Step.LESS),
        (4_000, 3_300, Step.LESS),
        (4_000, 3_400, Step.SAME),
        (3_400, 4_000, Step.SAME),
        (3_300, 4_000, Step.MORE),
        (2_100, 4_000, Step.MORE),
        (2_000, 4_000, Step.DOUBLE),
    ],
)
def test_steps(before: int, after: int, step: Step) -> None:
    assert step_of(before, 10_000, after, 10_000, sampled=False) is step
    assert step_of(before, 10_000, 2 * after, 20_000, sampled=False) is step
    assert step_of(before, 10_000, after, 10_000, sampled=True) is step


def test_few_samples_are_noise() -> None:
    assert step_of(0, 1_000, 3, 1_000, sampled=True) is Step.SAME
    assert step_of(0, 1_000, 3, 1_000, sampled=False) is Step.NEW
    assert step_of(0, 1_000, 5, 1_000, sampled=True) is Step.NEW
    # 10 against 20 differ by 10, and two standard errors are 2 sqrt(30) = 10.95.
    assert step_of(10, 1_000, 20, 1_000, sampled=True) is Step.SAME
    assert step_of(10, 1_000, 22, 1_000, sampled=True) is Step.DOUBLE

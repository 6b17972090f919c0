"""The tree of traced calls against the calls themselves, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.calls import Calls
from faultprof.analysis.functions import join_resolutions
from faultprof.analysis.trace_tree import TraceNode, TraceTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.histogram import histogram_of
from faultprof.recording.traced import TracedPath
from tests.unit.traces import (
    TRACED,
    Call,
    Tasks,
    events,
    held_calls,
    held_trace,
    histogram,
    random_tasks,
    traced,
)

Function = tuple[str, str]
Functions = tuple[Function, ...]


@dataclass
class Expected:
    """What some calls come to; each is added by itself."""

    durations: list[int] = field(default_factory=list)  # of those that returned and were timed
    counted: int = 0
    unfinished: int = 0
    outer_ns: int = 0  # of calls that are not inside another of the same function
    all_ns: int = 0
    self_ns: int = 0
    offcpu_ns: int = 0
    timed: bool = False
    resolutions: set[str] = field(default_factory=set)

    def add(self, call: Call, *, nested: bool) -> None:
        """Add one call; ``nested`` in one of the same function."""
        self.resolutions.add(call.frame.resolution)
        if not call.timed:
            self.counted += 1
            return
        self.timed = True
        self.all_ns += call.ns
        if not nested:
            self.outer_ns += call.ns
            self.offcpu_ns += call.all_offcpu_ns
        if call.returned:
            self.durations.append(call.ns)
            self.self_ns += call.self_ns
        else:
            self.unfinished += 1

    def check(self, frame: Frame, calls: Calls) -> None:
        """Check what the tree says of them."""
        assert frame.resolution == join_resolutions(self.resolutions)
        assert calls.timed == self.timed
        assert calls.calls == len(self.durations) + self.counted
        assert calls.timed_calls == len(self.durations)
        assert calls.unfinished == self.unfinished
        assert (calls.inclusive_ns, calls.self_ns) == (self.outer_ns, self.self_ns)
        assert calls.offcpu_ns == (self.offcpu_ns if self.timed else None)
        assert calls.min_ns == min(self.durations, default=None)
        assert calls.max_ns == max(self.durations, default=None)
        assert calls.histogram == histogram_of(histogram(Counter(self.durations)))
        if self.durations:
            assert calls.avg_ns == self.all_ns / len(self.durations)
            assert calls.p50_ns is not None
            assert calls.p99_ns is not None
            assert min(self.durations) <= calls.p50_ns <= calls.p99_ns <= max(self.durations)
        else:
            assert calls.avg_ns is calls.p50_ns is calls.p99_ns is None


def all_calls(tasks: Tasks) -> list[Call]:
    """Return the outermost calls of all runs and tasks."""
    return [call for run in tasks for calls in run.values() for call in calls]


def expected_nodes(calls: Iterable[Call]) -> dict[Functions, Expected]:
    """Return what the calls of each path of functions come to."""
    found: dict[Functions, Expected] = {}
    for path, call in events(calls):
        functions = tuple(frame[:2] for frame in path)
        # Calls on one path are never inside each other.
        found.setdefault(functions, Expected()).add(call, nested=False)
    return found


def paths(tree: TraceTree) -> dict[Functions, TraceNode]:
    """Return the nodes of a tree by their paths, with preorder, parents and depths checked."""
    found: dict[Functions, TraceNode] = {}
    stack: list[int] = []
    of: list[Functions] = []
    for place, node in enumerate(tree.nodes):
        assert node.depth <= len(stack)
        del stack[node.depth :]
        assert node.parent == (stack[-1] if stack else -1)
        stack.append(place)
        of.append((*(of[node.parent] if stack[:-1] else ()), node.frame[:2]))
        assert of[-1] not in found
        found[of[-1]] = node
    return found


def check_nodes(tree: TraceTree, calls: Iterable[Call]) -> None:
    expected = expected_nodes(calls)
    found = paths(tree)
    assert set(found) == set(expected)
    for path, node in found.items():
        expected[path].check(node.frame, node.calls)


def inside(calls: Iterable[Call], function: str) -> Iterator[Call]:
    """Yield the outermost calls of ``function``."""
    for call in calls:
        if call.frame.function == function:
            yield call
        else:
            yield from inside(call.callees, function)


def build(tasks: Tasks) -> TraceTree:
    return TraceTree.from_recording(held_calls(tasks))


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_nodes(tasks: Tasks) -> None:
    tree, calls = build(tasks), all_calls(tasks)
    check_nodes(tree, calls)
    assert tree.total_ns == tree.root_ns == sum(call.ns for call in calls)
    assert tree.roots == tuple(sorted({call.frame.function for call in calls}))
    assert tree.unfinished == sum(call.timed and not call.returned for _, call in events(calls))


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_inclusive_is_self_and_children_after_merging(tasks: Tasks) -> None:
    tree = build(tasks)
    children = [0] * len(tree)
    for node in tree.nodes:
        if node.parent >= 0:
            children[node.parent] += node.calls.inclusive_ns
            assert node.calls.inclusive_ns <= tree.nodes[node.parent].calls.inclusive_ns
    for node, below in zip(tree.nodes, children, strict=True):
        assert node.calls.inclusive_ns == node.calls.self_ns + below
        assert sum(count for _, count in node.calls.histogram) == node.calls.timed_calls


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks(), run=st.integers(0, 3), comm=st.sampled_from(["usemem", "bash", "no"]))
def test_chosen_runs_and_tasks(tasks: Tasks, run: int, comm: str) -> None:
    of_run = tasks[run] if run < len(tasks) else {}
    tree = TraceTree.from_recording(held_calls(tasks), runs=[run], comms=[comm])
    check_nodes(tree, of_run.get(comm, ()))
    assert tree.total_ns == sum(call.ns for calls in of_run.values() for call in calls)


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_functions(tasks: Tasks) -> None:
    expected: dict[Function, Expected] = {}
    for path, call in events(all_calls(tasks)):
        above = {frame[:2] for frame in path[:-1]}
        key = call.frame[:2]
        expected.setdefault(key, Expected()).add(call, nested=key in above)
    functions = build(tasks).functions()
    assert {frame[:2] for frame, _ in functions} == set(expected)
    for frame, calls in functions:
        expected[frame[:2]].check(frame, calls)
    order = [(-calls.inclusive_ns, -calls.begun, frame) for frame, calls in functions]
    assert order == sorted(order)


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks(), function=st.sampled_from(["alpha", "gamma", "count"]))
def test_below(tasks: Tasks, function: str) -> None:
    tree, calls = build(tasks), list(inside(all_calls(tasks), function))
    assert tree.has(function) == bool(calls)
    if calls:
        below = tree.below(function)
        check_nodes(below, calls)
        assert (below.total_ns, below.faults) == (tree.total_ns, tree.faults)
        assert below.relative().total_ns == sum(call.ns for call in calls)
        assert below.relative().roots == (function,)


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks(), percent=st.floats(0, 100), depth=st.none() | st.integers(1, 4))
def test_cut(tasks: Tasks, percent: float, depth: int | None) -> None:
    """Timed nodes stay by their share, counted ones with their callers."""
    tree = build(tasks)
    shown, all_ = paths(tree.cut(percent, depth)), paths(tree)
    for path, node in all_.items():
        large = 100 * node.calls.inclusive_ns >= Fraction(repr(percent)) * tree.total_ns
        with_caller = len(path) == 1 or path[:-1] in shown
        high = depth is None or len(path) <= depth
        assert (path in shown) == (high and with_caller and (large or not node.calls.timed))
        if path in shown:
            assert shown[path].calls == node.calls
    assert tree.cut(percent, depth).hidden == len(all_) - len(shown)


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_largest_first(tasks: Tasks) -> None:
    tree = build(tasks)
    ordered = tree.largest_first()
    assert {path: node.calls for path, node in paths(ordered).items()} == {
        path: node.calls for path, node in paths(tree).items()
    }
    for parent in range(-1, len(ordered)):
        siblings = [node for node in ordered.nodes if node.parent == parent]
        keys = [(-n.calls.inclusive_ns, -n.calls.begun, n.frame) for n in siblings]
        assert keys == sorted(keys)


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_multiplicity(tasks: Tasks) -> None:
    """Calls for one call of the caller, each call counted whether it returned or not."""
    begun = Counter(tuple(f[:2] for f in path) for path, _ in events(all_calls(tasks)))
    tree = build(tasks)
    for place, path in enumerate(paths(tree)):
        expected = begun[path] / begun[path[:-1]] if len(path) > 1 else None
        assert tree.per_caller(place) == expected


@settings(deadline=None, max_examples=60)
@given(tasks=random_tasks())
def test_faults(tasks: Tasks) -> None:
    faults = [c for _, c in events(all_calls(tasks)) if c.frame.function == "handle_mm_fault"]
    expected = sum(call.returned for call in faults) if faults else None
    assert build(tasks).faults == expected


# Known answers.


def tree_of(*paths: TracedPath) -> TraceTree:
    return TraceTree.from_recording(held_trace([paths]))


def path(names: str, ns: int, self_ns: int, calls: int = 1) -> TracedPath:
    """Return ``calls`` calls of the last of ``names``, all equally long."""
    each = ns // calls
    return TracedPath(
        "t",
        tuple(map(Frame, names)),
        calls,
        0,
        ns,
        self_ns,
        each,
        each,
        0,
        histogram({each: calls}),
    )


def test_recursion_counts_once() -> None:
    tree = tree_of(path("f", 100, 20), path("fg", 80, 10), path("fgf", 70, 70, calls=7))
    (f,) = [one.calls for one in tree.functions() if one.frame.function == "f"]
    assert (f.calls, f.inclusive_ns, f.self_ns) == (8, 100, 90)
    assert (f.avg_ns, f.min_ns, f.max_ns, f.p50_ns) == (170 / 8, 10, 100, 11)
    below = tree.below("f")
    assert below.nodes == tree.nodes


def test_a_second_call_within_a_fault_shows() -> None:
    tree = tree_of(path("h", 3000, 1500, calls=100), path("hm", 1500, 1500, calls=150))
    assert [tree.per_caller(place) for place in range(2)] == [None, 1.5]


def with_per_call(one: TracedPath, *buckets: int) -> TracedPath:
    return one._replace(per_call=buckets)


def test_how_many_calls_of_the_caller_made_how_many() -> None:
    """100 faults: 10 map around never, 60 once, 20 twice, 10 five times."""
    mapping = with_per_call(path("hm", 1500, 1500, calls=150), 60, 20, 0, 10)
    tree = tree_of(path("h", 3000, 1500, calls=100), mapping)
    edge = tree.edge(1)
    assert edge is not None
    assert (edge.caller.function, edge.caller_calls, edge.calls, edge.mean) == ("h", 100, 150, 1.5)
    assert edge.per_call == ((0, 10), (1, 60), (2, 20), (8, 10))
    assert tree.edge(0) is None
    assert tree.edges("m") == [edge]
    assert tree.edges("h") == []


def test_runs_and_paths_of_one_caller_are_added_up() -> None:
    first = [
        path("a", 90, 50, calls=4),
        with_per_call(path("ab", 40, 10, calls=4), 4),
        with_per_call(path("abc", 30, 30, calls=6), 2, 1),
        path("b", 8, 6, calls=2),
        with_per_call(path("bc", 2, 2, calls=2), 0, 1),
    ]
    second = [path("b", 9, 8), with_per_call(path("bc", 1, 1), 1)]
    tree = TraceTree.from_recording(held_trace([first, second], ((), ())))
    (edge,) = tree.edges("c")
    assert (edge.caller.function, edge.caller_calls, edge.calls) == ("b", 4 + 2 + 1, 6 + 2 + 1)
    # Below a, one of the 4 calls made none; else all of them made some, two of them two.
    assert edge.per_call == ((0, 2), (1, 3), (2, 2))
    below = tree.below("b")
    assert [below.edge(place) for place in range(2)] == [None, edge]
    (c,) = [one.calls for one in tree.functions() if one.frame.function == "c"]
    assert c.per_call == ()


def test_impossible_numbers_of_callers_are_not_shown() -> None:
    tree = tree_of(path("h", 30, 15, calls=3), with_per_call(path("hm", 15, 15, calls=5), 4))
    edge = tree.edge(1)
    assert edge is not None
    assert edge.per_call == ()


def test_callers_without_calls_have_no_multiplicity() -> None:
    tree = tree_of(path("ab", 10, 10))
    assert [tree.per_caller(place) for place in range(2)] == [None, None]
    assert tree.nodes[0].calls.offcpu_share is None
    assert tree.nodes[1].calls.offcpu_share == 0


def test_the_fixed_session(tmp_path: Path) -> None:
    tree = TraceTree.from_recording(traced(tmp_path / "x.fprof", TRACED))
    assert tree.faults == 900_000 + 22_008 + 1_000
    functions = {one.frame.function: one.calls for one in tree.functions()}
    clear = functions["clear_page_erms"]  # in a fault, and in the second run outside of one
    assert (clear.calls, clear.self_ns) == (900_040, 900_000 * 700 + 40 * 650)
    wait = functions["folio_wait_bit_common"]
    assert (wait.calls, wait.unfinished, wait.offcpu_share) == (6, 2, 12_000_000 / 12_600_000)
    assert tree.unfinished == 2
    assert functions["<b>rmap\x1b[2J"].timed is False


def test_an_unknown_function_names_near_ones(tmp_path: Path) -> None:
    tree = TraceTree.from_recording(traced(tmp_path / "x.fprof", TRACED))
    with pytest.raises(FaultprofError) as caught:
        tree.below("do_read_falt")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint.startswith("nearest: do_read_fault")


def test_an_empty_tree() -> None:
    tree = TraceTree.from_recording(held_trace([[]]))
    assert (len(tree), tree.total_ns, tree.percent(0), tree.faults) == (0, 0, 0.0, None)
    assert tree.functions() == []
    assert len(tree.cut(0.5).largest_first()) == 0


def test_deep_trees_need_no_deep_stack() -> None:
    frames: Sequence[Frame] = [Frame(f"f{level % 3}") for level in range(2_000)]
    deep = TracedPath("t", tuple(frames), 1, 0, 5, 5, 5, 5, 0, histogram({5: 1}))
    tree = tree_of(deep)
    assert tree.largest_first().nodes[-1].depth == 1_999
    assert [one.calls.inclusive_ns for one in tree.functions()] == [5, 5, 5]

"""The call tree against the same thing done slowly, path by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.functions import join_resolutions
from faultprof.analysis.merge import has_twins
from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording import preorder
from faultprof.recording.frames import INLINED, SYMBOL, Frame
from faultprof.recording.paths import PathCount
from tests.unit.recordings import SESSION, Runs, all_paths, held, random_runs, recorded

Function = tuple[str, str]
NodePath = tuple[Function, ...]


class Node(NamedTuple):
    """What a tree says of one node."""

    samples: int
    self_samples: int
    resolution: str


def nodes_of(tree: CallTree) -> dict[NodePath, Node]:
    """Return the nodes of a tree by their paths; no path may stand twice."""
    found: dict[NodePath, Node] = {}
    stack: list[Function] = []
    for row in range(len(tree)):
        frame = tree.frames[tree.frame[row]]
        assert tree.depth[row] <= len(stack)
        del stack[tree.depth[row] :]
        stack.append((frame.function, frame.module))
        key = tuple(stack)
        assert key not in found
        figures = int(tree.samples[row]), int(tree.self_samples[row])
        found[key] = Node(*figures, frame.resolution)
    return found


def expected_nodes(paths: Iterable[PathCount]) -> dict[NodePath, Node]:
    """Return the same from the paths."""
    inclusive: Counter[NodePath] = Counter()
    own: Counter[NodePath] = Counter()
    resolutions: dict[NodePath, set[str]] = {}
    for path in paths:
        functions = tuple(frame[:2] for frame in path.frames)
        own[functions] += path.samples
        for length in range(1, len(functions) + 1):
            key = functions[:length]
            inclusive[key] += path.samples
            resolutions.setdefault(key, set()).add(path.frames[length - 1].resolution)
    return {
        key: Node(inclusive[key], own[key], join_resolutions(resolutions[key])) for key in inclusive
    }


def suffixes(paths: Iterable[PathCount], function: str) -> list[PathCount]:
    """Return the part of each path from its first call of ``function`` on."""
    found = []
    for comm, frames, samples in paths:
        names = [frame.function for frame in frames]
        if function in names:
            found.append(PathCount(comm, frames[names.index(function) :], samples))
    return found


def build(runs: Runs) -> CallTree:
    return CallTree.from_recording(held(runs))


@settings(deadline=None)
@given(runs=random_runs())
def test_nodes(runs: Runs) -> None:
    tree = build(runs)
    assert nodes_of(tree) == expected_nodes(all_paths(runs))
    assert tree.total == tree.root_samples == sum(path.samples for path in all_paths(runs))


@settings(deadline=None)
@given(runs=random_runs(), run=st.integers(0, 3), comm=st.sampled_from(["usemem", "bash", "no"]))
def test_chosen_runs_and_tasks(runs: Runs, run: int, comm: str) -> None:
    recording = held(runs)
    of_run = list(runs[run]) if run < len(runs) else []
    tree = CallTree.from_recording(recording, runs=[run], comms=[comm])
    assert nodes_of(tree) == expected_nodes(path for path in of_run if path.comm == comm)
    assert tree.total == sum(path.samples for path in of_run)


@settings(deadline=None)
@given(runs=random_runs())
def test_functions(runs: Runs) -> None:
    inclusive: Counter[Function] = Counter()
    own: Counter[Function] = Counter()
    for path in all_paths(runs):
        own[path.frames[-1][:2]] += path.samples
        for function in {frame[:2] for frame in path.frames}:
            inclusive[function] += path.samples
    totals = build(runs).functions()
    found = {total.frame[:2]: (total.samples, total.self_samples) for total in totals}
    assert found == {key: (inclusive[key], own[key]) for key in inclusive}
    assert [total.samples for total in totals] == sorted(inclusive.values(), reverse=True)


@settings(deadline=None)
@given(runs=random_runs(), function=st.sampled_from(["alpha", "beta", "gamma"]))
def test_below(runs: Runs, function: str) -> None:
    tree, expected = build(runs), suffixes(all_paths(runs), function)
    assert tree.has(function) == bool(expected)
    if expected:
        below = tree.below(function)
        assert nodes_of(below) == expected_nodes(expected)
        assert below.total == tree.total
        assert below.relative().total == sum(path.samples for path in expected)


@settings(deadline=None)
@given(runs=random_runs(), percent=st.floats(0, 100), depth=st.none() | st.integers(1, 5))
def test_cut(runs: Runs, percent: float, depth: int | None) -> None:
    tree = build(runs)
    shown = tree.cut(percent, depth)
    expected = {
        key: node
        for key, node in nodes_of(tree).items()
        if node.samples * 100 >= Fraction(repr(percent)) * tree.total
        and (depth is None or len(key) <= depth)
    }
    assert nodes_of(shown) == expected
    assert shown.hidden == len(tree) - len(shown)
    assert shown.root_samples == tree.root_samples
    check_parents(shown)


@settings(deadline=None)
@given(runs=random_runs())
def test_largest_first(runs: Runs) -> None:
    tree = build(runs)
    ordered = tree.largest_first()
    assert nodes_of(ordered) == nodes_of(tree)
    check_parents(ordered)
    for parent in range(-1, len(ordered)):
        children = np.flatnonzero(ordered.parent == parent)
        keys = [(-ordered.samples[row], ordered.frames[ordered.frame[row]]) for row in children]
        assert keys == sorted(keys)


def check_parents(tree: CallTree) -> None:
    """Check that each node's parent is the last node before it that is one less deep."""
    last: list[int] = []
    for row, (depth, parent) in enumerate(zip(tree.depth, tree.parent, strict=True)):
        del last[depth:]
        assert parent == (last[-1] if last else -1)
        last.append(row)


@given(st.lists(st.integers(0, 4), max_size=40))
def test_preorder_arithmetic(steps: list[int]) -> None:
    """Parents and ends of a random forest, against their definitions."""
    depths: list[int] = []
    for step in steps:
        depths.append(min(step, depths[-1] + 1) if depths else 0)
    depth = np.array(depths, np.int16)
    assert preorder.is_preorder(depth)
    order = preorder.by_depth(depth)
    parent = preorder.parents(depth, order)
    end = preorder.ends(depth, parent, order)
    for row, level in enumerate(depths):
        above = [other for other in range(row) if depths[other] == level - 1]
        assert parent[row] == (max(above) if above else -1)
        after = [other for other in range(row + 1, len(depths)) if depths[other] <= level]
        assert end[row] == (min(after) if after else len(depths))


def test_one_task_without_twins_is_taken_as_it_stands(tmp_path: Path) -> None:
    """The short way, which spares a million-node recording the merge."""
    recording = recorded(tmp_path / "x.fprof", [[p for p in SESSION[0] if p.comm == "usemem"]])
    assert CallTree.from_recording(recording).samples is recording.rows.samples


def test_resolution_is_no_part_of_a_node(tmp_path: Path) -> None:
    paths = [PathCount("a", (Frame("f", "", how), Frame("g")), 1) for how in (SYMBOL, INLINED)]
    recording = recorded(tmp_path / "x.fprof", [paths])
    parent, frame = recording.rows.parent, recording.rows.frame
    assert not has_twins(parent, frame, 9)
    nodes = nodes_of(CallTree.from_recording(recording))
    assert nodes[("f", ""),] == Node(2, 0, "inlined+symbol")


def test_recursion_counts_once(tmp_path: Path) -> None:
    frames = tuple(map(Frame, ["a", "f", "b", "f", "f"]))
    paths = [PathCount("t", frames, 5), PathCount("t", frames[:2], 2)]
    tree = CallTree.from_recording(recorded(tmp_path / "x.fprof", [paths]))
    (total,) = [total for total in tree.functions() if total.frame.function == "f"]
    assert (total.samples, total.self_samples) == (7, 7)
    assert nodes_of(tree.below("f"))[("f", ""),].samples == 7


def test_modules_are_told_apart(tmp_path: Path) -> None:
    paths = [PathCount("t", (Frame("f", module),), 1) for module in ("", "ext4")]
    tree = CallTree.from_recording(recorded(tmp_path / "x.fprof", [paths]))
    assert len(tree) == 2
    assert len(tree.below("f")) == 2
    assert len(tree.below("f", "ext4")) == 1
    assert not tree.has("f", "xfs")


def test_an_unknown_function_names_near_ones(tmp_path: Path) -> None:
    tree = CallTree.from_recording(recorded(tmp_path / "x.fprof", SESSION))
    with pytest.raises(FaultprofError) as caught:
        tree.below("do_read_falt")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint.startswith("nearest: do_read_fault")
    with pytest.raises(FaultprofError) as caught:
        tree.below("?")
    assert "--flat" in caught.value.hint


def test_an_empty_tree(tmp_path: Path) -> None:
    tree = CallTree.from_recording(recorded(tmp_path / "x.fprof", [[]]))
    assert (len(tree), tree.total, tree.percent(0)) == (0, 0, 0.0)
    assert tree.functions() == []
    assert len(tree.cut(0.5).largest_first()) == 0


def test_percentages(tmp_path: Path) -> None:
    tree = CallTree.from_recording(recorded(tmp_path / "x.fprof", SESSION), comms=["kworker/0:1"])
    assert tree.percent(tree.root_samples) == pytest.approx(0.4)
    assert tree.relative().percent(tree.root_samples) == 100
    # A node of just the least percentage stays, in spite of 0.4 being no binary fraction.
    assert len(tree.cut(0.4)) == 2
    assert len(tree.cut(0.4000001)) == 0

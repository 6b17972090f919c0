"""A call tree with one weight per node: what flame graphs and tables of two recordings draw.

Knows: which weights there are, one tree over two recordings, and its largest nodes.
Leaves to others: where the figures come from (``tree``, ``trace_tree``), drawing (``render``).

A node's weight is inclusive: its own weight plus its children's, exactly.
    samples: samples.
    time: nanoseconds of traced calls. What was only counted has none.
    calls: calls that began, those of the node and of everything below it.
    offcpu: nanoseconds of traced calls in which the task did not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from faultprof.analysis.calls import Calls
from faultprof.analysis.functions import merged_frames, number_functions
from faultprof.analysis.merge import merge
from faultprof.analysis.selection import Selection, no_trace
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording import preorder
from faultprof.recording.frames import Frame
from faultprof.recording.reader import Recording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faultprof.recording.preorder import Int32, Int64, Ints


class Measure(StrEnum):
    """What a weight counts."""

    SAMPLES = "samples"
    TIME = "time"
    CALLS = "calls"
    OFFCPU = "offcpu"

    @property
    def is_time(self) -> bool:
        """Whether weights are nanoseconds."""
        return self in (Measure.TIME, Measure.OFFCPU)


@dataclass(frozen=True, slots=True)
class Side:
    """The weights of one recording, an element per node of the tree.

    Args:
        weight: inclusive.
        own: of the node itself.
        root: weight of all roots together, of cut ones too.
        total: what is 100 percent.
        calls: traced calls of each node (None: there are none); None for samples.
    """

    weight: Int64
    own: Int64
    root: int
    total: int
    calls: tuple[Calls | None, ...] | None = None

    def percent(self, weight: int) -> float:
        """Return a weight as a percentage of the total; 0 when there is none."""
        return 100.0 * weight / self.total if self.total else 0.0

    def taken(self, rows: Int32) -> Side:
        """Return the side with some of its nodes, in the order of ``rows``."""
        calls = None if self.calls is None else tuple(self.calls[row] for row in rows.tolist())
        return replace(self, weight=self.weight[rows], own=self.own[rows], calls=calls)


@dataclass(frozen=True, slots=True)
class WeightTree:
    """Call trees of all roots, in preorder, with the weights of one recording or of two.

    Args:
        measure: what the weights count.
        frames: the distinct frames.
        frame: index into ``frames``.
        depth: callers above the node; 0 for a root.
        parent: row of the caller; -1 for a root.
        sides: the weights: one, or two: before and after.
        hidden: nodes that were cut, each smaller than ``hidden_share``.
        hidden_share: in parts of the total.
        weightless: nodes left out that have no weight, such as calls that were only counted.
    """

    measure: Measure
    frames: tuple[Frame, ...]
    frame: Int32
    depth: Ints
    parent: Int32
    sides: tuple[Side, ...]
    hidden: int = 0
    hidden_share: float = 0.0
    weightless: int = 0

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def roots(self) -> int:
        """How many roots there are."""
        return int((self.depth == 0).sum())

    def shares(self) -> NDArray[np.float64]:
        """Return each node's weight in parts of the total, on the side where that is larger."""
        import numpy as np

        shares: NDArray[np.float64] = np.max(
            [side.weight / max(1, side.total) for side in self.sides], axis=0
        )
        return shares

    def largest_first(self) -> WeightTree:
        """Return the same tree with siblings in the order of the report: by weight, then name."""
        import numpy as np

        names = np.empty(len(self.frames), np.int32)
        by_name = sorted(range(len(self.frames)), key=self.frames.__getitem__)
        names[by_name] = np.arange(len(self.frames))
        rows = preorder.reordered(self.depth, self.parent, (names[self.frame], -self.shares()))
        return self._taken(rows)

    def thinned(self, most: int) -> WeightTree:
        """Return the tree with its ``most`` largest nodes, and none without weight.

        A caller is at least as large as what it called, so what is kept is a tree.
        """
        import numpy as np

        shares = self.shares()
        kept = np.flatnonzero(shares > 0)
        tree, weightless, hidden, share = self, len(self) - len(kept), 0, 0.0
        if len(kept) > most:
            # Of nodes of one size those in front stay; a caller stands before what it called.
            largest = kept[np.argsort(-shares[kept], kind="stable")]
            hidden, share = len(kept) - most, float(shares[largest[most]])
            kept = np.sort(largest[:most])
        if len(kept) < len(self):
            tree = self._taken(kept.astype(np.int32))
        return replace(
            tree,
            hidden=self.hidden + hidden,
            hidden_share=share or self.hidden_share,
            weightless=self.weightless + weightless,
        )

    def topped(self, name: str) -> WeightTree:
        """Return the tree below one more node that stands for all roots together."""
        import numpy as np

        sides = [
            replace(
                side,
                weight=np.concatenate([[side.root], side.weight]),
                own=np.concatenate([[0], side.own]),
                calls=None if side.calls is None else (None, *side.calls),
            )
            for side in self.sides
        ]
        return replace(
            self,
            frames=(*self.frames, Frame(name, "", "")),
            frame=np.concatenate([[len(self.frames)], self.frame]).astype(np.int32),
            depth=np.concatenate([[0], self.depth + 1]).astype(np.int32),
            parent=np.concatenate([[-1], self.parent + 1]).astype(np.int32),
            sides=tuple(sides),
        )

    def _taken(self, rows: Int32) -> WeightTree:
        """Return the tree of some rows, which are one in preorder."""
        depth = self.depth[rows]
        return replace(
            self,
            frame=self.frame[rows],
            depth=depth,
            parent=preorder.parents(depth, preorder.by_depth(depth)),
            sides=tuple(side.taken(rows) for side in self.sides),
        )


def weigh(recording: Recording, selection: Selection, measure: Measure) -> WeightTree:
    """Return the chosen tree of a recording.

    Raises:
        FaultprofError: exit code 2, when the recording does not have what is asked for; exit
            code 4, when it is damaged.
    """
    if measure is Measure.SAMPLES:
        return _of_samples(selection.tree(recording))
    if not recording.has_trace:
        raise no_trace(recording)
    tree = selection.trace_tree(recording)
    _check_offcpu(measure, [node.calls.offcpu_ns for node in tree.nodes])
    return _of_trace(tree, measure)


def weigh_by_comm(
    recording: Recording, selection: Selection, measure: Measure
) -> list[tuple[str, WeightTree]]:
    """Return the shown tree of each task name; tasks without the root are left out.

    Raises:
        FaultprofError: as :func:`weigh`.
    """
    if measure is Measure.SAMPLES:
        sampled = selection.trees_by_comm(recording)
        return [(comm, _of_samples(selection.cut(tree))) for comm, tree in sampled]
    if not recording.has_trace:
        raise no_trace(recording)
    traced = [
        (comm, selection.cut(tree)) for comm, tree in selection.trace_trees_by_comm(recording)
    ]
    _check_offcpu(measure, [node.calls.offcpu_ns for _, tree in traced for node in tree.nodes])
    return [(comm, _of_trace(tree, measure)) for comm, tree in traced]


def _of_samples(tree: CallTree) -> WeightTree:
    side = Side(tree.samples, tree.self_samples, tree.root_samples, tree.total)
    return WeightTree(
        Measure.SAMPLES, tree.frames, tree.frame, tree.depth, tree.parent, (side,), tree.hidden
    )


def _of_trace(tree: TraceTree, measure: Measure) -> WeightTree:
    import numpy as np

    nodes = tree.nodes
    weight = _weights(tree, measure)
    below = [0] * len(nodes)
    for node, inclusive in zip(nodes, weight, strict=True):
        if node.parent >= 0:
            below[node.parent] += inclusive
    root = sum(one for node, one in zip(nodes, weight, strict=True) if node.parent < 0)
    # Time has its total (of all tasks); of the others there is no more than the tree itself.
    total = tree.total_ns if measure is Measure.TIME else root
    weights = np.array(weight, np.int64)
    side = Side(
        weights, weights - np.array(below, np.int64), root, total, tuple(n.calls for n in nodes)
    )
    codes: dict[Frame, int] = {}
    frame = np.array([codes.setdefault(node.frame, len(codes)) for node in nodes], np.int32)
    depth = np.array([node.depth for node in nodes], np.int16)
    parent = np.array([node.parent for node in nodes], np.int32)
    return WeightTree(measure, tuple(codes), frame, depth, parent, (side,), tree.hidden)


def _weights(tree: TraceTree, measure: Measure) -> list[int]:
    nodes = tree.nodes
    if measure is Measure.TIME:
        return [node.calls.inclusive_ns for node in nodes]
    if measure is Measure.CALLS:
        return _summed(tree, [node.calls.begun for node in nodes])
    known = [node.calls.offcpu_ns for node in nodes]
    # Of a caller whose return was not seen only what it called is known.
    below = _summed(tree, [0] * len(nodes), known)
    return [max(one or 0, least) for one, least in zip(known, below, strict=True)]


def _check_offcpu(measure: Measure, known: Sequence[int | None]) -> None:
    if measure is Measure.OFFCPU and known and all(one is None for one in known):
        raise FaultprofError(
            "this recording does not say when tasks did not run",
            "leave out --by offcpu",
            ExitCode.USAGE,
        )


def _summed(
    tree: TraceTree, own: Sequence[int], given: Sequence[int | None] | None = None
) -> list[int]:
    """Return ``own`` plus all below it; where ``given`` has more for a node, that instead."""
    sums = list(own)
    for place in range(len(sums) - 1, -1, -1):
        if given is not None:
            sums[place] = max(sums[place], given[place] or 0)
        if tree.nodes[place].parent >= 0:
            sums[tree.nodes[place].parent] += sums[place]
    return sums


def difference(before: WeightTree, after: WeightTree) -> WeightTree:
    """Return one tree over both, with two sides; what one of them lacks has no weight there.

    Both count the same.
    """
    import numpy as np

    numbers: dict[Frame, int] = {}
    codes = [numbers.setdefault(one, len(numbers)) for one in (*before.frames, *after.frames)]
    frames = tuple(numbers)
    frame = np.array(codes, np.int32)[
        np.concatenate([before.frame, after.frame + len(before.frames)])
    ]
    functions, number = number_functions(frames)
    depth = np.concatenate([before.depth, after.depth])
    parent = preorder.parents(depth, preorder.by_depth(depth))
    merged = merge(depth, parent, number[frame], functions=max(1, len(functions)))
    first, second = np.split(merged.target, [len(before)])
    joined, joined_frame = merged_frames(frames, frame, merged.target, len(merged.depth))
    sides = tuple(
        _moved(tree.sides[0], target, len(merged.depth))
        for tree, target in ((before, first), (after, second))
    )
    return WeightTree(
        after.measure,
        joined,
        joined_frame,
        merged.depth,
        merged.parent,
        sides,
        before.hidden + after.hidden,
    )


def _moved(side: Side, target: Int32, count: int) -> Side:
    """Return a side whose nodes stand at ``target`` among ``count``; each tree has a path once."""
    import numpy as np

    def moved(values: Int64) -> Any:
        placed = np.zeros(count, np.int64)
        placed[target] = values
        return placed

    calls: list[Calls | None] | None = None
    if side.calls is not None:
        calls = [None] * count
        for place, one in zip(target.tolist(), side.calls, strict=True):
            calls[place] = one
    return replace(
        side,
        weight=moved(side.weight),
        own=moved(side.own),
        calls=None if calls is None else tuple(calls),
    )


def measure_of(recordings: Iterable[Recording]) -> Measure:
    """Return what recordings are best compared by: time if all were traced, else samples."""
    return Measure.TIME if all(one.has_trace for one in recordings) else Measure.SAMPLES


def weigh_all(
    recordings: Sequence[Recording], selection: Selection, measure: Measure | None
) -> WeightTree:
    """Return the tree of one recording, or of two together, the first before the second.

    By ``None``, as :func:`measure_of` says.

    Raises:
        FaultprofError: as :func:`weigh`, when the recordings do not have what is asked for.
    """
    chosen = measure or measure_of(recordings)
    if len(recordings) == 1:
        return weigh(recordings[0], selection, chosen)
    before, after = (weigh(recording, selection, chosen) for recording in recordings)
    return difference(before, after)

"""The sampled call trees of several runs as one, with what each run has of every node.

Knows: how to put trees together without losing which run a sample came from.
Leaves to others: the tree of one run (``tree``), and what to do with the runs (``diff_sides``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from faultprof.analysis.functions import merged_frames, number_functions
from faultprof.analysis.merge import merge
from faultprof.analysis.tree import CallTree
from faultprof.recording.frames import Frame

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faultprof.recording.preorder import Int32, Int64


@dataclass(frozen=True, slots=True)
class RunTrees:
    """One tree, in preorder, of the trees of several runs.

    Attributes:
        frames: the distinct frames.
        frame: index into ``frames`` of each node.
        parent: row of each node's caller; -1 for a root.
        samples, self_samples: by run, what each node has in it.
    """

    frames: tuple[Frame, ...]
    frame: Int32
    parent: Int32
    samples: dict[int, Int64]
    self_samples: dict[int, Int64]

    @classmethod
    def of(cls, trees: Mapping[int, CallTree]) -> RunTrees:
        """Put together the trees of some runs."""
        import numpy as np

        codes: dict[Frame, int] = {}
        empty = np.empty(0, np.int32)
        frame = np.concatenate([empty, *(_recoded(tree, codes) for tree in trees.values())])
        depth = np.concatenate([empty, *(tree.depth for tree in trees.values())])
        functions, number = number_functions(tuple(codes))
        merged = merge(
            depth, _parents(list(trees.values())), number[frame], functions=max(1, len(functions))
        )
        count = len(merged.depth)
        frames, joined = merged_frames(tuple(codes), frame, merged.target, count)
        samples, own = {}, {}
        for run, tree, target in _by_run(trees, merged.target):
            samples[run] = np.bincount(target, tree.samples, count).astype(np.int64)
            own[run] = np.bincount(target, tree.self_samples, count).astype(np.int64)
        return cls(frames, joined, merged.parent, samples, own)

    def __len__(self) -> int:
        return len(self.frame)

    def totals(self) -> Iterator[tuple[int, int]]:
        """Yield of each node its samples and its own ones, in all runs together."""
        import numpy as np

        zero = np.zeros(len(self), np.int64)
        both = (sum(each.values(), zero).tolist() for each in (self.samples, self.self_samples))
        yield from zip(*both, strict=True)


def _recoded(tree: CallTree, codes: dict[Frame, int]) -> NDArray[np.int32]:
    """Return a tree's nodes' frames as indices into what all trees have; ``codes`` grows."""
    import numpy as np

    new = [codes.setdefault(frame, len(codes)) for frame in tree.frames]
    return np.array(new, np.int32)[tree.frame]


def _parents(trees: Sequence[CallTree]) -> Int32:
    import numpy as np

    starts = np.cumsum([0, *map(len, trees)]).tolist()
    rows = [
        np.where(tree.parent >= 0, tree.parent + start, -1)
        for tree, start in zip(trees, starts, strict=False)
    ]
    return np.concatenate([np.empty(0, np.int32), *rows]).astype(np.int32)


def _by_run(trees: Mapping[int, CallTree], target: Int32) -> Iterator[tuple[int, CallTree, Int32]]:
    """Yield each run, its tree, and which nodes of the one tree its nodes became part of."""
    start = 0
    for run, tree in trees.items():
        yield run, tree, target[start : start + len(tree)]
        start += len(tree)

"""The call tree: where the samples of a recording were taken.

Knows: one tree over the runs and tasks of a recording, its totals by function, the tree below a
function, and the part of it that is worth showing.
Leaves to others: reading (``recording``) and drawing (``render``).

A node is a path of functions, and a function is its name and its module; how it was found (its
resolution) is an attribute, so that one function that is inlined here and called there is still
one function. Everything works on whole columns: recordings have millions of nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from faultprof.analysis.functions import (
    join_frames,
    merged_frames,
    number_functions,
    unknown_function,
)
from faultprof.analysis.merge import has_twins, merge
from faultprof.analysis.percent import least_part, percent_of
from faultprof.errors import FaultprofError
from faultprof.recording import preorder
from faultprof.recording.frames import Frame
from faultprof.recording.schema import SAMPLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faultprof.recording.preorder import Int32, Int64, Ints
    from faultprof.recording.reader import Recording
    from faultprof.recording.rows import Rows, Segment


class FunctionTotal(NamedTuple):
    """What all nodes of one function come to.

    Args:
        frame: the function; its resolution joins those of its nodes.
        samples: inclusive samples; a sample below a recursive call counts once.
        self_samples: samples in the function itself.
    """

    frame: Frame
    samples: int
    self_samples: int


@dataclass(frozen=True, slots=True)
class CallTree:
    """Call trees of all roots, in preorder; one element of each array per node.

    In a whole tree a node's samples are its own plus its children's. In one that was
    :meth:`cut`, the samples of hidden children remain in their callers'.

    Args:
        frames: the distinct frames.
        frame: index into ``frames``.
        depth: callers above the node; 0 for a root.
        parent: row of the caller; -1 for a root.
        samples: inclusive samples.
        self_samples: the node's own samples.
        root_samples: samples of all roots together, of cut ones too: all that the tree holds.
        total: how many samples are 100 percent.
        hidden: how many nodes were cut.
    """

    frames: tuple[Frame, ...]
    frame: Int32
    depth: Ints
    parent: Int32
    samples: Int64
    self_samples: Int64
    root_samples: int
    total: int
    hidden: int = 0

    @classmethod
    def from_recording(
        cls,
        recording: Recording,
        *,
        runs: Collection[int] | None = None,
        comms: Collection[str] | None = None,
        source: str = SAMPLE,
    ) -> CallTree:
        """Merge the trees of a recording's runs and tasks.

        Args:
            recording: where the rows come from.
            runs: numbers of the runs to take; None for all.
            comms: names of the tasks to take; None for all. Percentages stay those of all tasks.
            source: which of the recording's sources to take.

        Raises:
            FaultprofError: exit code 4, when the rows are damaged.
        """
        rows = recording.rows
        recorded = [
            segment
            for segment in rows.segments
            if segment.source == source and (runs is None or segment.run in runs)
        ]
        chosen = [segment for segment in recorded if comms is None or segment.comm in comms]
        roots = (
            rows.samples[s.start : s.stop][rows.depth[s.start : s.stop] == 0] for s in recorded
        )
        total = sum(int(samples.sum()) for samples in roots)
        return _from_segments(rows, chosen, total)

    def __len__(self) -> int:
        return len(self.frame)

    def percent(self, samples: int) -> float:
        """Return ``samples`` as a percentage of the total; 0 when there is none."""
        return percent_of(samples, self.total)

    def relative(self) -> CallTree:
        """Return the same tree with percentages of its own samples."""
        return replace(self, total=self.root_samples)

    def functions(self) -> list[FunctionTotal]:
        """Return the totals of every function, the largest inclusive first."""
        import numpy as np

        functions, number = number_functions(self.frames)
        function = number[self.frame]
        nested = _nested(function, preorder.ends(self.depth, self.parent, self._by_depth()))
        count = len(functions)
        own = np.bincount(function, weights=self.self_samples, minlength=count)
        inclusive = np.bincount(function, weights=self.samples, minlength=count)
        inclusive -= np.bincount(function[nested], weights=self.samples[nested], minlength=count)
        present = np.flatnonzero(np.bincount(self.frame, minlength=len(self.frames))).tolist()
        joined = join_frames(self.frames[code] for code in present)
        totals = [
            FunctionTotal(frame, int(inclusive[functions[key]]), int(own[functions[key]]))
            for key, frame in joined.items()
        ]
        return sorted(totals, key=lambda total: (-total.samples, -total.self_samples, total.frame))

    def has(self, function: str, module: str | None = None) -> bool:
        """Whether some node is a call of ``function``, as :meth:`below` looks for it."""
        return bool(self._calls(function, module).any())

    def below(self, function: str, module: str | None = None) -> CallTree:
        """Return the tree whose roots are the calls of ``function``, from wherever, merged.

        A call of the function inside itself stays where it is, below the outer one.

        Args:
            function: name of the function.
            module: its module, "" for the kernel proper; None for the function in any module.

        Raises:
            FaultprofError: exit code 2, when the tree has no such function; names near ones.
        """
        import numpy as np

        calls = np.flatnonzero(self._calls(function, module))
        if not len(calls):
            raise self._unknown(function)
        end = preorder.ends(self.depth, self.parent, self._by_depth())[calls]
        reach = np.maximum.accumulate(end)
        outer = np.concatenate([[True], calls[1:] >= reach[:-1]])
        start, stop = calls[outer], end[outer]
        rows = np.repeat(stop - np.cumsum(stop - start), stop - start) + np.arange(
            int((stop - start).sum())
        )
        depth = (self.depth[rows] - np.repeat(self.depth[start], stop - start)).astype(np.int16)
        calls_and_below = replace(
            self,
            frame=self.frame[rows],
            depth=depth,
            parent=preorder.parents(depth, preorder.by_depth(depth)),
            samples=self.samples[rows],
            self_samples=self.self_samples[rows],
            root_samples=int(self.samples[start].sum()),
        )
        return _merged(calls_and_below)

    def cut(self, min_percent: float, max_depth: int | None = None) -> CallTree:
        """Return the tree without the nodes below ``min_percent`` of the total.

        Args:
            min_percent: least inclusive percentage to keep; 0 keeps everything.
            max_depth: how many levels to keep; None for all.
        """
        import numpy as np

        keep = self.samples >= least_part(min_percent, self.total)
        if max_depth is not None:
            keep &= self.depth < max_depth
        if keep.all():
            return self
        place = np.cumsum(keep, dtype=np.int32) - 1
        parent = self.parent[keep]
        return replace(
            self,
            frame=self.frame[keep],
            depth=self.depth[keep],
            # A caller has at least its callee's samples, so it is kept too.
            parent=np.where(parent >= 0, place[parent], -1).astype(np.int32),
            samples=self.samples[keep],
            self_samples=self.self_samples[keep],
            hidden=self.hidden + int(len(keep) - keep.sum()),
        )

    def largest_first(self) -> CallTree:
        """Return the same tree with siblings ordered by inclusive samples, then by name."""
        import numpy as np

        names = np.empty(len(self.frames), np.int32)
        names[sorted(range(len(self.frames)), key=self.frames.__getitem__)] = np.arange(
            len(self.frames)
        )
        rows = preorder.reordered(self.depth, self.parent, (names[self.frame], -self.samples))
        depth = self.depth[rows]
        return replace(
            self,
            frame=self.frame[rows],
            depth=depth,
            parent=preorder.parents(depth, preorder.by_depth(depth)),
            samples=self.samples[rows],
            self_samples=self.self_samples[rows],
        )

    def _calls(self, function: str, module: str | None) -> NDArray[np.bool_]:
        import numpy as np

        wanted = [f.function == function and module in (None, f.module) for f in self.frames]
        calls: NDArray[np.bool_] = np.array(wanted, np.bool_)[self.frame]
        return calls

    def _by_depth(self) -> Int32:
        return preorder.by_depth(self.depth)

    def _unknown(self, function: str) -> FaultprofError:
        import numpy as np

        names = {self.frames[code].function for code in np.unique(self.frame).tolist()}
        return unknown_function(f"no sample is in a function named {function}", function, names)


def _nested(function: Int32, end: Int32) -> NDArray[np.bool_]:
    """Return which nodes lie in the subtree of another node of the same function."""
    import numpy as np

    count = len(function)
    order = _stable_order(function)
    # Per function, in row order: a node is nested when it starts before the farthest end so far.
    # Moving each function's rows past all former ones makes one running maximum do for all.
    start = function[order].astype(np.int64)
    start *= count
    reach = start + end[order]
    np.maximum.accumulate(reach, out=reach)
    start += order
    nested = np.zeros(count, np.bool_)
    nested[order[1:]] = start[1:] < reach[:-1]
    return nested


def _stable_order(numbers: Int32) -> Int32:
    import numpy as np

    # Sorting 16-bit numbers is a radix sort; there are seldom more functions than that.
    small = not len(numbers) or numbers.max() < 2**16
    keys = numbers.astype(np.uint16) if small else numbers
    return np.argsort(keys, kind="stable").astype(np.int32)


def _from_segments(rows: Rows, segments: Sequence[Segment], total: int) -> CallTree:
    if sum(segment.stop - segment.start for segment in segments) < len(rows):
        rows = _taken(rows, segments)
    tree = CallTree(
        rows.frames,
        rows.frame,
        rows.depth,
        rows.parent,
        rows.samples,
        rows.self_samples,
        int(rows.samples[rows.depth == 0].sum()),
        total,
    )
    # Most recordings of one task have nothing to merge, and finding that out is cheap.
    functions, number = number_functions(rows.frames)
    if len(segments) == 1 and not has_twins(rows.parent, number[rows.frame], len(functions)):
        return tree
    return _merged(tree)


def _taken(rows: Rows, segments: Sequence[Segment]) -> Rows:
    """Return the rows of some segments only."""
    import numpy as np

    spans = [slice(segment.start, segment.stop) for segment in segments] or [slice(0)]
    depth = np.concatenate([rows.depth[span] for span in spans])
    return replace(
        rows,
        frame=np.concatenate([rows.frame[span] for span in spans]),
        depth=depth,
        parent=preorder.parents(depth, preorder.by_depth(depth)),
        samples=np.concatenate([rows.samples[span] for span in spans]),
        self_samples=np.concatenate([rows.self_samples[span] for span in spans]),
        segments=tuple(segments),
    )


def _merged(forest: CallTree) -> CallTree:
    """Put together what has the same path."""
    import numpy as np

    functions, number = number_functions(forest.frames)
    merged = merge(
        forest.depth, forest.parent, number[forest.frame], functions=max(1, len(functions))
    )
    count = len(merged.depth)
    frames, frame = merged_frames(forest.frames, forest.frame, merged.target, count)
    return replace(
        forest,
        frames=frames,
        frame=frame,
        depth=merged.depth,
        parent=merged.parent,
        samples=np.bincount(merged.target, forest.samples, count).astype(np.int64),
        self_samples=np.bincount(merged.target, forest.self_samples, count).astype(np.int64),
    )

"""What the changes of a diff are worth: the spread of their figures over runs.

Knows: a node's or function's figure in each single run, and which runs belong together.
Leaves to others: the statistics (``change``), and the figures of all runs together (``diff``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from faultprof.analysis.change import ALPHA, Change, change_between
from faultprof.analysis.diff import Diff, DiffNode, FunctionChange
from faultprof.analysis.diff_sides import DiffSide, Figures, SideNode
from faultprof.analysis.measurement import interleaving

_NOTHING = Figures()
_Figure = Callable[[Figures], int]


@dataclass(frozen=True, slots=True)
class Worth:
    """Judges the changes of a diff whose sides have several runs each.

    Attributes:
        diff: the diff.
        base_runs, new_runs: numbers of the runs; where they are paired, in the order of the pairs.
        paired: whether runs were interleaved.
        judged: what has been judged, by the figures of both sides' runs.
    """

    diff: Diff
    base_runs: tuple[int, ...]
    new_runs: tuple[int, ...]
    paired: bool
    judged: dict[tuple[tuple[float, ...], ...], Change] = field(default_factory=dict)

    @classmethod
    def of(cls, diff: Diff) -> Worth | None:
        """Return what judges a diff; None where a side has one run only."""
        base, new = _runs(diff, diff.base), _runs(diff, diff.new)
        if min(len(base), len(new)) < 2:
            return None
        blocks = _run_of_block(diff.base, base), _run_of_block(diff.new, new)
        sessions = {interleaving(side.metadata)[0] for side in (diff.base, diff.new)}
        if blocks[0] and blocks[0].keys() == blocks[1].keys() and len(sessions) == 1:
            order = sorted(blocks[0])
            pairs = [tuple(one[block] for block in order) for one in blocks]
            return cls(diff, pairs[0], pairs[1], paired=True)
        return cls(diff, base, new, paired=False)

    def node(self, node: DiffNode) -> Change:
        """Return what the change of a node's inclusive figure is worth."""
        sides = (node.base,), (node.new,)
        return self._change(*sides, lambda figures: figures.inclusive)

    def own(self, node: DiffNode) -> Change:
        """Return the same of its own figure."""
        return self._change((node.base,), (node.new,), lambda figures: figures.own)

    def function(self, change: FunctionChange) -> Change:
        """Return what the change of a function's own figure is worth."""
        nodes = [self.diff.nodes[place] for place in change.nodes]
        sides = [one.base for one in nodes], [one.new for one in nodes]
        return self._change(*sides, lambda figures: figures.own)

    def _change(
        self,
        base: Iterable[SideNode | None],
        new: Iterable[SideNode | None],
        figure: _Figure,
    ) -> Change:
        before = self._values(self.diff.base, self.base_runs, base, figure)
        after = self._values(self.diff.new, self.new_runs, new, figure)
        # Of a hundred thousand nodes most have a sample or two, and many the same figures.
        key = tuple(before), tuple(after)
        change = self.judged.get(key)
        if change is None:
            change = change_between(before, after, paired=self.paired, alpha=ALPHA)
            self.judged[key] = change
        return change

    def _values(
        self,
        side: DiffSide,
        runs: Sequence[int],
        nodes: Iterable[SideNode | None],
        figure: _Figure,
    ) -> list[float]:
        there = [one for one in nodes if one is not None]
        return [
            sum(figure(one.by_run.get(run, _NOTHING)) for one in there)
            / _divisor(self.diff, side, run)
            for run in runs
        ]


def _runs(diff: Diff, side: DiffSide) -> tuple[int, ...]:
    """Return the runs that have anything to compare."""
    return tuple(run for run in side.runs if _divisor(diff, side, run))


def _run_of_block(side: DiffSide, runs: Sequence[int]) -> dict[int, int]:
    """Return the run of each block; nothing where runs were not interleaved."""
    stated = interleaving(side.metadata)[1]
    of_run = dict(zip((run.index for run in side.metadata.runs), stated, strict=False))
    return {of_run[run]: run for run in runs} if of_run else {}


def _divisor(diff: Diff, side: DiffSide, run: int) -> float:
    if not diff.traced:
        return side.totals[run] / 100
    return side.faults.get(run, 0) if diff.per == "fault" else 1

"""Two call trees as one: what each node comes to on either side, and what explains the change.

Knows: what became of a node, the measure of changes, how they are ranked and split.
Leaves to others: reading the sides (``diff_sides``), on what terms (``diff_terms``), matching nodes
(``diff_match``), what a change is worth (``diff_worth``), and printing (``render.diff``).

**Measure.** Of samples, percentages of the total; of traced calls, nanoseconds per fault (without
faults, per run). What explains a change is where time is spent itself: a caller changes with
whatever it calls. So nodes and functions are ranked by the change of their own figure, those first
that went the way of the whole; where the whole stays the same (shares of everything: 100 percent)
by size alone.

**Split.** A traced node's own time per fault is s = n t: calls per fault times own time per call.
With means over both sides, dn t + n dt is ds exactly: the parts *called more often* and *slower
per call*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from faultprof.analysis.diff_sides import DiffSide, SideNode, is_unknown
from faultprof.analysis.functions import Function, join_resolutions
from faultprof.recording.frames import Frame


class State(StrEnum):
    """What became of a node."""

    BOTH = "both"
    NEW = "new"
    VANISHED = "vanished"
    IMPLIED = "implied"  # one side does not tell it from its caller
    RARE = "rare"  # one side has none, and might as well have had one
    BELOW_CUT = "below cut"  # one side has none in what is left of a tree that was cut


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure on both sides."""

    base: float
    new: float

    @property
    def change(self) -> float:
        """New less base."""
        return self.new - self.base


@dataclass(slots=True)
class DiffNode:
    """A node of either side or both.

    Attributes:
        function: logical name and module.
        base, new: the node on each side, if there.
        depth: callers above it.
        parent: its place in :attr:`Diff.nodes`; -1 for a root.
        state: what became of it.
        inclusive, own: in the measure.
        percent: inclusive, of each side's total.
        calls: per fault; None of samples.
        per_call: mean duration in ns; None of samples and where a side has no timed call.
        more_often, slower: the parts of ``own.change``; None of samples, and where the calls were
            not timed on both sides.
    """

    function: Function
    base: SideNode | None
    new: SideNode | None
    depth: int
    parent: int
    state: State
    inclusive: Pair
    own: Pair
    percent: Pair
    calls: Pair | None = None
    per_call: tuple[float | None, float | None] | None = None
    more_often: float | None = None
    slower: float | None = None

    @property
    def frame(self) -> Frame:
        """The function under its logical name, found as it was found on both sides."""
        there = [one for one in (self.base, self.new) if one is not None and not one.implied]
        found = {resolution for one in there for resolution in one.resolutions}
        return Frame(*self.function, join_resolutions(found or {""}))

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it is called on each side, where that is not its logical name."""
        base, new = (
            tuple(sorted(side.names - {self.function[0]})) if side is not None else ()
            for side in (self.base, self.new)
        )
        return base, new

    @property
    def unknown(self) -> bool:
        """Whether it is no function but what could not be told."""
        return self.function[0].startswith("[") and any(
            is_unknown(one) for one in (self.base, self.new) if one is not None
        )


@dataclass(slots=True)
class FunctionChange:
    """A function's own figure in all places together, and what it does for the change.

    Attributes:
        function: logical name and module.
        own: in the measure.
        nodes: its places in :attr:`Diff.nodes`, the one that changed most first.
        more_often, slower: as of nodes; None of samples.
    """

    function: Function
    own: Pair
    nodes: list[int] = field(default_factory=list)
    more_often: float | None = None
    slower: float | None = None


@dataclass(slots=True)
class Diff:
    """Both sides as one tree, in preorder, siblings ranked.

    Attributes:
        base, new: the sides.
        traced: whether the figures are of traced calls.
        per: what the measure of traced calls is divided by: ``fault`` or ``run``.
        nodes: the tree.
        functions: all functions, what explains most first.
        whole: what all that is known comes to, in the measure.
        direction: 1 where the whole grew, -1 where it shrank, 0 where it stayed the same.
    """

    base: DiffSide
    new: DiffSide
    traced: bool
    per: str
    nodes: list[DiffNode]
    functions: list[FunctionChange]
    whole: Pair
    direction: int

    def share(self, change: float) -> float | None:
        """Return a change as a fraction of the whole's; None where that stayed the same."""
        return change / self.whole.change if self.direction else None

    def shown(self, min_percent: float, max_depth: int | None = None) -> list[int]:
        """Return the places of the nodes that are worth showing.

        Args:
            min_percent: of its side's total, the least that a node must come to on either side.
                Calls that were only counted have no time to be small.
            max_depth: how many levels; None for all.
        """
        places: dict[int, None] = {}
        for place, node in enumerate(self.nodes):
            large = max(node.percent.base, node.percent.new) >= min_percent
            counted = node.calls is not None and not (node.inclusive.base or node.inclusive.new)
            high = max_depth is None or node.depth < max_depth
            if (large or counted) and high and (node.parent < 0 or node.parent in places):
                places[place] = None
        return list(places)


def rank(change: float, direction: int) -> float:
    """Return by how much a change explains that of the whole; negative: it goes against it."""
    return change * direction if direction else abs(change)


def split(calls: Pair, own: Pair) -> tuple[float, float]:
    """Return the parts of ``own.change`` from more calls and from slower ones; see above.

    Where a side has no calls, all of it is because of their number.
    """
    if not calls.base or not calls.new:
        return own.change, 0.0
    times = own.base / calls.base, own.new / calls.new
    more_often = calls.change * (times[0] + times[1]) / 2
    return more_often, own.change - more_often

"""What the fault path's time is made of: the areas of the kernel, as parts of a whole.

Knows: that a node's own weight belongs to its area.
Leaves to others: the areas (``areas``), the weights (``weights``), drawing (``render.plots``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from faultprof.analysis.areas import Area, area_of
from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import FAULT
from faultprof.analysis.weights import Measure, WeightTree, weigh
from faultprof.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class Parts:
    """A tree's own weights by area; they add up to ``total`` exactly.

    Args:
        weights: of every area, in their order.
        faults: how many faults were handled meanwhile; None when that was not traced.
    """

    weights: dict[Area, int]
    faults: int | None = None

    @property
    def total(self) -> int:
        """The weight of the whole tree."""
        return sum(self.weights.values())

    def percent(self, area: Area) -> float:
        """Return an area's share in percent; 0 of nothing."""
        return 100.0 * self.weights[area] / self.total if self.total else 0.0


def parts_of(tree: WeightTree) -> Parts:
    """Return the parts of a whole tree of one recording."""
    weights = dict.fromkeys(Area, 0)
    for frame, own in zip(tree.frame.tolist(), tree.sides[0].own.tolist(), strict=True):
        weights[area_of(tree.frames[frame])] += own
    return Parts(weights)


def recording_parts(recording: Recording, selection: Selection, measure: Measure) -> Parts:
    """Return the parts of a recording's chosen tree.

    Raises:
        FaultprofError: as ``weigh``.
    """
    parts = parts_of(weigh(recording, selection, measure))
    if measure is Measure.SAMPLES:
        return parts
    return replace(parts, faults=selection.trace_tree(recording).faults)


def have_faults(recordings: Iterable[Recording], selection: Selection, measure: Measure) -> bool:
    """Whether all recordings show the handling of faults as a tree of its own."""
    return all(
        selection.tree(one).has(FAULT)
        if measure is Measure.SAMPLES
        else selection.trace_tree(one).has(FAULT)
        for one in recordings
    )

"""What an export is made from: the chosen trees of a recording, task by task.

Knows: how a node's weight becomes what ended in it, and names fit for other programs.
Leaves to others: the formats.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from faultprof.analysis.calls import Calls
from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure, WeightTree, weigh_by_comm
from faultprof.recording import preorder
from faultprof.recording.frames import Frame
from faultprof.recording.reader import Recording
from faultprof.render.names import without_addresses
from faultprof.render.terminal import sanitise


class Task(NamedTuple):
    """All tasks of one name, and their tree."""

    comm: str
    tree: WeightTree


@dataclass(frozen=True)
class Source:
    """What to export.

    Args:
        recording: where it comes from.
        selection: which part.
        measure: what weights are; None for time if it was traced, else samples.
    """

    recording: Recording
    selection: Selection
    measure: Measure | None = None

    @cached_property
    def weights(self) -> Measure:
        """What the weights of :attr:`tasks` are."""
        if self.measure is not None:
            return self.measure
        traced = self.selection.is_of_trace(self.recording)
        return Measure.TIME if traced else Measure.SAMPLES

    @cached_property
    def tasks(self) -> list[Task]:
        """The trees of all chosen tasks, in the order of their names."""
        return self.tasks_by(self.weights)

    def tasks_by(self, measure: Measure) -> list[Task]:
        """Return the same by another measure."""
        return [Task(*one) for one in weigh_by_comm(self.recording, self.selection, measure)]

    @property
    def created_ms(self) -> int:
        """When the recording was begun, in milliseconds since 1970; 0 when it does not say."""
        try:
            created = datetime.fromisoformat(self.recording.metadata.created)
        except ValueError:
            return 0
        return max(0, int(created.timestamp())) * 1000

    @property
    def title(self) -> str:
        """The command, or that there was none."""
        words = shlex.join(self.recording.metadata.command)
        return clean(words) or "a running process, or all"


def clean(name: str) -> str:
    """Return a name for other programs: harmless, whole, and without a kernel address."""
    return without_addresses(sanitise(name))


def frame_name(frame: Frame) -> str:
    """Return a function's name; never empty, which some readers take for no frame."""
    return clean(frame.function) or "[no name]"


class Ended(NamedTuple):
    """What ended in a node: its row, the row of its caller (-1: none), frame, and weight."""

    row: int
    parent: int
    frame: int
    weight: int


def ended(tree: WeightTree) -> Iterator[Ended]:
    """Yield all nodes in preorder with the weight that no callee has.

    In a tree without its small nodes, their weight is here with their callers'.
    """
    side = tree.sides[0]
    below = preorder.children_sums(tree.parent, side.weight).astype(side.weight.dtype)
    columns = (tree.parent, tree.frame, side.weight - below)
    for row, node in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield Ended(row, *node)


def calls_of(tree: WeightTree, row: int) -> Calls | None:
    """Return a node's traced calls; None in a tree of samples."""
    calls = tree.sides[0].calls
    return None if calls is None else calls[row]

"""Which part of a recording a report shows, and what its percentages are of.

Knows: the choices that all reports share.
Leaves to others: asking for them (``cli``) and saying them (``render``).
"""

from __future__ import annotations

from dataclasses import dataclass

from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import Recording
from faultprof.recording.schema import SAMPLE


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices of a report.

    Args:
        root: function whose tree is shown; None for everything.
        comms: names of the tasks that are shown; None for all.
        relative: whether percentages are of the shown tree and not of all samples.
        min_percent: least inclusive percentage that is shown.
        max_depth: how many levels are shown; None for all.
    """

    root: str | None = None
    comms: tuple[str, ...] | None = None
    relative: bool = False
    min_percent: float = 0.0
    max_depth: int | None = None

    def tree(self, recording: Recording) -> CallTree:
        """Return the chosen tree, not cut.

        Raises:
            FaultprofError: exit code 2 for a task or root that the recording does not have; exit
                code 4 when the recording is damaged.
        """
        if self.comms is not None:
            _refuse_unknown(self.comms, recorded_comms(recording))
        tree = CallTree.from_recording(recording, comms=self.comms)
        return self._rooted(tree)

    def trees_by_comm(self, recording: Recording) -> list[tuple[str, CallTree]]:
        """Return the chosen tree of each task name; tasks without the root are left out.

        Raises:
            FaultprofError: as :meth:`tree`.
        """
        comms = recorded_comms(recording) if self.comms is None else self.comms
        _refuse_unknown(comms, recorded_comms(recording))
        trees = [(comm, CallTree.from_recording(recording, comms=(comm,))) for comm in comms]
        if self.root is None:
            return [(comm, self._rooted(tree)) for comm, tree in trees]
        if not any(tree.has(self.root) for _, tree in trees):
            self.tree(recording)  # says what there is instead
        return [(comm, self._rooted(tree)) for comm, tree in trees if tree.has(self.root)]

    def cut(self, tree: CallTree) -> CallTree:
        """Return the part of the chosen tree that is shown."""
        return tree.cut(self.min_percent, self.max_depth)

    def _rooted(self, tree: CallTree) -> CallTree:
        if self.root is not None:
            tree = tree.below(self.root)
        return tree.relative() if self.relative else tree


def recorded_comms(recording: Recording, source: str = SAMPLE) -> tuple[str, ...]:
    """Return the task names of a recording, in order."""
    return tuple(sorted({s.comm for s in recording.rows.segments if s.source == source}))


def _refuse_unknown(comms: tuple[str, ...], recorded: tuple[str, ...]) -> None:
    for comm in comms:
        if comm not in recorded:
            some = ", ".join(recorded[:8]) + ", …" * (len(recorded) > 8)
            raise FaultprofError(
                f"no task named {comm} in this recording",
                f"it has: {some}" if recorded else "it has no samples",
                ExitCode.USAGE,
            )

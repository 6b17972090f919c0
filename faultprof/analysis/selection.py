"""Which part of a recording a report shows, and what its percentages are of.

Knows: the choices that all reports share.
Leaves to others: asking for them (``cli``) and saying them (``render``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from faultprof.analysis.calls import Calls
from faultprof.analysis.compensation import compensated_tree
from faultprof.analysis.trace_tree import FAULT, TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.metadata import Metadata, RunInfo
from faultprof.recording.reader import Recording
from faultprof.recording.schema import SAMPLE, TRACE

AnyTree = TypeVar("AnyTree", CallTree, TraceTree)


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices of a report.

    Args:
        run: number of the run that is shown; None for all runs together.
        root: function whose tree is shown; None for everything.
        comms: names of the tasks that are shown; None for all.
        relative: whether percentages are of the shown tree and not of everything recorded.
        min_percent: least inclusive percentage that is shown.
        max_depth: how many levels are shown; None for all.
        source: ``sample`` or ``trace``; None for the trace if there is one.
        per_fault: whether traced calls and times are divided by the number of faults.
        wide: whether all figures of traced calls are shown.
    """

    run: int | None = None
    root: str | None = None
    comms: tuple[str, ...] | None = None
    relative: bool = False
    min_percent: float = 0.0
    max_depth: int | None = None
    source: str | None = None
    per_fault: bool = False
    wide: bool = False

    @property
    def runs(self) -> tuple[int, ...] | None:
        """Numbers of the runs that are shown; None for all."""
        return None if self.run is None else (self.run,)

    def chosen_runs(self, metadata: Metadata) -> tuple[RunInfo, ...]:
        """Return the runs that are shown."""
        return tuple(one for one in metadata.runs if self.run in (None, one.index))

    def check_run(self, metadata: Metadata) -> None:
        """Refuse a run that the recording does not have.

        Raises:
            FaultprofError: exit code 2, with the runs that there are.
        """
        if self.chosen_runs(metadata) or not metadata.runs:
            return
        first, last = metadata.runs[0].index, metadata.runs[-1].index
        there = f"runs {first} to {last}" if last > first else f"run {first} only"
        raise FaultprofError(
            f"there is no run {self.run} in this recording", f"it has {there}", ExitCode.USAGE
        )

    def is_of_trace(self, recording: Recording) -> bool:
        """Whether the report is one of traced calls.

        Raises:
            FaultprofError: exit code 2, when a trace is asked for and the recording has none.
        """
        if self.source == SAMPLE:
            return False
        if recording.has_trace:
            return True
        if self.source == TRACE or self.per_fault or self.wide:
            raise no_trace(recording)
        return False

    def tree(self, recording: Recording) -> CallTree:
        """Return the chosen tree of samples, not cut.

        Raises:
            FaultprofError: exit code 2 for a run, task or root that the recording does not have;
                exit code 4 when the recording is damaged.
        """
        self._check(recording, SAMPLE)
        return self._rooted(CallTree.from_recording(recording, runs=self.runs, comms=self.comms))

    def trace_tree(self, recording: Recording) -> TraceTree:
        """Return the chosen tree of traced calls, not cut.

        Raises:
            FaultprofError: as :meth:`tree`; exit code 2 too when figures per fault are wanted and
                faults were not traced.
        """
        self._check(recording, TRACE)
        tree = compensated_tree(recording, runs=self.runs, comms=self.comms)
        if self.per_fault and not tree.faults:
            raise _no_faults(tree)
        return self._rooted(tree)

    def trees_by_comm(self, recording: Recording) -> list[tuple[str, CallTree]]:
        """Return the chosen tree of each task name; tasks without the root are left out.

        Raises:
            FaultprofError: as :meth:`tree`.
        """
        return self._by_comm(recording, SAMPLE, CallTree.from_recording)

    def trace_trees_by_comm(self, recording: Recording) -> list[tuple[str, TraceTree]]:
        """Return the same of traced calls."""
        return self._by_comm(recording, TRACE, compensated_tree)

    def cut(self, tree: AnyTree) -> AnyTree:
        """Return the part of the chosen tree that is shown."""
        return tree.cut(self.min_percent, self.max_depth)

    def shows(self, tree: TraceTree, calls: Calls) -> bool:
        """Whether a function's calls are shown; those that were only counted are, as in a tree."""
        return not calls.timed or tree.percent(calls.inclusive_ns) >= self.min_percent

    def _by_comm(
        self, recording: Recording, source: str, build: Callable[..., AnyTree]
    ) -> list[tuple[str, AnyTree]]:
        self._check(recording, source)
        comms = recorded_comms(recording, source, self.runs) if self.comms is None else self.comms
        trees = [(comm, build(recording, runs=self.runs, comms=(comm,))) for comm in comms]
        if self.root is not None and not any(tree.has(self.root) for _, tree in trees):
            whole = build(recording, runs=self.runs, comms=self.comms)
            self._rooted(whole)  # says what there is instead
        return [
            (comm, self._rooted(tree))
            for comm, tree in trees
            if self.root is None or tree.has(self.root)
        ]

    def _rooted(self, tree: AnyTree) -> AnyTree:
        if self.root is not None:
            tree = tree.below(self.root)
        return tree.relative() if self.relative else tree

    def _check(self, recording: Recording, source: str) -> None:
        """Refuse a run or task that the recording does not have."""
        self.check_run(recording.metadata)
        recorded = recorded_comms(recording, source, self.runs)
        what = "trace" if source == TRACE else "samples"
        for comm in self.comms or ():
            if comm not in recorded:
                some = ", ".join(recorded[:8]) + ", …" * (len(recorded) > 8)
                raise FaultprofError(
                    f"no task named {comm} in this recording" + _whose(source),
                    f"it has: {some}" if recorded else f"it has no {what}",
                    ExitCode.USAGE,
                )


def recorded_comms(
    recording: Recording, source: str = SAMPLE, runs: Collection[int] | None = None
) -> tuple[str, ...]:
    """Return the task names of a recording, or of some of its runs, in order."""
    segments = [one for one in recording.rows.segments if one.source == source]
    return tuple(sorted({one.comm for one in segments if runs is None or one.run in runs}))


def no_trace(recording: Recording) -> FaultprofError:
    """Return the error for a recording that has samples only (exit code 2)."""
    return FaultprofError(
        f"{recording.path} holds no trace",
        "record one with: faultprof record --mode trace -- COMMAND",
        ExitCode.USAGE,
    )


def _no_faults(tree: TraceTree) -> FaultprofError:
    was = "was not traced" if tree.faults is None else "was not called"
    return FaultprofError(
        f"there are no figures per fault: {FAULT} {was}",
        f"record it too: faultprof record --mode trace -f {FAULT} -- COMMAND",
        ExitCode.USAGE,
    )


def _whose(source: str) -> str:
    return "'s trace" if source == TRACE else ""

"""Recordings in Python: ``faultprof.load(path)``.

Knows: what a script needs of a recording, by names that stay.
Leaves to others: everything behind them (``recording``, ``analysis``).

    >>> import faultprof
    >>> recording = faultprof.load("faultprof.fprof")
    >>> recording.runs[0].wall_s
    >>> for total in recording.functions()[:10]:
    ...     print(total.frame.function, total.samples, total.self_samples)
    >>> for function, calls in recording.trace().functions():  # of a recording with a trace
    ...     print(function.function, calls.calls, calls.avg_ns, calls.p99_ns)
    >>> [one.frame.function for one in recording.cross_check().disagreeing]
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultprof.analysis.cross_check import CrossCheck, cross_check
from faultprof.analysis.selection import recorded_comms
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree, FunctionTotal
from faultprof.recording.metadata import Metadata, RunInfo
from faultprof.recording.reader import Recording, read_recording


@dataclass(frozen=True, slots=True)
class LoadedRecording:
    """One recording. Its metadata are read at once, its nodes when they are first needed."""

    recording: Recording

    @property
    def metadata(self) -> Metadata:
        """The machine, the command, the options, the quality ledger."""
        return self.recording.metadata

    @property
    def runs(self) -> tuple[RunInfo, ...]:
        """The executions of the command, in order; times in seconds."""
        return self.metadata.runs

    @property
    def comms(self) -> tuple[str, ...]:
        """Names of the recorded tasks, in alphabetical order."""
        return recorded_comms(self.recording)

    @property
    def nodes(self) -> Any:
        """The rows as they stand in the file: a ``pyarrow.Table`` of ``schema.arrow_schema``."""
        return self.recording.nodes

    @property
    def has_trace(self) -> bool:
        """Whether functions were traced, even if nothing called them."""
        return self.recording.has_trace

    def tree(
        self,
        *,
        runs: Collection[int] | None = None,
        comms: Collection[str] | None = None,
    ) -> CallTree:
        """Return the call tree, counts in samples.

        Args:
            runs: numbers of the runs to take; None for all.
            comms: names of the tasks to take; None for all. Percentages stay those of all tasks.

        Raises:
            FaultprofError: exit code 4, when the rows are damaged.
        """
        return CallTree.from_recording(self.recording, runs=runs, comms=comms)

    def functions(
        self,
        *,
        runs: Collection[int] | None = None,
        comms: Collection[str] | None = None,
    ) -> list[FunctionTotal]:
        """Return the samples of every function, the largest inclusive first; as :meth:`tree`."""
        return self.tree(runs=runs, comms=comms).functions()

    def trace(
        self,
        *,
        runs: Collection[int] | None = None,
        comms: Collection[str] | None = None,
    ) -> TraceTree:
        """Return the tree of traced calls, times in nanoseconds; as :meth:`tree`.

        Empty when nothing was traced, see :attr:`has_trace`.
        """
        return TraceTree.from_recording(self.recording, runs=runs, comms=comms)

    def cross_check(self, root: str | None = None) -> CrossCheck:
        """Return the trace's shares below ``root`` (None: faults) beside those of the samples.

        Raises:
            FaultprofError: exit code 4, when the recording is damaged.
        """
        return cross_check(self.recording, root)


def load(path: str | os.PathLike[str]) -> LoadedRecording:
    """Read the recording at ``path``.

    Raises:
        FaultprofError: exit code 4, when there is none, or a newer or damaged one.
    """
    return LoadedRecording(read_recording(Path(path)))

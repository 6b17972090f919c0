"""From what runs left behind to a recording: name, judge, describe, write.

Knows: what belongs into a recording's metadata and where each part of it comes from.
Leaves to others: measuring (session), each step's own work.

Each run is named as soon as it is over: what is kept of it then is small.
"""

from __future__ import annotations

import copy
import platform
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultprof.capture.command import Exit
from faultprof.capture.contention.quality import judge_contention
from faultprof.capture.identity import Identity
from faultprof.capture.labels import Labelled
from faultprof.capture.machine import cpu_info, kernel_info
from faultprof.capture.options import RecordOptions
from faultprof.capture.paths import name_paths
from faultprof.capture.quality import SampledRun, judge_labels, judge_samples
from faultprof.capture.trace_quality import added_up, judge_trace
from faultprof.capture.user_symbols import UserSymbols
from faultprof.capture.wait import End
from faultprof.kernel.symbols import Symbolizer
from faultprof.recording.frames import Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import Metadata, RunInfo
from faultprof.recording.paths import PathCount
from faultprof.recording.said import Said
from faultprof.recording.traced import TracedPath, nodes_from_traced
from faultprof.recording.writer import write_recording

if TYPE_CHECKING:
    from faultprof.capture.engines import Captured
    from faultprof.capture.trace_plan import TracePlan
    from faultprof.capture.tracing import Traced


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left in our hands when recording stopped.

    Attributes:
        captured: what the engines have.
        wall_s: seconds.
        end: why the recording of the run ended.
        exit: how the command ended; None when there was none, or it still runs.
        said: what was found in its output.
    """

    captured: Captured
    wall_s: float
    end: End
    exit: Exit | None
    said: Said = field(default_factory=Said)

    @property
    def on_cpu_s(self) -> float | None:
        """CPU seconds of the recorded tasks; None when every task was recorded.

        Two clocks, and neither has it all: the inherited one stops before a task's last steps
        (65 µs a process in a loop of 1,000 `true`), the exit status only tells of children
        that were waited for. The larger one is the nearer to the truth.
        """
        clock = self.captured.samples.on_cpu_s
        if clock is None or self.exit is None or self.end is not End.COMMAND:
            return clock
        return max(clock, self.exit.cpu_s)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a run until the recording is written."""

    info: RunInfo
    sampled: SampledRun
    paths: list[PathCount]
    traced: Traced | None
    traced_paths: list[TracedPath]
    remarks: tuple[str, ...]


class Outcome:
    """Becomes one recording: runs are added as they end, then it is written.

    Args:
        options: of the recording.
        identity: whom it will belong to; None for ourselves.
    """

    def __init__(self, options: RecordOptions, identity: Identity | None) -> None:
        self.ledger = Ledger()
        self._options = options
        self._owner = identity.owner if identity is not None else None
        self._runs: list[_Kept] = []
        self._last: Captured | None = None
        self._kernel: Symbolizer | None = None
        self._labelled = Counter[Labelled]()

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def calls(self) -> int | None:
        """Traced calls of all runs; None without a trace."""
        if all(run.traced is None for run in self._runs):
            return None
        return sum(path.calls for run in self._runs for path in run.traced_paths)

    def add(self, run: Run) -> None:
        """Name what a run left behind.

        Raises:
            FaultprofError: symbols cannot be read.
        """
        captured = run.captured
        sampled = SampledRun.of(captured.samples, run.on_cpu_s)
        paths = self._named(captured)
        traced_paths = _traced_paths(self._options, captured) if captured.traced else []
        # Its nodes are in traced_paths now.
        traced = replace(captured.traced, nodes={}) if captured.traced else None
        info = _run_info(len(self._runs), run)
        self._last = captured
        self._runs.append(_Kept(info, sampled, paths, traced, traced_paths, run.said.lacking))

    def drop_after(self, count: int) -> None:
        """Keep the first ``count`` runs only."""
        del self._runs[count:]

    def write(self, options: Mapping[str, Any]) -> Ledger:
        """Write the recording of all runs and return its ledger.

        More runs may be added and written afterwards.

        Args:
            options: what its metadata are to say besides the options of the recording.

        Raises:
            FaultprofError: the file cannot be written.
        """
        assert self._last is not None, "a recording has a run"
        ledger = copy.deepcopy(self.ledger)
        traces = self._judge(self._last, ledger)
        write_recording(
            self._options.output,
            self._describe(self._last, options, ledger),
            [run.paths for run in self._runs],
            traces=traces,
            owner=self._owner,
            keep_old=self._options.keep_old,
        )
        return ledger

    def _named(self, captured: Captured) -> list[PathCount]:
        """Name the stacks; what cannot be named is entered in the ledger."""
        if self._kernel is None:
            self._kernel = Symbolizer(owner=self._owner, kallsyms=captured.kallsyms)
        with ExitStack() as undo:
            user = None
            if captured.user_files is not None:
                user = undo.enter_context(closing(UserSymbols(captured.user_files)))
            infer = captured.sampling.fault_labels
            named = name_paths(captured.samples, self._kernel, user, infer=infer)
            self._labelled.update(named.labelled)
            if user is not None:
                user.enter(self.ledger)
        return named.paths

    def _judge(self, last: Captured, ledger: Ledger) -> list[list[TracedPath]]:
        """Enter what all runs lost, and return the traces of each."""
        judge_samples(ledger, [run.sampled for run in self._runs], last.sampling)
        if last.sampling.fault_labels:
            judge_labels(ledger, self._labelled)
        if self._kernel is not None:
            self._kernel.enter(ledger)
        traced = [run.traced for run in self._runs if run.traced is not None]
        traces = []
        if traced and last.plan is not None:
            judge_trace(ledger, added_up(traced), last.plan, last.failed)
            traces = [self._consistent(run, ledger) for run in self._runs]
        judge_contention(ledger, [run.info.contention for run in self._runs], last.no_contention)
        for run in self._runs:
            where = f"run {run.info.index}: " if len(self._runs) > 1 else ""
            for remark in run.remarks:
                ledger.info(where + remark)
        return traces

    def _consistent(self, run: _Kept, ledger: Ledger) -> list[TracedPath]:
        """Return the trace of a run, or nothing where it contradicts itself.

        Between two runs the probes stay. What outlives its run, and takes a fault in just the
        microseconds in which that run's figures are read, may leave some half written.
        """
        if len(self._runs) > 1:
            try:
                nodes_from_traced(run.traced_paths)
            except ValueError as error:
                ledger.degrade(
                    f"the trace of run {run.info.index} is left out: {error}; something that the "
                    f"command left behind was tracing on"
                )
                return []
        return run.traced_paths

    def _describe(self, last: Captured, more: Mapping[str, Any], ledger: Ledger) -> Metadata:
        return Metadata(
            command=self._options.command,
            kernel=kernel_info(),
            mode="trace" if last.traced else "sample",
            clock=last.sampling.clock,
            frequency=last.sampling.frequency,
            runs=tuple(run.info for run in self._runs),
            ledger=ledger,
            host=platform.node(),
            cpu=cpu_info(),
            functions=functions_json(last.plan),
            options={**self._options.to_json(), **more},
            calibration=last.calibration.to_json() if last.calibration is not None else None,
        )


def _traced_paths(options: RecordOptions, captured: Captured) -> list[TracedPath]:
    """Give the traced paths their functions' names."""
    traced, plan = captured.traced, captured.plan
    assert traced is not None
    assert plan is not None
    frames = [
        Frame(function.name, function.resolved.module, function.resolved.resolution)
        for function in plan.functions
    ]
    comm = Path(options.command[0]).name if options.command else "[traced]"
    return [
        TracedPath(
            comm,
            tuple(frames[number] for number in path),
            *(totals if options.off_cpu else totals._replace(offcpu_ns=None)),
            timed=plan.functions[path[-1]].timed,
        )
        for path, totals in traced.nodes.items()
    ]


def functions_json(plan: TracePlan | None) -> dict[str, Any]:
    """Return what each function of the plan is on this kernel, and how it was probed."""
    if plan is None:
        return {}
    found = {
        one.name: {**one.resolved.to_json(), "method": one.method, "traced": True}
        for one in plan.functions
    }
    refused = {one.name: {**one.to_json(), "method": None, "traced": False} for one in plan.refused}
    return found | refused


def _run_info(index: int, run: Run) -> RunInfo:
    end = run.exit
    faults: dict[str, float] = {}
    if end is not None:
        faults = {"minor_faults": end.minor_faults, "major_faults": end.major_faults}
    return RunInfo(
        index=index,
        exit_status=end.status if end is not None else None,
        wall_s=run.wall_s,
        user_s=end.user_s if end is not None else 0.0,
        sys_s=end.system_s if end is not None else 0.0,
        samples=int(run.captured.samples.counts.sum()),
        on_cpu_s=run.on_cpu_s or 0.0,
        metrics={**faults, **run.said.metrics},
        usemem=run.said.usemem,
        contention=run.captured.contention,
    )

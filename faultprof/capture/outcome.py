"""From what a run left behind to a recording: name, judge, describe, write.

Knows: what belongs into a recording's metadata and where each part of it comes from.
Leaves to others: measuring (session), each step's own work.
"""

from __future__ import annotations

import platform
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultprof.capture.command import Exit
from faultprof.capture.identity import Identity
from faultprof.capture.machine import cpu_info, kernel_info
from faultprof.capture.options import RecordOptions
from faultprof.capture.paths import NamedPaths, name_paths
from faultprof.capture.quality import judge_labels, judge_samples
from faultprof.capture.trace_quality import judge_trace
from faultprof.capture.user_symbols import UserSymbols
from faultprof.capture.wait import End
from faultprof.kernel.symbols import Symbolizer
from faultprof.recording.frames import Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import Metadata, RunInfo
from faultprof.recording.traced import TracedPath
from faultprof.recording.writer import write_recording

if TYPE_CHECKING:
    from faultprof.capture.engines import Captured
    from faultprof.capture.trace_plan import TracePlan


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left in our hands when recording stopped; ``wall_s`` in seconds."""

    captured: Captured
    wall_s: float
    end: End
    exit: Exit | None

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


def write_outcome(options: RecordOptions, identity: Identity | None, run: Run) -> Ledger:
    """Write the recording of ``run`` and return its ledger.

    Raises:
        FaultprofError: symbols cannot be read, or the file cannot be written.
    """
    owner = identity.owner if identity is not None else None
    ledger = Ledger()
    judge_samples(ledger, run.captured.samples, run.captured.sampling, run.on_cpu_s)
    named = _name(run, ledger, owner)
    traces = [_traced_paths(options, run.captured, ledger)] if run.captured.traced else []
    write_recording(
        options.output,
        _describe(options, run, ledger),
        [named.paths],
        traces=traces,
        owner=owner,
        keep_old=options.keep_old,
    )
    return ledger


def _name(run: Run, ledger: Ledger, owner: tuple[int, int] | None) -> NamedPaths:
    """Name the stacks; what cannot be named is entered in the ledger."""
    captured = run.captured
    kernel = Symbolizer(owner=owner, kallsyms=captured.kallsyms)
    with ExitStack() as undo:
        user = None
        if captured.user_files is not None:
            user = undo.enter_context(closing(UserSymbols(captured.user_files)))
        named = name_paths(captured.samples, kernel, user, infer=captured.sampling.fault_labels)
        if captured.sampling.fault_labels:
            judge_labels(ledger, named.labelled)
        kernel.enter(ledger)
        if user is not None:
            user.enter(ledger)
    return named


def _traced_paths(options: RecordOptions, captured: Captured, ledger: Ledger) -> list[TracedPath]:
    """Give the traced paths their functions' names; what was missed is entered in the ledger."""
    traced, plan = captured.traced, captured.plan
    assert traced is not None
    assert plan is not None
    judge_trace(ledger, traced, plan, captured.failed)
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


def _describe(options: RecordOptions, run: Run, ledger: Ledger) -> Metadata:
    calibration = run.captured.calibration
    return Metadata(
        command=options.command,
        kernel=kernel_info(),
        mode="trace" if run.captured.traced else "sample",
        clock=run.captured.sampling.clock,
        frequency=run.captured.sampling.frequency,
        runs=(_run_info(run),),
        ledger=ledger,
        host=platform.node(),
        cpu=cpu_info(),
        functions=functions_json(run.captured.plan),
        options=options.to_json(),
        calibration=calibration.to_json() if calibration is not None else None,
    )


def _run_info(run: Run) -> RunInfo:
    end = run.exit
    return RunInfo(
        index=0,
        exit_status=end.status if end is not None else None,
        wall_s=run.wall_s,
        user_s=end.user_s if end is not None else 0.0,
        sys_s=end.system_s if end is not None else 0.0,
        samples=int(run.captured.samples.counts.sum()),
        on_cpu_s=run.on_cpu_s or 0.0,
    )

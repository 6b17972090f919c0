"""What records in one session: the sampler, the tracer if there is one, the user files.

Knows: which engines the options ask for and how they are put together.
Leaves to others: what each engine does, when to start and stop (session).
"""

from __future__ import annotations

import platform
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from faultprof.bpf.probing import sampling_clock
from faultprof.capture.options import RecordOptions
from faultprof.capture.sampling import (
    Sampler,
    Samples,
    SamplingOptions,
    fault_write_bit,
)
from faultprof.capture.scope import Scope
from faultprof.errors import unsupported
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.debuginfo import find_debuginfo

if TYPE_CHECKING:
    from faultprof.capture.trace_plan import TracePlan
    from faultprof.capture.tracing import Traced, Tracer
    from faultprof.capture.user_files import UserFiles
    from faultprof.kernel.kallsyms import Kallsyms
    from faultprof.recording.calibration import Calibration

# Beside a tracer the sampler only checks its shares: at this rate it costs next to nothing.
CROSS_CHECK_HZ = 99


@dataclass(frozen=True, slots=True)
class Captured:
    """What the engines of one run left behind.

    ``failed``: functions of the plan that could not be attached after all, and why.
    ``kallsyms``: the symbols as they were while the probes were attached; None without a tracer.
    ``calibration``: what the tracer's probes cost; None when nobody measured it.
    """

    sampling: SamplingOptions
    samples: Samples
    user_files: UserFiles | None
    plan: TracePlan | None = None
    traced: Traced | None = None
    failed: dict[str, str] = field(default_factory=dict)
    kallsyms: Kallsyms | None = None
    calibration: Calibration | None = None


class Engines:
    """Attached, but quiet until started; frees everything when closed.

    Args:
        options: what is asked for.
        scope: which tasks are recorded.
        owner: whose cache is used for debuginfo; None for the caller's.
        calibration: what probes cost here, if that is known.

    Raises:
        FaultprofError: this machine cannot record so (exit code 3).
    """

    def __init__(
        self,
        options: RecordOptions,
        scope: Scope,
        owner: tuple[int, int] | None,
        calibration: Calibration | None = None,
    ) -> None:
        self._calibration = calibration
        traced = options.mode == "trace"
        self._sampling = _sampling(options, traced=traced)
        self._tracer: Tracer | None = None
        self._user_files: UserFiles | None = None
        with ExitStack() as undo:
            if options.user_stacks:
                from faultprof.capture.user_files import UserFiles

                files = UserFiles(scope.pid, options.command)
                self._user_files = undo.enter_context(closing(files))
            if traced:
                # Loaded on demand: a sampler alone starts 0.1 s sooner.
                from faultprof.capture.trace_setup import open_tracer

                self._tracer = undo.enter_context(closing(open_tracer(options, scope, owner)))
            self._sampler = undo.enter_context(closing(Sampler(scope, self._sampling)))
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Start all engines; a held command is recorded from its exec(2) on."""
        if self._user_files is not None:
            self._user_files.start()
        if self._tracer is not None:
            self._tracer.start()
        self._sampler.start()

    def stop(self) -> Captured:
        """Stop all engines, detach them, and return what they have."""
        samples = self._sampler.stop()
        self._sampler.close()
        captured = Captured(self._sampling, samples, self._user_files)
        if self._tracer is not None:
            captured = _with_trace(captured, self._tracer)
            captured = replace(captured, calibration=self._calibration)
        if self._user_files is not None:
            self._user_files.stop()
        return captured

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()


def _with_trace(captured: Captured, tracer: Tracer) -> Captured:
    """Detach a tracer and add what it has."""
    from faultprof.kernel.kallsyms import Kallsyms

    # Samples have the probes' trampolines among their callers; those go with the probes.
    kallsyms = Kallsyms.read()
    traced = tracer.stop()
    tracer.close()
    return replace(
        captured, plan=tracer.plan, traced=traced, failed=tracer.failed, kallsyms=kallsyms
    )


def _sampling(options: RecordOptions, *, traced: bool) -> SamplingOptions:
    frequency = options.frequency
    if frequency is None:
        frequency = CROSS_CHECK_HZ if traced else options.default_frequency
    return SamplingOptions(
        frequency=frequency,
        clock=sampling_clock() if options.clock == "auto" else options.clock,
        max_stacks=options.max_stacks,
        user_stacks=options.user_stacks,
        fault_labels=_wants_labels(options),
    )


def _wants_labels(options: RecordOptions) -> bool:
    possible = fault_write_bit() is not None
    if options.fault_labels == "on" and not possible:
        raise unsupported(
            f"fault labels need tracepoints that {platform.machine()} does not have",
            "leave out --fault-labels on; matching debuginfo shows do_read_fault exactly",
        )
    if options.fault_labels != "auto":
        return options.fault_labels == "on"
    return possible and find_debuginfo(kernel_build_id()).path is None

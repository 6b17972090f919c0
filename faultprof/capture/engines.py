"""What records in one session: the sampler, the tracer if there is one, the user files.

Knows: which engines the options ask for and how they are put together.
Leaves to others: what each engine does, when to start and stop (session).
"""

from __future__ import annotations

import platform
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from faultprof.bpf.probing import sampling_clock
from faultprof.capture.options import RecordOptions
from faultprof.capture.sampling import (
    Sampler,
    Samples,
    SamplingOptions,
    fault_write_bit,
)
from faultprof.capture.scope import Scope
from faultprof.capture.trace_plan import TracePlan, make_plan, missing_hosts
from faultprof.capture.tracing import Traced, Tracer
from faultprof.capture.user_files import UserFiles
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.conditions import Types
from faultprof.kernel.debuginfo import find_debuginfo
from faultprof.kernel.kallsyms import Kallsyms
from faultprof.kernel.resolve import resolve
from faultprof.kernel.selection import choose, require_traceable
from faultprof.kernel.view import KernelView
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
        view = KernelView.read(owner=owner) if options.mode == "trace" else None
        self._plan = trace_plan(options, view) if view is not None else None
        self._sampling = _sampling(options, traced=self._plan is not None)
        self._tracer: Tracer | None = None
        self._user_files: UserFiles | None = None
        with ExitStack() as undo:
            if options.user_stacks:
                self._user_files = undo.enter_context(
                    closing(UserFiles(scope.pid, options.command))
                )
            if view is not None and self._plan is not None:
                tracer = Tracer(scope, self._plan, _types(view), off_cpu=options.off_cpu)
                self._tracer = undo.enter_context(closing(tracer))
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
        traced, failed, kallsyms = None, {}, None
        if self._tracer is not None:
            # Samples have the probes' trampolines among their callers; those go with the probes.
            kallsyms = Kallsyms.read()
            traced, failed = self._tracer.stop(), self._tracer.failed
            self._tracer.close()
        if self._user_files is not None:
            self._user_files.stop()
        return Captured(
            sampling=self._sampling,
            samples=samples,
            user_files=self._user_files,
            plan=self._plan,
            traced=traced,
            failed=failed,
            kallsyms=kallsyms,
            calibration=self._calibration,
        )

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()


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


def trace_plan(options: RecordOptions, view: KernelView) -> TracePlan:
    """Return which functions are traced on the kernel of ``view``, and how."""
    wanted = resolve(choose(options.presets, options.functions, view), view)
    traceable = require_traceable(wanted, view, named=options.functions)
    hosts = resolve(choose((), missing_hosts(traceable.traced), view), view)
    plan = make_plan([*traceable.traced, *hosts], options.attach)
    plan.refused += traceable.left_out
    if not plan.functions:
        raise FaultprofError(
            f"nothing of this can be traced with --attach {options.attach}",
            "see 'faultprof functions' for what can be traced here, and how",
        )
    return plan


def _types(view: KernelView) -> Types:
    if view.types is None:
        raise unsupported(
            "tracing needs the kernel's BTF (/sys/kernel/btf/vmlinux)", "record with --mode sample"
        )
    return view.types

"""What records in one session: the sampler, the tracer if there is one, user files, contention.

Knows: which engines the options ask for and how they are put together.
Leaves to others: what each engine does, when to start and stop (session).

What only a trace needs is imported where a trace is made: sampling has half a second to start.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from faultprof.bpf.probing import sampling_clock
from faultprof.bpf.program import added_costs
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
    from faultprof.capture.contention.parts import Parts
    from faultprof.capture.trace_plan import TracePlan
    from faultprof.capture.tracing import Traced, Tracer
    from faultprof.capture.user_files import UserFiles
    from faultprof.kernel.kallsyms import Kallsyms
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
    ``contention``: what its parts have, by name.
    ``no_contention``: parts that could not be recorded here, and why.
    """

    sampling: SamplingOptions
    samples: Samples
    user_files: UserFiles | None
    plan: TracePlan | None = None
    traced: Traced | None = None
    failed: dict[str, str] = field(default_factory=dict)
    kallsyms: Kallsyms | None = None
    calibration: Calibration | None = None
    contention: dict[str, Any] = field(default_factory=dict)
    no_contention: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peek:
    """What was counted up to a moment while recording went on.

    ``traced``: calls, inclusive and self ns by path, root first; None without a tracer. ``waits``:
    how often was waited and for how many ns, by lock; None when nobody looks.
    """

    sampling: SamplingOptions
    samples: Samples
    traced: dict[tuple[str, ...], tuple[int, int, int]] | None
    waits: dict[str, tuple[int, int]] | None = None


class Engines:
    """Attached, but quiet until started; frees everything when closed.

    Args:
        options: what is asked for.
        scope: which tasks are recorded.
        owner: whose cache is used for debuginfo; None for the caller's.
        trace: whether functions are traced.
        calibration: what probes cost here, if that is known.

    Raises:
        FaultprofError: this machine cannot record so (exit code 3).
    """

    def __init__(
        self,
        options: RecordOptions,
        scope: Scope,
        owner: tuple[int, int] | None,
        *,
        trace: bool,
        calibration: Calibration | None = None,
    ) -> None:
        self._calibration = calibration
        self._sampling = _sampling(options, traced=trace)
        self._tracer: Tracer | None = None
        self._user_files: UserFiles | None = None
        self._kallsyms: Kallsyms | None = None
        view: KernelView | None = None
        with ExitStack() as undo:
            if options.user_stacks:
                from faultprof.capture.user_files import UserFiles

                files = UserFiles(scope.pid, options.command)
                self._user_files = undo.enter_context(closing(files))
            if trace:
                from faultprof.capture.trace_setup import open_tracer
                from faultprof.kernel.view import KernelView

                view = KernelView.read(owner=owner)
                self._tracer = undo.enter_context(closing(open_tracer(options, scope, view)))
                scope = self._tracer.lend_scope()
            self._sampler = undo.enter_context(closing(Sampler(scope, self._sampling)))
            self._contention = self._open_contention(options, owner, view)
            if self._contention is not None:
                undo.enter_context(closing(self._contention))
            self._undo = undo.pop_all()

    @property
    def summary(self) -> str:
        """What is recorded, for the user's terminal."""
        if self._tracer is None:
            return f"sampling at {self._sampling.frequency} Hz{self._beside}"
        plan = self._tracer.plan
        count = len(plan.functions) - len(self._tracer.failed)
        ways = " and ".join(sorted({one.method for one in plan.functions if one.method}))
        how = f"{count} functions by {ways}, sampling at {self._sampling.frequency} Hz"
        return f"tracing {how}{self._beside}"

    @property
    def _beside(self) -> str:
        names = self._contention.names if self._contention is not None else ()
        return f", contention: {', '.join(names)}" if names else ""

    def next_run(self, scope: Scope, command: Sequence[str]) -> None:
        """Record the tasks of ``scope`` from now on, after :meth:`stop`; the probes stay."""
        if self._tracer is not None:
            self._tracer.next_run(scope)
            scope = self._tracer.lend_scope()
        self._sampler.next_run(scope)
        if self._contention is not None:
            self._contention.next_run(self._sampler.lend_scope())
        if self._user_files is not None:
            from faultprof.capture.user_files import UserFiles

            self._user_files = UserFiles(scope.pid, command)
            self._undo.callback(self._user_files.close)

    def start(self) -> None:
        """Start all engines; a held command is recorded from its exec(2) on."""
        if self._user_files is not None:
            self._user_files.start()
        if self._contention is not None:
            self._contention.start()
        if self._tracer is not None:
            self._tracer.start()
        self._sampler.start()

    def stop(self, *, detach: bool = True) -> Captured:
        """Stop all engines and return what they have.

        Args:
            detach: take the probes off; without that, :meth:`next_run` may follow.
        """
        samples = self._sampler.stop()
        captured = Captured(self._sampling, samples, self._user_files)
        if self._tracer is not None:
            # Samples have probes and trampolines among their callers; those go with the engines.
            self._kallsyms = self._kallsyms or _read_kallsyms()
            captured = self._with_trace(captured, self._tracer, detach=detach)
        if self._contention is not None:
            # Whoever lends the scope has stopped by now: nothing changes any more.
            captured = replace(
                captured,
                contention=self._contention.stop(),
                no_contention=self._contention.missing,
            )
        if detach:
            self._detach()
        if self._user_files is not None:
            self._user_files.stop()
        return captured

    def go_on(self) -> None:
        """Forget what was counted, after :meth:`stop` without detaching, and record on."""
        if self._tracer is not None:
            self._tracer.go_on()
        if self._contention is not None:
            self._contention.next_run(self._sampler.lend_scope())
            self._contention.start()
        self._sampler.go_on()

    def peek(self) -> Peek:
        """Return what has been counted so far, while recording goes on."""
        traced = self._tracer.peek() if self._tracer is not None else None
        waits = self._contention.peek() if self._contention is not None else None
        return Peek(self._sampling, self._sampler.peek(), traced, waits)

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        others = (self._tracer, self._contention)
        return added_costs([self._sampler.costs(), *(one.costs() for one in others if one)])

    def lend_scope(self) -> Scope:
        """Return the scope for what is to look at the same tasks beside these engines."""
        return self._sampler.lend_scope()

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _open_contention(
        self, options: RecordOptions, owner: tuple[int, int] | None, view: KernelView | None
    ) -> Parts | None:
        if not options.contention_parts:
            return None
        from faultprof.capture.contention.parts import Parts
        from faultprof.capture.contention.setting import Setting

        setting = Setting(options, self._sampler.lend_scope(), owner, self._tracer, view)
        return Parts(options.contention_parts, options.contention, setting)

    def _detach(self) -> None:
        """Free what is attached, borrowers of the scope before its lender."""
        if self._contention is not None:
            self._contention.close()
        self._sampler.close()
        if self._tracer is not None:
            self._tracer.close()

    def _with_trace(self, captured: Captured, tracer: Tracer, *, detach: bool) -> Captured:
        """Stop a tracer and add what it has."""
        traced = tracer.stop(detach=detach)
        return replace(
            captured,
            plan=tracer.plan,
            traced=traced,
            failed=tracer.failed,
            kallsyms=self._kallsyms,
            calibration=self._calibration,
        )


def _read_kallsyms() -> Kallsyms:
    from faultprof.kernel.kallsyms import Kallsyms

    return Kallsyms.read()


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

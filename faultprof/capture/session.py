"""One recording from start to file: hold the command, attach, release, wait, stop, write.

Knows: the order of these steps, and that whatever fails, nothing stays attached.
Leaves to others: each step.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from faultprof.capture.command import Command, Exit
from faultprof.capture.identity import Identity, invoking_user
from faultprof.capture.wait import End, Signals, Target, wait_for_command, wait_for_end
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.ledger import Ledger

if TYPE_CHECKING:
    from faultprof.capture.sampling import Clock, Sampler, Samples, SamplingOptions
    from faultprof.recording.metadata import Metadata

Switch = Literal["auto", "on", "off"]

# After an interrupt the command has this long to end before the recording is written without
# its exit status.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record, how, and where to.

    Exactly one of ``command``, ``pid`` and ``everything`` gives the scope, but ``everything``
    may come with a command that says how long. ``duration`` is in seconds, ``frequency`` in hertz.
    """

    output: Path
    keep_old: bool = False
    command: tuple[str, ...] = ()
    pid: int | None = None
    everything: bool = False
    duration: float | None = None
    frequency: int = 999
    clock: Clock | Literal["auto"] = "auto"
    max_stacks: int = 16384
    user_stacks: bool = False
    fault_labels: Switch = "auto"
    as_root: bool = False
    strict: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the options that shaped the data, for the recording's metadata."""
        return {
            "frequency": self.frequency,
            "pid": self.pid,
            "everything": self.everything,
            "duration_s": self.duration,
            "max_stacks": self.max_stacks,
            "user_stacks": self.user_stacks,
            "fault_labels": self.fault_labels,
            "as_root": self.as_root,
        }


@dataclass(slots=True)
class _Measured:
    """What one run left in our hands when sampling stopped."""

    samples: Samples
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
        clock = self.samples.on_cpu_s
        if clock is None or self.exit is None or self.end is not End.COMMAND:
            return clock
        return max(clock, self.exit.cpu_s)


@dataclass(slots=True)
class Session:
    """Runs one recording; ``say`` gets each line meant for the user's terminal."""

    options: RecordOptions
    say: Callable[[str], None]
    identity: Identity | None = field(default_factory=lambda: invoking_user(os.environ))

    def run(self) -> int:
        """Record and write the file; return the exit status for the shell.

        Raises:
            FaultprofError: nothing was recorded, or the recording could not be written.
        """
        self._check()
        with ExitStack() as undo:
            command = self._hold_command(undo)
            target = self._watch_target(undo)
            sampling, sampler = self._prepare(undo, command)
            signals = undo.enter_context(Signals())
            measured = self._measure(command, target, sampler, signals)
            ledger = self._write(measured, sampling)
            status = self._finish(command, signals)
        if ledger.degraded and self.options.strict and status == ExitCode.OK:
            return ExitCode.DEGRADED
        return status

    def _check(self) -> None:
        """Refuse, before anything runs, what cannot end in a recording."""
        from faultprof.capture.sampling import check_frequency, check_max_stacks
        from faultprof.kernel.privileges import require_privileges
        from faultprof.recording.writer import check_writable

        check_frequency(self.options.frequency)
        check_max_stacks(self.options.max_stacks)
        require_privileges()
        check_writable(self.options.output)

    def _hold_command(self, undo: ExitStack) -> Command | None:
        if not self.options.command:
            return None
        identity = None if self.options.as_root else self.identity
        command = Command(self.options.command, identity)
        undo.callback(command.abandon)
        return command

    def _watch_target(self, undo: ExitStack) -> Target | None:
        if self.options.pid is None:
            return None
        return undo.enter_context(closing(Target(self.options.pid)))

    def _prepare(self, undo: ExitStack, command: Command | None) -> tuple[SamplingOptions, Sampler]:
        from faultprof.capture.sampling import Sampler, SamplingOptions, allow_many_events
        from faultprof.capture.sampling import best_clock as pick
        from faultprof.capture.scope import Scope

        options = self.options
        allow_many_events()
        sampling = SamplingOptions(
            frequency=options.frequency,
            clock=pick() if options.clock == "auto" else options.clock,
            max_stacks=options.max_stacks,
            user_stacks=options.user_stacks,
            fault_labels=self._wants_labels(),
        )
        held = command is not None and not options.everything
        pid = command.pid if command is not None and held else options.pid
        # bcc's compiler releases the interpreter lock: the imports cost no time of their own
        # here, and would delay the prompt after the command's end.
        preload = threading.Thread(target=_preload)
        preload.start()
        undo.callback(preload.join)
        sampler = undo.enter_context(closing(Sampler(Scope(pid, held), sampling)))
        preload.join()
        return sampling, sampler

    def _wants_labels(self) -> bool:
        from faultprof.capture.sampling import fault_write_bit

        possible = fault_write_bit() is not None
        if self.options.fault_labels == "on" and not possible:
            raise FaultprofError(
                f"fault labels need tracepoints that {platform.machine()} does not have",
                "leave out --fault-labels on; matching debuginfo shows do_read_fault exactly",
                ExitCode.UNSUPPORTED,
            )
        if self.options.fault_labels != "auto":
            return self.options.fault_labels == "on"
        return possible and find_debuginfo(kernel_build_id()).path is None

    def _measure(
        self, command: Command | None, target: Target | None, sampler: Sampler, signals: Signals
    ) -> _Measured:
        """Let the command go, wait for the end, stop the sampler."""
        sampler.start()
        if command is not None:
            command.release()
        started = time.monotonic()
        end = wait_for_end(signals, command, target, self.options.duration)
        wall_s = time.monotonic() - started
        samples = sampler.stop()
        sampler.close()
        if command is not None and end is End.SIGNAL:
            wait_for_command(signals, command, _GRACE_SECONDS)
        exit_ = command.poll() if command is not None else None
        return _Measured(samples, wall_s, end, exit_)

    def _write(self, measured: _Measured, sampling: SamplingOptions) -> Ledger:
        """Name the stacks, judge them and write the recording."""
        from faultprof.capture.paths import name_paths
        from faultprof.capture.quality import judge_labels, judge_samples
        from faultprof.kernel.symbols import Symbolizer
        from faultprof.recording.writer import write_recording

        ledger = Ledger()
        owner = self.identity.owner if self.identity is not None else None
        symbolizer = Symbolizer(owner=owner)
        named = name_paths(measured.samples, symbolizer, None, infer=sampling.fault_labels)
        judge_samples(ledger, measured.samples, sampling, measured.on_cpu_s)
        if sampling.fault_labels:
            judge_labels(ledger, named.labelled)
        symbolizer.enter(ledger)
        write_recording(
            self.options.output,
            self._metadata(measured, sampling, ledger),
            [named.paths],
            owner=owner,
            keep_old=self.options.keep_old,
        )
        self._tell(ledger)
        return ledger

    def _metadata(self, measured: _Measured, sampling: SamplingOptions, ledger: Ledger) -> Metadata:
        from faultprof.capture.machine import cpu_info, kernel_info
        from faultprof.recording.metadata import Metadata, RunInfo

        end = measured.exit
        run = RunInfo(
            index=0,
            exit_status=end.status if end is not None else None,
            wall_s=measured.wall_s,
            user_s=end.user_s if end is not None else 0.0,
            sys_s=end.system_s if end is not None else 0.0,
            samples=int(measured.samples.counts.sum()),
            on_cpu_s=measured.on_cpu_s or 0.0,
        )
        return Metadata(
            command=self.options.command,
            kernel=kernel_info(),
            mode="sample",
            clock=sampling.clock,
            frequency=sampling.frequency,
            runs=(run,),
            ledger=ledger,
            host=platform.node(),
            cpu=cpu_info(),
            options=self.options.to_json(),
        )

    def _tell(self, ledger: Ledger) -> None:
        samples = ledger.counters["samples"]
        self.say(f"{samples} samples, {ledger.verdict}; wrote {self.options.output}")

    def _finish(self, command: Command | None, signals: Signals) -> int:
        """Wait for a command that runs on after its recording; return the exit status."""
        if command is None:
            return ExitCode.OK
        if not command.poll():
            self.say("the command still runs; Ctrl-C ends it")
            wait_for_command(signals, command, float("inf"), _Escalation())
        return command.wait().status


class _Escalation:
    """What a command gets for each further signal of ours: that one, then TERM, then KILL."""

    def __init__(self) -> None:
        self._received = 0

    def __call__(self, number: int) -> int:
        self._received += 1
        if self._received == 1:
            return number
        return signal.SIGTERM if self._received == 2 else signal.SIGKILL


def _preload() -> None:
    """Import what naming and writing need."""
    from faultprof.kernel import symbols  # noqa: F401
    from faultprof.recording import writer

    writer.preload()

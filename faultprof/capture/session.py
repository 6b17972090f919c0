"""One recording from start to file: hold the command, attach, release, wait, stop, write.

Knows: the order of these steps, and that whatever fails, nothing stays attached.
Leaves to others: each step.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from faultprof.bpf.janitor import Janitor
from faultprof.capture.bundled import with_usemem
from faultprof.capture.command import Command, check_directory
from faultprof.capture.identity import Identity, invoking_user
from faultprof.capture.options import RecordOptions
from faultprof.capture.wait import End, Signals, Target, wait_for_command, wait_for_end
from faultprof.errors import ExitCode

if TYPE_CHECKING:
    from faultprof.capture.engines import Engines
    from faultprof.capture.outcome import Run
    from faultprof.recording.calibration import Calibration

# After an interrupt the command has this long to end before the recording is written without
# its exit status.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
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
            # Before anything starts a thread (numpy's libraries do): a signal that one thread
            # does not block is delivered there, and would end us without a recording.
            signals = undo.enter_context(Signals())
            # Before anything heavy is loaded: the child inherits none of it.
            if self.options.mode == "trace":
                janitor = Janitor()
                undo.callback(janitor.dismiss)
            command = self._hold_command(undo, signals)
            target = self._watch_target(undo)
            engines = self._attach(undo, command)
            run = self._measure(command, target, engines, signals)
            degraded = self._write(run)
            status = self._finish(command, signals)
        if degraded and self.options.strict and status == ExitCode.OK:
            return ExitCode.DEGRADED
        return status

    def _check(self) -> None:
        """Refuse, before anything runs, what cannot end in a recording."""
        from faultprof.capture.sampling import check_frequency, check_max_stacks
        from faultprof.kernel.privileges import require_privileges
        from faultprof.recording.writer import check_writable

        check_directory()
        if self.options.frequency is not None:
            check_frequency(self.options.frequency)
        check_max_stacks(self.options.max_stacks)
        require_privileges()
        check_writable(self.options.output)

    def _hold_command(self, undo: ExitStack, signals: Signals) -> Command | None:
        if not self.options.command:
            return None
        identity = None if self.options.as_root else self.identity
        argv = with_usemem(self.options.command, self.identity, self.say)
        command = Command(argv, identity, signals.before)
        undo.callback(command.abandon)
        return command

    def _watch_target(self, undo: ExitStack) -> Target | None:
        if self.options.pid is None:
            return None
        return undo.enter_context(closing(Target(self.options.pid)))

    def _attach(self, undo: ExitStack, command: Command | None) -> Engines:
        from faultprof.capture.sampling import allow_many_events
        from faultprof.capture.scope import Scope

        options = self.options
        owner = self.identity.owner if self.identity is not None else None
        calibration = self._calibration(owner)
        held = command is not None and not options.everything
        pid = command.pid if command is not None and held else options.pid
        allow_many_events()
        # bcc's compiler releases the interpreter lock: the imports cost no time of their own
        # here, and would delay the prompt after the command's end.
        preload = threading.Thread(target=_preload)
        preload.start()
        undo.callback(preload.join)
        from faultprof.capture.engines import Engines

        scope = Scope(pid, held)
        engines = undo.enter_context(closing(Engines(options, scope, owner, calibration)))
        preload.join()
        return engines

    def _calibration(self, owner: tuple[int, int] | None) -> Calibration | None:
        """Return what probes cost here, where that is wanted; before anything else uses a CPU."""
        if self.options.mode != "trace" or not self.options.calibrate:
            return None
        from faultprof.capture.calibration_store import at_hand

        return at_hand(owner, self.say)

    def _measure(
        self, command: Command | None, target: Target | None, engines: Engines, signals: Signals
    ) -> Run:
        """Let the command go, wait for the end, stop the engines."""
        from faultprof.capture.outcome import Run

        signals.raise_pending()
        engines.start()
        if command is not None:
            command.release()
        started = time.monotonic()
        end = wait_for_end(signals, command, target, self.options.duration)
        wall_s = time.monotonic() - started
        captured = engines.stop()
        if command is not None and end is End.SIGNAL:
            wait_for_command(signals, command, _GRACE_SECONDS)
        return Run(captured, wall_s, end, command.poll() if command is not None else None)

    def _write(self, run: Run) -> bool:
        """Write the recording, say so, and return whether it is degraded."""
        from faultprof.capture.outcome import write_outcome

        ledger = write_outcome(self.options, self.identity, run)
        samples = ledger.counters["samples"]
        self.say(f"{samples} samples, {ledger.verdict}; wrote {self.options.output}")
        return ledger.degraded

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
    from faultprof.capture import outcome  # noqa: F401
    from faultprof.recording import writer

    writer.preload()

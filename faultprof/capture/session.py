"""One session from start to files: hold the commands, attach, release, wait, stop, write.

Knows: the order of these steps, that whatever fails nothing stays attached, and what is written of
a session that was cut short.
Leaves to others: each step; which command runs when (schedule).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from faultprof.bpf.janitor import Janitor
from faultprof.capture.bundled import with_usemem
from faultprof.capture.choice import Choice, choose_mode
from faultprof.capture.command import Command, check_directory
from faultprof.capture.identity import Identity, invoking_user
from faultprof.capture.idle_libraries import keep_idle
from faultprof.capture.options import RecordOptions
from faultprof.capture.output import Output
from faultprof.capture.schedule import Schedule
from faultprof.capture.wait import (
    End,
    Signals,
    Target,
    ending_is_pending,
    wait_for_command,
    wait_for_end,
)
from faultprof.capture.watch import Watch, Watched
from faultprof.errors import ExitCode, FaultprofError
from faultprof.progress import Steps
from faultprof.recording.said import Said

if TYPE_CHECKING:
    from faultprof.capture.engines import Engines
    from faultprof.capture.outcome import Outcome, Run
    from faultprof.capture.scope import Scope
    from faultprof.recording.calibration import Calibration

ReadOutput = Callable[[str], Said]

# After an interrupt the command has this long to end before the recording is written without
# its exit status.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Session:
    """Runs one schedule.

    Attributes:
        schedule: what to run and record.
        say: gets each line meant for the user's terminal.
        read_output: what looks for numbers in a command's output; None leaves the output alone.
        identity: the user behind sudo, if there is one.
        watch: what stands by meanwhile, of a single run; None for nothing.
    """

    schedule: Schedule
    say: Callable[[str], None]
    read_output: ReadOutput | None = None
    identity: Identity | None = field(default_factory=lambda: invoking_user(os.environ))
    watch: Watch | None = None

    @property
    def options(self) -> RecordOptions:
        """What all recordings have in common; command and output are those of the first."""
        return self.schedule.recordings[0]

    def run(self) -> int:
        """Record and write the files; return the exit status for the shell.

        That is the first one of a run that is not 0; where a signal cut the session short, that
        of the command which it met, or 128 + n where it met none.

        Raises:
            FaultprofError: nothing was recorded, or a recording could not be written.
        """
        self._check()
        with ExitStack() as undo:
            # Before anything starts a thread (numpy's libraries do): a signal that one thread
            # does not block is delivered there, and would end us without a recording.
            signals = undo.enter_context(Signals())
            # Before anything heavy is loaded: the children inherit none of it.
            output = self._listen(undo)
            choice = choose_mode(self.options)
            if choice.trace:
                janitor = Janitor()
                undo.callback(janitor.dismiss)
            commands = self._hold_commands(undo, signals, output)
            target = self._watch_target(undo)
            engines = self._attach(undo, commands, choice)
            signals.raise_pending()
            record = _Recorder(self, signals, engines, output)
            record.all_runs(commands, target)
            degraded = record.write() if self.watch is None or self.watch.keeps else False
            status = self._finish(record, signals)
        if record.error is not None:
            raise record.error
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
        for recording in self.schedule.recordings:
            check_writable(recording.output)

    def _listen(self, undo: ExitStack) -> Output | None:
        if self.read_output is None or not self.options.command:
            return None
        runs_as = self._command_identity()
        return undo.enter_context(closing(Output(runs_as.owner if runs_as else None)))

    def _command_identity(self) -> Identity | None:
        return None if self.options.as_root else self.identity

    def _hold_commands(
        self, undo: ExitStack, signals: Signals, output: Output | None
    ) -> list[Command]:
        """Fork all commands of the session; each is let go when its turn comes.

        They are abandoned in the opposite order: each holds the gates of the former ones open.
        """
        if not self.options.command:
            return []
        usemem = self._usemem_path()
        argvs = [
            (usemem, *one.command[1:]) if one.command[0] == "usemem" else one.command
            for one in self.schedule.recordings
        ]
        streams = output.streams if output is not None else {}
        if self.watch is not None:
            streams = self.watch.streams
        commands = []
        for which in self.schedule.order:
            command = Command(argvs[which], self._command_identity(), signals.before, streams)
            undo.callback(command.abandon)
            commands.append(command)
        if output is not None:
            output.release()
        return commands

    def _usemem_path(self) -> str:
        """Return the usemem to run: the bundled one in the place of one that PATH does not have."""
        if all(one.command[0] != "usemem" for one in self.schedule.recordings):
            return ""
        return with_usemem(("usemem",), self.identity, self.say)[0]

    def _watch_target(self, undo: ExitStack) -> Target | None:
        if self.options.pid is None:
            return None
        return undo.enter_context(closing(Target(self.options.pid)))

    def _attach(self, undo: ExitStack, commands: Sequence[Command], choice: Choice) -> Engines:
        from faultprof.capture.sampling import allow_many_events
        from faultprof.capture.scope import Scope

        keep_idle()  # the commands have their environment
        options = self.options
        held = bool(commands) and not options.everything
        pid = commands[0].pid if held else options.pid
        allow_many_events()
        # bcc's compiler releases the interpreter lock: the imports cost no time of their own
        # here, and would delay the prompt after the command's end.
        preload = threading.Thread(target=_preload)
        preload.start()
        undo.callback(preload.join)
        engines = undo.enter_context(closing(self._engines(Scope(pid, held), choice)))
        preload.join()
        if self.watch is not None:
            undo.callback(self.watch.close)
            self.watch.attach(engines)
        return engines

    def _engines(self, scope: Scope, choice: Choice) -> Engines:
        """Attach what is chosen; where ``auto`` finds that a trace fails after all, sample."""
        from faultprof.capture.engines import Engines

        options = self.options
        owner = self.identity.owner if self.identity is not None else None
        if choice.trace:
            try:
                calibration = self._calibration(owner)
                engines = Engines(options, scope, owner, trace=True, calibration=calibration)
            except FaultprofError as error:
                is_free = options.mode == "auto" and not options.wants_trace
                if not is_free or error.exit_code != ExitCode.UNSUPPORTED:
                    raise
                choice = Choice(False, error.message)
            else:
                self.say(engines.summary)
                return engines
        if choice.why_not:
            self.say(f"sampling only, not tracing: {choice.why_not}")
        return Engines(options, scope, owner, trace=False)

    def _calibration(self, owner: tuple[int, int] | None) -> Calibration | None:
        """Return what probes cost here, where that is wanted: kept, or measured in a moment."""
        if not self.options.calibrate:
            return None
        from faultprof.capture.calibration_store import UNASKED_SECONDS, at_hand

        return at_hand(owner, self.say, seconds=UNASKED_SECONDS)

    def _finish(self, record: _Recorder, signals: Signals) -> int:
        """Wait for a command that runs on after its recording; return the exit status."""
        if record.latest is None:
            return record.status
        if not record.latest.poll():
            self.say("the command still runs; Ctrl-C ends it")
            wait_for_command(signals, record.latest, float("inf"), _Escalation())
        return record.status or record.latest.wait().status


class _Recorder:
    """Lets the commands of a session run, one after the other, and keeps what they leave.

    Attributes:
        latest: the command that was let go last.
        status: of the session so far: that of the first run that failed.
        error: why the session could not go on, when it has runs that are worth writing.
    """

    def __init__(
        self, session: Session, signals: Signals, engines: Engines, output: Output | None
    ) -> None:
        from faultprof.capture.outcome import Outcome

        self.latest: Command | None = None
        self.status = int(ExitCode.OK)
        self.error: FaultprofError | None = None
        self._session = session
        self._schedule = session.schedule
        self._signals = signals
        self._engines = engines
        self._output = output
        self._outcomes = [Outcome(one, session.identity) for one in self._schedule.recordings]
        self._cut_short = ""

    def all_runs(self, commands: Sequence[Command], target: Target | None) -> None:
        """Run the whole schedule, or as much of it as can be."""
        total = len(self._schedule.order)
        steps = Steps("run", total, shares=True)
        for number, which in enumerate(self._schedule.order):
            if number and (signal_number := self._signals.ending()):
                self._cut_short = "interrupted"
                self.status = self.status or 128 + signal_number
                break
            command = commands[number] if commands else None
            try:
                go_on = self._one_run(number, command, target, self._outcomes[which])
            except FaultprofError as error:
                if not self._complete():
                    raise
                self.error, self._cut_short = error, error.message
                break
            if not go_on:
                break
            if total > 1:
                steps.advance()

    def write(self) -> bool:
        """Write the recordings, say so, and return whether one is degraded."""
        complete = self._complete() if len(self._outcomes) > 1 else len(self._outcomes[0])
        if not complete:
            self._session.say("interrupted before each command had a run; nothing was written")
            return False
        degraded = False
        for options, outcome in zip(self._schedule.recordings, self._outcomes, strict=True):
            outcome.drop_after(complete)
            if self._cut_short:
                outcome.ledger.info(
                    f"{complete} of {self._schedule.repeat} runs: {self._cut_short}"
                )
            ledger = outcome.write(self._schedule.metadata(complete))
            runs = f" in {complete} runs" if self._schedule.repeat > 1 else ""
            taken = f"{ledger.counters['samples']} samples{runs}"
            if outcome.calls is not None:
                taken = f"{outcome.calls:,} calls, {taken}"
            self._session.say(f"{taken}, {ledger.verdict}; wrote {options.output}")
            degraded = degraded or ledger.degraded
        return degraded

    def _complete(self) -> int:
        """Return how many runs every recording has."""
        return min(map(len, self._outcomes))

    def _one_run(
        self, number: int, command: Command | None, target: Target | None, outcome: Outcome
    ) -> bool:
        """Run once and keep what that leaves; return whether the session goes on.

        A run that was interrupted is kept only if it is the only one.
        """
        from faultprof.capture.scope import Scope

        if number and command is not None:
            self._engines.next_run(Scope(command.pid, held=True), command.argv)
        is_last = number == len(self._schedule.order) - 1
        run = self._measure(command, target, outcome, is_last=is_last)
        interrupted = run.end is End.SIGNAL and len(self._schedule.order) > 1
        if interrupted:
            self._cut_short = "interrupted"
        if not (interrupted and number):
            outcome.add(run)
        if run.exit is not None:
            self.status = self.status or run.exit.status
        return not interrupted

    def _measure(
        self, command: Command | None, target: Target | None, outcome: Outcome, *, is_last: bool
    ) -> Run:
        """Let the command go, wait for the end, stop the engines."""
        from faultprof.capture.outcome import Run

        self._engines.start()
        since = time.monotonic()  # a short command may be over when we run again after its release
        if command is not None:
            self.latest = command
            command.release()
        duration = self._session.options.duration
        watched = Watched(self._engines, self._signals, command, target, duration, outcome, since)
        end = self._wait(watched)
        wall_s = time.monotonic() - watched.since
        captured = self._engines.stop(detach=is_last)
        if command is not None and end is End.SIGNAL:
            wait_for_command(self._signals, command, _GRACE_SECONDS)
        said = self._said()
        how = command.poll() if command is not None else None
        # What the exit status tells is of the whole command, of which this may be the last part.
        is_part = watched.parts > 0
        end = End.DURATION if is_part else end
        return Run(captured, wall_s, end, how, said)

    def _wait(self, watched: Watched) -> End:
        watch = self._session.watch
        if watch is None:
            return wait_for_end(watched.signals, watched.command, watched.target, watched.duration)
        try:
            return watch.wait(watched)
        finally:
            watch.close()

    def _said(self) -> Said:
        """Look for numbers in what the command printed."""
        read = self._session.read_output
        if self._output is None or read is None:
            return Said()
        return read(self._output.take(give_up=ending_is_pending))


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

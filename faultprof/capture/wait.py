"""What ends a recording: the command, the watched process, a signal, or the clock.

Knows: which signals end a recording, and which of them the command has already had.
Leaves to others: stopping the probes and writing the file (session).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

from faultprof.capture.command import Command
from faultprof.errors import FaultprofError

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_WATCHED = ENDING | {signal.SIGCHLD}

# siginfo.si_code: a signal that the terminal sent to the whole foreground group, the command
# included (SI_KERNEL); anything else was meant for us alone and is passed on.
_FROM_KERNEL = 128

_MOST_PIDS = 1 << 22  # PID_MAX_LIMIT of linux/threads.h

# A watched process sends us no signal at its end.
_POLL_SECONDS = 0.1

# A command does. But the kernel hands a signal to any thread that does not block it, and a thread
# that was there before us takes SIGCHLD without a trace: so we look from time to time.
_LOOK_SECONDS = 1.0


class End(Enum):
    """Why a recording ended."""

    COMMAND = "the command ended"
    TARGET = "the process ended"
    SIGNAL = "interrupted"
    DURATION = "the duration was over"


class Signals:
    """Blocks the watched signals while it is open, so that they can be waited for."""

    before: set[int]
    """The signals that were blocked before; what a child process has to go back to."""

    def __enter__(self) -> Self:
        self.before = {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What came after the end was decided has had its answer.
        while signal.sigtimedwait(_WATCHED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def raise_pending(self) -> None:
        """End here, with the status of a signal that came while nothing was recorded yet."""
        if number := self.ending():
            raise SystemExit(128 + number)

    def ending(self) -> int | None:
        """Return a signal that came meanwhile and ends a recording; None if there was none."""
        while (info := self.next(0)) is not None:
            if info.si_signo in ENDING:
                return int(info.si_signo)
        return None

    def next(self, timeout: float) -> signal.struct_siginfo | None:
        """Return the next watched signal within ``timeout`` seconds, or None."""
        return signal.sigtimedwait(_WATCHED, max(timeout, 0))


def ending_is_pending() -> bool:
    """Whether a signal has come that ends a recording; it is left for :class:`Signals`."""
    return bool(signal.sigpending() & ENDING)


class Target:
    """A process that runs already (``-p``).

    Raises:
        FaultprofError: there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        if not 0 < pid <= _MOST_PIDS:
            raise no_such_process(pid)
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise no_such_process(pid) from error
        except OSError as error:
            # EINVAL: the number is a thread's, not a process's.
            raise FaultprofError(
                f"cannot watch process {pid}: {error.strerror}",
                "give the number of a process, not of one of its threads",
            ) from error

    def gone(self) -> bool:
        """Whether the process has ended."""
        return bool(select.select([self._fd], [], [], 0)[0])

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)


def no_such_process(pid: int) -> FaultprofError:
    """Return the error for a PID that is not there (any more)."""
    return FaultprofError(f"there is no process {pid}", "look it up with pgrep or ps")


def wait_for_end(
    signals: Signals,
    command: Command | None,
    target: Target | None,
    duration: float | None,
) -> End:
    """Wait until the recording is to end and return why; ``duration`` in seconds from now."""
    deadline = time.monotonic() + duration if duration is not None else float("inf")
    while True:
        if command is not None and command.poll():
            return End.COMMAND
        if target is not None and target.gone():
            return End.TARGET
        left = deadline - time.monotonic()
        if left <= 0:
            return End.DURATION
        info = signals.next(min(left, _POLL_SECONDS if target is not None else _LOOK_SECONDS))
        if info is not None and info.si_signo in ENDING:
            pass_on(info, command)
            return End.SIGNAL


def wait_for_command(
    signals: Signals, command: Command, timeout: float, on_signal: Callable[[int], int] = int
) -> bool:
    """Wait up to ``timeout`` seconds for the command; return whether it has ended.

    ``on_signal`` is asked which signal the command gets in place of one that we received.
    """
    deadline = time.monotonic() + timeout
    while not command.poll():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        info = signals.next(min(left, _LOOK_SECONDS))
        if info is not None and info.si_signo in ENDING:
            replaced = on_signal(info.si_signo)
            if replaced == info.si_signo:
                pass_on(info, command)
            else:
                command.kill(replaced)
    return True


def pass_on(info: signal.struct_siginfo, command: Command | None) -> None:
    """Send the command a signal that only we received."""
    if command is not None and info.si_code != _FROM_KERNEL:
        command.kill(info.si_signo)

"""The recorded command: forked at once, held before exec(2) until every probe is ready.

Knows: the gate between fork and exec, exec's failures, exit statuses.
Leaves to others: what is attached meanwhile (sampling) and which signals end it (wait).

The fork comes first, before bcc and its compiler are loaded: the child then copies a small
address space, and inherits neither their threads nor their file descriptors.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from faultprof.capture.identity import Identity
from faultprof.errors import ExitCode, FaultprofError

# What the child says right before exec(2): what it has used up to then, as CPU seconds and as minor
# and major page faults.
_HELD = struct.Struct("=dqq")
# What it says when it cannot run the command: errno, and whether it had become the user.
_FAILURE = struct.Struct("=i?")

# Python ignores these; a command must not inherit that.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True, slots=True)
class Exit:
    """How the command ended; times in seconds, of itself and of the children it waited for.

    ``held_s``: the part of these times that our own code used between fork and exec. Page faults
    are counted likewise, those of our own code left out but for some 30 that exec(2) itself takes;
    ``major`` ones had to wait for a disk.
    """

    status: int
    user_s: float
    system_s: float
    held_s: float
    minor_faults: int
    major_faults: int

    @property
    def cpu_s(self) -> float:
        """CPU seconds from exec(2) on."""
        return max(self.user_s + self.system_s - self.held_s, 0.0)


class _Held(NamedTuple):
    """What the child used before exec(2)."""

    cpu_s: float
    minor_faults: int
    major_faults: int


class Command:
    """A child process between fork(2) and its end.

    Args:
        argv: the command line; the program is looked up in PATH as its user would.
        identity: the user to become, or None to stay what we are.
        blocked: the signals that the command is to find blocked.
        streams: descriptors that it gets in the place of its standard streams, by their numbers.

    Raises ``FaultprofError`` (exit code 127) for an empty name.
    """

    def __init__(
        self,
        argv: Sequence[str],
        identity: Identity | None,
        blocked: Iterable[int] = (),
        streams: Mapping[int, int] | None = None,
    ) -> None:
        self.argv = tuple(argv)
        if not self.argv[0]:
            raise _exec_error("''", errno.ENOENT)
        gate_read, self._gate = os.pipe()
        self._result, result_write = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            for number, fd in (streams or {}).items():
                os.dup2(fd, number)
            _exec_after_gate(self.argv, identity, tuple(blocked), gate_read, result_write)
        os.close(gate_read)
        os.close(result_write)
        self.exit: Exit | None = None
        self._held = _Held(0.0, 0, 0)

    def release(self) -> None:
        """Let the command start and return once exec(2) is done.

        Raises:
            FaultprofError: it cannot be executed (exit code 126 or 127, as a shell's).
        """
        os.write(self._gate, b"x")
        os.close(self._gate)
        self._gate = -1
        report = b""
        while part := os.read(self._result, _HELD.size):  # exec closes the other end
            report += part
        if len(report) >= _HELD.size:
            self._held = _Held(*_HELD.unpack_from(report))
            report = report[_HELD.size :]
        if report:
            self._reap(0)
            number, had_become = _FAILURE.unpack(report)
            raise _exec_error(self.argv[0], number) if had_become else _identity_error(number)

    def poll(self) -> Exit | None:
        """Return how the command ended, or None while it runs."""
        if self.exit is None:
            self._reap(os.WNOHANG)
        return self.exit

    def wait(self) -> Exit:
        """Wait for the command's end."""
        while self.exit is None:
            self._reap(0)
        return self.exit

    def kill(self, number: int) -> None:
        """Send a signal to the command, if it still runs."""
        if self.exit is None:
            os.kill(self.pid, number)

    def abandon(self) -> None:
        """End a command that was never released; safe to call at any time."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
            self.wait()
        if self._result >= 0:
            os.close(self._result)
            self._result = -1

    def _reap(self, options: int) -> None:
        pid, wait_status, usage = os.wait4(self.pid, options)
        if pid:
            code = os.waitstatus_to_exitcode(wait_status)
            status = code if code >= 0 else 128 - code
            self.exit = Exit(
                status,
                usage.ru_utime,
                usage.ru_stime,
                self._held.cpu_s,
                usage.ru_minflt - self._held.minor_faults,
                usage.ru_majflt - self._held.major_faults,
            )


def _exec_after_gate(
    argv: tuple[str, ...],
    identity: Identity | None,
    blocked: Iterable[int],
    gate: int,
    result: int,
) -> NoReturn:
    """Run in the child: wait for the gate, become the user, exec; never returns."""
    failure, had_become = 0, False
    try:
        environment = dict(os.environ) if identity is None else identity.environment(os.environ)
        candidates = _candidates(argv[0], environment)
        if os.read(gate, 1):  # otherwise the parent has gone or given up
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            if identity is not None:
                identity.become()
            had_become = True
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            used = usage.ru_utime + usage.ru_stime, usage.ru_minflt, usage.ru_majflt
            os.write(result, _HELD.pack(*used))
            _exec_first(candidates, argv, environment)
    except OSError as error:
        failure = error.errno or errno.EIO
    except ValueError:  # a NUL in an argument or in the environment
        failure = errno.EINVAL
    finally:
        # Also after KeyboardInterrupt: no other exit from a forked child may run our clean-up.
        if failure:
            os.write(result, _FAILURE.pack(failure, had_become))
        os._exit(ExitCode.NOT_FOUND)


def _candidates(program: str, environment: Mapping[str, str]) -> list[str]:
    """Return where a program may be, as execvp(3) looks for it."""
    if os.path.dirname(program):  # noqa: PTH120 (a path keeps its form)
        return [program]
    return [os.path.join(place, program) for place in os.get_exec_path(environment)]  # noqa: PTH118


def _exec_first(
    candidates: Sequence[str], argv: tuple[str, ...], environment: Mapping[str, str]
) -> None:
    """Execute the first candidate that can be; the reason why another cannot is worth more.

    Our own, since os.execvpe() takes a hundred page faults to look: they would be the command's.
    """
    refused: OSError | None = None
    for path in candidates:
        try:
            os.execve(path, argv, environment)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            refused = refused or error
    raise refused or missing


def check_directory() -> None:
    """Refuse to start in a directory that has been removed: nothing could run there."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise FaultprofError(
            "the current directory does not exist any more", "cd to one that does"
        ) from error


def _identity_error(number: int) -> FaultprofError:
    return FaultprofError(
        f"cannot become the user who called sudo: {os.strerror(number)}",
        "give --as-root to run the command as root",
        ExitCode.UNSUPPORTED,
    )


def _exec_error(program: str, number: int) -> FaultprofError:
    reason = os.strerror(number)
    if number == errno.ENOENT:
        if os.path.dirname(program) and os.path.exists(program):  # noqa: PTH110, PTH120
            return FaultprofError(
                f"cannot run {program}: its interpreter does not exist",
                "look at the first line of the script",
                ExitCode.NOT_FOUND,
            )
        return FaultprofError(
            f"command not found: {program}",
            "give a path, or a program in PATH; options of faultprof go before '--'",
            ExitCode.NOT_FOUND,
        )
    return FaultprofError(
        f"cannot run {program}: {reason}",
        "it must be an executable file (chmod +x), or a script that begins with #!",
        ExitCode.NOT_EXECUTABLE,
    )

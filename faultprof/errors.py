"""The one way to fail.

Knows: the shape of an error that a user sees, and the exit codes.
Leaves to others: printing it (``faultprof.cli`` does so, once, in one place).
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of faultprof; a recorded command's own status passes through unchanged."""

    OK = 0
    USAGE = 2
    UNSUPPORTED = 3
    BAD_RECORDING = 4
    DEGRADED = 5
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class FaultprofError(Exception):
    """What went wrong and what to do about it.

    Args:
        message: one line, what went wrong, in the user's words.
        hint: one line, what the user can do; empty only when nothing can be done.
        exit_code: the status that the process ends with.
        detail: text for ``--verbose`` only, such as a compiler's or the verifier's output.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        exit_code: int = ExitCode.USAGE,
        *,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = int(exit_code)
        self.detail = detail


def unsupported(message: str, hint: str, *, detail: str = "") -> FaultprofError:
    """Return the error for what this machine cannot do (exit code 3)."""
    return FaultprofError(message, hint, ExitCode.UNSUPPORTED, detail=detail)


def bad_recording(message: str, hint: str) -> FaultprofError:
    """Return the error for a recording that cannot be read (exit code 4)."""
    return FaultprofError(message, hint, ExitCode.BAD_RECORDING)

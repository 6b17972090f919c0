"""Runs a command again and again, each time with one of several doses, in random order.

Knows: blocks, the seed, the watchdog, and what is taken down of each run.
Leaves to others: delaying (``perturbing``), the command (``command``), what it all means
(``analysis.perturbation``).
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar

from faultprof.capture.command import Command, Exit
from faultprof.capture.identity import Identity
from faultprof.capture.perturbing import Counts, Delayer, Dose
from faultprof.capture.scope import Scope
from faultprof.capture.wait import Signals, wait_for_command
from faultprof.errors import ExitCode, FaultprofError

_KEPT = 1 << 20  # characters of a run's output, the last ones: results come last
_SHOWN = 400
_BUDGET_PART = 0.9  # of the watchdog's time, on each CPU

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run: seconds of wall time and CPU time, and what it printed."""

    wall_s: float
    user_s: float
    sys_s: float
    output: str


@dataclass(frozen=True, slots=True)
class DosedRun:
    """One run with a dose.

    Attributes:
        block: the number of the block it ran in; -1 for the one that goes ahead of them.
        delay_ns: the dose.
        timed: how it went.
        counts: what the probes did, by function.
        parallel: how many CPUs share the delays, see ``Delayer.done``.
    """

    block: int
    delay_ns: int
    timed: TimedRun
    counts: Mapping[str, Counts]
    parallel: float


def blocks(doses: Sequence[T], repeat: int, seed: int) -> Iterator[tuple[int, T]]:
    """Yield each dose once a block, in an order that the seed decides."""
    order = random.Random(seed)
    for block in range(repeat):
        shuffled = list(doses)
        order.shuffle(shuffled)
        for dose in shuffled:
            yield block, dose


class Runner:
    """Runs one command many times; signals are its caller's to block.

    Args:
        argv: the command.
        identity: the user to run it as; None for ourselves.
        signals: open.
    """

    def __init__(self, argv: Sequence[str], identity: Identity | None, signals: Signals) -> None:
        self._argv = argv
        self._identity = identity
        self._signals = signals

    def run(
        self,
        prepare: Callable[[int], object],
        *,
        timeout: float = float("inf"),
        on_timeout: Callable[[], object] = lambda: None,
    ) -> TimedRun:
        """Run the command once.

        Args:
            prepare: called with the process's number while it is held before exec(2).
            timeout: seconds; the command runs on when they are over, and fails the session.
            on_timeout: called then.

        Raises:
            FaultprofError: it cannot be run, failed, was interrupted, or took too long.
        """
        with tempfile.TemporaryFile() as printed:
            with _stdout_to(printed):
                command = Command(self._argv, self._identity, self._signals.before)
            try:
                prepare(command.pid)
                self._signals.raise_pending()
                # Before: a short command may be over when we run again.
                started = time.monotonic()
                command.release()
            finally:
                command.abandon()
            wall_s = self._wait(command, started, timeout, on_timeout)
            output = _tail(printed)
        end = command.wait()
        if end.status:
            raise _failed(end, output)
        return TimedRun(wall_s, end.user_s, end.system_s, output)

    def _wait(
        self, command: Command, started: float, timeout: float, on_timeout: Callable[[], object]
    ) -> float:
        received: list[int] = []

        def note(number: int) -> int:
            received.append(number)
            return number if len(received) == 1 else signal.SIGKILL

        if not wait_for_command(self._signals, command, timeout, note):
            on_timeout()
            wait_for_command(self._signals, command, float("inf"), note)
            if not received:
                raise FaultprofError(
                    f"the command ran longer than {timeout:.3g} s, and was let go of",
                    "give smaller delays, or a larger --timeout",
                    ExitCode.DEGRADED,
                )
        wall_s = time.monotonic() - started
        if received:
            raise SystemExit(128 + received[0])
        return wall_s


class DoseSession:
    """Runs a command with doses.

    Args:
        runner: of the command.
        delayer: attached.
        every, jitter, cpus: as in ``Dose``.
        timeout: the watchdog lets go when a run takes so many times the undelayed median.
    """

    def __init__(
        self,
        runner: Runner,
        delayer: Delayer,
        *,
        every: int = 1,
        jitter: bool = False,
        cpus: Iterable[int] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._runner = runner
        self._delayer = delayer
        self._every = every
        self._jitter = jitter
        self._cpus = None if cpus is None else frozenset(cpus)
        self._timeout = timeout
        self._undelayed: list[float] = []

    def run(self, delay_ns: int, block: int) -> DosedRun:
        """Run the command once; the first run must be undelayed, for the watchdog to know.

        Raises:
            FaultprofError: as ``Runner.run``.
        """
        seconds = self._seconds()
        known = seconds < float("inf")
        budget = seconds * 1e9 * (os.cpu_count() or 1) * _BUDGET_PART if known else 0
        limit = seconds if known else 0.0
        dose = Dose(delay_ns, int(budget), limit, self._every, self._jitter, self._cpus)
        timed = self._runner.run(
            lambda pid: self._delayer.aim(Scope(pid, held=True), dose),
            timeout=seconds,
            on_timeout=self._delayer.close,
        )
        counts, parallel = self._delayer.done()
        if delay_ns == 0:
            self._undelayed.append(timed.wall_s)
        names = [one.name for one in self._delayer.functions]
        return DosedRun(block, delay_ns, timed, dict(zip(names, counts, strict=True)), parallel)

    def _seconds(self) -> float:
        """Return how long a run may take."""
        if not self._undelayed:
            return float("inf")
        return self._timeout * statistics.median(self._undelayed)


@contextmanager
def _stdout_to(file: IO[bytes]) -> Iterator[None]:
    """Let children that are forked meanwhile print to a file: many runs would fill a screen."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        os.dup2(file.fileno(), 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _KEPT))
    return file.read().decode(errors="replace")


def _failed(end: Exit, output: str) -> FaultprofError:
    return FaultprofError(
        f"the command failed with status {end.status}",
        "it must succeed in every run",
        end.status,
        detail=output[-_SHOWN:],
    )

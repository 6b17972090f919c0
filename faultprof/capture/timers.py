"""Timers that run a BPF program on CPUs so many times a second.

Knows: that each CPU has a perf event of its own, that all are freed when one cannot be opened, and
that CPUs must not be interrupted at one time.
Leaves to others: the program, which CPUs and how often; what a refusal means (``scope``).

A task that is interrupted stops contending with those on other CPUs, and for some 100 us after it
they run as if they were alone. CPUs whose timers fire within that time of each other thus show less
contention than there is. Two threads of usemem reading one file on 2 CPUs of 6.18 at 999 Hz, with
perf record on either CPU: 20 to 27% of the samples in user code where the timers were 13 to 95 us
apart (perf record -a starts them 60 to 95 us apart), 14 to 16% where they were 139 to 568 us apart.
So they are started evenly spread over the period.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from time import monotonic_ns

from faultprof.bpf.perf_event import ALL_TASKS, CLOCK_EVENTS, Clock, EventSpec, PerfEvent
from faultprof.capture.scope import open_error

_SECOND = 1_000_000_000
_LONGEST_SPREAD = 4_000_000  # ns; so that a command does not wait a second for 1 Hz


class Timers:
    """Opened but not started; freed when closed.

    Args:
        program: file descriptor of the program, of kind ``perf_event``.
        clock: what drives them.
        frequency: in hertz.
        cpus: where.
        exclude_idle: whether they rest while nothing runs.

    Raises:
        FaultprofError: the kernel refuses one (exit code 3).
    """

    def __init__(
        self,
        program: int,
        clock: Clock,
        frequency: int,
        cpus: Iterable[int],
        *,
        exclude_idle: bool = True,
    ) -> None:
        kind, config = CLOCK_EVENTS[clock]
        spec = EventSpec(kind, config, frequency, exclude_idle=exclude_idle)
        self._events: list[PerfEvent] = []
        self._spread = min(_SECOND // frequency, _LONGEST_SPREAD)
        with ExitStack() as undo:
            for cpu in cpus:
                try:
                    event = PerfEvent.open(spec, pid=ALL_TASKS, cpu=cpu)
                except OSError as error:
                    raise open_error(error, clock) from error
                undo.callback(event.close)
                self._events.append(event)
                event.set_program(program)
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Let them run, spread over a period; also again, after :meth:`stop`."""
        begin = monotonic_ns()
        for number, event in enumerate(self._events):
            # Sleeping would be late by more than the distance on machines of many CPUs.
            while monotonic_ns() < begin + number * self._spread // len(self._events):
                pass
            event.enable()

    def stop(self) -> None:
        """Let them rest."""
        for event in self._events:
            event.disable()

    def close(self) -> None:
        """Stop them for good; safe to repeat."""
        self._undo.close()

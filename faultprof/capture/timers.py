"""Timers that run a BPF program on CPUs so many times a second.

Knows: that each CPU has a perf event of its own, and that all are freed when one cannot be opened.
Leaves to others: the program, which CPUs and how often; what a refusal means (``scope``).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from faultprof.bpf.perf_event import ALL_TASKS, CLOCK_EVENTS, Clock, EventSpec, PerfEvent
from faultprof.capture.scope import open_error


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
        """Let them run; also again, after :meth:`stop`."""
        for event in self._events:
            event.enable()

    def stop(self) -> None:
        """Let them rest."""
        for event in self._events:
            event.disable()

    def close(self) -> None:
        """Stop them for good; safe to repeat."""
        self._undo.close()

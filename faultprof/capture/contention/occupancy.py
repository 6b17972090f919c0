"""The part occupancy: how many CPUs are inside each traced function at the same moment.

Knows: the maps of probes/occupancy.h, the timer that has all slots read, and how a run's data look.
Leaves to others: the slots and the calls that look at them, which are the tracer's programs; what
the figures mean (``analysis.contention.occupancy``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.capture.scope import Scope
from faultprof.capture.timers import Timers
from faultprof.errors import unsupported
from faultprof.kernel.cpus import online_cpus

if TYPE_CHECKING:
    from faultprof.capture.contention.setting import Setting
    from faultprof.capture.trace_totals import NodeTotals
    from faultprof.capture.tracing import Tracer

# A prime number: no tick of the kernel, and no work that goes by one, keeps step with it.
FREQUENCY = 997

_TICKS = struct.Struct("=QQQQ")  # our timer, count, first, last
_SECOND = 1_000_000_000
_SQUARE_UNIT = 16  # ns whose squares are added up


class Occupancy:
    """The timer beside a tracer that was made with occupancy.

    Args:
        tracer: outlives this.
        frequency: readings a second.

    Raises:
        FaultprofError: this machine cannot do that (exit code 3).
    """

    def __init__(self, tracer: Tracer, frequency: int = FREQUENCY) -> None:
        if tracer.occupancy is None:
            raise unsupported("the trace was made without occupancy", "give --occupancy")
        self._tracer = tracer
        self._program = tracer.program
        self._knobs: OccupancyKnobs = tracer.occupancy
        self._frequency = frequency
        with ExitStack() as undo:
            tick = self._program.load("on_tick", "perf_event")
            # The first CPUs have most of the interrupts.
            last = [max(online_cpus())]
            self._timer = undo.enter_context(
                closing(Timers(tick, "cpu-clock", frequency, last, exclude_idle=False))
            )
            self._program.attach_raw_tracepoint("hrtimer_expire_entry", "on_timer")
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Start the timer; readings count while the tracer's tasks are traced."""
        self._timer.start()

    def stop(self) -> dict[str, Any]:
        """Stop the timer and return what was read.

        Times are in ns; ``read_ns`` is from the first reading to the last. Of each function that
        was called:
            ``inside``: ``[[CPUs, ns in which so many were inside], ...]``, from 1 on.
            ``calls``: ``[[occupancy, calls, ns, off-CPU ns, sum of squared ns], ...]`` of the calls
            that looked; where several occupancies are added up together, the highest of them.
            ``traced``: all its calls that returned and what they spent on CPUs, by the trace.
        """
        self._timer.stop()
        _, count, first, last = _TICKS.unpack(self._program.read("ticks", 0))
        period = _SECOND // self._frequency
        due = round((last - first) / period) + 1 if count else 0
        return {
            "cpus": len(online_cpus()),
            "frequency_hz": self._frequency,
            "every": self._knobs.every,
            "readings": count,
            "missed_readings": max(0, due - count),
            "read_ns": last - first,
            "functions": self._functions(),
            "lost": {},
        }

    def next_run(self, scope: Scope) -> None:  # noqa: ARG002 (the scope is the tracer's)
        """Forget what was read, after :meth:`stop`."""
        functions = self._knobs.functions
        self._program.zero("ticks", [0])
        self._program.zero("slots", [0])
        self._program.zero("occupied", range(functions * (self._knobs.cpus + 1)))
        self._program.zero("met", range(functions * self._knobs.steps))

    def close(self) -> None:
        """Stop the timer for good; safe to repeat."""
        self._undo.close()

    def _functions(self) -> dict[str, Any]:
        on_cpu = on_cpu_of(self._tracer.totals())
        timed = [one for one in self._tracer.plan.functions if one.timed]
        return {
            one.name: {
                "inside": self._inside(one.number),
                "calls": self._calls(one.number),
                "traced": on_cpu[one.name],
            }
            for one in timed
            if one.name in on_cpu
        }

    def _inside(self, function: int) -> list[list[int]]:
        places = self._knobs.cpus + 1
        seen = [
            int.from_bytes(self._program.read("occupied", function * places + cpus), "little")
            for cpus in range(places)
        ]
        return [[cpus, ns] for cpus, ns in enumerate(seen) if ns and cpus]

    def _calls(self, function: int) -> list[list[int]]:
        found = []
        for place in range(self._knobs.steps):
            index = function * self._knobs.steps + place
            calls, ns, off_cpu, squares = self._program.sum_per_cpu("met", index)
            if calls:
                highest = min((place + 1) * self._knobs.step, self._knobs.cpus)
                found.append([highest, calls, ns, off_cpu, squares * _SQUARE_UNIT**2])
        return found


def open_part(setting: Setting) -> Occupancy:
    """Start no timer yet, but make everything ready beside the tracer."""
    assert setting.tracer is not None, "parts refuses it without"
    return Occupancy(setting.tracer)


def on_cpu_of(totals: Mapping[tuple[str, ...], NodeTotals]) -> dict[str, dict[str, int]]:
    """Return calls and ns on CPUs of each function; a call within itself has its time there.

    Args:
        totals: by path.
    """
    found: dict[str, dict[str, int]] = {}
    for path, one in totals.items():
        if one.calls:
            of_function = found.setdefault(path[-1], {"calls": 0, "ns": 0})
            of_function["calls"] += one.calls
            if path[-1] not in path[:-1]:
                of_function["ns"] += one.inclusive_ns - (one.offcpu_ns or 0)
    return found

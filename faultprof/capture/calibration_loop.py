"""The loop in which a calibration hits probes, inside the kernel, and the tracer that it measures.

Knows: probes/calibrate.bpf.c, and how to attach a tracer's functions one at a time.
Leaves to others: which probes, and what the times mean (``calibration``).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from faultprof.bpf.program import Program
from faultprof.bpf.syscall import run_raw_tracepoint
from faultprof.capture.trace_knobs import TASK_HEAD
from faultprof.capture.trace_plan import TracedFunction
from faultprof.capture.trace_totals import NodeTotals
from faultprof.capture.tracing import Tracer
from faultprof.errors import unsupported

LOOPS = 1000
MOST_THREADS = 1024  # MAX_THREADS of the program
_MOMENTS = struct.Struct("=QQQ")  # began, body, ended

# Enough repeats that the shortest is not a matter of luck, in a time that nobody minds.
REPEATS = 50
FEWEST = 8
_SECONDS = 0.06

T = TypeVar("T")


def repeated(measure: Callable[[], list[T]]) -> list[T]:
    """Return what repeated measurements gave, all threads of each."""
    started = time.monotonic()
    found: list[T] = []
    repeats = 0
    while repeats < FEWEST or (repeats < REPEATS and time.monotonic() - started < _SECONDS):
        found += measure()
        repeats += 1
    return found


class Loop:
    """The loop, and how long a pass of it takes; a context manager that frees it.

    Raises:
        FaultprofError: this machine cannot run it (exit code 3).
    """

    def __init__(self) -> None:
        self._program = Program("calibrate.bpf.c", {"LOOPS": LOOPS})
        with ExitStack() as undo:
            undo.callback(self._program.close)
            self._drive = self._program.load("drive", "raw_tracepoint")
            self._once = self._program.load("drive_once", "raw_tracepoint")
            self.pass_ns()  # raises where the kernel cannot run programs on demand
            undo.pop_all()

    def close(self) -> None:
        """Free the programs."""
        self._program.close()

    def pass_ns(self, thread: int = 0) -> float:
        """Call the empty function ``LOOPS`` times and return the nanoseconds of one call."""
        began, _, ended = self._run(self._drive, thread)
        return (ended - began) / LOOPS

    def moments(self) -> tuple[int, int, int]:
        """Call the function that reads the clock; return before, in its body, and after.

        It is called some times; the moments are those of the last call.
        """
        return self._run(self._once, 0)

    def _run(self, program: int, thread: int) -> tuple[int, int, int]:
        try:
            run_raw_tracepoint(program, thread)
        except OSError as error:
            raise unsupported(
                f"this kernel cannot run a program on demand: {error.strerror}",
                "probes cannot be calibrated here; give --no-calibrate",
            ) from error
        began, body, ended = _MOMENTS.unpack(self._program.read("of_thread", thread))
        return began, body, ended


class Bench(Tracer):
    """The tracer, with its functions attached one at a time."""

    def _attach_all(self) -> None:
        pass

    @contextmanager
    def attached(self, *functions: TracedFunction | None) -> Iterator[None]:
        """Attach some functions' probes for a while, callers first; None stands for nothing.

        Raises:
            FaultprofError: they cannot be attached.
        """
        try:
            for function in functions:
                if function is None:
                    continue
                if function in self._together:
                    self._attach_together([function])
                else:
                    self._attach(function)
            yield
        finally:
            self._probes.close()

    def so_far(self, function: TracedFunction) -> tuple[int, int]:
        """Return calls and inclusive ns of a function over all paths."""
        totals = self._totals_of(function)
        return sum(one.calls for one in totals), sum(one.inclusive_ns for one in totals)

    def shortest_ns(self, function: TracedFunction) -> int:
        """Return the shortest call of a function."""
        return min(one.min_ns for one in self._totals_of(function))

    def _totals_of(self, function: TracedFunction) -> list[NodeTotals]:
        nodes = self._read_nodes()
        numbers = [node for node, (_, one) in nodes.items() if one == function.number]
        return [self._read_totals(number) for number in numbers]

    def last_call(self, began: int, ended: int) -> int | None:
        """Return when the call between two moments was entered, by the clock of its probe.

        A frame that has been left stays where it was until the next call.
        """
        for record in self._program.read_hash_records("tasks")[1]:
            raw = record.tobytes()
            # Below its caller, if that is traced: the deepest frame that began since is the call's.
            for level in (1, 0):
                start = int(
                    self.frame.unpack_from(raw, TASK_HEAD.size + level * self.frame.size)[0]
                )
                if began <= start <= ended:
                    return start
        return None

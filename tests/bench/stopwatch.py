"""Times a command from inside of what records it, and a usemem's own figures with it.

Knows: the bundled stopwatch program, and how usemem says how fast it went.
Leaves to others: the recorders' command lines (``commands``), what the times mean.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultprof.workloads.usemem import find_usemem
from tests.bench.commands import output_of

_SOURCE = Path(__file__).with_name("stopwatch.c")
_SPEED = re.compile(r"= (\d+) KB/s$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Timing:
    """One run of a usemem, in a recorder or alone.

    Attributes:
        before_s: seconds from the recorder's start to the command's.
        after_s: seconds from the command's end to the recorder's.
        cpu_s: CPU seconds of the usemem; interrupts taken while it ran are in them, unless the
            kernel accounts for those apart (CONFIG_IRQ_TIME_ACCOUNTING).
        speed: its KB/s, summed over tasks. Its clock starts in its main(): the recorder's start
            and end are not in this figure.
    """

    before_s: float
    after_s: float
    cpu_s: float
    speed: float


class Stopwatch:
    """The compiled stopwatch program; ``directory`` keeps it and what it writes."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "stopwatch"
        self._times = directory / "times"
        # In C: Python would take 10 ms to its first line.
        output_of(["cc", "-O2", "-o", str(self._program), str(_SOURCE)])

    def time(self, recorder: Sequence[str], *usemem: str) -> Timing:
        """Run usemem with these arguments, below a recorder ([]: alone)."""
        command = [str(self._program), str(self._times), str(find_usemem().path), *usemem]
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        output = output_of([*recorder, *command])
        prompt = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        begun, ended, cpu = map(int, self._times.read_text().split())
        self._times.unlink()  # the next run must write its own
        speed = sum(map(int, _SPEED.findall(output)))
        return Timing((begun - start) / 1e9, (prompt - ended) / 1e9, cpu / 1e9, float(speed))

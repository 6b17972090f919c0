"""What the parts of contention cost that need tracepoints only: each beside samples, on and off.

Knows: a workload whose threads fault in one address space, and so fight for its locks.
Leaves to others: the recorder's command line (``commands``), timing (``stopwatch``), taking
turns (``rows``).
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.commands import FREQUENCY, faultprof_record
from tests.bench.rows import Row, Subject, interleaved, ratios
from tests.bench.stopwatch import Stopwatch, Timing

PARTS = ("locks",)
# One write in each page; more threads than there are CPUs on a small machine.
WORKLOAD = ("-t", "4", "--step", "4096")
SIZE = "1g"


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure without any part, twice (that shows the noise), and with each."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as directory:
        measure = partial(_write_faults, Stopwatch(Path(directory)), Path(directory))
        variants = {"off": measure, "off again": measure}
        variants |= {part: partial(measure, f"--{part}") for part in PARTS}
        found = interleaved(variants, repeats, order)
    speeds = {name: [timing.speed for timing in timings] for name, timings in found.items()}
    return [
        *(Row(f"{part} on ÷ off", "ratio", ratios(speeds[part], speeds["off"])) for part in PARTS),
        Row("off ÷ off (noise)", "ratio", ratios(speeds["off again"], speeds["off"])),
    ]


def _write_faults(stopwatch: Stopwatch, directory: Path, *options: str) -> Timing:
    recorder = faultprof_record(directory / "bench.fprof", *options)
    return stopwatch.time(recorder, *WORKLOAD, SIZE)


SUBJECT = Subject(
    name="contention",
    title=f"contention: throughput of write faults of 4 threads, sampled at {FREQUENCY} Hz",
    rows=rows,
    repeats=15,
    needs_root=True,
)

"""What fault labels cost: a program that runs at every page fault of the machine.

Knows: a workload that does little but fault.
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

SHARED_MEMORY = Path("/dev/shm")
# One read in each page: with usemem's default step, the walk would hide a part of the cost.
WORKLOAD = ("-t", "2", "--step", "4096", "--readonly")
SIZE = "1g"

_VALUES = {"on": "on", "off": "off", "off again": "off"}


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure with and without labels, and the latter twice: that shows the noise."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-", dir=SHARED_MEMORY) as directory:
        measure = partial(_read_faults, Stopwatch(Path(directory)), Path(directory))
        variants = {name: partial(measure, value) for name, value in _VALUES.items()}
        found = interleaved(variants, repeats, order)
    speeds = {name: [timing.speed for timing in timings] for name, timings in found.items()}
    return [
        Row("labels on ÷ off", "ratio", ratios(speeds["on"], speeds["off"])),
        Row("labels off ÷ off (noise)", "ratio", ratios(speeds["off again"], speeds["off"])),
    ]


def _read_faults(stopwatch: Stopwatch, directory: Path, labels: str) -> Timing:
    file = directory / "sparse"
    # A new sparse file each time: once its pages are there, a fault maps those around it too.
    file.unlink(missing_ok=True)
    recorder = faultprof_record(directory / "bench.fprof", "--fault-labels", labels)
    return stopwatch.time(recorder, *WORKLOAD, "-f", str(file), SIZE)


SUBJECT = Subject(
    name="labels",
    title=f"fault labels: throughput of read faults of a sparse file in {SHARED_MEMORY}, "
    f"sampled at {FREQUENCY} Hz",
    rows=rows,
    repeats=15,
    needs_root=True,
)

"""What fault labels cost: a program that runs at every page fault of the machine.

Knows: a workload that does little but fault.
Leaves to others: the recorder's command line (``commands``), taking turns (``rows``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from faultprof.workloads.usemem import find_usemem
from tests.bench.bench_throughput import throughput
from tests.bench.commands import FREQUENCY, faultprof_record
from tests.bench.rows import Row, Subject, interleaved, ratios

SHARED_MEMORY = Path("/dev/shm")
# One read in each page: with usemem's default step, the walk would hide a part of the cost.
WORKLOAD = ("-t", "2", "--step", "4096", "--readonly")
SIZE = "1g"


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure with and without labels, and the latter twice: that shows the noise."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-", dir=SHARED_MEMORY) as directory:
        measure = _reader(Path(directory))
        variants = {
            "off": partial(measure, "off"),
            "off again": partial(measure, "off"),
            "on": partial(measure, "on"),
        }
        found = interleaved(variants, repeats, order)
    return [
        Row("labels on ÷ off", "ratio", ratios(found["on"], found["off"])),
        Row("labels off ÷ off (noise)", "ratio", ratios(found["off again"], found["off"])),
    ]


def _reader(directory: Path) -> Callable[[str], float]:
    """Return what measures the throughput of read faults, given --fault-labels' value."""
    usemem = str(find_usemem().path)
    file, recording = directory / "sparse", directory / "bench.fprof"

    def measure(labels: str) -> float:
        # A new sparse file each time: once its pages are there, faults around map 16 at once.
        file.unlink(missing_ok=True)
        recorder = faultprof_record(recording, "--fault-labels", labels)
        return throughput([*recorder, usemem, *WORKLOAD, "-f", str(file), SIZE])

    return measure


SUBJECT = Subject(
    name="labels",
    title=f"fault labels: throughput of read faults of a sparse file in {SHARED_MEMORY}, "
    f"sampled at {FREQUENCY} Hz",
    rows=rows,
    repeats=15,
    needs_root=True,
)

"""What recording costs a workload: its throughput recorded, against unrecorded.

Knows: the workload and the variants.
Leaves to others: the recorders' command lines (``commands``), timing (``stopwatch``), taking
turns (``rows``).
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.commands import FREQUENCY, faultprof_record, perf_record
from tests.bench.rows import Goal, Row, Subject, interleaved, ratios
from tests.bench.stopwatch import Stopwatch

WORKLOAD = ("-t", "2", "512m")


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure recorded (by default with fault labels), and twice unrecorded: that is the noise."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as name:
        directory = Path(name)
        recorders = {
            "bare": [],
            "again": [],
            "faultprof": faultprof_record(directory / "bench.fprof"),
            "unlabelled": faultprof_record(directory / "bench.fprof", "--fault-labels", "off"),
            "perf": perf_record(directory / "perf.data"),
        }
        time = Stopwatch(directory).time
        runs = {name: partial(time, line, *WORKLOAD) for name, line in recorders.items()}
        found = interleaved(runs, repeats, order)
    speeds = {name: [timing.speed for timing in timings] for name, timings in found.items()}
    ratio = {name: ratios(values, speeds["bare"]) for name, values in speeds.items()}
    return [
        Row("faultprof record ÷ unrecorded", "ratio", ratio["faultprof"], Goal("≥", 0.99)),
        Row("faultprof record --fault-labels off ÷ unrecorded", "ratio", ratio["unlabelled"]),
        Row("perf record -g ÷ unrecorded", "ratio", ratio["perf"]),
        Row("unrecorded ÷ unrecorded (noise)", "ratio", ratio["again"]),
    ]


SUBJECT = Subject(
    name="throughput",
    title=f"throughput of usemem {' '.join(WORKLOAD)}, sampled at {FREQUENCY} Hz of cpu-clock",
    rows=rows,
    repeats=20,
    needs_root=True,
)

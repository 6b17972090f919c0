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
from tests.bench.stopwatch import Stopwatch, speeds, work_per_cpu_second

WORKLOAD = ("-t", "2", "512m")

_NAMES = {
    "faultprof": "faultprof record ÷ unrecorded",
    "perf": "perf record -g ÷ unrecorded",
    "again": "unrecorded ÷ unrecorded (noise)",
}


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure recorded, by perf, and twice unrecorded: the second one shows the noise."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as name:
        directory = Path(name)
        recorders = {
            "bare": [],
            "again": [],
            "faultprof": faultprof_record(directory / "bench.fprof"),
            "perf": perf_record(directory / "perf.data"),
        }
        time = Stopwatch(directory).time
        runs = {name: partial(time, line, *WORKLOAD) for name, line in recorders.items()}
        found = interleaved(runs, repeats, order)
    result = []
    for measure, suffix in ((speeds, ""), (work_per_cpu_second, ", per CPU second")):
        bare = measure(found["bare"])
        for variant, name in _NAMES.items():
            goal = Goal("≥", 0.99) if measure is speeds and variant == "faultprof" else None
            values = ratios(measure(found[variant]), bare)
            result.append(Row(name + suffix, "ratio", values, goal))
    return result


SUBJECT = Subject(
    name="throughput",
    title=f"throughput of usemem {' '.join(WORKLOAD)}, sampled at {FREQUENCY} Hz of cpu-clock",
    rows=rows,
    repeats=20,
    needs_root=True,
)

"""What recording costs a workload: its throughput recorded, against unrecorded.

Knows: the workload, and how usemem says how fast it went.
Leaves to others: the recorders' command lines (``commands``), taking turns (``rows``).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

from faultprof.workloads.usemem import find_usemem
from tests.bench.commands import FREQUENCY, faultprof_record, output_of, perf_record
from tests.bench.rows import Goal, Row, Subject, interleaved, ratios

WORKLOAD = ("-t", "2", "512m")

_SPEED = re.compile(r"= (\d+) KB/s$", re.MULTILINE)


def throughput(command: Sequence[str]) -> float:
    """Run a command that ends in a usemem; return its KB/s, summed over tasks.

    usemem's own clock starts in its main(): the recorder's start and end are not in the figure.
    """
    return float(sum(map(int, _SPEED.findall(output_of(command)))))


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure recorded, by perf, and twice unrecorded: the second one shows the noise."""
    usemem = [str(find_usemem().path), *WORKLOAD]
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as directory:
        ours = [*faultprof_record(Path(directory, "bench.fprof")), *usemem]
        perf = [*perf_record(Path(directory, "perf.data")), *usemem]
        variants = {"bare": usemem, "again": usemem, "faultprof": ours, "perf": perf}
        runs = {name: partial(throughput, line) for name, line in variants.items()}
        found = interleaved(runs, repeats, order)
    ratio = {name: ratios(values, found["bare"]) for name, values in found.items()}
    return [
        Row("faultprof record ÷ unrecorded", "ratio", ratio["faultprof"], Goal("≥", 0.99)),
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

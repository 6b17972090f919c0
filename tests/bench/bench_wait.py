"""How long the user waits: from faultprof's start to the command's, from its end to the prompt.

Knows: a command that tells on the machine's monotonic clock when it began and ended.
Leaves to others: the recorders' command lines (``commands``), taking turns (``rows``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from faultprof.workloads.usemem import find_usemem
from tests.bench.commands import faultprof_record, output_of, perf_record
from tests.bench.rows import Goal, Row, Subject, interleaved, ratios

WORKLOAD = ("-t", "2", "512m")

_MARKER = Path(__file__).with_name("marker.c")


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds before the command began and after it had ended."""

    before: float
    after: float


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure both waits of both recorders, around a usemem that leaves stacks to be written."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as name:
        directory = Path(name)
        times = directory / "times"
        marked = [_build_marker(directory), str(times), str(find_usemem().path), *WORKLOAD]
        recorders = {
            "faultprof": faultprof_record(directory / "bench.fprof"),
            "perf": perf_record(directory / "perf.data"),
        }
        runs = {
            name: partial(_waits, [*recorder, *marked], times)
            for name, recorder in recorders.items()
        }
        found = interleaved(runs, repeats, order)
    before = {name: [waits.before for waits in found[name]] for name in found}
    after = {name: [waits.after for waits in found[name]] for name in found}
    return [
        *_rows_of("start to command's start", before, Goal("≤", 0.5)),
        *_rows_of("command's end to prompt", after, Goal("≤", 0.3)),
    ]


def _rows_of(what: str, seconds: dict[str, list[float]], goal: Goal) -> list[Row]:
    ours, perf = seconds["faultprof"], seconds["perf"]
    return [
        Row(f"{what}: faultprof record", "s", tuple(ours), goal),
        Row(f"{what}: perf record -g", "s", tuple(perf)),
        Row(f"{what}: faultprof ÷ perf", "ratio", ratios(ours, perf)),
    ]


def _build_marker(directory: Path) -> str:
    """Compile the marking command; a Python one would take 10 ms to its first line."""
    program = directory / "marker"
    output_of(["cc", "-O2", "-o", str(program), str(_MARKER)])
    return str(program)


def _waits(command: Sequence[str], times: Path) -> Waits:
    """Run a recorder with the marking command and return how long the user waited."""
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    output_of(command)
    prompt = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    began, ended = map(int, times.read_text().split())
    times.unlink()  # the next run must write its own
    return Waits((began - start) / 1e9, (prompt - ended) / 1e9)


SUBJECT = Subject(
    name="wait",
    title=f"waiting for the recorder, around usemem {' '.join(WORKLOAD)}",
    rows=rows,
    repeats=15,
    needs_root=True,
)

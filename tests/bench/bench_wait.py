"""How long the user waits: from faultprof's start to the command's, from its end to the prompt.

Knows: the goals, and a command that leaves stacks to be named and written.
Leaves to others: the recorders' command lines (``commands``), timing (``stopwatch``), taking
turns (``rows``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.commands import faultprof_record, perf_record
from tests.bench.rows import Goal, Row, Subject, interleaved, ratios
from tests.bench.stopwatch import Stopwatch

WORKLOAD = ("-t", "2", "512m")


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure both waits of both recorders."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as name:
        directory = Path(name)
        recorders = {
            "faultprof": faultprof_record(directory / "bench.fprof"),
            "perf": perf_record(directory / "perf.data"),
        }
        time = Stopwatch(directory).time
        runs = {name: partial(time, line, *WORKLOAD) for name, line in recorders.items()}
        found = interleaved(runs, repeats, order)
    before = {name: [timing.before_s for timing in found[name]] for name in found}
    after = {name: [timing.after_s for timing in found[name]] for name in found}
    return [
        *_rows_of("start to command's start", before, Goal("≤", 0.5)),
        *_rows_of("command's end to prompt", after, Goal("≤", 0.3)),
    ]


def _rows_of(what: str, seconds: Mapping[str, Sequence[float]], goal: Goal) -> list[Row]:
    ours, perf = seconds["faultprof"], seconds["perf"]
    return [
        Row(f"{what}: faultprof record", "s", tuple(ours), goal),
        Row(f"{what}: perf record -g", "s", tuple(perf)),
        Row(f"{what}: faultprof ÷ perf", "ratio", ratios(ours, perf)),
    ]


SUBJECT = Subject(
    name="wait",
    title=f"waiting for the recorder, around usemem {' '.join(WORKLOAD)}",
    rows=rows,
    repeats=15,
    needs_root=True,
)

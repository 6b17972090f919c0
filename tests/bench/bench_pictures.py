"""Time and size of flame graphs and pages of a recording of a million nodes.

Knows: which commands draw what.
Leaves to others: such a recording (``bench_report``), measuring a process (``commands``).
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.bench_report import write_synthetic
from tests.bench.commands import measure
from tests.bench.rows import Goal, Row, Subject, interleaved

PATHS = 340_000  # distinct paths, which share their beginnings: a million nodes


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure both commands on one recording."""
    result = []
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as directory:
        recording = Path(directory, "x.fprof")
        nodes = write_synthetic(recording, PATHS)
        outputs = {name: Path(directory, f"x-{name}.html") for name in ("flame", "html")}
        runs = {
            name: partial(measure, name, str(recording), "-o", str(output))
            for name, output in outputs.items()
        }
        for name, measured in interleaved(runs, repeats, order).items():
            label = f"{name} ({nodes / 1e6:.1f} M nodes)"
            walls = [wall for wall, _ in measured]
            size = outputs[name].stat().st_size / 1e6
            result.append(Row(f"{label}: time", "s", walls, Goal("≤", 3)))
            result.append(Row(f"{label}: size", "MB", [size], Goal("≤", 5)))
    return result


SUBJECT = Subject(
    name="pictures",
    title="flame graph and HTML page of a recording of a million nodes",
    rows=rows,
    repeats=7,
    needs_root=False,
)

"""How fast ``faultprof --help`` answers.

Knows: what to run.
Leaves to others: measuring a process (``commands``), taking turns (``rows``).
"""

from __future__ import annotations

from functools import partial
from random import Random

from tests.bench.commands import measure
from tests.bench.rows import Goal, Row, Subject, interleaved


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure the wall time of the whole process."""
    found = interleaved({"help": partial(measure, "--help")}, repeats, order)
    return [Row("--help", "s", tuple(wall for wall, _ in found["help"]), Goal("≤", 0.15))]


SUBJECT = Subject(name="help", title="command line", rows=rows, repeats=20, needs_root=False)

"""``python -m tests.bench``: measure the subjects one after the other and print their rows.

Knows: the subjects, the command line, the table and its JSON.
Leaves to others: measuring (a module each subject).
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.bench import (
    bench_contention,
    bench_help,
    bench_import,
    bench_labels,
    bench_occupancy,
    bench_pairs,
    bench_pictures,
    bench_probed,
    bench_programs,
    bench_report,
    bench_throughput,
    bench_wait,
)
from tests.bench import machine as this
from tests.bench.rows import Row, Subject

SUBJECTS = {
    module.SUBJECT.name: module.SUBJECT
    for module in (
        bench_throughput,
        bench_labels,
        bench_contention,
        bench_programs,
        bench_pairs,
        bench_probed,
        bench_occupancy,
        bench_wait,
        bench_report,
        bench_import,
        bench_pictures,
        bench_help,
    )
}

_NAME_WIDTH = 62
_VERDICTS = {True: "meets", False: "misses", None: ""}


@dataclass(frozen=True, slots=True)
class Result:
    """A subject's rows, and the load average before and after they were measured."""

    subject: Subject
    rows: list[Row]
    load: tuple[float, float]


def main() -> int:
    """Measure and print; return the exit status: 1 when a subject had to be left out."""
    options = _parse()
    # So that temporary files go, and the kernel's settings come back, when we are ended too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    chosen = [SUBJECTS[name] for name in options.only or SUBJECTS]
    possible = [subject for subject in chosen if os.geteuid() == 0 or not subject.needs_root]
    machine = {**this.describe(), "load": this.load(), "seed": options.seed}
    if not options.json:
        print(_heading(machine), flush=True)
    results = []
    for subject in possible:
        results.append(_measure(subject, options.repeats, Random(options.seed)))
        if not options.json:
            print(_table(results[-1]), flush=True)
    if options.json:
        print(json.dumps({"machine": machine, "subjects": [_to_json(r) for r in results]}))
    left_out = [subject.name for subject in chosen if subject not in possible]
    if left_out:
        print(
            f"left out without root: {', '.join(left_out)}; run: sudo make bench", file=sys.stderr
        )
    return int(bool(left_out))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure faultprof and print rows, each held against its goal.",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=SUBJECTS,
        help=f"one of {', '.join(SUBJECTS)}; may be repeated",
    )
    parser.add_argument(
        "--repeats", type=int, help="blocks of each subject, in place of its own number"
    )
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10_000), help="of the order within blocks"
    )
    parser.add_argument("--json", action="store_true", help="all values, in place of a table")
    options = parser.parse_args()
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be at least 1")
    return options


def _measure(subject: Subject, repeats: int | None, order: Random) -> Result:
    print(f"measuring {subject.name} ...", file=sys.stderr, flush=True)
    before = this.load()
    rows = subject.rows(repeats or subject.repeats, order)
    return Result(subject, rows, (before, this.load()))


def _heading(machine: dict[str, Any]) -> str:
    return (
        "{cpu}, {cpus} CPUs, Linux {kernel}, load average {load:.2f}, seed {seed}\n"
        "min, median and max over blocks; the median is held against the goal"
    ).format_map(machine)


def _table(result: Result) -> str:
    before, after = result.load
    blocks = len(result.rows[0].values)
    noise = f"{blocks} blocks, load average {before:.2f} to {after:.2f}"
    columns = f"  {noise:<{_NAME_WIDTH}}  {'min':>7} {'median':>7} {'max':>7}  {'':<5}  goal"
    return "\n".join(["", result.subject.title, columns, *map(_line, result.rows)])


def _line(row: Row) -> str:
    digits = 0 if row.unit in ("MB", "ns") else 3
    numbers = " ".join(f"{value:7.{digits}f}" for value in row.spread)
    goal = str(row.goal or "")
    cells = (f"{row.name:<{_NAME_WIDTH}}", numbers, f"{row.unit:<5}", f"{goal:<6}")
    return "  ".join(["", *cells, _VERDICTS[row.meets]]).rstrip()


def _to_json(result: Result) -> dict[str, Any]:
    return {
        "name": result.subject.name,
        "title": result.subject.title,
        "load": result.load,
        "rows": [
            {
                "name": row.name,
                "unit": row.unit,
                "values": row.values,
                **dict(zip(("min", "median", "max"), row.spread, strict=True)),
                "goal": str(row.goal) if row.goal is not None else None,
                "meets": row.meets,
            }
            for row in result.rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())

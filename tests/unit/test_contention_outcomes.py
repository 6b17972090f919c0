"""The part ``outcomes``: what follows from its counts, in words and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from faultprof.analysis.contention import outcomes as analysis
from faultprof.analysis.contention.outcomes import Outcomes, Way, merged
from faultprof.capture.contention import outcomes as capture
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import outcomes
from faultprof.render.terminal import Terminal
from tests.running import run
from tests.unit.recordings import SESSION, recorded, session_metadata


def row(kind: str, lock: str, again: bool, end: str, count: int) -> dict[str, Any]:
    """Return a row whose attempts took a microsecond each."""
    return {
        "kind": kind,
        "lock": lock,
        "again": again,
        "end": end,
        "count": count,
        "ns": 1000 * count,
        "max_ns": 1000,
        "histogram": [[1023, count]],
    }


DATA: dict[str, Any] = {
    "rows": [
        row("other", "mmap_lock", False, "error", 1),
        row("read", "mmap_lock", True, "major", 10),
        row("read", "vma_lock", False, "retry", 11),
        row("read", "vma_lock", False, "minor", 78),
    ],
    "tried": 10,
    "untold": [],
    "anonymous_by_vma": False,
    "unfinished": 0,
    "functions": {},
    "missing": {},
    "lost": {"tasks_full": 0},
}


def runs(*several: dict[str, Any]) -> list[RunInfo]:
    """Return runs that have this part."""
    return [RunInfo(index, contention={"outcomes": data}) for index, data in enumerate(several)]


def lines(*several: dict[str, Any]) -> list[str]:
    """Return the section's lines, with single spaces."""
    return [" ".join(line.split()) for line in outcomes.lines(runs(*several), Terminal(300))]


def test_a_fault_is_counted_with_its_last_attempt() -> None:
    found = Outcomes.from_json(DATA)
    assert (found.attempts, found.faults, found.retries) == (100, 89, 11)
    assert list(found.ways) == [
        Way("read", "vma_lock", False, "minor"),
        Way("read", "vma_lock", False, "retry"),
        Way("read", "mmap_lock", True, "major"),
        Way("other", "mmap_lock", False, "error"),
    ]


def test_runs_add_up() -> None:
    other = {**DATA, "rows": [row("swap", "vma_lock", False, "major", 7)], "tried": 0}
    found = merged([Outcomes.from_json(one) for one in (DATA, DATA, other)])
    assert found.attempts == 207
    assert found.tried == 20
    minor = found.ways[Way("read", "vma_lock", False, "minor")]
    assert (minor.count, minor.ns, minor.longest_ns, minor.avg_ns) == (156, 156_000, 1000, 1000)
    assert found.ways[Way("swap", "vma_lock", False, "major")].count == 7


def test_the_section() -> None:
    assert lines(DATA) == [
        "# faults 89: 78 minor, 10 major, 1 ended in an error",
        "# attempts 100: 11 had to be made again, 10 were; 10 with FAULT_FLAG_TRIED",
        "# locks 89.0% of the attempts under the VMA lock, the others mmap_lock",
        "#",
        "# kind lock try end count % total avg p50 p99 max",
        "read VMA lock first minor 78 78.00 78.0 µs 1.00 µs 948 ns 999 ns 1.00 µs",
        "read VMA lock first retry 11 11.00 11.0 µs 1.00 µs 948 ns 999 ns 1.00 µs",
        "read mmap_lock again major 10 10.00 10.0 µs 1.00 µs 948 ns 999 ns 1.00 µs",
        "other mmap_lock first error 1 1.00 1.00 µs 1.00 µs 948 ns 999 ns 1.00 µs",
    ]


def test_what_is_not_told_apart_or_lost_is_said() -> None:
    said = "\n".join(
        lines(
            {
                **DATA,
                "rows": [],
                "untold": ["numa"],
                "anonymous_by_vma": True,
                "unfinished": 2,
                "lost": {"tasks_full": 4},
            }
        )
    )
    assert "numa: not told apart here" in said
    assert "do_anonymous_page has no symbol here" in said
    assert "2 attempts under way" in said
    assert "lost: tasks full 4" in said
    assert "kind" not in said


def test_what_is_recorded_can_be_read() -> None:
    assert set(capture.KINDS) == set(analysis.KINDS)
    assert set(capture.ENDS) == set(analysis.ENDS)
    assert set(capture.LOCKS) == set(analysis.LOCKS)


def test_the_command_shows_it(tmp_path: Path) -> None:
    metadata = replace(session_metadata(), runs=tuple(runs(DATA, DATA)))
    recorded(tmp_path / "a.fprof", SESSION, metadata)
    done = run("contention", tmp_path / "a.fprof")
    assert done.returncode == 0, done.stderr
    assert "outcomes: faults by outcome" in done.stdout
    data = json.loads(run("contention", tmp_path / "a.fprof", "--json").stdout)["outcomes"]
    names = ("attempts", "faults", "minor", "major", "errors", "retries", "again", "tried")
    assert [data[name] for name in names] == [200, 178, 156, 20, 2, 22, 20, 20]
    assert data["under_vma_lock"] == 178
    assert data["rows"][0] == {
        "kind": "read",
        "lock": "vma_lock",
        "again": False,
        "end": "minor",
        "count": 156,
        "ns": 156_000,
        "avg_ns": 1000.0,
        "p50_ns": data["rows"][0]["p50_ns"],
        "p99_ns": data["rows"][0]["p99_ns"],
        "max_ns": 1000,
        "histogram": [[1023, 156]],
    }


def test_every_key_is_documented() -> None:
    said = set(re.findall(r"[a-z0-9_]+", f"{outcomes.__doc__}{analysis.__doc__}"))
    data = outcomes.as_json(runs(DATA))
    assert {*data, *data["rows"][0]} <= said

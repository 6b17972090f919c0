"""The examples' first half, which needs no kernel: the threads' own figures, by their scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.threads import HEADING, ROWS

EXAMPLES = Path(__file__).parents[2] / "examples"


def figures(example: str, out: Path) -> str:
    """Return what the script of an example prints of the thread's figures."""
    faultprof = out / "faultprof"
    faultprof.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m faultprof "$@"\n')
    faultprof.chmod(0o755)
    done = subprocess.run(
        [EXAMPLES / example / "investigate.sh", faultprof],
        env={**os.environ, "FIGURES_ONLY": "1", "OUT": str(out)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_read_fault_contention(tmp_path: Path) -> None:
    shown = figures("read-fault-contention", tmp_path).splitlines()
    for line in (*HEADING[:3], *ROWS):
        assert any(one.startswith(line) for one in shown), line
    assert any("vm-scalability.throughput" in one and one.endswith("noise") for one in shown)
    explained = next(place for place, one in enumerate(shown) if "what explains" in one)
    assert shown[explained + 2].split()[:3] == ["3.22%", "32.10%", "+28.88"]
    assert "next_uptodate_folio" in shown[explained + 2]
    assert "folio_wake_bit, in 2 places" in shown[explained + 3]
    assert "below filemap_map_pages" in shown[explained + 4]
    assert "below do_read_fault" in shown[explained + 5]


@pytest.mark.parametrize(
    ("means", "verdicts"),
    [
        (("58.00", "62.80", "176.80"), ["noise", "real"]),
        (("10516", "11098", "39563"), ["real", "real"]),
        (("55520", "60001", "157006"), ["real", "real"]),
    ],
)
def test_clear_page_order(tmp_path: Path, means: tuple[str, ...], verdicts: list[str]) -> None:
    shown = figures("clear-page-order", tmp_path).splitlines()
    (row,) = (line for line in shown if line.split()[:1] == [means[0]])
    assert all(mean in row for mean in means)
    assert [word for word in row.split() if word in ("real", "noise")] == verdicts

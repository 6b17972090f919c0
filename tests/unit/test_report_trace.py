"""``faultprof report`` of a trace as users call it: options, output, exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.recordings import SESSION, recorded
from tests.unit.test_report import report
from tests.unit.traces import TRACED, traced


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the fixed traced session, and its samples alone."""
    path = tmp_path_factory.mktemp("report")
    traced(path / "faultprof.fprof", TRACED)
    recorded(path / "samples.fprof", SESSION)
    return path


def output(result: subprocess.CompletedProcess[str]) -> str:
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_a_trace_is_shown_where_there_is_one(directory: Path) -> None:
    text = output(report(directory))
    assert "\n 13.66%   22,008  84.8 µs  98.2 µs     0.6%     ├─ do_fault (.isra.0)\n" in text
    assert text == output(report(directory, "--source", "trace"))
    samples = output(report(directory, "--source", "sample"))
    assert "     24.60%    0.00%  │     do_read_fault (inferred)\n" in samples
    assert "call tree, caller first; no branch" in output(report(directory, "samples.fprof"))


def test_wide_and_flat(directory: Path) -> None:
    text = output(report(directory, "--flat", "--wide"))
    titles = next(line for line in text.splitlines() if line.startswith("#  self"))
    columns = " ".join(titles.split()[1:-4])
    assert columns == "self incl. calls total self avg p50 p99 max off-CPU"
    tree = output(report(directory, "--wide", "--root", "do_read_fault"))
    assert "   36,000     1.64  1.72  s  1.11  s  47.8 µs" in tree


def test_per_fault(directory: Path) -> None:
    text = output(report(directory, "--per-fault", "--root", "filemap_map_pages"))
    assert "divided by the 923,008 calls of" in text
    assert "  0.0390      1.86 µs  59.9 µs     0.0%  filemap_map_pages\n" in text


def test_hist(directory: Path) -> None:
    text = output(report(directory, "--hist", "next_uptodate_folio"))
    assert "# function  next_uptodate_folio: 352,000 calls on one path\n" in text
    assert " 8.19 µs   12.3 µs   40,000  █████▌ ◀ p99\n" in text


def test_check(directory: Path) -> None:
    assert "# check     " in output(report(directory))
    text = output(report(directory, "--check", "--root", "do_read_fault"))
    assert "of traced time on the CPU in do_read_fault\n" in text
    assert "handle_mm_fault" not in text.split("#\n# traced")[1]


def test_folded(directory: Path) -> None:
    text = output(report(directory, "--folded", "--root", "walk"))
    assert text == "usemem;walk_[k] 6000000010\nusemem;walk_[k];walk_[k] 4000000002\n"
    assert output(report(directory, "--folded", "--source", "sample")).startswith("evil")
    assert "nanoseconds" in output(report(directory, "--help"))


def test_json(directory: Path) -> None:
    both = json.loads(output(report(directory, "--json")))
    assert both["trace"]["hidden_nodes"] == 0
    assert both["total_samples"] == 1000
    assert "trace" not in json.loads(output(report(directory, "--json", "--source", "sample")))
    assert "trace" not in json.loads(output(report(directory, "samples.fprof", "--json")))
    assert json.loads(output(report(directory, "--json", "--per-fault")))["trace"]["per_fault"]


BAD: dict[str, tuple[list[str], str, str]] = {
    "no trace": (["samples.fprof", "--source", "trace"], "samples.fprof holds no trace", "--mode"),
    "no trace to draw": (["samples.fprof", "--hist", "walk"], "holds no trace", "--mode trace"),
    "no trace, wide": (["samples.fprof", "--wide"], "holds no trace", "--mode trace"),
    "unknown function": (["--hist", "wolk"], "no call of a function named wolk", "nearest: walk"),
    "unknown root": (["--root", "do_red_fault"], "do_red_fault", "nearest: do_read_fault"),
    "counted only": (["--hist", "<b>rmap\x1b[2J"], "were only counted", "--wide"),
    "two views": (["--hist", "walk", "--json"], "exclude each other", "give one"),
    "wide folded": (["--wide", "--folded"], "--wide does not go with --folded", "leave one"),
    "hist per fault": (["--hist", "walk", "--per-fault"], "does not go with --hist", "leave one"),
    "depth of a hist": (["--hist", "walk", "--max-depth", "2"], "does not go with", "leave one"),
    "percentage of a hist": (
        ["--hist", "walk", "--min-percent", "0"],
        "--min-percent",
        "leave one",
    ),
    "no trace to check": (["samples.fprof", "--check"], "holds no trace", "--mode trace"),
    "check of a task": (["--check", "--comm", "usemem"], "does not go with --check", "leave one"),
    "check of samples": (["--check", "--source", "sample"], "traced calls only", "leave it"),
    "hist of samples": (["--hist", "walk", "--source", "sample"], "traced calls only", "leave it"),
    "faults of samples": (["--per-fault", "--source", "sample"], "traced calls only", "leave it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage(name: str, directory: Path) -> None:
    arguments, message, hint = BAD[name]
    result = report(directory, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert message in first
    assert hint in second
    assert "\x1b" not in result.stderr


def test_no_figures_per_fault_without_faults(directory: Path) -> None:
    traced(directory / "part.fprof", [[path for path in TRACED[1] if "walk" in path.frames[0]]])
    result = report(directory, "part.fprof", "--per-fault")
    assert result.returncode == 2
    assert "handle_mm_fault was not traced" in result.stderr


def test_a_trace_that_does_not_add_up_is_refused(directory: Path) -> None:
    table = pq.read_table(directory / "faultprof.fprof")
    place = table.column_names.index("self_ns")
    more = pa.array([ns and ns + 1 for ns in table["self_ns"].to_pylist()], "int64")
    pq.write_table(table.set_column(place, "self_ns", more), directory / "bad.fprof")
    result = report(directory, "bad.fprof")
    assert result.returncode == 4
    assert "in the trace of run 0" in result.stderr
    assert report(directory, "bad.fprof", "--source", "sample").returncode == 0

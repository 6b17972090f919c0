"""What a trace says beside its calls: how often one call calls another, and what samples say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .traced_shell import TracedShell, compiled

pytestmark = pytest.mark.noisy("a CPU held up")

if TYPE_CHECKING:
    from faultprof.capture.tracing import Tracer

AROUND = 16  # pages that one read fault maps: fault_around_bytes is 64 KB
WINDOWS = 13, 113
LOSSES = (
    *("unmatched_returns", "missed_returns", "too_deep", "tasks_full", "nodes_full"),
    *("callees_full",),
)

# Paths of functions.
MAP = ("handle_mm_fault", "filemap_map_pages")
NEXT, SET = (*MAP, "next_uptodate_folio"), (*MAP, "set_pte_range")
SMALL = (*SET, "filemap_map_order0_folio")


@pytest.fixture
def file() -> Iterator[Path]:
    """Return the name of a file on tmpfs that is removed afterwards."""
    path = Path("/dev/shm/faultprof-cached")
    yield path
    path.unlink(missing_ok=True)


def test_auto_traces_here() -> None:
    from faultprof.capture.choice import Choice, choose_mode
    from faultprof.capture.options import RecordOptions

    assert choose_mode(RecordOptions(Path("unused"))) == Choice(True)


def test_how_often_one_call_calls_another(tmp_path: Path, file: Path, kernel: str) -> None:
    """Fault-around in the page cache: a window of 16 pages is mapped by one call.

    For each page it asks for the next one, and once more to learn that there is none.
    """
    functions = tuple({*NEXT, *SET, *(SMALL if kernel != "6.1" else ())})
    pages = [AROUND * windows for windows in WINDOWS]
    file.write_bytes(bytes(4096 * max(pages)))
    with closing(TracedShell("kprobe", functions)) as shell:
        shell.begin(f"{compiled('around.c', tmp_path)} {file} {' '.join(map(str, pages))}")
        looks = [_counts(shell.tracer)]
        for _ in pages:
            shell.next_round()
            looks.append(_counts(shell.tracer))
        shell.end()
    for windows, before, after in zip(WINDOWS, looks, looks[1:], strict=False):
        grown = {key: after[key] - before.get(key, 0) for key in after}
        for callee, bucket in ((MAP, 0), (NEXT, 5), (SET, 4)):  # once, up to 32 and 16 times
            by_bucket = [grown[callee, place] for place in range(8)]
            assert by_bucket == [windows * (place == bucket) for place in range(8)], callee
        # handle_mm_fault and filemap_map_pages once; 16 + 1 times to find a page, 16 to set one.
        assert grown["entries"] == grown["returns"] == windows * (2 + AROUND + 1 + AROUND)
        under_vma_lock = 0 if kernel == "6.1" else windows  # per-VMA locks came with 6.4
        assert (grown["faults"], grown["faults_under_vma_lock"]) == (windows, under_vma_lock)
        assert grown["faults_retried"] == 0
        # Each page that is mapped around is a small folio.
        assert kernel == "6.1" or grown[SMALL] == grown[SET] == windows * AROUND
    assert {looks[-1][loss] for loss in LOSSES} == {0}, looks[-1]


def _counts(tracer: Tracer) -> dict[Any, int]:
    """Return what is counted so far: counters, calls by path, callers by path and bucket."""
    counts: dict[Any, int] = dict(tracer.counters())
    for path, one in tracer.totals().items():
        counts[path] = one.calls
        counts |= {(path, place): callers for place, callers in enumerate(one.per_call)}
    return counts


def traced(out: Path, functions: tuple[str, ...], *command: str | Path) -> dict[str, Any]:
    """Trace ``functions`` in ``command`` and return the report's JSON."""
    from tests.running import record, run

    options = [word for function in functions for word in ("-f", function)]
    record(out, *options, "--", *map(str, command), mode="auto", timeout=900)
    done = run("report", out, "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_samples_beside_a_trace_are_compared_with_it(tmp_path: Path, file: Path) -> None:
    """What is told whatever the machine does meanwhile: how far shares agree, the report judges.

    Under emulation beside other work, samples are late or missing: shares were 16 points apart.
    """
    functions = ("handle_mm_fault", "do_fault", "do_read_fault", "filemap_map_pages")
    workload = ("usemem", "-t", "2", "--readonly", "-f", file, "48m")
    report = traced(tmp_path / "read.fprof", functions, *workload)
    check = report["trace"]["cross_check"]
    assert check["why_not"] == ""
    assert 0 < check["samples_in_probes"] < check["samples"] <= report["total_samples"]
    rows = {row["name"]: row for row in check["functions"]}
    assert set(rows) == set(functions)
    for row in rows.values():
        assert row["low_percent"] <= row["sampled_percent"] <= row["high_percent"]
    for share in ("traced_percent", "sampled_percent"):
        shares = [rows[name][share] for name in functions]  # each calls the next one
        assert shares[0] == 100
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] > 0

"""What a trace says beside its calls: how often one call calls another, and what samples say."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

AROUND = 16  # pages that one read fault maps: fault_around_bytes is 64 KB
FEW, MANY = 13 * AROUND, 113 * AROUND
LOSSES = (
    *("unmatched_returns", "missed_returns", "too_deep", "tasks_full", "nodes_full"),
    *("callees_full",),
)

# Paths of functions.
MAP = ("handle_mm_fault", "filemap_map_pages")
NEXT, SET = (*MAP, "next_uptodate_folio"), (*MAP, "set_pte_range")
SMALL = (*SET, "filemap_map_order0_folio")


@pytest.fixture(scope="module")
def touch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program that touches pages."""
    program = tmp_path_factory.mktemp("touch") / "touch"
    source = Path(__file__).with_name("touch.c")
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
    return program


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


def test_how_often_one_call_calls_another(touch: Path, file: Path, kernel: str) -> None:
    """Fault-around in the page cache: a window of 16 pages is mapped by one call.

    For each page it asks for the next one, and once more to learn that there is none. Windows at
    the ends of the mapping may be smaller; they are the same whatever its length, and so is all
    else: what is counted grows by so much for each further window.
    """
    with _tracer(kernel) as (so_far, run):
        counts = []
        for pages in (FEW, FEW, MANY):  # the first one reads the program in
            file.write_bytes(bytes(4096 * pages))
            run(f"{touch} read 1 {pages} {file}")
            counts.append(so_far())
    first, second, third = counts
    growth = {key: third[key] - 2 * second.get(key, 0) + first.get(key, 0) for key in third}
    windows = (MANY - FEW) // AROUND
    for callee, bucket in ((MAP, 0), (NEXT, 5), (SET, 4)):  # once, up to 32 and up to 16 times
        by_bucket = [growth[callee, place] for place in range(8)]
        assert by_bucket == [windows if place == bucket else 0 for place in range(8)], callee
    # Each page that is mapped around is a small folio; one that finish_fault sets is not.
    small = {key: count for key, count in third.items() if key[-1] == SMALL[-1]}
    assert small == ({SMALL: third[SET]} if kernel != "6.1" else {})
    # handle_mm_fault and filemap_map_pages once; 16 + 1 times to find a page, 16 to set one.
    assert growth["entries"] == growth["returns"] == windows * (2 + AROUND + 1 + AROUND)
    under_vma_lock = 0 if kernel == "6.1" else windows  # per-VMA locks came with 6.4
    assert (growth["faults"], growth["faults_under_vma_lock"]) == (windows, under_vma_lock)
    assert growth["faults_retried"] == 0
    assert {third[loss] for loss in LOSSES} == {0}, third


@contextmanager
def _tracer(kernel: str) -> Iterator[tuple[Callable[[], dict[Any, int]], Callable[[str], None]]]:
    """Trace a shell; give what is counted so far, and what runs a command in it.

    Without address-space randomisation: where a program is loaded decides what its own faults map.
    By kprobe: while another task's fentry program is preempted, ours could be skipped.
    """
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.scope import Scope
    from faultprof.capture.trace_setup import trace_plan
    from faultprof.capture.tracing import Tracer
    from faultprof.kernel.view import KernelView

    view = KernelView.read()
    assert view.types is not None
    functions = tuple({*NEXT, *SET, *(SMALL if kernel != "6.1" else ())})
    plan = trace_plan(RecordOptions(Path("x"), functions=functions, attach="kprobe"), view)
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(
            ["setarch", "-R", "sh"], text=True, bufsize=1, stdin=pipe, stdout=pipe
        ) as shell,
        closing(Tracer(Scope(shell.pid), plan, view.types)) as tracer,
    ):

        def run(command: str) -> None:
            assert shell.stdin is not None
            assert shell.stdout is not None
            shell.stdin.write(f"{command} >/dev/null; echo status $?\n")
            assert shell.stdout.readline() == "status 0\n", command

        def so_far() -> dict[Any, int]:
            counts: dict[Any, int] = dict(tracer.counters())
            for path, one in tracer.totals().items():
                counts[path] = one.calls
                counts |= {(path, place): callers for place, callers in enumerate(one.per_call)}
            return counts

        assert not tracer.failed
        tracer.start()
        try:
            yield so_far, run
        finally:
            shell.kill()  # it would wait for an end of its input, which others may hold open


def traced(out: Path, functions: tuple[str, ...], *command: str | Path) -> dict[str, Any]:
    """Trace ``functions`` in ``command`` and return the report's JSON."""
    from tests.running import record, run

    options = [word for function in functions for word in ("-f", function)]
    record(out, *options, "--", *map(str, command), mode="auto", timeout=900)
    done = run("report", out, "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_samples_see_the_shares_that_are_traced(tmp_path: Path, file: Path) -> None:
    """In the small: chance leaves much open at 99 Hz. The exact comparison is the report's."""
    functions = ("handle_mm_fault", "do_fault", "do_read_fault", "filemap_map_pages")
    workload = ("usemem", "-t", "2", "--readonly", "-f", file, "48m")
    report = traced(tmp_path / "read.fprof", functions, *workload)
    check = report["trace"]["cross_check"]
    assert check["why_not"] == ""
    assert 0 < check["samples_in_probes"] < check["samples"] <= report["total_samples"]
    for row in check["functions"]:
        assert abs(row["traced_percent"] - row["sampled_percent"]) < 15, row
        assert row["low_percent"] <= row["sampled_percent"] <= row["high_percent"]
    assert {row["name"] for row in check["functions"]} == set(functions)

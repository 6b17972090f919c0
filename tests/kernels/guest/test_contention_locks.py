"""Waits for kernel locks: as many as perf counts and as long, and in the right node of the tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.perf_locks import Both, by_both, compiled
from tests.running import run

THREADS, MILLISECONDS = 8, 4000
COUNT, TIME = 0.02, 0.05  # how far we may be from perf, in parts

ROOT = "handle_mm_fault"  # of all that is traced by default


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    directory = tmp_path_factory.mktemp("both")
    return by_both(compiled(directory), directory, THREADS, MILLISECONDS, "--mode", "trace")


def test_as_many_waits_as_perf_and_as_long(both: Both) -> None:
    locks = both.ours
    print(f"{locks['waits']} waits, perf {both.perf_waits}; {locks['total_ns']}, {both.perf_ns} ns")
    print(locks["lost"])
    assert both.perf_waits > 200, "too few to compare"
    assert locks["waits"] == pytest.approx(both.perf_waits, rel=COUNT)
    assert locks["total_ns"] == pytest.approx(both.perf_ns, rel=TIME)
    assert set(locks["lost"].values()) == {0}


def test_each_wait_is_in_its_node(both: Both) -> None:
    """A wait that no traced function is charged with has none on its stack."""
    inside = [one for one in both.ours["rows"] if one["path"]]
    print(sum(one["waits"] for one in inside), "waits in", {one["path"][-1] for one in inside})
    assert inside
    assert {one["path"][0] for one in inside} == {ROOT}
    assert not any(one["stack"] for one in inside)
    for one in both.ours["rows"]:
        if not one["path"] and not one["interrupt"]:
            assert ROOT not in one["stack"], one["stack"]


def test_no_node_waits_longer_than_it_takes(both: Both) -> None:
    report = json.loads(run("report", both.recording, "--json").stdout)
    (root,) = (one for one in report["trace"]["functions"] if one["name"] == ROOT)
    waited = sum(one["total_ns"] for one in both.ours["rows"] if one["path"])
    print(f"{waited} of {root['inclusive_ns']} ns waited")
    assert 0 < waited < root["inclusive_ns"]


def test_locks_have_their_names(both: Both) -> None:
    by_lock = {(one["lock"], one["type"], one["how"]): one for one in both.ours["by_lock"]}
    assert by_lock["mmap_lock", "rwsem write", "address"]["waits"] > 0
    for one in both.ours["rows"]:
        if one["path"] and one["type"] == "spinlock" and one["lock"] == "page-table lock":
            assert one["how"] == "caller"


def test_variables_of_the_kernel_have_their_names(tmp_path: Path) -> None:
    """Debian's kernels list their variables; tasks that are born and die fight for some."""
    recording = tmp_path / "forks.fprof"
    forks = "for n in 1 2 3 4 5 6 7 8; do (for m in 1 2 3 4 5 6 7 8 9; do (:); done) & done; wait"
    options = ("--mode", "sample", "--locks", "-o", recording)
    done = run("record", *options, "--", "sh", "-c", forks, timeout=300)
    assert done.returncode == 0, done.stderr
    locks: dict[str, Any] = json.loads(run("contention", recording, "--json").stdout)["locks"]
    named = {one["lock"]: one["waits"] for one in locks["by_lock"] if one["how"] == "variable"}
    print(named)
    assert "tasklist_lock" in named
    assert not any("0xffff" in str(name) for name in named)

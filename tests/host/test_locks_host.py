"""Waits for kernel locks against `perf lock contention`, on the same workload in the same run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.perf_locks import ENOUGH, Both, compiled, contended
from tests.running import run

pytestmark = pytest.mark.noisy("threads that must meet")

THREADS, MILLISECONDS = 8, 1500
COUNT, TIME = 0.02, 0.01  # how far we may be from perf, in parts


@pytest.fixture(scope="module")
def contend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("contend"))


@pytest.fixture(scope="module")
def both(contend: Path, tmp_path_factory: pytest.TempPathFactory) -> Both:
    directory = tmp_path_factory.mktemp("both")
    return contended(contend, directory, THREADS, MILLISECONDS, "--mode", "sample")


def test_as_many_waits_as_perf_and_as_long(both: Both) -> None:
    locks = both.ours
    print(f"waits {locks['waits']} and {both.perf_waits}", locks["total_ns"], both.perf_ns)
    assert both.perf_waits > ENOUGH, "too few to compare"
    assert locks["waits"] == pytest.approx(both.perf_waits, rel=COUNT)
    assert locks["total_ns"] == pytest.approx(both.perf_ns, rel=TIME)
    check_lost(locks)


def check_lost(locks: dict[str, Any]) -> None:
    """Nothing is lost but what the kernel skips: waits in an interrupt of our own program."""
    lost = dict(locks["lost"])
    assert lost.pop("tracepoints_skipped") <= 0.001 * locks["waits"] + 5
    assert set(lost.values()) == {0}


def test_figures_add_up(both: Both) -> None:
    """Types, locks and rows are three sums of the same waits."""
    locks = both.ours
    for group in ("by_type", "by_lock", "rows"):
        assert sum(one["waits"] for one in locks[group]) == locks["waits"]
        assert sum(one["total_ns"] for one in locks[group]) == locks["total_ns"]
    for one in locks["rows"]:
        assert sum(count for _, count in one["histogram"]) == one["waits"]
        assert one["path"] is None
        assert one["caller"] in one["stack"]


def test_locks_have_their_names(both: Both) -> None:
    """The threads share one address space, and one pipe."""
    by_lock = {(one["lock"], one["type"], one["how"]): one for one in both.ours["by_lock"]}
    writers = by_lock["mmap_lock", "rwsem write", "address"]
    assert writers["total_ns"] == max(one["total_ns"] for one in by_lock.values())
    assert by_lock["pipe->mutex", "mutex", "caller"]["waits"] > 0
    assert {one["type"] for one in both.ours["by_type"]} >= {"mutex", "rwsem write", "spinlock"}
    for one in both.ours["rows"]:
        if one["lock"] == "mmap_lock" and one["type"] == "rwsem read":
            # Faults and get_user_pages() read, mmap() and munmap() write.
            assert not {"__x64_sys_munmap", "__x64_sys_mmap"} & set(one["stack"]), one["stack"]


def test_no_kernel_address_is_kept(both: Both) -> None:
    data = json.dumps(both.ours)
    assert not re.search(r"ffff[0-9a-f]{8}", data)
    assert max(map(int, re.findall(r"\b\d{15,}\b", data)), default=0) < 2**63


def test_runs_are_counted_apart(contend: Path, tmp_path: Path) -> None:
    recording = tmp_path / "runs.fprof"
    command = ["--mode", "sample", "--locks", "--repeat", "3", "-o", recording, "--"]
    done = run("record", *command, contend, "4", "200")
    assert done.returncode == 0, done.stderr
    runs = [
        json.loads(run("contention", recording, "--json", "--run", str(k)).stdout) for k in range(3)
    ]
    together = json.loads(run("contention", recording, "--json").stdout)
    waits = [one["locks"]["waits"] for one in runs]
    assert all(waits)
    assert sum(waits) == together["locks"]["waits"]
    for one in runs:
        # A run that also had the former one's waits would have waited longer than it took.
        assert one["locks"]["total_ns"] < (4 + 1) * 1e9 * one["runs"][0]["wall_s"]


def test_what_is_attached_by_pid_knows_waits_that_it_saw_half(
    contend: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen([contend, "8", "60000"], stdout=subprocess.DEVNULL)
    recording = tmp_path / "pid.fprof"
    done = run(
        "record",
        "--mode",
        "sample",
        "--locks",
        "-o",
        recording,
        "-p",
        str(process.pid),
        "--duration",
        "0.5",
    )
    process.kill()
    process.wait()
    assert done.returncode == 0, done.stderr
    locks = json.loads(run("contention", recording, "--json").stdout)["locks"]
    assert locks["waits"] > 0
    assert locks["begun_before"] + locks["unfinished"] <= 2 * 9
    check_lost(locks)


def test_asking_for_everything_takes_what_there_is(tmp_path: Path) -> None:
    done = run("record", "--contention", "-o", tmp_path / "all.fprof", "--", "true")
    assert done.returncode == 0, done.stderr
    data = json.loads(run("contention", tmp_path / "all.fprof", "--json").stdout)
    assert data["locks"] is not None
    notes = [note["text"] for note in data["ledger"]["notes"]]
    for part in ("occupancy", "folio", "yield", "outcomes", "order"):
        said = [text for text in notes if text.startswith(f"{part} not recorded: ")]
        assert len(said) == (data[part] is None)

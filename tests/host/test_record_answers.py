"""Recordings whose content is known beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import faultprof
from tests.running import comes_within, counters, paths, record, samples_below, verdict

pytestmark = pytest.mark.noisy("a late timer")

BURN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_write_faults_on_anonymous_memory(tmp_path: Path) -> None:
    out = tmp_path / "anon.fprof"
    record(out, "--", "usemem", "-t", "2", "256m")
    anonymous = samples_below(out, "handle_mm_fault", "do_anonymous_page")
    assert anonymous > 0
    clearing = sum(
        samples
        for path, samples in paths(out).items()
        if "do_anonymous_page" in path and path[-1].startswith("clear_page")
    )
    assert 0 < clearing < anonymous
    assert samples_below(out, "do_fault", "do_read_fault") < anonymous / 20


def test_read_faults_on_a_shared_file(tmp_path: Path) -> None:
    out, file = tmp_path / "read.fprof", Path("/dev/shm") / f"faultprof-{tmp_path.name}"
    try:
        record(out, "--", "usemem", "-t", "2", "--readonly", "-f", str(file), "256m")
    finally:
        file.unlink(missing_ok=True)
    inferred = samples_below(out, "handle_mm_fault", "do_fault", "do_read_fault")
    around = samples_below(out, "do_read_fault", "filemap_map_pages")
    assert 0 < around < inferred
    # Every fault of this workload reads; a few of the loader's write.
    assert inferred > 0.95 * samples_below(out, "do_fault")
    functions = {total.frame.function: total for total in faultprof.load(out).functions()}
    assert functions["do_read_fault"].frame.resolution == "inferred"


def test_fault_labels_can_be_switched_off(tmp_path: Path) -> None:
    out, file = tmp_path / "read.fprof", Path("/dev/shm") / f"faultprof-{tmp_path.name}"
    try:
        record(out, "--fault-labels", "off", "--", "usemem", "--readonly", "-f", str(file), "64m")
    finally:
        file.unlink(missing_ok=True)
    assert samples_below(out, "do_fault") > 0
    assert samples_below(out, "do_read_fault") == 0


def test_samples_are_frequency_times_time_on_cpu(tmp_path: Path) -> None:
    out = tmp_path / "burn.fprof"

    def deviation() -> float:
        record(out, "-F", "997", "--", sys.executable, "-c", BURN.format(seconds=2))
        run = faultprof.load(out).runs[0]
        assert run.samples == counters(out)["samples"]
        # Our own clock of the tasks against what wait4(2) reported of the command.
        assert abs(run.on_cpu_s / (run.user_s + run.sys_s) - 1) < 0.03
        return abs(run.samples / (997 * run.on_cpu_s) - 1)

    assert comes_within(0.03, deviation)
    assert verdict(out) == "good"


def test_processes_shorter_than_a_sampling_period_are_seen(tmp_path: Path) -> None:
    """A timer of each task's own would start anew for each of them, and see the half of it."""
    out = tmp_path / "children.fprof"
    loop = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"

    def deviation() -> float:
        record(out, "--", "sh", "-c", loop)
        run = faultprof.load(out).runs[0]
        expected = 999 * (run.user_s + run.sys_s)
        # A count scatters by its square root: 3 times that is all that chance explains.
        return (abs(run.samples - expected) - 3 * expected**0.5) / expected

    assert comes_within(0.03, deviation)
    assert counters(out)["lost_tasks"] == 0
    assert {"true", "sh"} <= _comms(out)


def test_descendants_are_followed_through_fork_thread_and_exec(tmp_path: Path) -> None:
    out = tmp_path / "family.fprof"
    script = f"""
import os, threading
def burn():
    exec({BURN.format(seconds=0.2)!r})
threads = [threading.Thread(target=burn) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
if os.fork() == 0:
    if os.fork() == 0:
        os.execvp("md5sum", ["md5sum", "/dev/stdin"])
    os.wait(); os._exit(0)
os.wait()
"""
    with subprocess.Popen(["head", "-c", "200m", "/dev/zero"], stdout=subprocess.PIPE) as zeros:
        record(out, "--", sys.executable, "-c", script, stdin=zeros.stdout)
    assert "md5sum" in _comms(out)
    run = faultprof.load(out).runs[0]
    assert run.samples > 0.9 * 999 * (run.user_s + run.sys_s)


def test_only_the_command_is_recorded(tmp_path: Path) -> None:
    out = tmp_path / "sleep.fprof"
    with subprocess.Popen([sys.executable, "-c", BURN.format(seconds=30)]) as noise:
        record(out, "--", "sleep", "1")
        noise.kill()
    assert _comms(out) <= {"sleep"}
    assert counters(out)["samples"] < 50


def test_a_full_stack_map_shows_in_ledger_and_verdict(tmp_path: Path) -> None:
    out = tmp_path / "full.fprof"
    record(out, "--max-stacks", "4", "--", "usemem", "64m")
    ledger = counters(out)
    assert ledger["map_full"] > 0
    assert ledger["samples"] > 0
    assert verdict(out).startswith("degraded: ")
    assert "the map of 4 distinct stacks was full" in verdict(out)


def test_strict_makes_a_degraded_recording_fail(tmp_path: Path) -> None:
    from tests.running import run

    done = run(
        *("record", "--mode", "sample", "--strict", "--max-stacks", "4"),
        *("-o", tmp_path / "x.fprof", "--", "usemem", "64m"),
    )
    assert done.returncode == 5
    assert (tmp_path / "x.fprof").exists()


def _comms(recording: Path) -> set[str]:
    import pyarrow.parquet

    column = pyarrow.parquet.read_table(recording, columns=["comm"])["comm"]
    return set(column.to_pylist())

"""What this machine's own kernel permits: calibrate, check the overhead, and refuse a delay."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from faultprof.analysis.observer import Effect
from tests.running import run

pytestmark = pytest.mark.noisy("a late timer")


def _has_kprobes() -> bool:
    return Path("/sys/bus/event_source/devices/kprobe/type").exists()


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a cache of its own."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}


def test_calibration_is_kept(cache: dict[str, str], tmp_path: Path) -> None:
    done = run("calibrate", "--json", env=cache)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kinds = {one["kind"] for one in found["probes"]}
    assert {"tracepoint", "sample"} <= kinds
    assert ("kprobe" in kinds) != ("kprobe" in found["missing"])
    for one in found["probes"]:
        total = one["total_ns"]
        assert total["low"] <= total["value"] <= total["high"]
    (kept,) = (tmp_path / "faultprof" / "calibration").iterdir()
    assert json.loads(kept.read_text()) == found


def test_more_threads_than_cpus_are_refused() -> None:
    done = run("calibrate", "--threads", "5000")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_overhead_of_sampling_is_checked(cache: dict[str, str]) -> None:
    command = ("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo r=5")
    check = ("record", "--check-overhead", "--repeat", "2", "--mode", "sample")
    done = run(*check, "--", *command, env=cache)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line[0] != "#"}
    assert any(lines["verdict"].endswith(str(effect)) for effect in Effect)
    assert "predicted" in lines
    done = run(*check, "--metric", "r=([0-9]+)", "--", *command, env=cache)
    assert "r without probes  5.00 (mean of 2 runs)" in done.stdout
    done = run(*check, "--metric", "usemem", "--", *command, env=cache)
    assert done.returncode == 2
    assert "output has no usemem.throughput" in done.stderr


def test_a_command_that_fails_ends_the_check() -> None:
    done = run("record", "--check-overhead", "--mode", "sample", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "failed with status 7" in done.stderr


@pytest.mark.skipif(_has_kprobes(), reason="this kernel has kprobes")
def test_delays_need_kprobes() -> None:
    done = run("perturb", "--at", "handle_mm_fault", "--", "true")
    assert done.returncode == 3
    assert "nothing can be delayed here" in done.stderr
    assert "--check-overhead" in done.stderr


@pytest.mark.skipif(_has_kprobes(), reason="this kernel has kprobes")
def test_probes_that_cannot_be_had_are_not_verified(cache: dict[str, str]) -> None:
    done = run("calibrate", "--verify", "--", "true", env=cache)
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize("arguments", [("--verify",), ("--", "true")])
def test_a_verification_needs_a_command_and_a_command_a_verification(
    arguments: tuple[str, ...],
) -> None:
    done = run("calibrate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")

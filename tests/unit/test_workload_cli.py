"""``faultprof workload`` as far as it needs no root: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faultprof.errors import ExitCode, FaultprofError
from faultprof.workloads.cases import CASES
from faultprof.workloads.run import prepared, run_command

WORKLOAD = (sys.executable, "-m", "faultprof", "workload")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def environ(cache: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(cache)}


def workload(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORKLOAD, *arguments], capture_output=True, text=True, env=environ)


def test_list_shows_every_case_within_80_columns(environ: dict[str, str]) -> None:
    done = workload(environ, "list")
    assert done.returncode == 0
    for case in CASES:
        assert case.name in done.stdout
        assert case.synopsis in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_list_as_json(environ: dict[str, str]) -> None:
    cases = json.loads(workload(environ, "list", "--json").stdout)["cases"]
    assert [case["name"] for case in cases] == [*(case.name for case in CASES), "clear"]
    assert cases[2]["needs"] == ["hugetlb", "root"]
    assert {*cases[0]} == {"name", "summary", "exercises", "command", "needs"}


def test_run_prints_the_command_and_leaves_stdout_to_it(environ: dict[str, str]) -> None:
    done = workload(environ, "run", "anon-cow-seq", "--size", "3m", "--tasks", "2", "--", "-j64")
    assert done.returncode == 0
    assert "usemem -n 2 --prealloc --prefault -j64 1048576\n" in done.stderr
    assert done.stdout.count("1048576 bytes / ") == 2
    assert done.stdout.count(" usecs to free memory") == 2
    assert len(done.stdout.splitlines()) == 4


def test_without_tasks_one_runs_on_each_cpu(environ: dict[str, str]) -> None:
    done = workload(environ, "run", "anon-w-seq", "--size", "4m")
    assert done.stdout.count(" bytes / ") == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ("run anon-w-sq", 2, "did you mean anon-w-seq"),
        ("run anon-w-seq --size 12q", 2, "not a size: '12q'"),
        ("run anon-w-seq --size 8k --tasks 3", 2, "less than a page for each of 3 tasks"),
        ("run anon-w-seq --tasks 0", 2, "tasks"),
        ("run anon-w-seq --size 1024t", 3, "of memory"),
        ("run anon-w-seq --size 1m -- --foo", 2, "unknown or ambiguous option --foo"),
        ("run", 2, "CASE"),
    ],
)
def test_refusals(environ: dict[str, str], arguments: str, status: int, words: str) -> None:
    done = workload(environ, *arguments.split())
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_too_large_a_size_names_one_that_fits() -> None:
    with pytest.raises(FaultprofError) as raised, prepared("anon-w-seq", 1 << 50, 2):
        pass
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    assert "1024t" in raised.value.message
    assert "--size of " in raised.value.hint


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_status_is_the_commands(script: str, status: int) -> None:
    assert run_command(["sh", "-c", script]) == status


@pytest.mark.parametrize(("mode", "status"), [(None, 127), (0o644, 126)])
def test_a_command_that_cannot_be_started(tmp_path: Path, mode: int | None, status: int) -> None:
    command = tmp_path / "command"
    if mode is not None:
        command.write_text("#!/bin/sh\n")
        command.chmod(mode)
    with pytest.raises(FaultprofError) as raised:
        run_command([str(command)])
    assert raised.value.exit_code == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_goes_to_the_command(environ: dict[str, str], number: signal.Signals) -> None:
    command = [*WORKLOAD, "run", "anon-w-seq", "--size", "1m", "--tasks", "1", "--", "-T", "60"]
    process = subprocess.Popen(
        command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    while "running" not in process.stderr.readline():
        pass
    time.sleep(0.1)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number


def test_what_was_ignored_stays_ignored(environ: dict[str, str]) -> None:
    command = [*WORKLOAD, "run", "anon-w-seq", "--size", "1m", "--tasks", "1", "--", "-T", "1"]
    process = subprocess.Popen(
        command,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert process.stderr is not None
    while "running" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGHUP)
    assert " bytes / " in process.communicate(timeout=30)[0]
    assert process.returncode == 0

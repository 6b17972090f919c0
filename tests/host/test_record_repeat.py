"""Several runs in one recording: apart, whole, and what is left of them when they are cut short."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import faultprof
from tests.running import FAULTPROF, paths, record, run


def _counting(tmp_path: Path, body: str) -> tuple[str, ...]:
    """Return a command that knows how often it has been called, as $n from 1."""
    count = tmp_path / "count"
    script = f"n=$(($(cat {count} 2>/dev/null || echo 0) + 1)); echo $n > {count}; {body}"
    return "sh", "-c", script


def test_runs_are_kept_apart_with_their_metrics(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    body = "echo n=$n; i=0; while [ $i -lt $((n * 100000)) ]; do i=$((i + 1)); done"
    done = record(out, "--repeat", "3", "--metric", r"n=n=(\d+)", "--", *_counting(tmp_path, body))
    assert done.stdout == "n=1\nn=2\nn=3\n"
    loaded = faultprof.load(out)
    assert [one.index for one in loaded.runs] == [0, 1, 2]
    assert [one.metrics["n"] for one in loaded.runs] == [1, 2, 3]
    samples = [int(loaded.tree(runs=[number]).root_samples) for number in range(3)]
    assert samples == [one.samples for one in loaded.runs]
    assert samples[0] < samples[1] < samples[2]
    assert sum(samples) == loaded.tree().root_samples == loaded.metadata.ledger.counters["samples"]
    assert loaded.metadata.options["repeat"] == 3
    assert not loaded.metadata.ledger.degraded
    assert loaded.runs[2].user_s > loaded.runs[0].user_s


def test_the_first_failure_is_the_exit_status_and_all_runs_are_made(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    body = "[ $n = 1 ] || exit $n"
    done = run("record", "--repeat", "3", "-o", out, "--", *_counting(tmp_path, body))
    assert done.returncode == 2
    assert [one.exit_status for one in faultprof.load(out).runs] == [0, 2, 3]


def test_what_a_run_leaves_behind_is_not_in_the_next(tmp_path: Path) -> None:
    """A busy process of the first run goes on beside the second."""
    out = tmp_path / "x.fprof"
    busy = "import time; end = time.monotonic() + 6\\nwhile time.monotonic() < end: pass"
    body = f"[ $n = 1 ] && {{ (exec -a busy python3 -c \"$(printf '{busy}')\") & }}; sleep 1"
    record(out, "--repeat", "2", "--", "bash", *_counting(tmp_path, body)[1:])
    first, second = faultprof.load(out).runs
    assert first.samples > 100
    assert second.samples < first.samples / 4


@pytest.mark.parametrize("finished", [0, 2])
def test_ctrl_c_keeps_the_finished_runs(tmp_path: Path, finished: int) -> None:
    out = tmp_path / "x.fprof"
    body = f"[ $n -le {finished} ] || {{ touch {tmp_path}/ready; exec sleep 100; }}"
    command = ["record", "--repeat", "5", "-o", str(out), "--", *_counting(tmp_path, body)]
    process = subprocess.Popen([*FAULTPROF, *command], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    loaded = faultprof.load(out)
    # The interrupted one is there only if there is no other.
    statuses = [0] * finished or [128 + signal.SIGINT]
    assert [one.exit_status for one in loaded.runs] == statuses
    assert loaded.metadata.options["repeat"] == 5
    notes = [note.text for note in loaded.metadata.ledger.notes]
    assert f"{len(statuses)} of 5 runs: interrupted" in notes
    assert (tmp_path / "count").read_text() == f"{finished + 1}\n"
    assert "wrote" in said


def test_a_command_that_vanishes_does_not_cost_the_finished_runs(tmp_path: Path) -> None:
    out, program = tmp_path / "x.fprof", tmp_path / "program"
    program.write_text("#!/bin/sh\nrm $0\n")
    program.chmod(0o755)
    done = run("record", "--repeat", "3", "-o", out, "--", program)
    assert done.returncode == 127
    assert "command not found" in done.stderr
    assert len(faultprof.load(out).runs) == 1


REFUSED = {
    "none": (["--repeat", "0", "--", "true"], "0 runs"),
    "too many": (["--repeat", "100000", "--", "true"], "100000 runs"),
    "no command": (["--repeat", "2", "-p", "1"], "no command"),
    "everything": (["--repeat", "2", "-a", "--", "true"], "-a"),
    "duration": (["--repeat", "2", "--duration", "1", "--", "true"], "--duration"),
    "metric without a command": (["--metric", "a=(.)", "-p", "1"], "--metric"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path: Path, case: str) -> None:
    arguments, message = REFUSED[case]
    done = run("record", "-o", tmp_path / "x", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_usemem_in_several_runs(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    record(out, "-q", "--repeat", "2", "--", "usemem", "-t", "2", "16m")
    loaded = faultprof.load(out)
    for one in loaded.runs:
        assert [task.bytes for task in one.usemem.tasks] == 2 * [16 << 20]
        speeds = sum(task.kb_per_s for task in one.usemem.tasks)
        assert one.metrics["usemem.throughput"] == speeds > 0
        assert one.metrics["minor_faults"] > 2 * 16 * 256
    for number in range(2):
        assert any("do_anonymous_page" in path for path in paths(out))
        assert loaded.tree(runs=[number]).root_samples == loaded.runs[number].samples

"""``faultprof.load``: what scripts build on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import faultprof
from faultprof.api import LoadedRecording
from faultprof.errors import ExitCode, FaultprofError
from tests.unit.recordings import SESSION, recorded, session_metadata
from tests.unit.traces import TRACED, traced


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedRecording:
    recorded(tmp_path / "x.fprof", SESSION)
    return faultprof.load(tmp_path / "x.fprof")


def test_a_recording_has_its_runs_and_metadata(loaded: LoadedRecording) -> None:
    assert loaded.metadata == session_metadata()
    assert [run.exit_status for run in loaded.runs] == [0, 3]
    assert loaded.comms == ("evil;task name", "kworker/0:1", "usemem")


def test_functions_by_run_and_task(loaded: LoadedRecording) -> None:
    totals = {total.frame.function: total for total in loaded.functions()}
    assert totals["clear_page_erms"].self_samples == 460
    totals = {total.frame.function: total for total in loaded.functions(runs=[1])}
    assert totals["clear_page_erms"].self_samples == 60
    totals = {total.frame.function: total for total in loaded.functions(comms=["kworker/0:1"])}
    assert set(totals) == {"worker_thread", "[unknown]"}


def test_the_tree_can_be_rooted(loaded: LoadedRecording) -> None:
    tree = loaded.tree().below("do_read_fault")
    assert tree.root_samples == 246
    assert tree.percent(tree.root_samples) == 24.6


def test_the_rows_are_a_table(loaded: LoadedRecording) -> None:
    assert loaded.nodes.num_rows == len(loaded.recording.rows)


def test_a_trace_by_run_and_task(tmp_path: Path, loaded: LoadedRecording) -> None:
    traced(tmp_path / "y.fprof", TRACED)
    both = faultprof.load(tmp_path / "y.fprof")
    assert (both.has_trace, loaded.has_trace) == (True, False)
    functions = {frame.function: calls for frame, calls in both.trace().functions()}
    assert functions["do_anonymous_page"].calls == 901_000
    assert both.trace(runs=[1], comms=["usemem"]).below("do_anonymous_page").root_ns == 1_600_000
    assert len(both.trace(comms=["bash"])) == len(loaded.trace()) == 0
    assert both.functions() == loaded.functions()
    assert both.cross_check("walk").samples == 20
    assert loaded.cross_check().why_not == "no call of handle_mm_fault was traced"


def test_a_path_may_be_text(tmp_path: Path) -> None:
    recorded(tmp_path / "x.fprof", SESSION)
    assert faultprof.load(str(tmp_path / "x.fprof")).runs


def test_errors_are_ours(tmp_path: Path) -> None:
    with pytest.raises(FaultprofError) as caught:
        faultprof.load(tmp_path / "x.fprof")
    assert caught.value.exit_code == ExitCode.BAD_RECORDING


def test_importing_the_package_is_cheap() -> None:
    script = "import faultprof, sys; print({'numpy', 'pyarrow', 'typer'} & set(sys.modules))"
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"

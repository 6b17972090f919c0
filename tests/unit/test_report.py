"""``faultprof report`` as users call it: a process with options, output and an exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from tests.unit.recordings import SESSION, recorded


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the fixed session under the default name."""
    path = tmp_path_factory.mktemp("report")
    recorded(path / "faultprof.fprof", SESSION)
    return path


def report(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "faultprof", "report", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_tree_of_the_default_file(directory: Path) -> None:
    result = report(directory)
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n     24.60%    0.00%  │     do_read_fault (inferred)\n" in result.stdout
    assert result.stdout.endswith("\n# 2 nodes below 0.5% not shown\n")
    assert "\x1b" not in result.stdout


def test_flat(directory: Path) -> None:
    result = report(directory, "--flat")
    assert result.returncode == 0
    assert "\n     46.00%   46.00%         460  clear_page_erms\n" in result.stdout


def test_folded(directory: Path) -> None:
    result = report(directory, "--folded")
    assert result.returncode == 0
    assert "usemem;[user] 150\n" in result.stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in result.stdout.splitlines()) == 1000


def test_json(directory: Path) -> None:
    result = report(directory, "--json")
    data = json.loads(result.stdout)
    assert data["command"] == ["usemem", "-t", "2", "--file", "my \x1b[2Jfile", "256m"]
    assert data["kernel"]["release"] == "6.12.43+deb12-amd64"
    assert data["mode"] == "sample"
    assert len(data["runs"]) == 2
    assert set(data["ledger"]) == {"verdict", "counters", "notes"}
    function = next(one for one in data["functions"] if one["name"] == "do_read_fault")
    assert function["inclusive_percent"] == 24.6
    assert function["self_percent"] == 0
    assert function["samples"] == 246
    assert function["resolution"] == "inferred"
    assert data["tree"]["name"] == "[all]"
    assert data["tree"]["children"][0]["name"] == "asm_exc_page_fault"


def test_options_choose(directory: Path) -> None:
    result = report(directory, "--root", "do_fault", "--relative", "--min-percent", "30")
    assert "    100.00%    0.00%  do_fault (.isra.0)\n" in result.stdout
    assert "# 3 nodes below 30% not shown" in result.stdout
    result = report(directory, "--comm", "usemem", "--comm", "kworker/0:1", "--max-depth", "1")
    assert "     98.30%           all samples\n" in result.stdout
    assert "handle_mm_fault" not in result.stdout


def test_programs_get_everything_unless_they_ask(directory: Path) -> None:
    assert json.loads(report(directory, "--json").stdout)["hidden_nodes"] == 0
    cut = json.loads(report(directory, "--json", "--min-percent", "0.5").stdout)
    assert cut["hidden_nodes"] == 2
    assert all(one["inclusive_percent"] >= 0.5 for one in cut["functions"])


BAD: dict[str, tuple[list[str], int, str, str]] = {
    "no file": (["no.fprof"], 4, "there is no recording no.fprof", "faultprof record -- COMMAND"),
    "directory": (["."], 4, ". is a directory", "name the recording in it"),
    "unknown root": (["--root", "do_red_fault"], 2, "do_red_fault", "nearest: do_read_fault"),
    "unknown task": (["--comm", "x"], 2, "no task named x", "it has: evil;task name, kworker/0:1"),
    "root of another task": (
        ["--comm", "usemem", "--folded", "--root", "worker_thread"],
        2,
        "no sample is in a function named worker_thread",
        "--flat",
    ),
    "two views": (["--flat", "--json"], 2, "exclude each other", "give one of them"),
    "percentage": (["--min-percent", "101"], 2, "101 is no percentage", "from 0 to 100"),
    "no number": (["--min-percent", "nan"], 2, "nan is no percentage", "from 0 to 100"),
    "depth": (["--max-depth", "0"], 2, "--max-depth 0 shows nothing", "give 1 or more"),
    "depth of a list": (["--flat", "--max-depth", "3"], 2, "does not go with --flat", "leave one"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage(name: str, directory: Path) -> None:
    arguments, code, message, hint = BAD[name]
    result = report(directory, *arguments)
    assert result.returncode == code
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert message in first
    assert hint in second


def test_names_cannot_reach_the_terminal(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.fprof"
    recorded(path, [[PathCount("a\x1b[31m", (Frame("f\x1b[2J"),), 1)]])
    for arguments in ([], ["--flat"], ["--folded"], ["--json"], ["--root", "\x1b[2J"]):
        result = report(tmp_path, str(path), *arguments)
        assert "\x1b" not in result.stdout + result.stderr


def test_a_reader_that_leaves_is_no_error(directory: Path) -> None:
    """``faultprof report | true``, with an output larger than a pipe's buffer."""
    recorded(
        directory / "many.fprof",
        [[PathCount("t", (Frame(f"f{number}" + "x" * 100),), 1) for number in range(3000)]],
    )
    for options in ([], ["--folded"], ["--json"]):
        command = [sys.executable, "-m", "faultprof", "report", "many.fprof", "--min-percent", "0"]
        with subprocess.Popen(
            [*command, *options], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def on_a_terminal(directory: Path, columns: int, **environment: str) -> str:
    """Return what report prints on a terminal of its own."""
    terminal, its_side = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    command = [sys.executable, "-m", "faultprof", "report"]
    with subprocess.Popen(command, cwd=directory, stdout=its_side, env=environ):
        os.close(its_side)
        output = b""
        # A terminal whose other side is closed answers with an error and not with an end.
        while chunk := _read(terminal):
            output += chunk
    os.close(terminal)
    return output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_terminal_gets_colour_and_its_width(directory: Path) -> None:
    environment = {"NO_COLOR": ""}
    assert "\x1b[31m     80.90%\x1b[0m" in on_a_terminal(directory, 80, **environment)
    plain = on_a_terminal(directory, 60, NO_COLOR="1")
    assert "\x1b" not in plain
    rows = [line for line in plain.splitlines() if not line.startswith("# inclusive")]
    assert max(map(len, rows)) <= 60

"""The live view in real terminals: keys, sizes, and every way in which it can end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import termios
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import faultprof
from tests.running import FAULTPROF, run, wait_until

pytestmark = pytest.mark.noisy("a terminal that is waited for")

until = partial(wait_until, seconds=20)

FAULTS = "while :; do true | true; done"  # processes, so faults of every kind


class Tmux:
    """One terminal of 80 columns and 24 rows, with a shell in it."""

    def __init__(self, directory: Path) -> None:
        self._socket = f"faultprof-{uuid.uuid4().hex}"
        size = ("-x", "80", "-y", "24")
        shell = ("env", "PS1=$ ", "sh")
        self.tmux("-f", os.devnull, "new-session", "-d", *size, "-c", str(directory), *shell)

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").split("\n")[:-1]]

    def shows(self, pattern: str, seconds: float = 20) -> list[str]:
        """Wait until a line matches and return the lines."""
        wait_until(lambda: re.search(pattern, "\n".join(self.lines()), re.M), seconds, self.lines)
        return self.lines()

    def programs(self) -> set[int]:
        """Return the BPF programs of what runs in the terminal."""
        return programs(int(self.tmux("display-message", "-p", "#{pane_pid}")))

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path)
    yield tmux
    tmux.close()


def top(*arguments: str) -> str:
    return shlex.join([*FAULTPROF, "top", "--interval", "0.3", *arguments])


def programs(pid: int) -> set[int]:
    """Return the BPF programs that a process and what it has started hold, by their ids."""
    found: set[int] = set()
    with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found |= programs(int(child))
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            found |= set(map(int, re.findall(r"^prog_id:\s+(\d+)", entry.read_text(), re.M)))
    return found


def gone(ids: set[int]) -> bool:
    """Whether the kernel has none of the programs any more; it frees them a little later."""
    assert ids, "nothing was attached"
    there = json.loads(subprocess.check_output(["bpftool", "--json", "prog"]))
    return not ids & {one["id"] for one in there}


def names_of(lines: list[str]) -> list[str]:
    """Return the functions of a picture's table."""
    (title,) = (number for number, line in enumerate(lines) if line.startswith("   self   incl."))
    place = lines[title].index("function")
    return [line[place:] for line in lines[title + 1 : -1] if line]


def test_keys_sizes_and_the_end(terminal: Tmux, tmp_path: Path) -> None:
    terminal.type(top("--mode", "sample", "--", "sh", "-c", FAULTS))
    lines = terminal.shows(r"^faults +[1-9][\d,]*/s")
    ours = terminal.programs()
    assert lines[0].startswith("faultprof top  sh -c 'while :; do true | true; done'")
    assert lines[0].endswith(" s")
    assert len(lines) == 24
    assert lines[23].startswith("q end  space pause")
    terminal.shows(r"^ *\d+\.\d\d% +\d+\.\d\d% .* < ")

    terminal.press("f")
    assert " < " not in "".join(names_of(terminal.shows(r"functions$")))
    terminal.press("n")
    names = names_of(terminal.shows("sort s i c t n: function"))
    assert len(names) > 5
    assert names == sorted(names)
    terminal.press("Down", "Down")
    until(lambda: names_of(terminal.lines())[0] != names[0])

    terminal.press("Space")
    still = terminal.shows("PAUSED")
    time.sleep(1)
    assert terminal.lines() == still
    terminal.press("Space", "?")
    terminal.shows("write a recording of all up to now")
    terminal.press("x")

    terminal.tmux("resize-window", "-x", "120", "-y", "40")
    until(lambda: len(terminal.lines()) == 40 and terminal.lines()[39].startswith("q end"))
    terminal.tmux("resize-window", "-x", "30", "-y", "5")
    terminal.shows("too small")
    terminal.tmux("resize-window", "-x", "80", "-y", "24")

    terminal.press("w")
    terminal.shows("wrote faultprof.fprof, verdict good")
    written = faultprof.load(tmp_path / "faultprof.fprof")
    assert written.runs[0].samples > 0
    assert written.runs[0].exit_status is None
    terminal.shows(r"^q end")

    terminal.press("q")
    terminal.shows(r"^\$ $|^\$$")
    terminal.type("echo status $?; stty -a | grep -c -- '-icanon\\|-echo '")
    terminal.shows("^status 0$")
    terminal.shows("^0$")
    until(lambda: gone(ours))


def test_the_end_of_the_command(terminal: Tmux, tmp_path: Path) -> None:
    script = "for i in $(seq 3000); do true | true; done; echo said; exit 7"
    terminal.type(top("-o", "x.fprof", "--mode", "sample", "--", "sh", "-c", script) + "; echo =$?")
    terminal.shows("^=7$")
    lines = terminal.lines()
    assert "said" in lines
    assert any("wrote x.fprof" in line for line in lines)
    (ran,) = faultprof.load(tmp_path / "x.fprof").runs
    assert ran.exit_status == 7
    # Its shell, and two processes in each of 3000 turns.
    assert ran.metrics["minor_faults"] > 6000 * 20


def test_parts_make_one_recording(terminal: Tmux, tmp_path: Path) -> None:
    terminal.type(top("-o", "x.fprof", "--mode", "sample", "--", "sh", "-c", FAULTS))
    terminal.shows(r"^faults +[1-9][\d,]*/s")
    terminal.press("w")
    terminal.shows("wrote x.fprof, verdict good")
    time.sleep(1)
    terminal.press("q")
    until(lambda: len(faultprof.load(tmp_path / "x.fprof").runs) == 2)
    recording = faultprof.load(tmp_path / "x.fprof")
    assert recording.metadata.ledger.verdict == "good"
    assert all(one.samples > 0.5 * 999 * one.on_cpu_s > 0 for one in recording.runs)
    assert any(
        "in which nothing is recorded" in one.text for one in recording.metadata.ledger.notes
    )


def test_a_terminal_that_goes_away(terminal: Tmux, tmp_path: Path) -> None:
    command = top("-o", "x.fprof", "--mode", "sample", "--", "sh", "-c", f"echo $$ >pid; {FAULTS}")
    terminal.type(f"exec {command}")
    terminal.shows(r"^faults +[1-9][\d,]*/s")
    child = int((tmp_path / "pid").read_text())
    ours = terminal.programs()
    terminal.close()
    until(lambda: gone(ours))
    until(lambda: (tmp_path / "x.fprof").exists())
    until(lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_restores_the_terminal(number: signal.Signals, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [*FAULTPROF, "top", "-a", "--mode", "sample"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm"},
    )
    seen = b""
    while b"faults" not in seen:
        seen += os.read(ours, 4096)
    assert termios.tcgetattr(theirs) != before
    ours_in_kernel = programs(process.pid)
    process.send_signal(number)
    while b"\x1b[?1049l" not in seen:
        seen += os.read(ours, 4096)
    process.wait(20)
    assert termios.tcgetattr(theirs) == before
    until(lambda: gone(ours_in_kernel))
    assert not list(tmp_path.iterdir())  # nobody asked for a recording
    os.close(ours)
    os.close(theirs)


def test_in_a_pipe(tmp_path: Path) -> None:
    done = run("top", "--mode", "sample", "--interval", "0.3", "--", "sh", "-c",
               "for i in $(seq 3000); do true | true; done; echo said", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert re.search(r"^faults +[1-9][\d,]*/s", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("said\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "-p", "1"], "-p PID"),
        (["--interval", "0"], "every 0 s"),
        (["--interval", "nan"], "every nan s"),
        (["--duration", "0"], "duration of 0"),
        (["--", "no-such-command"], "command not found"),
    ],
)
def test_refusals(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run("top", *arguments, cwd=tmp_path)
    assert done.returncode in (2, 127)
    assert message in done.stderr
    assert "Traceback" not in done.stderr

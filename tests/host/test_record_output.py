"""The command's output while metrics are read from it: nobody is to notice."""

from __future__ import annotations

import fcntl
import os
import pwd
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import faultprof
from tests.running import FAULTPROF, record, run

METRIC = ("--metric", r"n=n=(\d+)")


def test_metrics_are_those_of_the_output_and_the_output_passes(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    script = "echo n=1; echo other; echo n=2 >&2"
    done = record(out, "-q", *METRIC, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("n=1\nother\n", "n=2\n")
    metrics = faultprof.load(out).runs[0].metrics
    assert metrics["n"] == 2  # the last one, from either stream
    assert metrics["minor_faults"] > 0


def test_streams_that_are_one_keep_their_order(tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
    arguments = ["record", "-q", "-o", str(tmp_path / "x"), *METRIC, "--", "sh", "-c", script]
    done = subprocess.run(
        [*FAULTPROF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.stdout == "".join(f"out {i}\nerr {i}\n" for i in (1, 2, 3))


def test_much_output_is_whole_before_we_end(tmp_path: Path) -> None:
    script = "import sys; sys.stdout.write('x' * 79 + '\\n') ; sys.stdout.write('y' * 3_000_000)"
    done = record(tmp_path / "x", "-q", *METRIC, "--", sys.executable, "-c", script)
    assert done.stdout == "x" * 79 + "\n" + "y" * 3_000_000


def test_what_is_left_behind_prints_on(tmp_path: Path) -> None:
    script = "(sleep 2; echo late) & echo early"
    done = run("record", "-q", "-o", tmp_path / "x", *METRIC, "--", "sh", "-c", script)
    # subprocess reads until the last writer has gone, as a shell's pipe does.
    assert done.stdout == "early\nlate\n"


def test_a_reader_that_goes_ends_the_command_as_without_us(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    command = [*FAULTPROF, "record", "-q", "-o", str(out), *METRIC, "--", "yes", "n=7"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "n=7\n"
    process.stdout.close()
    assert process.wait(30) == 128 + signal.SIGPIPE
    assert faultprof.load(out).runs[0].metrics["n"] == 7


def test_a_terminal_stays_a_terminal_of_the_same_size(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
    script = "import os; print(os.isatty(1), os.isatty(2), *os.get_terminal_size(1), 'n=5')"
    arguments = ["record", "-q", "-o", str(out), *METRIC, "--", sys.executable, "-c", script]
    process = subprocess.Popen([*FAULTPROF, *arguments], stdout=slave, stderr=slave)
    os.close(slave)
    assert process.wait(60) == 0
    assert _read_all(master) == b"True True 77 33 n=5\r\n"
    assert faultprof.load(out).runs[0].metrics["n"] == 5


def _read_all(fd: int) -> bytes:
    data = b""
    while select.select([fd], [], [], 1)[0]:
        try:
            part = os.read(fd, 4096)
        except OSError:  # EIO: nobody has the other end any more
            break
        if not part:
            break
        data += part
    return data


def test_under_sudo_the_output_can_be_opened_by_name(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    tmp_path.chmod(0o777)
    sudo = {"SUDO_UID": str(nobody.pw_uid), "SUDO_GID": str(nobody.pw_gid)}
    script = "echo n=3 > /dev/stdout"
    environ = {**os.environ, **sudo}
    done = record(tmp_path / "x", "-q", *METRIC, "--", "sh", "-c", script, env=environ)
    assert done.stdout == "n=3\n"


def test_what_does_not_match_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    metrics = ["--metric", r"bad=took (\S+)", "--metric", "absent=rate (.*)", *METRIC]
    record(out, *metrics, "--", "sh", "-c", "echo took 5ms n=9")
    loaded = faultprof.load(out)
    assert {"bad", "absent"}.isdisjoint(loaded.runs[0].metrics)
    assert loaded.runs[0].metrics["n"] == 9
    notes = " ".join(note.text for note in loaded.metadata.ledger.notes)
    assert "5ms" in notes
    assert "absent" in notes


def test_a_metric_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    done = run("record", "-o", tmp_path / "x", "--metric", "a=(", "--", "touch", tmp_path / "ran")
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())


def test_page_faults_are_the_commands(tmp_path: Path) -> None:
    out = tmp_path / "x.fprof"
    script = (
        "import mmap, sys; pages = int(sys.argv[1]); m = mmap.mmap(-1, pages << 12); "
        "m.madvise(mmap.MADV_NOHUGEPAGE); [m.__setitem__(i << 12, 1) for i in range(pages)]"
    )
    counts = []
    for pages in (1000, 5000):
        record(out, "-q", "--", sys.executable, "-c", script, str(pages))
        counts.append(faultprof.load(out).runs[0].metrics["minor_faults"])
    # One fault a page; whatever else Python takes differs a little.
    assert abs(counts[1] - counts[0] - 4000) < 100


def test_nobody_is_left_copying(tmp_path: Path) -> None:
    record(tmp_path / "x", "-q", *METRIC, "--", "true")
    end = time.monotonic() + 10
    while any(str(tmp_path) in line for line in _command_lines()):
        assert time.monotonic() < end
        time.sleep(0.1)


def _command_lines() -> list[str]:
    return subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()

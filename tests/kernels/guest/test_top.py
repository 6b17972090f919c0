"""The live view over a trace: figures, a recording on the way, a terminal that goes away."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import pytest

from tests.running import wait_until

pytestmark = pytest.mark.noisy("a terminal that is waited for")

until = partial(wait_until, seconds=120, pause=0.2)

# Every fault of the page that it touches again and again.
WORKLOAD = """
import mmap, time
pages = mmap.mmap(-1, 64 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
while True:
    for place in range(0, len(pages), mmap.PAGESIZE):
        pages[place] = 1
    pages.madvise(mmap.MADV_DONTNEED)
    time.sleep(0.01)
"""


class View:
    """The view in a terminal of 100 columns and 40 rows."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.errors = directory / "errors"
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faultprof", "top", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=self.errors.open("w"),
            cwd=directory,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._written = b""

    def shows(self, pattern: str, seconds: float = 240) -> re.Match[str]:
        """Return the first match in what is drawn from now on."""
        os.set_blocking(self._ours, False)
        self._written = b""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._written += os.read(self._ours, 1 << 16)
            except BlockingIOError:
                pass
            except OSError:  # it has ended
                raise AssertionError(self.errors.read_text()) from None
            drawn = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self._written.decode(errors="replace"))
            if found := re.search(pattern, drawn):
                return found
            assert time.monotonic() < deadline, drawn[-4000:]
            time.sleep(0.1)

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def hang_up(self) -> None:
        os.close(self._ours)


def probes_left() -> str:
    """Return the probes that tracefs knows of, and BPF programs of ours."""
    events = Path("/sys/kernel/tracing/kprobe_events").read_text()
    programs = subprocess.check_output(["bpftool", "prog"], text=True)
    return events + "".join(re.findall(r"name (?:enter_|leave_|on_)\w+", programs))


def test_a_trace_is_shown_written_and_left(tmp_path: Path, kernel: str) -> None:
    import faultprof

    command = ("--", sys.executable, "-c", WORKLOAD)
    view = View(tmp_path, "-o", "x.fprof", "--preset", "anon", *command)
    view.shows(r"tracing \d+ functions")
    # On 6.1 do_anonymous_page is told by a condition.
    per_s = view.shows(r"handled +do_anonymous_page ([1-9][\d,.]*)")[1]
    faults = view.shows(r"  write ([1-9][\d,.]*)  write-protected")[1]
    assert float(per_s.replace(",", "")) > 64
    assert float(faults.replace(",", "")) > 64
    view.press("n")
    view.shows(r"\n? *[\d.]+% +[\d.]+% +[1-9][\d,.]* +[\d.]+ .s .* handle_mm_fault")
    view.press("w")
    view.shows("wrote x.fprof")
    (written,) = faultprof.load(tmp_path / "x.fprof").runs
    time.sleep(3)

    view.hang_up()
    until(lambda: view.process.poll() is not None)
    assert view.process.returncode == 128 + signal.SIGHUP
    until(lambda: not probes_left(), seconds=20)
    recording = faultprof.load(tmp_path / "x.fprof")
    assert [one.index for one in recording.runs] == [0, 1]
    assert recording.runs[0] == written
    # Both parts are whole traces: what contradicts itself would have been left out.
    assert list(recording.recording.traced) == [0, 1]
    anonymous = "do_anonymous_page"
    for run in (0, 1):
        calls = sum(
            node.calls
            for node in recording.recording.traced[run]
            if node.frame.function == anonymous
        )
        assert calls > 64
    counters = recording.metadata.ledger.counters
    # A fault that was under way when a part ended is not followed into the next one.
    assert counters["unmatched_returns"] <= 3
    assert counters["nodes_full"] == counters["too_deep"] == 0

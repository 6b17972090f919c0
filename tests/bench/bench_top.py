"""What the live view takes of a CPU while it shows a busy workload once a second.

Knows: how it is run in a terminal of 80 columns and 24 rows, and where its CPU time stands.
Leaves to others: what it costs the workload: that is the engines' (``bench_throughput``).

Its start, in which programs are compiled and symbols read, is left out.
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.rows import Goal, Row, Subject, interleaved
from tests.running import FAULTPROF

_START_SECONDS, _SECONDS = 4.0, 8.0
# Processes that come and go fault in many ways and have many stacks.
_BUSY = "while :; do /bin/true; /bin/ls / >/dev/null; done"
_WAYS = {
    "top -- COMMAND": ("--", "sh", "-c", _BUSY),
    "top -a": ("-a", "--", "sh", "-c", _BUSY),
}


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure the view of one command, and of the whole machine."""
    runs = {name: partial(_percent, arguments) for name, arguments in _WAYS.items()}
    return [
        Row(f"{name}: CPU of its own at 1 Hz", "%", tuple(values), Goal("≤", 3))
        for name, values in interleaved(runs, repeats, order).items()
    ]


def _percent(arguments: tuple[str, ...]) -> float:
    """Return the percentage of one CPU that the view takes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*FAULTPROF, "top", "--mode", "sample", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    time.sleep(_START_SECONDS)
    before, began = _cpu_s(process.pid), time.monotonic()
    time.sleep(_SECONDS)
    used, took = _cpu_s(process.pid) - before, time.monotonic() - began
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    return 100 * used / took


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its threads, from the scheduler's own clock."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 1 << 16):
            pass
    except OSError:  # the terminal's other side has gone
        os.close(fd)


SUBJECT = Subject(
    name="top",
    title="live view in 80x24 of processes that come and go",
    rows=rows,
    repeats=3,
    needs_root=True,
)

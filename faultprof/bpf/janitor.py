"""Takes away what would outlive a killed faultprof: definitions of kretprobes in tracefs.

Knows: that a program, an fentry link and a perf kprobe vanish with their file descriptors, but a
kretprobe with more than the default number of instances has to be defined in tracefs and stays;
what tracefs tells of it.
Leaves to others: attaching (probes).

A small process waits for the end of a pipe. It is forked before bcc is loaded, in a session of
its own, so that no Ctrl-C and no kill of the process group reaches it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NoReturn

EVENTS = Path("/sys/kernel/tracing/kprobe_events")
PROFILE = EVENTS.with_name("kprobe_profile")

_DISMISSED = b"."


class Janitor:
    """Watches over this process from its creation until :meth:`dismiss`."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        watched = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writer)
            _watch(reader, watched)
        os.close(reader)

    def dismiss(self) -> None:
        """Let the janitor go; everything has been taken away in an orderly manner."""
        if self._writer >= 0:
            os.write(self._writer, _DISMISSED)
            os.close(self._writer)
            self._writer = -1
            os.waitpid(self._pid, 0)


def missed_events_of(pid: int, profile: Path = PROFILE) -> int:
    """Return how many hits the kprobes that libbcc defined for a process missed."""
    with contextlib.suppress(OSError):
        # "  r_leave_do_fault_bcc_4711      16828      0": hits, misses
        rows = [line.split() for line in profile.read_text().splitlines()]
        return sum(int(row[2]) for row in rows if row[0].endswith(_suffix(pid)))
    return 0


def remove_events_of(pid: int, events: Path = EVENTS) -> list[str]:
    """Remove the kprobe definitions that libbcc made for a process and return their names."""
    suffix = _suffix(pid)
    with contextlib.suppress(OSError):
        lines = events.read_text().splitlines()
        # "r4096:kprobes/r_leave_do_fault_bcc_4711 do_fault"
        names = [line.split()[0].partition(":")[2] for line in lines if suffix in line]
        mine = [name for name in names if name.endswith(suffix)]
        for name in mine:
            _remove(events, name)
        return mine
    return []


def _suffix(pid: int) -> str:
    """Return what libbcc ends the name of every event of a process in."""
    return f"_bcc_{pid}"


def _remove(events: Path, name: str) -> None:
    # The dying process's last reference to the event may take a moment to go.
    for _ in range(50):
        try:
            # Not by open("a"): that seeks, which tracefs refuses.
            file = os.open(events, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, f"-:{name}\n".encode())
            finally:
                os.close(file)
        except OSError:
            time.sleep(0.1)
        else:
            return


def _watch(reader: int, pid: int) -> NoReturn:
    """Run in the child: wait, clean up, never return into the parent's code."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        if os.read(reader, 1) != _DISMISSED:
            remove_events_of(pid)
    finally:
        os._exit(0)

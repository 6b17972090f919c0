"""Which files the recorded processes execute, by build id.

Knows: where a process's mappings are told, how its files are reached, how often to look.
Leaves to others: which processes (descendants), what is in the files (user_elf), what their
functions are called (user_symbols).

Samples carry build ids, and nothing leads from a build id to a file once the process is gone.
So a thread looks at the processes while they run. It takes little: a process is looked at when it
is new or has called exec(2), then at doubling intervals, for reading its maps takes the mmap lock
that its page faults need; and after every burst of work the thread sleeps twenty times as long.

A path is a hint only. A file counts as found if its build id is the one that was asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from faultprof.capture.descendants import Descendants, all_processes
from faultprof.capture.user_elf import UserElf, open_regular

_INTERVAL_SECONDS = 0.1
_FIRST_INTERVAL_SECONDS = 0.005  # most programs have all their libraries after this time
_BURST_SECONDS = 0.005
_SLEEP_FOR_WORK = 20
_LONGEST_GAP = 16  # rounds between two looks at a process in which nothing changes
_LAST_LOOK_SECONDS = 0.1
_MAPS_BYTES = 1 << 24
_MOST_FILES = 1 << 14
_MOST_PLACES = 4  # copies of one file
_MOST_ARGUMENTS = 64
_MOST_INTERPRETERS = 4  # the kernel's limit for scripts that run scripts is about the same

# address perms offset dev inode path: executable mappings of files.
_EXECUTABLE = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ ..x. [0-9a-f]+ ([0-9a-f:]+ \d+) +(/.*)$", re.MULTILINE
)
_DELETED = b" (deleted)"


class _Place(NamedTuple):
    """Where a file lies: its path in our own name space, or a descriptor if it is in another."""

    path: str
    fd: int | None = None

    def open(self) -> UserElf | None:
        # A path below /proc/self/fd leads to the file itself, not to its path.
        return UserElf.open(self.path if self.fd is None else f"/proc/self/fd/{self.fd}")


@dataclass(slots=True)
class _Watched:
    """A process that is looked at again in ``round``, and ``gap`` rounds after that."""

    program: Path
    round: int
    gap: int = 1


class UserFiles:
    """Learns which files the recorded processes execute.

    Args:
        pid: the root of the recorded processes, or None for all.
        command: the recorded command line; programs that end at once are known from it.
    """

    def __init__(self, pid: int | None, command: Sequence[str] = ()) -> None:
        self._processes = Descendants(pid)
        self._command = tuple(command)
        self._watched: dict[int, _Watched] = {}
        self._round = 0
        self._own_mounts = _mount_namespace("self")
        self._seen: set[tuple[str, bytes, bytes]] = set()
        self._places: dict[bytes, list[_Place]] = {}
        self._asked_all = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="user-files", daemon=True)

    def start(self) -> None:
        """Start to look at the processes, in a thread of its own."""
        # The main thread waits for signals: no other thread may take them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """Look at the processes a last time and end the thread; safe to repeat."""
        self._end.set()
        if self._thread.ident is not None:
            # A dead network file system may hold the thread: then we do without what it learns.
            self._thread.join(timeout=1.0)

    def close(self) -> None:
        """Stop, and let go of the files; safe to repeat."""
        self.stop()
        for places in self._places.values():
            for place in places:
                if place.fd is not None:
                    os.close(place.fd)
        self._places = {}

    def learn(self, path: str) -> bytes | None:
        """Take note of a file by its path and return its build id; None when it has none."""
        return self._note(_Place(path))

    def find(self, build_id: bytes) -> tuple[str, UserElf] | None:
        """Return name and contents of the file with this build id, or None when it is unknown.

        To be called after :meth:`stop`; the caller closes the file.
        """
        found = self._open(build_id)
        if found is None:
            # Fedora keeps a link for each build id.
            link = f"/usr/lib/.build-id/{build_id[:1].hex()}/{build_id[1:].hex()}"
            self.learn(_real(link))
            if not self._asked_all:
                self._asked_all = True
                # What runs, the youngest first, shares libraries with what has ended.
                self._look_for_a_moment(all_processes()[::-1])
            found = self._open(build_id)
        return found

    def _open(self, build_id: bytes) -> tuple[str, UserElf] | None:
        for place in self._places.get(build_id, ()):
            file = place.open()
            if file is None:
                continue
            if file.build_id() == build_id:  # otherwise another one has taken its path
                return place.path.rpartition("/")[2], file
            file.close()
        return None

    def _watch(self) -> None:
        self._learn_command()
        # Our own libraries are most likely those of a command that ends too soon to be seen.
        self._look_at("self")
        interval = _FIRST_INTERVAL_SECONDS
        while not self._end.wait(interval):
            self._look_round()
            interval = min(interval * 2, _INTERVAL_SECONDS)
        # What still runs may have loaded more since its turn.
        self._look_for_a_moment(self._processes.now())

    def _learn_command(self) -> None:
        """Learn the program, and those in its arguments: ``timeout 1 ./program``."""
        for word in self._command[:_MOST_ARGUMENTS]:
            program = shutil.which(word)
            for _ in range(_MOST_INTERPRETERS):
                if program is None or self.learn(_real(program)) is not None:
                    break
                program = _interpreter(program)

    def _look_round(self) -> None:
        """Look at the processes whose turn it is."""
        self._round += 1
        started = time.monotonic()
        pids = self._processes.now()
        self._watched = {pid: self._watched[pid] for pid in pids if pid in self._watched}
        for pid in pids:
            known = self._recall(pid)
            if known is not None and self._round >= known.round:
                self._look_at(str(pid))
                known.round = self._round + known.gap
                known.gap = min(known.gap * 2, _LONGEST_GAP)
            worked = time.monotonic() - started
            if worked > _BURST_SECONDS:
                if self._end.wait(worked * _SLEEP_FOR_WORK):
                    return
                started = time.monotonic()

    def _recall(self, pid: int) -> _Watched | None:
        """Return what is known of a process; None when it has ended or is a kernel thread."""
        try:
            program = Path(f"/proc/{pid}/exe").readlink()
        except OSError:
            return None
        known = self._watched.get(pid)
        if known is None or known.program != program:
            known = self._watched[pid] = _Watched(program, self._round)
        return known

    def _look_for_a_moment(self, pids: Sequence[int]) -> None:
        """Look at processes until the time is up."""
        deadline = time.monotonic() + _LAST_LOOK_SECONDS
        for pid in pids:
            if time.monotonic() > deadline:
                break
            self._look_at(str(pid))

    def _look_at(self, pid: str) -> None:
        """Learn the files that a process maps executable."""
        mounts = _mount_namespace(pid)
        for identity, path in _executable_files(pid):
            key = (mounts, identity, path)
            if key in self._seen or len(self._seen) >= _MOST_FILES:
                continue
            self._seen.add(key)
            if mounts == self._own_mounts:
                self.learn(os.fsdecode(path))
            else:
                self._learn_foreign(pid, os.fsdecode(path))

    def _learn_foreign(self, pid: str, path: str) -> None:
        """Learn a file of another mount name space.

        The path ends with the process, so a descriptor keeps the file. Files of our own name
        space are not kept: the command could not unmount the file system that they lie on.
        """
        fd = open_regular(f"/proc/{pid}/root{path}")
        if fd is not None and self._note(_Place(path, fd)) is None:
            os.close(fd)

    def _note(self, place: _Place) -> bytes | None:
        """Remember where a file lies and return its build id; None when it is not remembered."""
        file = place.open()
        if file is None:
            return None
        build_id = file.build_id()
        file.close()
        if build_id is None:
            return None
        places = self._places.setdefault(build_id, [])
        if place not in places:
            if len(places) >= _MOST_PLACES:
                return None
            places.append(place)
        return build_id


def _real(path: str) -> str:
    return os.path.realpath(path)  # Path.resolve raises for a loop of links


def _interpreter(script: str) -> str | None:
    """Return the program that runs a script (``#!``); of ``env NAME`` the named one."""
    fd = open_regular(script)
    if fd is None:
        return None
    with os.fdopen(fd, "rb") as file:
        line = file.readline(256)
    words = os.fsdecode(line[2:]).split() if line[:2] == b"#!" else []
    if len(words) > 1 and Path(words[0]).name == "env":
        return shutil.which(words[1])
    return words[0] if words else None


def _mount_namespace(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""


def _executable_files(pid: str) -> list[tuple[bytes, bytes]]:
    """Return device and inode, and path, of each file that a process maps executable."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as file:
            text = file.read(_MAPS_BYTES)
    except OSError:
        return []
    return [
        (identity, path.replace(rb"\012", b"\n"))
        for identity, path in dict.fromkeys(_EXECUTABLE.findall(text))
        if not path.endswith(_DELETED)
    ]

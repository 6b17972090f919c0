"""What faultprof has changed on this machine, written down before it is changed.

Knows: the changes (a mount, a share of the huge-page overcommit), how each is made and undone,
and the files in /run/faultprof that outlive a process killed in between.
Leaves to others: when to change something (``setup``).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from faultprof.errors import unsupported
from faultprof.workloads import mounts

DIRECTORY = Path("/run/faultprof")


@dataclass(frozen=True)
class Process:
    """A process, told from a later one of the same number by its start.

    Attributes:
        pid: its number.
        start: clock ticks from boot to its start, field 22 of /proc/PID/stat.
    """

    pid: int
    start: int

    @classmethod
    def current(cls) -> Process:
        """Return the calling process."""
        return cls(os.getpid(), _state_and_start(os.getpid())[1])

    def lives(self) -> bool:
        """Return whether it still runs; one that nobody has waited for yet does not."""
        try:
            state, start = _state_and_start(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return start == self.start and state not in "ZX"


def _state_and_start(pid: int) -> tuple[str, int]:
    # The name, field 2, is in parentheses and may hold anything, also ") ".
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return fields[0], int(fields[19])


@dataclass(frozen=True)
class Mount:
    """A file system on a directory of its own.

    Attributes:
        kind: its type, such as ``tmpfs``.
        point: the directory, made and removed with the mount.
        source: what tells this mount from another one on the same directory.
        options: the file system's own, comma-separated.
    """

    kind: str
    point: str
    source: str
    options: str

    def make(self) -> None:
        """Make the directory and mount on it."""
        Path(self.point).mkdir(0o700)
        mounts.mount(self.source, self.point, self.kind, self.options)

    def undo(self) -> None:
        """Unmount and remove, as far as it is there."""
        if (self.point, self.source) in mounts.mounted():
            mounts.unmount(self.point)
        with suppress(FileNotFoundError):
            Path(self.point).rmdir()

    def __str__(self) -> str:
        return f"{self.kind} ({self.options}) on {self.point}"


@dataclass(frozen=True)
class Share:
    """A part of a number in a file; several processes may each add one.

    Attributes:
        file: the file that holds the number.
        amount: what is added.
        applied: whether it is in the number, as of before ``pending``.
        pending: (from, to) while the number is being changed. A process that is killed there
            leaves one of the two, and has held the lock of the journal: the next one to take
            the lock sees which.
    """

    file: str
    amount: int
    applied: bool = False
    pending: tuple[int, ...] = ()

    def announced(self) -> Share:
        """Return the share with its next change pending: added if it is not, else taken out."""
        now = self._read()
        then = max(0, now - self.amount) if self.applied else now + self.amount
        return replace(self, pending=(now, then))

    def shift(self) -> Share:
        """Make the pending change and return the share after it."""
        Path(self.file).write_text(f"{self.pending[1]}\n")
        return replace(self, applied=not self.applied, pending=())

    def settled(self) -> Share:
        """Return the share with nothing pending, by looking whether the change was made."""
        made = bool(self.pending) and self._read() == self.pending[1]
        return replace(self, applied=self.applied != made, pending=())

    def _read(self) -> int:
        return int(Path(self.file).read_text())

    def __str__(self) -> str:
        return f"{self.amount} added to {self.file}"


Change = Mount | Share


class Journal:
    """The changes in force, one file for each.

    Args:
        directory: where the files are; made when it is needed.
    """

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory

    @contextmanager
    def locked(self) -> Iterator[list[Change]]:
        """Keep other processes of faultprof from changing anything; yield what dead ones left.

        That has been undone by then: it must be before anything else changes, see ``Share``.

        Raises:
            FaultprofError: exit code 3, when the directory cannot be written.
        """
        try:
            self.directory.mkdir(0o755, exist_ok=True)
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unsupported(
                f"cannot write {self.directory}: {error.strerror}", "run it as root (sudo)"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for unfinished in self.directory.glob(".*.json"):
                unfinished.unlink()
            yield self._undo_where(lambda process: not process.lives())
        finally:
            os.close(lock)

    def make(self, change: Change) -> str:
        """Make the change and return its name in the journal; if that fails, undo it.

        Needs the lock, as ``undo`` and ``undo_own`` do.

        Raises:
            OSError: what the kernel said.
        """
        process = Process.current()
        name = f"{process.pid}-{process.start}-{os.urandom(4).hex()}.json"
        try:
            self._write(name, change)
            if isinstance(change, Share):
                self._shift(name, change)
            else:
                change.make()
        except BaseException:
            self.undo(name)
            raise
        return name

    def undo(self, name: str) -> Change | None:
        """Undo the change called ``name`` and return it; None if that has been done."""
        change = self._read(name)
        if isinstance(change, Share):
            share = change.settled()
            if share.applied:
                self._shift(name, share)
        elif change is not None:
            change.undo()
        (self.directory / name).unlink(missing_ok=True)
        return change

    def undo_own(self) -> list[Change]:
        """Undo and return what the calling process has changed."""
        current = Process.current()
        return self._undo_where(lambda process: process == current)

    def is_empty(self) -> bool:
        """Return whether nothing is written down. Needs no lock, and no privileges."""
        return not self._names()

    def _undo_where(self, wanted: Callable[[Process], bool]) -> list[Change]:
        undone = [self.undo(name) for name in self._names() if wanted(_process_of(name))]
        return [change for change in undone if change is not None]

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("[0-9]*-[0-9]*-*.json"))

    def _shift(self, name: str, share: Share) -> None:
        """Add the share or take it out, so that a kill at any point can be made good."""
        announced = share.announced()
        self._write(name, announced)
        self._write(name, announced.shift())

    def _write(self, name: str, change: Change) -> None:
        """Write the file whole or not at all; no fsync, a machine that goes down forgets /run."""
        fresh = self.directory / f".{name}"
        fresh.write_text(json.dumps({"kind": type(change).__name__, "fields": asdict(change)}))
        fresh.replace(self.directory / name)

    def _read(self, name: str) -> Change | None:
        path = self.directory / name
        try:
            entry = json.loads(path.read_text())
            fields = entry["fields"]
            if entry["kind"] == "Share":
                return Share(**{**fields, "pending": tuple(fields["pending"])})
            return Mount(**fields)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise unsupported(
                f"{path} cannot be understood, so what it says was changed stays changed",
                f"undo it by hand, then remove {path}",
            ) from error


def _process_of(name: str) -> Process:
    pid, start, _ = name.split("-")
    return Process(int(pid), int(start))

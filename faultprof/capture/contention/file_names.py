"""What files are called whose inodes a probe has met.

Knows: how names that the kernel has for an inode, from its file system's root down, become a path
that we can look up; and that a path is believed only if the inode of that number is found there.
Leaves to others: reading the names (the probes), what they are wanted for.

Names are read in the kernel without its locks: they may be of a moment in the midst of a change.
A file with several names shows one of them. A deleted one has a name, but no path.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_ROOT = b"/"  # what the kernel calls the root of a file system
_LONGEST_PART = 63  # of a name as the probes read it: such a one may have been cut
# A dead network file system may hold us: then we do without.
_SECONDS = 1.0
# Where st_dev is not the device that mountinfo tells: each subvolume has one of its own.
_OWN_DEVICES = frozenset({"btrfs"})
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))

Inode = tuple[int, int]  # number, device as the kernel has it


@dataclass(frozen=True, slots=True)
class FileName:
    """What a file is called.

    Attributes:
        name: from the root of its file system on, or behind "…" as far as it is known; "" if not.
        path: where it lies, if that has been looked up and it is there; None otherwise.
    """

    name: str = ""
    path: str | None = None


class _Mount(NamedTuple):
    """A line of mountinfo."""

    device: str
    root: str
    place: str
    kind: str


class Names:
    """Looks paths up as a process sees them, or as we do where it has ended.

    Args:
        pid: the process; None for ourselves.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._process = Path("/proc") / str(pid or "self")

    def resolve(self, parts: Mapping[Inode, Sequence[bytes] | None]) -> dict[Inode, FileName]:
        """Return names and paths; what takes too long to look up has no path.

        Args:
            parts: names from the file upwards; None if there are none.
        """
        found = {inode: FileName(name_of(names or ())) for inode, names in parts.items()}

        paths: dict[Inode, str | None] = {}

        def look_up() -> None:
            tables = list(self._mounts())
            for inode, names in parts.items():
                if names and is_whole(names):
                    looked_up = (_path(inode, found[inode].name, *table) for table in tables)
                    paths[inode] = next(filter(None, looked_up), None)

        thread = threading.Thread(target=look_up, name="file-names", daemon=True)
        thread.start()
        thread.join(_SECONDS)
        return {inode: FileName(one.name, dict(paths).get(inode)) for inode, one in found.items()}

    def _mounts(self) -> Iterator[tuple[list[_Mount], str]]:
        """Yield the mounts of the process and ours, and what leads to paths as they have them."""
        for process, prefix in ((self._process, f"{self._process}/root"), (Path("/proc/self"), "")):
            with contextlib.suppress(OSError):
                text = (process / "mountinfo").read_text(errors="surrogateescape")
                yield [_mount(line) for line in text.splitlines()], prefix


def is_whole(names: Sequence[bytes]) -> bool:
    """Whether the names go up to the root of the file system, and none has been cut."""
    return (
        len(names) > 1
        and names[-1] == _ROOT
        and all(0 < len(name) < _LONGEST_PART for name in names)
    )


def name_of(names: Sequence[bytes]) -> str:
    """Return the name of a file within its file system, as far as it is known."""
    texts = [os.fsdecode(name) for name in names if name != _ROOT and name]
    if not texts:
        return ""
    joined = "/".join(reversed(texts))
    if names[-1] == _ROOT:
        return f"/{joined}"
    # What has no root is in no directory: a memfd, a block device.
    return joined if len(names) == 1 else f"…/{joined}"


def _mount(line: str) -> _Mount:
    before, _, after = line.partition(" - ")
    words = before.split(" ")
    return _Mount(words[2], _unescaped(words[3]), _unescaped(words[4]), after.split(" ")[0])


def _unescaped(text: str) -> str:
    for escape, char in _ESCAPES:
        text = text.replace(escape, char)
    return text


def _path(inode: Inode, name: str, mounts: Sequence[_Mount], prefix: str) -> str | None:
    """Return a path that leads to the inode, or None."""
    number, device = inode[0], f"{inode[1] >> 20}:{inode[1] & 0xFFFFF}"
    for mount in mounts:
        path = _path_below(mount, name) if mount.device == device else None
        if path is None:
            continue
        try:
            status = Path(prefix + path).stat(follow_symlinks=False)
        except OSError:
            continue
        there = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        if status.st_ino == number and (there == device or mount.kind in _OWN_DEVICES):
            return path
    return None


def _path_below(mount: _Mount, name: str) -> str | None:
    """Return where a mount shows what its file system calls ``name``; None where it does not."""
    root = mount.root.rstrip("/")
    if not name.startswith(f"{root}/"):
        return None
    return mount.place.rstrip("/") + name[len(root) :]

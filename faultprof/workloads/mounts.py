"""mount(2) and umount2(2), and what is mounted.

Knows: the system calls, straight from the C library, so that no mount(8) is needed.
Leaves to others: which file system is wanted where (``setup``), undoing it (``journal``).
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_NOSUID_NODEV = ctypes.c_ulong(0x2 | 0x4)
_MNT_DETACH = 0x2


def mount(source: str, point: str, kind: str, options: str) -> None:
    """Mount a file system of type ``kind`` on the directory ``point``.

    Raises:
        OSError: what the kernel said.
    """
    _call("mount", *map(os.fsencode, (source, point, kind)), _NOSUID_NODEV, os.fsencode(options))


def unmount(point: str) -> None:
    """Unmount what is on ``point``; if it is in use, take it from the tree until it is not.

    Raises:
        OSError: what the kernel said.
    """
    try:
        _call("umount2", os.fsencode(point), 0)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _call("umount2", os.fsencode(point), _MNT_DETACH)


def mounted() -> set[tuple[str, str]]:
    """Return (mount point, source) of all mounts that this process sees."""
    mounts = set()
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        # ID parent device root point options [tags…] - type source super-options
        before, _, after = line.partition(" - ")
        mounts.add((before.split(" ")[4], after.split(" ")[1]))
    return mounts


def _call(name: str, *arguments: bytes | int | ctypes.c_ulong) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))

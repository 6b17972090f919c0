"""The recorded processes as /proc shows them: a root and its descendants, or all.

Knows: where /proc tells of children, with and without CONFIG_PROC_CHILDREN.
Leaves to others: what is asked of the processes; and the tasks to sample, which BPF follows exactly
(scope): here a process that comes and goes between two looks is missed.
"""

from __future__ import annotations

import os
from pathlib import Path

_CHILDREN_FILE = Path("/proc/thread-self/children")


class Descendants:
    """The processes below ``root``, itself included; every process when it is None."""

    def __init__(self, root: int | None) -> None:
        self._root = root
        self._known: list[int] = []
        self._has_children_files = _CHILDREN_FILE.exists()

    def now(self) -> list[int]:
        """Return the processes that there are now; orphans too, if they were seen before."""
        if self._root is None:
            return all_processes()
        by_parent = None if self._has_children_files else _children_by_parent()
        found: dict[int, None] = {}
        ahead = [self._root, *self._known]
        while ahead:
            pid = ahead.pop()
            if pid not in found and Path(f"/proc/{pid}").exists():
                found[pid] = None
                ahead += _children(pid) if by_parent is None else by_parent.get(pid, [])
        # A number that is used again makes us look at one process too many: no harm.
        self._known = list(found)
        return self._known


def all_processes() -> list[int]:
    """Return the numbers of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (names)


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    children: list[int] = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names)
            children += map(int, Path(f"/proc/{pid}/task/{tid}/children").read_bytes().split())
    except OSError:  # ended meanwhile: what was found is good
        pass
    return children


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid in all_processes():
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        # pid (comm) state ppid; the name may hold blanks and brackets.
        parent = int(stat.rpartition(b")")[2].split()[1])
        children.setdefault(parent, []).append(pid)
    return children

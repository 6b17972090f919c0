"""The debuginfo of a kernel: where it lies, and whether it is of this very kernel.

Knows: that only a file with the same build id may be used, and why others were turned down.
Leaves to others: build ids and the places to look (``build_id``), what is inside (``dwarf``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faultprof.kernel.build_id import VMLINUX_VARIABLE, debuginfo_candidates, elf_build_id
from faultprof.kernel.elf import has_section

_DWARF_SECTIONS = (".debug_info", ".zdebug_info")
_BUILD_ID_SHOWN = 12  # digits; enough to tell kernels apart, short enough for a note


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file in one of the places to look that cannot be used, and why not."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Debuginfo:
    """What a search found.

    Attributes:
        build_id: the kernel's, in lower-case hex; None when it shows none.
        path: the file that belongs to the kernel; None without one.
        rejected: files that were there (or named by the user) but cannot be used.
    """

    build_id: str | None
    path: Path | None = None
    rejected: tuple[Rejected, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Sentences for the ledger: what is used, and what was turned down."""
        notes = [f"{rejected.path} is not used: {rejected.reason}" for rejected in self.rejected]
        if self.path is not None:
            notes.insert(0, f"inlined functions are shown as {self.path} has them")
        return notes


def find_debuginfo(
    build_id: str | None,
    release: str | None = None,
    sysroot: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
) -> Debuginfo:
    """Look for the debuginfo of the kernel with this build id.

    Args:
        build_id: the kernel's build id; None finds nothing, as nothing can be compared.
        release: the kernel's release, part of some of the places; None for the running kernel's.
        sysroot: the folder that stands for ``/``.
        environment: where ``FAULTPROF_VMLINUX`` is looked up; None for the process's own.
    """
    environment = os.environ if environment is None else environment
    release = release or os.uname().release
    places = debuginfo_candidates(release, build_id, sysroot, environment)
    places.append(sysroot / f"usr/lib/debug/vmlinux-{release}")
    rejected: dict[Path, Rejected] = {}
    for path in places:
        real = path.resolve()
        is_named = str(path) == environment.get(VMLINUX_VARIABLE)
        if real in rejected or not (is_named or path.exists()):
            continue
        reason = _objection(path, build_id)
        if reason is None:
            return Debuginfo(build_id, path, tuple(rejected.values()))
        rejected[real] = Rejected(path, reason)
    return Debuginfo(build_id, None, tuple(rejected.values()))


def _objection(path: Path, build_id: str | None) -> str | None:
    """Return why a file cannot be used, or None when it can."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return "it cannot be read"
    if build_id is None:
        return "the kernel shows no build id to compare it with"
    found = elf_build_id(path)
    if found is None:
        return "it has no build id"
    if found != build_id:
        shown, wanted = found[:_BUILD_ID_SHOWN], build_id[:_BUILD_ID_SHOWN]
        return f"its build id is {shown}…, the kernel's {wanted}…"
    if not has_section(path, _DWARF_SECTIONS):
        return "it holds no DWARF debugging information"
    return None

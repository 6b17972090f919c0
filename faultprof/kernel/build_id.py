"""Build ids: the identity that ties a running kernel to the file that it was linked into.

Knows: ELF notes, where the kernel shows its own, where distributions put a kernel's debuginfo.
Leaves to others: what is inside a debuginfo file (``debuginfo``).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

VMLINUX_VARIABLE = "FAULTPROF_VMLINUX"

_NOTE_GNU_BUILD_ID = 3  # NT_GNU_BUILD_ID of elf.h
_SEGMENT_NOTE = 4  # PT_NOTE
_SECTION_NOTE = 7  # SHT_NOTE
_HEADER_SIZE_MAX = 64  # of ELF64; ELF32 has 52
_NOTE_BYTES_MAX = 1 << 20  # a longer "note" is a damaged file


class _Region(NamedTuple):
    """A stretch of an ELF file that holds notes; offset and size in bytes."""

    offset: int
    size: int


class _Layout(NamedTuple):
    """Where the fields of an ELF header stand, for one word size; offsets in bytes."""

    header: str  # e_phoff, e_shoff
    header_at: int
    counts_at: int  # e_phentsize, e_phnum, e_shentsize, e_shnum
    segment: str  # p_offset, p_filesz
    segment_skip: tuple[int, int]
    section: str  # sh_offset, sh_size
    section_at: int


_LAYOUT = {
    1: _Layout("II", 28, 42, "I", (4, 16), "II", 16),
    2: _Layout("QQ", 32, 54, "Q", (8, 32), "QQ", 24),
}


def kernel_build_id(sysroot: Path = Path("/")) -> str | None:
    """Return the running kernel's build id in lower-case hex, or None when it shows none."""
    try:
        notes = (sysroot / "sys/kernel/notes").read_bytes()
    except OSError:
        return None
    # The kernel's own word order is the machine's: "=".
    return _build_id_of_notes(notes, "=")


def elf_build_id(path: Path) -> str | None:
    """Return the build id of an ELF file in lower-case hex.

    None when the file cannot be read, is not ELF, is damaged, or carries no build id.
    """
    try:
        with path.open("rb") as file:
            return _elf_build_id(file)
    except (OSError, struct.error, ValueError):  # ValueError: an offset that no file can have
        return None


def debuginfo_candidates(
    release: str,
    build_id: str | None,
    sysroot: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
) -> list[Path]:
    """Return where the debuginfo of kernel ``release`` may lie, the surest place first.

    A path in the environment variable ``FAULTPROF_VMLINUX`` comes before all others and is taken
    as it stands; whether a candidate exists or belongs to this kernel is not looked at.
    """
    named = environment.get(VMLINUX_VARIABLE)
    candidates = [Path(named)] if named else []
    if build_id:
        candidates.append(sysroot / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    places = (
        f"usr/lib/debug/boot/vmlinux-{release}",
        f"usr/lib/debug/lib/modules/{release}/vmlinux",
        f"usr/lib/debug/usr/lib/modules/{release}/vmlinux",
        f"lib/modules/{release}/build/vmlinux",
        f"boot/vmlinux-{release}",
    )
    return candidates + [sysroot / place for place in places]


def _elf_build_id(file: BinaryIO) -> str | None:
    header = file.read(_HEADER_SIZE_MAX)
    layout = _LAYOUT.get(header[4]) if len(header) > 5 and header.startswith(b"\x7fELF") else None
    if layout is None:
        return None
    order = "<" if header[5] == 1 else ">"
    for region in _note_regions(file, header, layout, order):
        file.seek(region.offset)
        found = _build_id_of_notes(file.read(min(region.size, _NOTE_BYTES_MAX)), order)
        if found:
            return found
    return None


def _note_regions(file: BinaryIO, header: bytes, layout: _Layout, order: str) -> Iterator[_Region]:
    """Yield note segments, then note sections: a stripped file may have kept only one kind."""
    segments_at, sections_at = struct.unpack_from(order + layout.header, header, layout.header_at)
    sizes = struct.unpack_from(order + "4H", header, layout.counts_at)
    segment_size, segment_count, section_size, section_count = sizes
    for entry in _entries(file, segments_at, segment_size, segment_count):
        if struct.unpack_from(order + "I", entry)[0] == _SEGMENT_NOTE:
            offset_at, size_at = layout.segment_skip
            (offset,) = struct.unpack_from(order + layout.segment, entry, offset_at)
            (size,) = struct.unpack_from(order + layout.segment, entry, size_at)
            yield _Region(offset, size)
    for entry in _entries(file, sections_at, section_size, section_count):
        if struct.unpack_from(order + "I", entry, 4)[0] == _SECTION_NOTE:
            yield _Region(*struct.unpack_from(order + layout.section, entry, layout.section_at))


def _entries(file: BinaryIO, offset: int, size: int, count: int) -> Iterator[bytes]:
    for index in range(count if offset and size else 0):
        file.seek(offset + index * size)
        yield file.read(size)


def _build_id_of_notes(notes: bytes, order: str) -> str | None:
    """Find the GNU build id among ELF notes: name size, data size, type, then both, padded."""
    position = 0
    while position + 12 <= len(notes):
        name_size, data_size, kind = struct.unpack_from(order + "III", notes, position)
        name_at = position + 12
        data_at = name_at + _padded(name_size)
        if kind == _NOTE_GNU_BUILD_ID and notes[name_at : name_at + name_size] == b"GNU\0":
            build_id = notes[data_at : data_at + data_size]
            return build_id.hex() if 0 < data_size == len(build_id) else None
        position = data_at + _padded(data_size)
    return None


def _padded(size: int) -> int:
    return (size + 3) & ~3

"""The ELF container of a debuginfo file: sections, text ranges, the addresses of symbols.

Knows: sections as windows on the mapped file; those that are compressed (zlib, zstd, and the
older ``.zdebug`` kind) are unpacked when first asked for.
Leaves to others: what the sections hold (``dwarf``), build ids (``build_id``).
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultprof.errors import FaultprofError, unsupported

_FLAG_EXECUTABLE = 0x4  # SHF_EXECINSTR
_COMPRESSION_HEADER_SIZE = 24  # Elf64_Chdr: u32 type, u32 reserved, u64 size, u64 alignment
_ZSTD = 2  # ELFCOMPRESS_ZSTD
_HEADERS_MAX = 1 << 22  # bytes; more is said by a damaged file only
_NOBITS = 8  # SHT_NOBITS
_ZDEBUG_HEADER_SIZE = 12  # "ZLIB", u64 size (big-endian)

Buffer = bytes | mmap.mmap
Range = tuple[int, int]  # addresses: the first, and one behind the last


@dataclass(frozen=True, slots=True)
class Section:
    """One section: a window on the mapped file, or on its own unpacked bytes."""

    data: Buffer
    start: int
    size: int

    def bytes(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``; fewer at the section's end."""
        begin = min(offset, self.size)
        return self.data[self.start + begin : self.start + min(offset + size, self.size)]

    def integer(self, offset: int, size: int) -> int:
        """Return the little-endian number of ``size`` bytes at ``offset``."""
        return int.from_bytes(self.bytes(offset, size), "little")

    def text(self, offset: int) -> str:
        """Return the zero-terminated text at ``offset``."""
        begin = self.start + offset
        end = self.data.find(b"\0", begin, self.start + self.size)
        return self.data[begin:end].decode("utf-8", "replace") if end >= 0 else ""


NO_SECTION = Section(b"", 0, 0)


class ElfFile:
    """A mapped ELF file.

    Attributes:
        text: address ranges of its executable sections.

    Raises ``FaultprofError`` (exit code 3) when it cannot be read or is not 64-bit ELF.
    """

    def __init__(self, path: Path) -> None:
        from elftools.common.exceptions import ELFError

        self.path = path
        self._unpacked: dict[str, Section] = {}
        try:
            with path.open("rb") as file:
                self._headers = _section_headers(file)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ELFError, ValueError) as error:
            raise unreadable(path, str(error)) from error
        self.text: list[Range] = [
            (header["sh_addr"], header["sh_addr"] + header["sh_size"])
            for header in self._headers.values()
            if header["sh_flags"] & _FLAG_EXECUTABLE
        ]

    def section(self, name: str) -> Section:
        """Return a section by name; an empty one when the file has no such section."""
        known = self._unpacked.get(name)
        if known is None:
            known = self._unpacked[name] = self._read_section(name)
        return known

    def _read_section(self, name: str) -> Section:
        header = self._headers.get(name)
        if header is None:
            old = self._headers.get(name.replace(".debug", ".zdebug"))
            return self._unpack_zdebug(old) if old else NO_SECTION
        if header["sh_type"] == "SHT_NOBITS":  # a debug file keeps only the headers of the rest
            return NO_SECTION
        window = Section(self._map, header["sh_offset"], header["sh_size"])
        return self._unpack(window) if header.compressed else window

    def _unpack_zdebug(self, header: Any) -> Section:
        window = Section(self._map, header["sh_offset"], header["sh_size"])
        return _own(zlib.decompress(window.bytes(_ZDEBUG_HEADER_SIZE, window.size)))

    def _unpack(self, window: Section) -> Section:
        packed = window.bytes(_COMPRESSION_HEADER_SIZE, window.size)
        if window.integer(0, 4) != _ZSTD:
            return _own(zlib.decompress(packed))
        # pyarrow is there anyway and brings zstd, which this Python's library lacks.
        import pyarrow

        size = window.integer(8, 8)
        return _own(pyarrow.decompress(packed, size, codec="zstd", asbytes=True))

    def symbols(self, names: Sequence[str]) -> dict[str, int]:
        """Return the addresses of those of ``names`` that the symbol table (Elf64_Sym) has."""
        import numpy as np

        table, strings = self.section(".symtab"), self.section(".strtab")
        columns = np.dtype([("name", "<u4"), ("kind", "<u4"), ("value", "<u8"), ("size", "<u8")])
        count = table.size // columns.itemsize
        entries = np.frombuffer(table.bytes(0, count * columns.itemsize), columns)
        text = strings.bytes(0, strings.size)
        found = {}
        for name in names:
            # Linkers share tails: the name may start in the middle of a longer one.
            offsets = _occurrences(text, name.encode() + b"\0")
            matches = np.flatnonzero(np.isin(entries["name"], offsets))
            if matches.size:
                found[name] = int(entries["value"][matches[0]])
        return found


def has_section(path: Path, names: Sequence[str]) -> bool:
    """Tell whether an ELF file has one of these sections, with contents.

    Reads the headers only and needs no pyelftools, whose import takes longer than all else here.
    False for a file that cannot be read or is not 64-bit little-endian ELF.
    """
    try:
        with path.open("rb") as file:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01":
                return False
            table_at, size, count, names_index = struct.unpack("<40xQ10xHHH", header)
            file.seek(table_at)
            # Of Elf64_Shdr: name, type, offset, size.
            entries = list(
                struct.iter_unpack("<II16xQQ24x", file.read(min(size * count, _HEADERS_MAX)))
            )
            file.seek(entries[names_index][2])
            strings = file.read(min(entries[names_index][3], _HEADERS_MAX))
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return False
    wanted = [name.encode() for name in names]
    return any(
        strings[at : strings.find(b"\0", at)] in wanted and kind != _NOBITS and length
        for at, kind, _, length in entries
    )


def unreadable(path: Path, reason: str) -> FaultprofError:
    """Return the error for a debuginfo file that cannot be used."""
    return unsupported(
        f"{path} cannot be read as debuginfo: {reason}",
        "reinstall the kernel's debuginfo, or point FAULTPROF_VMLINUX at the right vmlinux",
    )


def _section_headers(file: Any) -> dict[str, Any]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(file)
    if elf.elfclass != 64 or not elf.little_endian:
        raise ValueError("only 64-bit little-endian files are supported")
    return {section.name: section for section in elf.iter_sections()}


def _own(data: bytes) -> Section:
    return Section(data, 0, len(data))


def _occurrences(text: bytes, wanted: bytes) -> list[int]:
    found = []
    at = text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found

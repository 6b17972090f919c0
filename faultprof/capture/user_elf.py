"""The functions of an ELF file that nobody vouches for.

Knows: headers, segments, build-id notes and symbol tables, of either word size and byte order.
Leaves to others: which file belongs to a stack (user_files), what a frame is called (user_symbols).

A recorded program may be anything, and we read it as root. So a file is opened only once it is
known to be a regular one, every size that it claims is cut to a bound, and it is read and never
mapped: a mapped file that shrinks kills its reader. What is damaged has no functions; no method
raises.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# bpf_stack_build_id.build_id: a shorter id is padded with zeroes (lib/buildid.c).
BUILD_ID_SIZE = 20

# Bounds far above what real programs have; browsers have the largest tables, 1.5 million symbols.
_MOST_SEGMENTS = 1 << 10
_MOST_SECTIONS = 1 << 17
_MOST_SYMBOLS = 1 << 22
_NOTE_BYTES = 1 << 16
_NAME_BYTES = 1 << 10
_NESTING = 64  # symbols around one address that a look-up goes through

_PT_LOAD, _PT_NOTE, _PF_X = 1, 4, 1
_SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 2, 7, 11
_NT_GNU_BUILD_ID = 3
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_STB_LOCAL, _STB_WEAK = 0, 2
_SHN_LORESERVE = 0xFF00

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The structures of elf.h for one word size; ``header`` is what follows e_ident."""

    header: str
    segment: Fields
    section: Fields
    symbol: Fields


_LAYOUTS = {
    1: _Layout(
        "HHIIIIIHHHHHH",
        (
            *(("type", "u4"), ("offset", "u4"), ("address", "u4"), ("physical", "u4")),
            *(("size", "u4"), ("memory", "u4"), ("flags", "u4"), ("align", "u4")),
        ),
        (
            *(("name", "u4"), ("type", "u4"), ("flags", "u4"), ("address", "u4")),
            *(("offset", "u4"), ("size", "u4"), ("link", "u4"), ("info", "u4")),
            *(("align", "u4"), ("entry", "u4")),
        ),
        (
            *(("name", "u4"), ("value", "u4"), ("size", "u4")),
            *(("info", "u1"), ("other", "u1"), ("section", "u2")),
        ),
    ),
    2: _Layout(
        "HHIQQQIHHHHHH",
        (
            *(("type", "u4"), ("flags", "u4"), ("offset", "u8"), ("address", "u8")),
            *(("physical", "u8"), ("size", "u8"), ("memory", "u8"), ("align", "u8")),
        ),
        (
            *(("name", "u4"), ("type", "u4"), ("flags", "u8"), ("address", "u8")),
            *(("offset", "u8"), ("size", "u8"), ("link", "u4"), ("info", "u4")),
            *(("align", "u8"), ("entry", "u8")),
        ),
        (
            *(("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")),
            *(("value", "u8"), ("size", "u8")),
        ),
    ),
}


def open_regular(path: str) -> int | None:
    """Open a file for reading if it is a regular one; None if it is not or cannot be read.

    A first look without opening (O_PATH) sees a FIFO, which would block, or a device, which may
    act on being opened.
    """
    try:
        seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    try:
        if not stat.S_ISREG(os.fstat(seen).st_mode):
            return None
        # The same file, wherever the path leads by now.
        return os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(seen)


class UserElf:
    """An ELF file that is open for reading; made by :meth:`open` or :meth:`of`."""

    def __init__(self, fd: int, order: str, layout: _Layout, header: tuple[int, ...]) -> None:
        self._fd = fd
        self._order = order
        self._layout = layout
        self._header = header

    @classmethod
    def open(cls, path: str) -> Self | None:
        """Open a file by its path; None when it is not ELF, or as for :func:`open_regular`."""
        fd = open_regular(path)
        return cls.of(fd) if fd is not None else None

    @classmethod
    def of(cls, fd: int) -> Self | None:
        """Take over a descriptor; close it and return None when the file is not ELF."""
        head = _read(fd, 0, 64)
        order = {1: "<", 2: ">"}.get(head[5]) if head[:4] == b"\x7fELF" and head[5:] else None
        layout = _LAYOUTS.get(head[4]) if order else None
        if order and layout and 16 + struct.calcsize(order + layout.header) <= len(head):
            return cls(fd, order, layout, struct.unpack_from(order + layout.header, head, 16))
        os.close(fd)
        return None

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def build_id(self) -> bytes | None:
        """Return the build id as the kernel reports it, ``BUILD_ID_SIZE`` bytes, or None."""
        left = _NOTE_BYTES
        # A debug file's segments may describe the stripped file and not itself.
        for table in (
            self._segments[self._segments["type"] == _PT_NOTE],
            self._sections[self._sections["type"] == _SHT_NOTE],
        ):
            for offset, size in table[["offset", "size"]].tolist():
                data = _read(self._fd, offset, min(size, left))
                found = _build_id_of_notes(data, self._order)
                left -= len(data)
                if found or not left:
                    return found
        return None

    def address(self, offset: int) -> int | None:
        """Return the address, as linked, of the code at a file offset; None if there is none."""
        for start, size, address in self._code:
            if start <= offset < start + size:
                return (offset - start + address) % (1 << 64)
        return None

    def functions(self) -> Functions | None:
        """Return the functions of .symtab, else of .dynsym; None when there are none."""
        for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            for table in self._sections[self._sections["type"] == kind][:1]:
                functions = self._functions_of(table)
                if functions is not None:
                    return functions
        return None

    @cached_property
    def _segments(self) -> NDArray[np.void]:
        phoff, phentsize, phnum = self._header[4], self._header[8], self._header[9]
        return self._table(phoff, min(phnum, _MOST_SEGMENTS), self._layout.segment, phentsize)

    @cached_property
    def _sections(self) -> NDArray[np.void]:
        fields, shoff, shentsize = self._layout.section, self._header[5], self._header[10]
        count = self._header[11]
        if not count and shoff:  # more than fit into the header: the first section tells
            first = self._table(shoff, 1, fields, shentsize)
            count = int(first["size"].sum())
        return self._table(shoff, min(count, _MOST_SECTIONS), fields, shentsize)

    @cached_property
    def _code(self) -> list[tuple[int, int, int]]:
        """Executable segments: offset and size in the file, address."""
        loaded = (self._segments["type"] == _PT_LOAD) & (self._segments["flags"] & _PF_X != 0)
        code: list[tuple[int, int, int]] = self._segments[loaded][
            ["offset", "size", "address"]
        ].tolist()
        return code

    def _functions_of(self, table: Any) -> Functions | None:
        fields, size = self._layout.symbol, _width(self._layout.symbol)
        count = min(int(table["size"]) // size, _MOST_SYMBOLS)
        symbols = self._table(int(table["offset"]), count, fields, int(table["entry"]))
        if not symbols.size or not 0 < int(table["link"]) < len(self._sections):
            return None
        strings = self._sections[int(table["link"])]
        functions = Functions(self, symbols, self._sections, int(strings["offset"]))
        return functions if functions.count else None

    def text(self, offset: int) -> bytes:
        """Return the zero-terminated bytes at a file offset, at most 1 KiB."""
        return _read(self._fd, offset, _NAME_BYTES).split(b"\0", 1)[0]

    def _table(self, offset: int, count: int, fields: Fields, entry: int) -> NDArray[np.void]:
        """Read ``count`` records, fewer where the file ends; none of an unknown record size."""
        import numpy as np

        layout = np.dtype([(name, self._order + kind) for name, kind in fields])
        known = entry == layout.itemsize
        data = _read(self._fd, offset, count * layout.itemsize if known else 0)
        return np.frombuffer(data, layout, len(data) // layout.itemsize)


class Functions:
    """The functions of one symbol table, found by address.

    Attributes:
        count: number of symbols, aliases included.
    """

    def __init__(
        self, file: UserElf, symbols: NDArray[np.void], sections: NDArray[np.void], strings: int
    ) -> None:
        import numpy as np

        self._file = file
        self._strings = strings
        kind = symbols["info"] & 15
        chosen = np.flatnonzero(
            ((kind == _STT_FUNC) | (kind == _STT_GNU_IFUNC))
            & (symbols["section"] != 0)
            & (symbols["section"] < _SHN_LORESERVE)
            & (symbols["name"] != 0)
        )
        # Column by column: whole records take numpy ten times as long to reorder.
        order = chosen[np.argsort(symbols["value"][chosen].astype(np.uint64))]
        self._starts = symbols["value"][order].astype(np.uint64)
        sizes = symbols["size"][order].astype(np.uint64)
        self._ends = _ends(self._starts, sizes, symbols["section"][order], sections)
        # No symbol up to this one reaches beyond.
        self._reach = np.maximum.accumulate(self._ends)
        self._names = symbols["name"][order]
        self._bindings = symbols["info"][order] >> 4
        self.count = int(order.size)

    def find(self, address: int) -> str | None:
        """Return the innermost function around an address; of aliases the most public one."""
        import numpy as np

        wanted = np.uint64(address)  # a Python int would be compared as a float
        last = int(np.searchsorted(self._starts, wanted, side="right")) - 1
        for index in range(last, max(last - _NESTING, -1), -1):
            if self._reach[index] <= wanted:
                return None
            if self._ends[index] > wanted:
                return self._best_name(index, wanted)
        return None

    def _best_name(self, index: int, address: np.uint64) -> str | None:
        """Choose among the symbols that start together and cover the address."""
        names = []
        for alias in range(index, max(index - _NESTING, -1), -1):
            if self._starts[alias] != self._starts[index]:
                break
            name = self._name(alias)
            if name and self._ends[alias] > address:
                binding = int(self._bindings[alias])
                hidden = len(name) - len(name.lstrip("_"))
                names.append((binding == _STB_LOCAL, hidden, binding == _STB_WEAK, name))
        return min(names)[-1] if names else None

    def _name(self, index: int) -> str:
        name = self._file.text(self._strings + int(self._names[index])).decode(errors="replace")
        # The linker writes a default version into .symtab: pthread_create@@GLIBC_2.34.
        return name[:1] + name[1:].split("@", 1)[0]


def _ends(
    starts: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    owners: NDArray[np.uint16],
    sections: NDArray[np.void],
) -> NDArray[np.uint64]:
    """Return one behind the last address of each symbol; ``owners`` are their sections' numbers.

    A symbol of assembly code may have no size: it reaches to the next one in its section.
    """
    import numpy as np

    ends = np.where(sizes > ~starts, ~np.uint64(0), starts + sizes)
    bare = np.flatnonzero((sizes == 0) & (owners < len(sections)))
    around = sections[owners[bare]]
    limits = around["address"].astype(np.uint64) + around["size"].astype(np.uint64)
    following = np.searchsorted(starts, starts[bare], side="right")
    known = following < len(starts)
    limits[known] = np.minimum(limits[known], starts[following[known]])
    ends[bare] = limits
    return ends


def _read(fd: int, offset: int, size: int) -> bytes:
    try:
        return os.pread(fd, size, offset)
    except (OSError, OverflowError):  # OverflowError: an offset beyond 2^63
        return b""


def _width(fields: Fields) -> int:
    return sum(int(kind[1:]) for _, kind in fields)


def _build_id_of_notes(notes: bytes, order: str) -> bytes | None:
    """Find the GNU build id among notes: name size, data size, type, then both, padded to 4."""
    position = 0
    while position + 12 <= len(notes):
        name_size, data_size, kind = struct.unpack_from(order + "III", notes, position)
        data_at = position + 12 + (name_size + 3 & ~3)
        data = notes[data_at : data_at + data_size]
        named = notes[position + 12 : position + 12 + name_size] == b"GNU\0"
        if kind == _NT_GNU_BUILD_ID and named and 0 < len(data) == data_size <= BUILD_ID_SIZE:
            return data.ljust(BUILD_ID_SIZE, b"\0")
        position = data_at + (data_size + 3 & ~3)
    return None

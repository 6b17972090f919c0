"""Which unit of a debuginfo file covers an address, which source file a unit was made from.

Knows: ``.debug_aranges``, and the ranges of the units' top entries for units that it leaves out
(clang and rustc write no such section).
Leaves to others: what is inside a unit (``inlines``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from faultprof.kernel.cache import pack, pack_names, unpack, unpack_names
from faultprof.kernel.dwarf import DwarfFile
from faultprof.kernel.elf import Section
from faultprof.kernel.intervals import Intervals, flatten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Symbols at the start of the kernel's text, the better known first: a running kernel's address of
# one of them minus the file's is the shift that KASLR chose.
TEXT_MARKERS = ("_stext", "_text")
_DTYPES = ("<u8", "<u8", "<i8", "<u8")


@dataclass(frozen=True, slots=True)
class UnitIndex:
    """Which unit covers which addresses of one debuginfo file.

    Attributes:
        coverage: text intervals; owners are offsets of units in ``.debug_info``.
        markers: addresses of those of ``TEXT_MARKERS`` that the file's symbol table has.
    """

    coverage: Intervals
    markers: dict[str, int]

    def units_at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the offset of the unit that covers each address; -1 where none does."""
        return self.coverage.find(addresses)

    def to_bytes(self) -> bytes:
        """Return the index as the contents of a cache file."""
        import numpy as np

        markers = np.array([self.markers.get(name, 0) for name in TEXT_MARKERS], "<u8")
        return pack([self.coverage.starts, self.coverage.ends, self.coverage.owners, markers])

    @classmethod
    def from_bytes(cls, data: bytes | None) -> UnitIndex | None:
        """Return the index that a cache file holds, or None when it holds none."""
        arrays = unpack(data, _DTYPES)
        if arrays is None:
            return None
        addresses = arrays[3].tolist()
        markers = {name: at for name, at in zip(TEXT_MARKERS, addresses, strict=True) if at}
        return cls(Intervals(*arrays[:3]), markers)


def build_index(file: DwarfFile) -> UnitIndex:
    """Read the index from the file itself.

    A tenth of a second for a kernel with ``.debug_aranges``, some seconds for one without.
    """
    covered: list[tuple[int, int, int]] = []
    listed = set()
    for unit_offset, low, high in _read_aranges(file.section(".debug_aranges")):
        listed.add(unit_offset)
        if low < high:
            covered.append((low, high, unit_offset))
    for unit in file.units:
        if unit.offset not in listed:
            spans = file.ranges(file.top_entry(unit).attributes, unit)
            covered += [(low, high, unit.offset) for low, high in spans]
    covered = [span for span in covered if _in_text(span[0], file)]
    return UnitIndex(flatten(covered), file.elf.symbols(TEXT_MARKERS))


@dataclass(frozen=True, slots=True)
class UnitNames:
    """The source files that the units of one debuginfo file were made from.

    Attributes:
        offsets: offsets of all units in ``.debug_info``.
        names: their source files as given to the compiler (``mm/memory.c``), in the same order.
    """

    offsets: NDArray[np.int64]
    names: tuple[str, ...]

    def find(self, source: str) -> list[int]:
        """Return the offsets of the units made from ``source`` or from a path that ends in it."""
        return [
            offset
            for offset, name in zip(self.offsets.tolist(), self.names, strict=True)
            if name == source or name.endswith("/" + source)
        ]

    def to_bytes(self) -> bytes:
        """Return the names as the contents of a cache file."""
        return pack([self.offsets, pack_names(self.names)])

    @classmethod
    def from_bytes(cls, data: bytes | None) -> UnitNames | None:
        """Return the names that a cache file holds, or None when it holds none."""
        arrays = unpack(data, ("<i8", "u1"))
        return cls(arrays[0], unpack_names(arrays[1])) if arrays else None


def build_names(file: DwarfFile) -> UnitNames:
    """Read the names from the file itself: some 2 s for a kernel's 2,600 units."""
    import numpy as np

    names = [file.name_of(file.top_entry(unit).attributes, unit) for unit in file.units]
    return UnitNames(np.array([unit.offset for unit in file.units], "<i8"), tuple(names))


def _in_text(address: int, file: DwarfFile) -> bool:
    # Code that the linker dropped keeps its entries, with addresses near 0.
    return any(low <= address < high for low, high in file.elf.text)


def _read_aranges(section: Section) -> Iterator[tuple[int, int, int]]:
    """Yield unit offset, first address, one behind the last: section 6.1.2 of the standard.

    A unit without code has one empty range, so that it counts as listed.
    """
    import numpy as np

    position = 0
    while position < section.size:
        length, at, offset_size = section.integer(position, 4), position + 4, 4
        if length == 0xFFFFFFFF:
            length, at, offset_size = section.integer(at, 8), at + 8, 8
        end = at + length
        unit_offset = section.integer(at + 2, offset_size)
        address_size = section.integer(at + 2 + offset_size, 1)
        if address_size not in (4, 8):
            raise ValueError(f"addresses of {address_size} bytes")
        at += 4 + offset_size
        at += -(at - position) % (2 * address_size)  # tuples are aligned to their size
        pairs = np.frombuffer(section.bytes(at, end - at), f"<u{address_size}").tolist()
        for low, size in zip(pairs[::2], pairs[1::2], strict=False):
            yield unit_offset, low, low + size
        position = end

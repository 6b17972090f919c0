"""One file's DWARF: its units, the names of entries, and their address ranges.

Knows: references within a unit, across units, and into the partial units and the supplementary
file that ``dwz`` makes; range lists of DWARF 2-4 and of 5.
Leaves to others: sections (``elf``), the byte encoding (``dwarf_forms``), which unit covers an
address (``dwarf_index``), what the entries mean (``inlines``).

pyelftools opens the file, but its entry objects are not used: each costs some 20 us, and one
kernel unit holds up to 100,000 entries, nearly all of them types. Here an entry that nobody asks
for is stepped over by the length that its abbreviation gives.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from faultprof.errors import unsupported
from faultprof.kernel.dwarf_forms import (
    ADDRESS_INDICES,
    AT_ABSTRACT_ORIGIN,
    AT_ADDR_BASE,
    AT_HIGH_PC,
    AT_LOW_PC,
    AT_NAME,
    AT_RANGES,
    AT_RNGLISTS_BASE,
    AT_SPECIFICATION,
    AT_STR_OFFSETS_BASE,
    FORM_ADDR,
    FORM_LINE_STRP,
    FORM_REF_ADDR,
    FORM_RNGLISTX,
    FORM_STRING,
    STRING_INDICES,
    SUPPLEMENTARY_REFERENCES,
    SUPPLEMENTARY_STRINGS,
    UNIT_REFERENCES,
    Abbreviation,
    Attribute,
    Attributes,
    Unit,
    read_abbreviations,
    read_attributes,
    read_uleb,
)
from faultprof.kernel.elf import Buffer, ElfFile, Range, Section, unreadable

_UNIT_TYPES_TYPE = frozenset({2, 6})  # their header also holds a signature and a type's offset
_UNIT_TYPES_SPLIT = frozenset({4, 5})  # their header also holds an identity
_REFERENCE_DEPTH = 16  # a longer chain of origins is a loop in a damaged file


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its tag, those of its attributes that are wanted, and its unit."""

    tag: int
    attributes: Attributes
    unit: Unit


@dataclass(frozen=True, slots=True)
class Bases:
    """What a unit's top entry sets for all its entries: a base address and section offsets."""

    address: int
    str_offsets: int
    addr: int
    rnglists: int


class DwarfFile:
    """The debugging information of one ELF file.

    Raises ``FaultprofError`` (exit code 3) when the file cannot be read or has none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.elf = ElfFile(path)
        self.section = self.elf.section
        if not self.section(".debug_info").size:
            raise unreadable(path, "it holds no DWARF debugging information")
        self._abbreviations: dict[int, dict[int, Abbreviation]] = {}
        self._bases: dict[int, Bases] = {}
        self._names: dict[int, str] = {}

    @cached_property
    def units(self) -> list[Unit]:
        """All units in ``.debug_info``, in file order."""
        section = self.section(".debug_info")
        units = []
        offset = 0
        while offset < section.size:
            units.append(_read_unit_header(section, offset))
            offset = units[-1].end
        return units

    @cached_property
    def _unit_offsets(self) -> list[int]:
        return [unit.offset for unit in self.units]

    def unit_at(self, offset: int) -> Unit:
        """Return the unit that holds the entry at ``offset`` of ``.debug_info``."""
        return self.units[bisect.bisect_right(self._unit_offsets, offset) - 1]

    def unit_bytes(self, unit: Unit) -> bytes:
        """Return the bytes of a unit, its header included."""
        return self.section(".debug_info").bytes(unit.offset, unit.end - unit.offset)

    def abbreviations(self, unit: Unit) -> dict[int, Abbreviation]:
        """Return a unit's abbreviations by code."""
        known = self._abbreviations.get(unit.offset)
        if known is None:
            known = self._abbreviations[unit.offset] = self._read_abbreviations(unit)
        return known

    def _read_abbreviations(self, unit: Unit, until: int = 0) -> dict[int, Abbreviation]:
        section = self.section(".debug_abbrev")
        start = section.start + unit.abbreviation_offset
        return read_abbreviations(section.data, start, unit, until)

    def entry(self, offset: int, unit: Unit) -> Entry:
        """Return the entry at ``offset`` of ``.debug_info``, which lies in ``unit``."""
        section = self.section(".debug_info")
        code, position = read_uleb(section.data, section.start + offset)
        is_top = offset == unit.first_entry and unit.offset not in self._abbreviations
        # All units' tables together take seconds and much memory; their top entries need little.
        table = self._read_abbreviations(unit, code) if is_top else self.abbreviations(unit)
        attributes, _ = read_attributes(section.data, position, table[code], unit)
        return Entry(table[code].tag, attributes, unit)

    def top_entry(self, unit: Unit) -> Entry:
        """Return the top entry of a unit."""
        return self.entry(unit.first_entry, unit)

    def name(self, offset: int, unit: Unit, depth: int = 0) -> str:
        """Return the name of the entry at ``offset``, its own or its origin's; "" without one."""
        known = self._names.get(offset)
        if known is None:
            entry = self.entry(offset, unit)
            known = self._names[offset] = self.name_of(entry.attributes, unit, depth)
        return known

    def name_of(self, attributes: Attributes, unit: Unit, depth: int = 0) -> str:
        """Return the name that attributes give, or that of the entry they refer to."""
        own = attributes.get(AT_NAME)
        if own is not None:
            return self.string(own, unit)
        origin = attributes.get(AT_ABSTRACT_ORIGIN) or attributes.get(AT_SPECIFICATION)
        if origin is None or depth > _REFERENCE_DEPTH:
            return ""
        if origin.form in SUPPLEMENTARY_REFERENCES:
            other = self.supplementary
            return other.name(origin.value, other.unit_at(origin.value), depth + 1)
        if origin.form == FORM_REF_ADDR:
            return self.name(origin.value, self.unit_at(origin.value), depth + 1)
        if origin.form in UNIT_REFERENCES:
            return self.name(unit.offset + origin.value, unit, depth + 1)
        return ""

    def string(self, attribute: Attribute, unit: Unit) -> str:
        """Return the text that an attribute of a string form stands for."""
        form, value, text = attribute
        if form == FORM_STRING:
            return text.decode("utf-8", "replace")
        if form in SUPPLEMENTARY_STRINGS:
            return self.supplementary.section(".debug_str").text(value)
        if form == FORM_LINE_STRP:
            return self.section(".debug_line_str").text(value)
        if form in STRING_INDICES:
            at = self.bases(unit).str_offsets + value * unit.offset_size
            value = self.section(".debug_str_offsets").integer(at, unit.offset_size)
        return self.section(".debug_str").text(value)

    def address(self, attribute: Attribute, unit: Unit) -> int:
        """Return the address that an attribute of an address form stands for."""
        if attribute.form in ADDRESS_INDICES:
            return self._indexed_address(attribute.value, unit)
        return attribute.value

    def _indexed_address(self, index: int, unit: Unit) -> int:
        at = self.bases(unit).addr + index * unit.address_size
        return self.section(".debug_addr").integer(at, unit.address_size)

    def bases(self, unit: Unit) -> Bases:
        """Return what the unit's top entry sets for all of its entries."""
        known = self._bases.get(unit.offset)
        if known is None:
            known = self._bases[unit.offset] = self._read_bases(unit)
        return known

    def _read_bases(self, unit: Unit) -> Bases:
        top = self.top_entry(unit).attributes
        nothing = Attribute(0, 0)
        addr = top.get(AT_ADDR_BASE, nothing).value
        low = top.get(AT_LOW_PC, nothing)
        if low.form in ADDRESS_INDICES:
            at = addr + low.value * unit.address_size
            low = Attribute(0, self.section(".debug_addr").integer(at, unit.address_size))
        return Bases(
            address=low.value,
            str_offsets=top.get(AT_STR_OFFSETS_BASE, nothing).value,
            addr=addr,
            rnglists=top.get(AT_RNGLISTS_BASE, nothing).value,
        )

    def ranges(self, attributes: Attributes, unit: Unit) -> list[Range]:
        """Return the address ranges of an entry in the order given, empty ones left out."""
        listed = attributes.get(AT_RANGES)
        if listed is not None:
            reader = self._ranges_5 if unit.version >= 5 else self._ranges_4
            return [(low, high) for low, high in reader(listed, unit) if low < high]
        low_attribute, high_attribute = attributes.get(AT_LOW_PC), attributes.get(AT_HIGH_PC)
        if low_attribute is None or high_attribute is None:
            return []
        low = self.address(low_attribute, unit)
        high = self.address(high_attribute, unit)
        if high_attribute.form != FORM_ADDR and high_attribute.form not in ADDRESS_INDICES:
            high += low  # of a constant form: a length
        return [(low, high)] if low < high else []

    def _ranges_4(self, listed: Attribute, unit: Unit) -> Iterator[Range]:
        section = self.section(".debug_ranges")
        size = unit.address_size
        selects_base = (1 << (8 * size)) - 1
        base, at = self.bases(unit).address, listed.value
        while at + 2 * size <= section.size:
            low, high = section.integer(at, size), section.integer(at + size, size)
            at += 2 * size
            if low == selects_base:
                base = high
            elif low == high == 0:
                return
            else:
                yield base + low, base + high

    def _ranges_5(self, listed: Attribute, unit: Unit) -> Iterator[Range]:
        section = self.section(".debug_rnglists")
        at = listed.value
        if listed.form == FORM_RNGLISTX:
            table = self.bases(unit).rnglists
            at = table + section.integer(table + at * unit.offset_size, unit.offset_size)
        return self._range_entries(section.data, section.start + at, unit)

    def _range_entries(self, data: Buffer, at: int, unit: Unit) -> Iterator[Range]:
        """Decode a DWARF 5 range list: section 7.25 of the standard gives the entry kinds."""
        base, size = self.bases(unit).address, unit.address_size
        while kind := data[at]:
            operands, at = _range_operands(data, at + 1, kind, size)
            first = operands[0]
            if kind in (1, 2, 3):  # base_addressx, startx_endx, startx_length
                first = self._indexed_address(first, unit)
            if kind in (1, 5):
                base = first
            elif kind == 4:  # offset_pair
                yield base + first, base + operands[1]
            elif kind == 2:
                yield first, self._indexed_address(operands[1], unit)
            else:
                yield first, operands[1] if kind == 6 else first + operands[1]

    @cached_property
    def supplementary(self) -> DwarfFile:
        """The file that ``dwz -m`` moved common entries to."""
        link = self.section(".gnu_debugaltlink")
        path = self.path.parent / link.text(0)
        if not link.size or not path.is_file():
            raise unsupported(
                f"{self.path} refers to a supplementary file that is not there ({link.text(0)})",
                "install the whole debuginfo package",
            )
        return DwarfFile(path)


def _read_unit_header(section: Section, offset: int) -> Unit:
    """Decode a unit header: section 7.5.1 of the standard (7.5.1.1 of version 4 for older ones)."""
    length, at, offset_size = section.integer(offset, 4), offset + 4, 4
    if length == 0xFFFFFFFF:
        length, at, offset_size = section.integer(at, 8), at + 8, 8
    end = at + length
    version = section.integer(at, 2)
    if version >= 5:
        kind, address_size = section.integer(at + 2, 1), section.integer(at + 3, 1)
        abbreviations, first = section.integer(at + 4, offset_size), at + 4 + offset_size
        if kind in _UNIT_TYPES_TYPE:
            first += 8 + offset_size
        elif kind in _UNIT_TYPES_SPLIT:
            first += 8
    else:
        abbreviations, address_at = section.integer(at + 2, offset_size), at + 2 + offset_size
        address_size, first = section.integer(address_at, 1), address_at + 1
    if version not in range(2, 6) or address_size not in (4, 8):
        raise ValueError(f"a unit of version {version} with addresses of {address_size} bytes")
    return Unit(offset, end, first, version, address_size, offset_size, abbreviations)


def _range_operands(data: Buffer, at: int, kind: int, size: int) -> tuple[list[int], int]:
    """Read a range entry's operands: addresses for kinds 5, 6 and the first of 7, else LEB128."""
    operands = []
    for is_address in {1: (0,), 5: (1,), 6: (1, 1), 7: (1, 0)}.get(kind, (0, 0)):
        if is_address:
            operands.append(int.from_bytes(data[at : at + size], "little"))
            at += size
        else:
            value, at = read_uleb(data, at)
            operands.append(value)
    return operands, at

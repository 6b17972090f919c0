"""DWARF's encoding: tags, attributes, forms, abbreviations, and how an entry's bytes are read.

Knows: the forms of DWARF 2 to 5 in 32- and 64-bit layout and those that ``dwz`` adds.
Leaves to others: sections, units, and what values refer to (``dwarf``).

Names and numbers are those of the DWARF 5 standard, section 7.5. All positions are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from faultprof.errors import unsupported
from faultprof.kernel.elf import Buffer

TAG_ARRAY_TYPE = 0x01
TAG_ENUMERATION_TYPE = 0x04
TAG_STRUCTURE_TYPE = 0x13
TAG_SUBROUTINE_TYPE = 0x15
TAG_UNION_TYPE = 0x17
TAG_INLINED_SUBROUTINE = 0x1D
TAG_SUBPROGRAM = 0x2E

AT_SIBLING = 0x01
AT_NAME = 0x03
AT_LOW_PC = 0x11
AT_HIGH_PC = 0x12
AT_LANGUAGE = 0x13
AT_ABSTRACT_ORIGIN = 0x31
AT_SPECIFICATION = 0x47
AT_ENTRY_PC = 0x52
AT_RANGES = 0x55
AT_STR_OFFSETS_BASE = 0x72
AT_ADDR_BASE = 0x73
AT_RNGLISTS_BASE = 0x74
WANTED = frozenset(
    {
        AT_SIBLING,
        AT_NAME,
        AT_LOW_PC,
        AT_HIGH_PC,
        AT_LANGUAGE,
        AT_ABSTRACT_ORIGIN,
        AT_SPECIFICATION,
        AT_ENTRY_PC,
        AT_RANGES,
        AT_STR_OFFSETS_BASE,
        AT_ADDR_BASE,
        AT_RNGLISTS_BASE,
    }
)

FORM_ADDR = 0x01
FORM_STRING = 0x08
FORM_STRP = 0x0E
FORM_REF_ADDR = 0x10
FORM_REF_UDATA = 0x15
FORM_INDIRECT = 0x16
FORM_SEC_OFFSET = 0x17
FORM_STRX = 0x1A
FORM_ADDRX = 0x1B
FORM_STRP_SUP = 0x1D
FORM_LINE_STRP = 0x1F
FORM_IMPLICIT_CONST = 0x21
FORM_RNGLISTX = 0x23
FORM_GNU_REF_ALT = 0x1F20
FORM_GNU_STRP_ALT = 0x1F21
UNIT_REFERENCES = frozenset({0x11, 0x12, 0x13, 0x14, FORM_REF_UDATA})
SUPPLEMENTARY_REFERENCES = frozenset({0x1C, 0x24, FORM_GNU_REF_ALT})
SUPPLEMENTARY_STRINGS = frozenset({FORM_STRP_SUP, FORM_GNU_STRP_ALT})
ADDRESS_INDICES = frozenset({FORM_ADDRX, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})
STRING_INDICES = frozenset({FORM_STRX, 0x25, 0x26, 0x27, 0x28, 0x1F02})

# A form without a fixed size has one of these kinds in place of it.
_ULEB, _SLEB, _CSTRING, _BLOCK1, _BLOCK2, _BLOCK4, _BLOCK, _INDIRECT = range(-8, 0)
_BLOCK_WIDTHS = {_BLOCK1: 1, _BLOCK2: 2, _BLOCK4: 4}
_OFFSET_FORMS = frozenset(
    {
        FORM_STRP,
        FORM_SEC_OFFSET,
        FORM_STRP_SUP,
        FORM_LINE_STRP,
        FORM_GNU_REF_ALT,
        FORM_GNU_STRP_ALT,
    }
)
# fmt: off
_FORM_KINDS = {
    0x03: _BLOCK2, 0x04: _BLOCK4, 0x05: 2, 0x06: 4, 0x07: 8, FORM_STRING: _CSTRING, 0x09: _BLOCK,
    0x0A: _BLOCK1, 0x0B: 1, 0x0C: 1, 0x0D: _SLEB, 0x0F: _ULEB, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8,
    FORM_REF_UDATA: _ULEB, FORM_INDIRECT: _INDIRECT, 0x18: _BLOCK, 0x19: 0, FORM_STRX: _ULEB,
    FORM_ADDRX: _ULEB, 0x1C: 4, 0x1E: 16, 0x20: 8, FORM_IMPLICIT_CONST: 0, 0x22: _ULEB,
    FORM_RNGLISTX: _ULEB, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3,
    0x2C: 4, 0x1F01: _ULEB, 0x1F02: _ULEB,
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Unit:
    """Where one unit lies in ``.debug_info`` and how its entries are coded."""

    offset: int
    end: int
    first_entry: int
    version: int
    address_size: int
    offset_size: int
    abbreviation_offset: int


class Attribute(NamedTuple):
    """An attribute as stored: its form and number, or the text of a string stored in place."""

    form: int
    value: int
    text: bytes = b""


Attributes = dict[int, Attribute]


class Abbreviation(NamedTuple):
    """The shape that all entries with one abbreviation code share.

    Attributes:
        attributes: for each its number, form, size in bytes or kind, and implicit constant.
        fixed_size: bytes behind the code, or -1 when some form has no fixed size.
    """

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int, int, int], ...]
    fixed_size: int


def read_uleb(data: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned LEB128 number; return it and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def read_sleb(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed LEB128 number; return it and the position behind it."""
    value, end = read_uleb(data, position)
    if data[end - 1] & 0x40:
        value -= 1 << (7 * (end - position))
    return value, end


def read_abbreviations(
    data: Buffer, position: int, unit: Unit, until: int = 0
) -> dict[int, Abbreviation]:
    """Decode the abbreviation table at ``position`` as ``unit`` uses it, by code.

    With ``until`` the table is read no further than that code.
    """
    table: dict[int, Abbreviation] = {}
    code = -1
    while code != until:
        code, position = read_uleb(data, position)
        if code == 0:
            break
        tag, position = read_uleb(data, position)
        has_children = data[position] != 0
        attributes, position = _read_specifications(data, position + 1, unit)
        kinds = [kind for _, _, kind, _ in attributes]
        fixed = sum(kinds) if all(kind >= 0 for kind in kinds) else -1
        table[code] = Abbreviation(tag, has_children, attributes, fixed)
    return table


def _read_specifications(
    data: Buffer, position: int, unit: Unit
) -> tuple[tuple[tuple[int, int, int, int], ...], int]:
    specifications: list[tuple[int, int, int, int]] = []
    while True:
        name, position = read_uleb(data, position)
        form, position = read_uleb(data, position)
        if name == 0 and form == 0:
            return tuple(specifications), position
        constant = 0
        if form == FORM_IMPLICIT_CONST:
            constant, position = read_sleb(data, position)
        specifications.append((name, form, _form_kind(form, unit), constant))


def _form_kind(form: int, unit: Unit) -> int:
    """Return a form's size in bytes, or its kind when it has none."""
    if form == FORM_ADDR:
        return unit.address_size
    if form in _OFFSET_FORMS:
        return unit.offset_size
    if form == FORM_REF_ADDR:
        return unit.address_size if unit.version == 2 else unit.offset_size
    kind = _FORM_KINDS.get(form)
    if kind is None:
        raise unsupported(
            f"the debuginfo uses DWARF form {form:#x}, which faultprof does not know",
            "move the debuginfo away, or unset FAULTPROF_VMLINUX, to work without it",
        )
    return kind


def read_attributes(
    data: Buffer, position: int, abbreviation: Abbreviation, unit: Unit
) -> tuple[Attributes, int]:
    """Read the ``WANTED`` attributes of the entry whose code ends at ``position``.

    Returns them by number, and the position behind the entry.
    """
    found: Attributes = {}
    for name, form, kind, constant in abbreviation.attributes:
        if kind == _INDIRECT:
            form, position = read_uleb(data, position)
            kind = _form_kind(form, unit)
        if name in WANTED:
            value, text, position = _read_value(data, position, kind)
            found[name] = Attribute(form, constant if form == FORM_IMPLICIT_CONST else value, text)
        elif kind >= 0:
            position += kind
        else:
            position = _read_value(data, position, kind)[2]
    return found, position


def _read_value(data: Buffer, position: int, kind: int) -> tuple[int, bytes, int]:
    """Read one value of a size or kind; return number, text, and the position behind it."""
    if kind >= 0:
        end = position + kind
        return int.from_bytes(data[position:end], "little"), b"", end
    if kind == _ULEB:
        value, end = read_uleb(data, position)
        return value, b"", end
    if kind == _SLEB:
        value, end = read_sleb(data, position)
        return value, b"", end
    if kind == _CSTRING:
        end = data.find(b"\0", position)
        return 0, data[position:end], end + 1
    if kind == _BLOCK:
        size, begin = read_uleb(data, position)
    else:
        begin = position + _BLOCK_WIDTHS[kind]
        size = int.from_bytes(data[position:begin], "little")
    return 0, b"", begin + size

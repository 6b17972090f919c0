"""What BTF tells about the kernel's types: where fields lie, what functions take, what enums mean.

Knows: the records of a BTF blob (Documentation/bpf/btf.rst of the kernel).
Leaves to others: whether there is BTF at all (``btf``), which fields are of use (``conditions``).

A kernel has some 130,000 types in 5 MB. One pass notes where each record starts, another where
each name stands: some 100 ms in all. A record is decoded only when it is asked for.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final

from faultprof.kernel.files import ROOT

_PLACE = "sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F
_HEADER_WORDS = 6

_STRUCT, _UNION, _ENUM, _FUNCTION, _ENUM64 = 4, 5, 6, 12, 19
_KINDS = range(1, 20)
_NAMED = (_STRUCT, _UNION, _ENUM, _FUNCTION, _ENUM64)
_TRANSPARENT = frozenset({8, 9, 10, 11, 18})  # typedef, volatile, const, restrict, type tag

# 32-bit words that follow a record's three, by kind; in the second table: for each member.
# 1 int · 3 array · 14 variable · 17 declaration tag
_FIXED_WORDS = {1: 1, 3: 3, 14: 1, 17: 1}
# 4 struct · 5 union · 6 enum · 13 prototype · 15 data section · 19 64-bit enum
_WORDS_PER_MEMBER = {4: 3, 5: 3, 6: 2, 13: 2, 15: 3, 19: 3}


class BtfTypes:
    """The types of one BTF blob.

    Args:
        data: the blob, in either byte order.

    Raises ``ValueError`` when ``data`` is no BTF.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 * _HEADER_WORDS:
            raise ValueError("too short for BTF")
        order: Final = "little" if data[:2] == _MAGIC.to_bytes(2, "little") else "big"
        header = _words(data[: 4 * _HEADER_WORDS], order)
        if int.from_bytes(data[:2], order) != _MAGIC:
            raise ValueError("no BTF magic")
        header_size, types_at, types_size, strings_at, strings_size = header[1:]
        types = data[header_size + types_at :][:types_size]
        self._words = _words(types, order)
        self._strings = data[header_size + strings_at :][:strings_size]
        self._records = _record_starts(self._words)

    @classmethod
    def read(cls, sysroot: Path = ROOT) -> BtfTypes | None:
        """Return the types of the running kernel proper; None when it has no BTF."""
        try:
            return cls((sysroot / _PLACE).read_bytes())
        except (OSError, ValueError):
            return None

    def has_function(self, name: str) -> bool:
        """Return whether there is a function of exactly that name.

        The symbol of a function that the compiler changed (``.isra.0``) is none.
        """
        return self._named(name, _FUNCTION) is not None

    def function_id(self, name: str) -> int | None:
        """Return the type id by which an fentry program names the function; None without one."""
        record = self._named(name, _FUNCTION)
        return None if record is None else bisect_left(self._records, record)

    def arguments(self, function: str) -> tuple[str, ...] | None:
        """Return the names of a function's arguments in order; None when it is not known."""
        record = self._named(function, _FUNCTION)
        if record is None:
            return None
        prototype = self._records[self._words[record + 2]]
        names = range(prototype + 3, prototype + 3 + 2 * self._members(prototype), 2)
        return tuple(self._string(self._words[at]) for at in names)

    def argument_index(self, function: str, argument: str) -> int | None:
        """Return an argument's position from 0; None when function or argument is not known."""
        names = self.arguments(function) or ()
        return names.index(argument) if argument in names else None

    def field_offset(self, structure: str, field: str) -> int | None:
        """Return a field's offset in bytes; None when it is not known or not on a whole byte.

        Fields of unnamed members count as the structure's own, as in C; ``a.b`` steps into the
        field ``a``.
        """
        record = self._named(structure, _STRUCT) or self._named(structure, _UNION)
        bits = 0
        for name in field.split("."):
            found = self._find_field(record, name) if record is not None else None
            if found is None:
                return None
            bits += found[0]
            record = self._resolved(found[1])
        return None if bits % 8 else bits // 8

    def size(self, structure: str) -> int | None:
        """Return the size of a structure or union in bytes; None when it is not known."""
        record = self._named(structure, _STRUCT) or self._named(structure, _UNION)
        return None if record is None else self._words[record + 2]

    def enumerator(self, enum: str, name: str) -> int | None:
        """Return the value of an enum's member; None when enum or member is not known."""
        for kind, words in ((_ENUM, 2), (_ENUM64, 3)):
            record = self._named(enum, kind)
            for number in range(self._members(record) if record is not None else 0):
                at = (record or 0) + 3 + words * number
                if self._string(self._words[at]) == name:
                    high = self._words[at + 2] << 32 if kind == _ENUM64 else 0
                    return high | self._words[at + 1]
        return None

    @cached_property
    def _string_offsets(self) -> dict[bytes, int]:
        """Where each string stands in its section; none stands there twice."""
        strings = self._strings.split(b"\0")
        lengths = (len(string) + 1 for string in strings)
        return dict(zip(strings, accumulate(lengths, initial=0), strict=False))

    @cached_property
    def _by_name(self) -> dict[int, dict[int, int]]:
        """By kind: the record for the offset of a name; of several with one name the first."""
        words = self._words
        found: dict[int, dict[int, int]] = {kind: {} for kind in _NAMED}
        for at in self._records[1:]:
            of_kind = found.get(words[at + 1] >> 24 & 0x1F)
            if of_kind is not None:
                of_kind.setdefault(words[at], at)
        return found

    def _named(self, name: str, kind: int) -> int | None:
        offset = self._string_offsets.get(name.encode(), 0)
        return self._by_name[kind].get(offset) if offset else None

    def _find_field(self, record: int, name: str) -> tuple[int, int] | None:
        """Return offset in bits and type of a field of the structure in ``record``."""
        words = self._words
        has_bitfields = words[record + 1] >> 31
        unnamed = []
        for at in range(record + 3, record + 3 + 3 * self._members(record), 3):
            bits = words[at + 2] & 0xFFFFFF if has_bitfields else words[at + 2]
            if words[at] == 0:
                unnamed.append((bits, self._resolved(words[at + 1])))
            elif self._string(words[at]) == name:
                return bits, words[at + 1]
        for bits, inner in unnamed:
            found = self._find_field(inner, name) if inner is not None else None
            if found is not None:
                return bits + found[0], found[1]
        return None

    def _resolved(self, type_id: int) -> int | None:
        """Return the structure's record behind typedefs and qualifiers; None when it is none."""
        record = self._records[type_id]
        while self._kind(record) in _TRANSPARENT:
            record = self._records[self._words[record + 2]]
        return record if self._kind(record) in (_STRUCT, _UNION) else None

    def _kind(self, record: int) -> int:
        return self._words[record + 1] >> 24 & 0x1F if record >= 0 else 0

    def _members(self, record: int) -> int:
        return self._words[record + 1] & 0xFFFF

    def _string(self, offset: int) -> str:
        return self._strings[offset : self._strings.index(b"\0", offset)].decode()


def _words(data: bytes, order: str) -> array[int]:
    words = array("I", data)
    if order != sys.byteorder:
        words.byteswap()
    return words


def _record_starts(words: array[int]) -> list[int]:
    """Return where each type's record starts; -1 for type 0, which is ``void``.

    Raises ``ValueError`` for a kind that this module does not know, as its size is not known.
    """
    starts = [-1]
    note, at, end = starts.append, 0, len(words)
    # The five kind bits of a record's second word are the low ones of its first byte.
    fixed = [3 + _FIXED_WORDS.get(byte & 0x1F, 0) for byte in range(256)]
    per_member = [_WORDS_PER_MEMBER.get(byte & 0x1F, 0) for byte in range(256)]
    for byte in range(256):
        if byte & 0x1F not in _KINDS:
            fixed[byte] = end + 1  # past the end, which is told below
    while at < end - 1:
        note(at)
        info = words[at + 1]
        byte = info >> 24
        at += fixed[byte]
        if per_member[byte]:
            at += per_member[byte] * (info & 0xFFFF)
    if at != end:
        raise ValueError("a BTF record of unknown kind or size")
    return starts

"""Which units of a debuginfo file may hold a function's code, found without reading them.

Knows: that a unit which holds a function names it, by an offset into ``.debug_str``, and where this
does not hold so that all units have to be read.
Leaves to others: reading the units (``inlines``), and with that the exact answer.

A kernel has 2,600 units, and reading them all takes minutes. Here their bytes are only searched for
the four that are the offset of a wanted name; what looks like it by chance costs a unit read in
vain. Names of up to three characters stand in the entries themselves, those of compilers that index
strings and of ``dwz`` elsewhere; and with link-time optimisation the code's unit refers to another.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

from faultprof.kernel.dwarf import DwarfFile
from faultprof.kernel.dwarf_forms import AT_ABSTRACT_ORIGIN, FORM_REF_ADDR

_CHUNK = 8 << 20
_ACROSS_UNITS = bytes((AT_ABSTRACT_ORIGIN, FORM_REF_ADDR))


def units_mentioning(file: DwarfFile, globs: Sequence[str]) -> list[int]:
    """Return the units (offsets in ``.debug_info``) that may hold a function of such a name."""
    strings = file.section(".debug_str")
    # A name that takes no more than the offset would, with its zero byte, is written in its place.
    short = max((unit.offset_size for unit in file.units), default=4) - 1
    is_short = any(_least_length(glob) <= short for glob in globs)
    if not strings.size or _names_elsewhere(file) or is_short:
        return [unit.offset for unit in file.units]
    offsets = set(_string_offsets(strings.bytes(0, strings.size), globs))
    starts = [unit.offset for unit in file.units]
    found = {bisect.bisect_right(starts, place) - 1 for place in _places(file, offsets)}
    return [starts[unit] for unit in sorted(found) if unit >= 0]


def _names_elsewhere(file: DwarfFile) -> bool:
    if file.section(".debug_str_offsets").size or file.section(".gnu_debugaltlink").size:
        return True
    abbreviations = file.section(".debug_abbrev")
    return _ACROSS_UNITS in abbreviations.bytes(0, abbreviations.size)


def _least_length(glob: str) -> int:
    return len(re.sub(r"\[.[^]]*\]", "?", glob).replace("*", ""))


def _string_offsets(text: bytes, globs: Sequence[str]) -> Iterator[int]:
    """Yield where names begin that match; linkers let a name begin in the middle of another."""
    for glob in globs:
        wanted = re.compile(b"(?=" + _within_a_name(glob) + rb"\0)")
        yield from (match.start() for match in wanted.finditer(text))


def _within_a_name(glob: str) -> bytes:
    """Return a glob as a regular expression that does not look beyond the end of a name."""
    parts = []
    for part in re.findall(r"\*+|\?|\[!?\]?[^]]*\]|.", glob, re.DOTALL):
        if part[0] == "*":
            parts.append(r"[^\0]*")
        elif part == "?" or len(part) > 1:  # a set of characters is left to whoever reads the unit
            parts.append(r"[^\0]")
        else:
            parts.append(re.escape(part))
    return "".join(parts).encode("utf-8", "surrogateescape")


def _places(file: DwarfFile, offsets: set[int]) -> Iterator[int]:
    """Yield where in ``.debug_info`` four bytes are one of these offsets."""
    import numpy as np

    if not offsets:
        return
    section = file.section(".debug_info")
    # A table is looked up faster than a sorted list is searched, and .debug_str has some megabytes.
    wanted = np.zeros(max(offsets) + 2, np.bool_)
    wanted[list(offsets)] = True
    for start in range(0, section.size, _CHUNK):
        data = section.bytes(start, _CHUNK + 3)
        for shift in range(4):
            words = np.frombuffer(data, "<u4", (len(data) - shift) // 4, shift)
            hits = wanted[np.minimum(words, len(wanted) - 1)]
            yield from (start + shift + 4 * np.flatnonzero(hits)).tolist()

"""Inlined functions: what stands at an address according to the debuginfo.

Knows: the bodies of functions in a unit, which body lies in which, where each begins.
Leaves to others: reading DWARF (``dwarf``), keeping the results (``inline_index``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from faultprof.kernel.cache import pack, pack_names, unpack, unpack_names
from faultprof.kernel.dwarf import DwarfFile
from faultprof.kernel.dwarf_forms import (
    ADDRESS_INDICES,
    AT_ENTRY_PC,
    AT_LANGUAGE,
    AT_SIBLING,
    FORM_ADDR,
    TAG_ARRAY_TYPE,
    TAG_ENUMERATION_TYPE,
    TAG_INLINED_SUBROUTINE,
    TAG_STRUCTURE_TYPE,
    TAG_SUBPROGRAM,
    TAG_SUBROUTINE_TYPE,
    TAG_UNION_TYPE,
    UNIT_REFERENCES,
    Abbreviation,
    Attributes,
    Unit,
    read_attributes,
    read_uleb,
)
from faultprof.kernel.elf import Range
from faultprof.kernel.intervals import Intervals, flatten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ABSTRACT = -1  # in place of a body: a declaration, or the description of bodies elsewhere
_DTYPES = ("<u8", "<u8", "<i8", "<i4", "<i4", "<u8", "u1", "u1")
_TYPES_WITHOUT_CODE = frozenset({TAG_ARRAY_TYPE, TAG_ENUMERATION_TYPE, TAG_SUBROUTINE_TYPE})
# In C no function is declared inside a structure; in C++ and Rust some are.
_TYPES_WITHOUT_CODE_IN_C = _TYPES_WITHOUT_CODE | {TAG_STRUCTURE_TYPE, TAG_UNION_TYPE}
_LANGUAGES_C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C})  # C89, C, C99, C11, C17


@dataclass(frozen=True, slots=True)
class Body:
    """One copy of a function's code: out of line, or inlined into another body.

    Attributes:
        name: the function's name as in the source.
        parent: number of the body that this one is inlined into; -1 when out of line.
        inlined: whether it is an inlined copy.
        entry: address of its first instruction to run, not always its lowest; 0 when unknown.
        ranges: the addresses it covers; empty when no instruction of it is left.
    """

    name: str
    parent: int
    inlined: bool
    entry: int
    ranges: list[Range] = field(default_factory=list)


class InlineSite(NamedTuple):
    """Where the code of a function is to be found (addresses as in the debuginfo file).

    Attributes:
        function: its name.
        inlined: False when it stands there by itself.
        entry: address of its first instruction to run. GCC may name one shortly before the
            first of ``ranges``, where arguments are made ready.
        chain: the bodies it is nested in, outermost (the host, a symbol) first, itself last.
        ranges: the addresses it covers, those of functions inlined into it included.
    """

    function: str
    inlined: bool
    entry: int
    chain: tuple[str, ...]
    ranges: tuple[Range, ...]

    @property
    def host(self) -> str:
        """The out-of-line function that the code is part of."""
        return self.chain[0]


class Copy(NamedTuple):
    """One copy of a function's code, without its addresses.

    Attributes:
        chain: the bodies it is nested in, outermost (a symbol) first, itself last.
        inlined: False when it stands there by itself.
        size: bytes of code, those of functions inlined into it included.
    """

    chain: tuple[str, ...]
    inlined: bool
    size: int

    @property
    def function(self) -> str:
        """Its name."""
        return self.chain[-1]


@dataclass(frozen=True, slots=True)
class UnitTable:
    """All bodies of one unit in compact form.

    Attributes:
        intervals: which body is the innermost at an address.
        name_ids, parents, entries, inlined: one value for each body, shape (bodies,).
        names: function names; ``name_ids`` counts in it.
    """

    intervals: Intervals
    name_ids: NDArray[np.int32]
    parents: NDArray[np.int32]
    entries: NDArray[np.uint64]
    inlined: NDArray[np.uint8]
    names: tuple[str, ...]

    def chain(self, body: int) -> tuple[str, ...]:
        """Return the names from the outermost body down to ``body``; () for -1."""
        names = []
        while body >= 0:
            names.append(self.names[self.name_ids[body]])
            body = int(self.parents[body])
        return tuple(reversed(names))

    def chains(self, addresses: NDArray[np.uint64]) -> list[tuple[str, ...]]:
        """Return the chain at each address; () where the unit has no function."""
        bodies = self.intervals.find(addresses).tolist()
        known = {body: self.chain(body) for body in set(bodies)}
        return [known[body] for body in bodies]

    def sites(self, function: str) -> Iterator[InlineSite]:
        """Yield every body of ``function`` that has code."""
        if function not in self.names:
            return
        for body in (self.name_ids == self.names.index(function)).nonzero()[0].tolist():
            ranges = self._ranges(body)
            if ranges:
                inlined, entry = bool(self.inlined[body]), int(self.entries[body])
                yield InlineSite(function, inlined, entry, self.chain(body), ranges)

    def copies(self, wanted: Callable[[str], object]) -> Iterator[Copy]:
        """Yield every body that has code and whose name is ``wanted``."""
        chosen = [bool(wanted(name)) for name in self.names]
        if not any(chosen):
            return
        sizes = self._sizes()
        for body, name in enumerate(self.name_ids.tolist()):
            if chosen[name]:
                yield Copy(self.chain(body), bool(self.inlined[body]), sizes[body])

    def _sizes(self) -> list[int]:
        """Return how many bytes each body covers, with those inside it."""
        import numpy as np

        table = self.intervals
        spans = (table.ends - table.starts).astype(np.int64)
        sizes = np.zeros(len(self.name_ids), np.int64)
        np.add.at(sizes, table.owners, spans)
        total: list[int] = sizes.tolist()
        parents = self.parents.tolist()
        for body in range(len(total) - 1, -1, -1):  # parents come before children
            if parents[body] >= 0:
                total[parents[body]] += total[body]
        return total

    def _ranges(self, body: int) -> tuple[Range, ...]:
        """Return what a body covers: its own intervals and those of bodies inside it."""
        inside = {body}
        for child, parent in enumerate(self.parents.tolist()):  # parents come before children
            if parent in inside:
                inside.add(child)
        spans: list[Range] = []
        table = self.intervals
        columns = (table.starts.tolist(), table.ends.tolist(), table.owners.tolist())
        for start, end, owner in zip(*columns, strict=True):
            if owner not in inside:
                continue
            if spans and spans[-1][1] == start:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return tuple(spans)

    def to_bytes(self) -> bytes:
        """Return the table as the contents of a cache file."""
        table = self.intervals
        columns: list[NDArray[Any]] = [table.starts, table.ends, table.owners]
        columns += [self.name_ids, self.parents, self.entries, self.inlined]
        return pack([*columns, pack_names(self.names)])

    @classmethod
    def from_bytes(cls, data: bytes | None) -> UnitTable | None:
        """Return the table that a cache file holds, or None when it holds none."""
        arrays = unpack(data, _DTYPES)
        if arrays is None:
            return None
        starts, ends, owners, name_ids, parents, entries, inlined, names = arrays
        table = Intervals(starts, ends, owners)
        return cls(table, name_ids, parents, entries, inlined, unpack_names(names))


def build_table(file: DwarfFile, unit: Unit) -> UnitTable:
    """Read a unit's entries and return its table."""
    bodies = read_bodies(file, unit)
    text = file.elf.text
    ranges = [
        (low, high, number)
        for number, body in enumerate(bodies)
        for low, high in body.ranges
        # Code that the linker dropped keeps its entries, with addresses near 0.
        if any(start <= low < end for start, end in text)
    ]
    return _tabulate(bodies, flatten(ranges))


def _tabulate(bodies: Sequence[Body], intervals: Intervals) -> UnitTable:
    """Leave out bodies without code and write the others as arrays."""
    import numpy as np

    kept: set[int] = set()
    for body in set(intervals.owners.tolist()):
        while body >= 0 and body not in kept:
            kept.add(body)
            body = bodies[body].parent
    order = sorted(kept)
    numbers = {body: number for number, body in enumerate(order)} | {-1: -1}
    names = {name: i for i, name in enumerate(dict.fromkeys(bodies[body].name for body in order))}
    owners = np.array([numbers[owner] for owner in intervals.owners.tolist()], "<i8")
    return UnitTable(
        Intervals(intervals.starts, intervals.ends, owners),
        np.array([names[bodies[body].name] for body in order], "<i4"),
        np.array([numbers[bodies[body].parent] for body in order], "<i4"),
        np.array([bodies[body].entry for body in order], "<u8"),
        np.array([bodies[body].inlined for body in order], "u1"),
        tuple(names),
    )


class _Step(NamedTuple):
    """What to do with the entries of one abbreviation.

    Attributes:
        size: bytes to step over when nothing in the entry is wanted; -1 to look closer.
        is_function: a body, or the description that bodies refer to.
        is_closed: a type that holds no code, so that its children can be passed over.
    """

    abbreviation: Abbreviation
    size: int
    has_children: bool
    is_function: bool
    is_closed: bool


def read_bodies(file: DwarfFile, unit: Unit) -> list[Body]:
    """Return all bodies of a unit; a body comes after the one that it is inlined into."""
    data = file.unit_bytes(unit)
    steps = _plan(file, unit)
    bodies: list[Body] = []
    enclosing: list[int] = []  # for each open entry, the body around it
    body = -1  # the body around the entry at ``position``
    position = unit.first_entry - unit.offset
    while position < len(data):
        code = data[position]
        position += 1
        if code == 0:
            body = enclosing.pop() if enclosing else -1
            continue
        if code >= 0x80:
            code, position = read_uleb(data, position - 1)
        step = steps[code]
        if step.size >= 0:  # nearly all entries
            position += step.size
            if step.has_children:
                enclosing.append(body)
            continue
        attributes, position = read_attributes(data, position, step.abbreviation, unit)
        within = body
        if step.is_function:
            within = _add_body(bodies, step.abbreviation.tag, attributes, body, file, unit)
        if step.is_closed or within == _ABSTRACT:
            past_children = _sibling(attributes, position)
            if past_children:
                position = past_children
                continue
        if step.has_children:
            enclosing.append(body)
            body = within
    return bodies


def _sibling(attributes: Attributes, position: int) -> int:
    """Return where the entry behind an entry's children begins; 0 when it does not say."""
    sibling = attributes.get(AT_SIBLING)
    if sibling is None or sibling.form not in UNIT_REFERENCES:
        return 0
    if sibling.value < position:  # would lead round in a circle
        raise ValueError(f"the sibling of the entry before {position:#x} lies before it")
    return sibling.value


def _plan(file: DwarfFile, unit: Unit) -> dict[int, _Step]:
    """Decide for each abbreviation code of a unit what to do with its entries."""
    language = file.top_entry(unit).attributes.get(AT_LANGUAGE)
    is_c = language is not None and language.value in _LANGUAGES_C
    closed_types = _TYPES_WITHOUT_CODE_IN_C if is_c else _TYPES_WITHOUT_CODE
    steps = {}
    for code, abbreviation in file.abbreviations(unit).items():
        tag, has_children = abbreviation.tag, abbreviation.has_children
        is_function = tag in (TAG_SUBPROGRAM, TAG_INLINED_SUBROUTINE)
        is_closed = has_children and tag in closed_types
        size = -1 if is_function or is_closed else abbreviation.fixed_size
        steps[code] = _Step(abbreviation, size, has_children, is_function, is_closed)
    return steps


def _add_body(
    bodies: list[Body], tag: int, attributes: Attributes, outer: int, file: DwarfFile, unit: Unit
) -> int:
    """Append the body that an entry describes and return its number; -1 when it has none."""
    ranges = file.ranges(attributes, unit)
    inlined = tag == TAG_INLINED_SUBROUTINE
    if not ranges and not inlined:
        return _ABSTRACT
    # An inlined body all of whose code was optimised away may still hold others that have some.
    name = file.name_of(attributes, unit)
    parent = outer if inlined else -1
    bodies.append(Body(name, parent, inlined, _entry(attributes, ranges, file, unit), ranges))
    return len(bodies) - 1


def _entry(attributes: Attributes, ranges: list[Range], file: DwarfFile, unit: Unit) -> int:
    """Return the address of a body's first instruction to run: standard, section 2.18."""
    lowest = ranges[0][0] if ranges else 0
    entry = attributes.get(AT_ENTRY_PC)
    if entry is None:
        return lowest
    if entry.form == FORM_ADDR or entry.form in ADDRESS_INDICES:
        return file.address(entry, unit)
    return lowest + entry.value  # of a constant form: an offset

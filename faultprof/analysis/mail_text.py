"""Text with tables in it, as pasted into mails: quoting, and an account of every line.

Knows: ``>`` quoting, and which lines have been read, refused, or passed over as prose.
Leaves to others: the forms of tables (``lkp_table``, ``value_arrays``, ``round_tables``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from faultprof.analysis.measurement import Side

_QUOTE = re.compile(r"(?:[ \t]{0,2}>)*")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1, how often it is quoted, and what it says without quotes."""

    number: int
    depth: int
    text: str

    @property
    def blank(self) -> bool:
        """Whether it says nothing."""
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that looks like data and could not be read, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Table:
    """Sides that belong together.

    Args:
        kind: what it is, in words, such as ``0-day table``.
        caption: what the text says about it, or nothing.
        sides: its columns; the first is what the others are compared with.
        first_line, last_line: where it stands.
    """

    kind: str
    caption: str
    sides: tuple[Side, ...]
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class ImportedText:
    """What was found in a text; every line that is not blank is accounted for.

    Args:
        tables: in the order of their first lines.
        unread: what looks like data and could not be read, by line.
        prose: (first, last) lines of the passages that hold no table.
    """

    tables: tuple[Table, ...]
    unread: tuple[Unread, ...]
    prose: tuple[tuple[int, int], ...]


@dataclass
class Page:
    """A text that is being read: its lines, and what has been made of them so far."""

    lines: list[Line]
    tables: list[Table] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    claimed: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, text: str) -> Page:
        """Take the quotes off ``text``."""
        return cls([_line(number, line) for number, line in enumerate(text.split("\n"), 1)])

    def claim(self, *lines: Line) -> None:
        """Note that these lines have been read."""
        self.claimed.update(line.number for line in lines)

    def refuse(self, line: Line, reason: str, text: str | None = None) -> None:
        """Note that this line, or ``text`` in it, cannot be read."""
        self.claim(line)
        self.unread.append(Unread(line.number, (text or line.text).strip(), reason))

    def is_claimed(self, line: Line) -> bool:
        """Return whether something has been made of this line."""
        return line.number in self.claimed

    def above(self, place: int, most: int) -> Iterable[Line]:
        """Yield up to ``most`` unclaimed lines above ``lines[place]``, upwards, without blanks."""
        for line in reversed(self.lines[max(0, place - 2 * most) : place]):
            if self.is_claimed(line) or most == 0:
                return
            if not line.blank:
                most -= 1
                yield line

    def result(self) -> ImportedText:
        """Return what was found."""
        return ImportedText(
            tables=tuple(sorted(self.tables, key=lambda table: table.first_line)),
            unread=tuple(sorted(self.unread, key=lambda one: one.line)),
            prose=tuple(self._prose()),
        )

    def _prose(self) -> Iterable[tuple[int, int]]:
        first = last = 0
        for line in self.lines:
            if self.is_claimed(line):
                if first:
                    yield first, last
                first = 0
            elif not line.blank:
                first, last = first or line.number, line.number
        if first:
            yield first, last


def _line(number: int, text: str) -> Line:
    quote = _QUOTE.match(text)
    end = quote.end() if quote else 0
    rest = text[end:].rstrip()
    # One space behind the quotes belongs to them.
    return Line(number, text.count(">", 0, end), rest[1:] if end and rest[:1] == " " else rest)


def number_in(text: str) -> float | None:
    """Return what a table's cell says; None when it is no number that can be computed with."""
    from faultprof.analysis.measurement import usable

    try:
        number = float(text)
    except ValueError:
        return None
    return number if usable(number) else None

"""Hand-made tables of single measurements, as developers paste them into mails.

Knows: two forms. A table of rounds, under a caption of the form ``NAME=VALUE``, whose lines a mail
program may have wrapped; an average is checked against the rounds::

    N=1,
               clear_highpage  folio_zero_range    folio_zero_user
          1      69                   74             177
          2      57                   62             168
        avg      63                   68             172.5

The output of the shell's ``time``, several runs beside one another below the name of what was
run, or one run each of several things below their names::

    base:                                          folio_zero_range   clear_highpage
    real    0m2.490s    0m2.254s    0m2.272s       real    0m1.214s   0m1.111s

Leaves to others: 0-day tables (``lkp_table``) and value arrays (``value_arrays``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from faultprof.analysis.mail_text import Line, Page, Table, number_in
from faultprof.analysis.measurement import Measurement, Side
from faultprof.analysis.statistics import mean

_CAPTION = re.compile(r"\s*(\w+=[\w.]+),?")
_NAME = re.compile(r"[A-Za-z_][\w.()/-]*")
_AVERAGE = ("avg", "average", "mean")
_ROUNDS = "rounds"
_TIMES = "times"


# Rounds.


def read_rounds(page: Page, place: int) -> int:
    """Read the table of rounds whose caption stands at ``place``; 0 when there is none."""
    caption = _CAPTION.fullmatch(page.lines[place].text)
    if caption is None:
        return 0
    words = list(_words(page, place + 1))
    names = [word.text for word in takewhile(lambda word: _NAME.fullmatch(word.text), words)]
    rows = _Rounds(page, words[len(names) :], len(names))
    if len(names) < 2 or not (end := rows.read()):
        return 0
    page.claim(*page.lines[place:end])
    _add_rounds(page, caption[1], names, rows, (place, end))
    return end


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    place: int  # of its line
    begins: bool  # whether it is the first of its line


def _words(page: Page, start: int) -> Iterator[_Word]:
    """Yield the words from ``start`` on, up to a blank line or another depth of quoting."""
    depth = page.lines[start - 1].depth
    for place in range(start, len(page.lines)):
        line = page.lines[place]
        if line.blank or line.depth != depth or _CAPTION.fullmatch(line.text):
            return
        for number, text in enumerate(line.text.split()):
            yield _Word(text, place, number == 0)


class _Rounds:
    """Reads rows of a label and ``count`` numbers, wherever their lines were broken."""

    def __init__(self, page: Page, words: Sequence[_Word], count: int) -> None:
        self.page = page
        self.words = words
        self.count = count
        self.rounds: list[list[float]] = []

    def read(self) -> int:
        """Read all rows; return the place behind the last line that was read, 0 without rows."""
        start = end = 0
        while start < len(self.words) and self._expected(self.words[start].text):
            row = self._row(start)
            if row is None:
                break
            start += 1 + self.count
            end = self.words[start - 1].place + 1
            if self.words[start - 1 - self.count].text in _AVERAGE:
                self._check(self.page.lines[self.words[start - 1 - self.count].place], row)
                return end
            self.rounds.append(row)
        if self.rounds and start < len(self.words):
            line = self.page.lines[self.words[start].place]
            self.page.refuse(line, f"not a round of {self.count} numbers")
            end = max(end, self.words[start].place + 1)
        return end

    def _row(self, start: int) -> list[float] | None:
        """Return the numbers behind the label at ``start``; None when they are not ``count``."""
        stop = start + 1 + self.count
        values = [number_in(word.text) for word in self.words[start + 1 : stop]]
        whole = stop >= len(self.words) or self.words[stop].begins
        known = [value for value in values if value is not None]
        return known if whole and len(known) == self.count else None

    def _expected(self, label: str) -> bool:
        return label == str(len(self.rounds) + 1) or label in _AVERAGE

    def _check(self, line: Line, stated: Sequence[float]) -> None:
        """Name averages that are not those of the rounds."""
        for average, values in zip(stated, zip(*self.rounds, strict=True), strict=True):
            if abs(average - mean(values)) > 0.051 + 1e-3 * abs(average):
                self.page.refuse(
                    line, f"the rounds give an average of {mean(values):.10g}", f"{average:.10g}"
                )


def _add_rounds(
    page: Page, caption: str, names: Sequence[str], rows: _Rounds, span: tuple[int, int]
) -> None:
    """Add a metric to the table of the same columns, or begin one."""
    first, last = page.lines[span[0]].number, page.lines[span[1] - 1].number
    columns = [Measurement(values) for values in zip(*rows.rounds, strict=True)]
    former = page.tables[-1] if page.tables else None
    if (
        former is not None
        and former.kind == _ROUNDS
        and [side.label for side in former.sides] == list(names)
        and caption not in former.sides[0].metrics
    ):
        grown = [
            replace(side, metrics={**side.metrics, caption: column})
            for side, column in zip(former.sides, columns, strict=True)
        ]
        page.tables[-1] = replace(former, sides=tuple(grown), last_line=last)
        return
    sides = [Side(name, {caption: column}) for name, column in zip(names, columns, strict=True)]
    page.tables.append(Table(_ROUNDS, "", tuple(sides), first, last))


# The shell's time.

_TIME = re.compile(r"(?:(\d{1,9})m)?(\d{1,9}(?:\.\d{1,9})?)s")
_LABEL = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(\(.*\))?\s*:?")
_CASE = re.compile(r"\s*\d+\)\s*(\S.*)")


def read_times(page: Page, place: int) -> int:
    """Read the block of ``real``, ``user``, ``sys`` at ``place``; 0 when there is none."""
    rows: dict[str, list[float]] = {}
    end = place
    while end < len(page.lines) and (row := _times(page.lines[end])) and row[0] not in rows:
        rows[row[0]] = row[1]
        end += 1
    if not rows:
        return 0
    lines = page.lines[place:end]
    if len({len(times) for times in rows.values()}) > 1:
        _refuse_all(page, lines, "lines of one block have different numbers of times")
    elif not (_add_things(page, place, rows) or _add_runs(page, place, rows)):
        _refuse_all(page, lines, "no line above says what these are the times of")
    page.claim(*lines)
    return end


def _refuse_all(page: Page, lines: Sequence[Line], reason: str) -> None:
    for line in lines:
        page.refuse(line, reason)


def _times(line: Line) -> tuple[str, list[float]] | None:
    """Return the name and the seconds of one line of ``time``'s output."""
    name, *cells = line.text.split() or [""]
    found = [_TIME.fullmatch(cell) for cell in cells]
    if name not in ("real", "user", "sys") or not found or None in found:
        return None
    return name, [60 * int(one[1] or 0) + float(one[2]) for one in found if one]


def _add_things(page: Page, place: int, rows: dict[str, list[float]]) -> bool:
    """Add a table of several things, one run each, when their names stand above."""
    count = len(next(iter(rows.values())))
    names: list[str] = []
    used = []
    for line in page.above(place, count):
        words = line.text.split()
        if not all(_NAME.fullmatch(word) for word in words) or line.text.rstrip().endswith(":"):
            break
        names[:0] = words
        used.append(line)
        if len(names) >= count:
            break
    if len(names) != count or count < 2:
        return False
    page.claim(*used)
    sides = [
        Side(name, {row: Measurement((times[column],)) for row, times in rows.items()})
        for column, name in enumerate(names)
    ]
    page.tables.append(_table(page, sides, used[-1], place, rows))
    return True


def _add_runs(page: Page, place: int, rows: dict[str, list[float]]) -> bool:
    """Add several runs of one thing, when its name stands above; the table may have begun."""
    label = next(iter(page.above(place, 1)), None)
    found = _LABEL.fullmatch(label.text) if label is not None else None
    if label is None or found is None or not (found[2] or label.text.rstrip().endswith(":")):
        return False
    page.claim(label)
    title = (found[2] or "").strip("()")
    metrics = {row: Measurement(tuple(times)) for row, times in rows.items()}
    side = Side(found[1], metrics, title)
    former = page.tables[-1] if page.tables else None
    if former is not None and _belongs(former, side, label, page):
        page.tables[-1] = replace(
            former,
            sides=(*former.sides, side),
            last_line=page.lines[place + len(rows) - 1].number,
        )
        return True
    page.tables.append(_table(page, [side], label, place, rows))
    return True


def _belongs(former: Table, side: Side, label: Line, page: Page) -> bool:
    """Return whether ``side`` goes on with a table: only blank lines lie between them."""
    if former.kind != _TIMES or any(one.label == side.label for one in former.sides):
        return False
    return all(line.blank for line in page.lines[former.last_line : label.number - 1])


def _table(
    page: Page, sides: Sequence[Side], first: Line, place: int, rows: dict[str, list[float]]
) -> Table:
    caption = ""
    for line in page.above(first.number - 1, 1):
        if case := _CASE.fullmatch(line.text):
            page.claim(line)
            caption = case[1].strip()
    return Table(
        _TIMES, caption, tuple(sides), first.number, page.lines[place + len(rows) - 1].number
    )

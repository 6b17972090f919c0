r"""Comparison tables as lkp's 0-day robot mails them, and all else that a mail may hold of figures.

Knows: the layout of a 0-day table; ``parse`` reads it and the other forms from one text.
Leaves to others: value arrays (``value_arrays``), tables of single rounds (``round_tables``), and
printing such a table (``render.lkp``).

A table is known by its rule: groups of dashes, one per column, below a line with the columns'
names. Rows follow up to a blank line::

    578d7699e5c2add8 c8be03806738c86521dbf1e0503
    ---------------- ---------------------------
             %stddev     %change         %stddev
                 \          |                \
        146.95 ±  8%     -83.0%      24.99 ±  3%  vm-scalability.free_time

Spaces do not count, so that a mail program may have moved the columns. A name that was wrapped to
the next line is put back. A ``commit:`` list above gives the columns' titles. A change that the
figures beside it cannot give is named, and so are rows that count failures (``fail:runs``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from faultprof.analysis.mail_text import ImportedText, Line, Page, Table, number_in
from faultprof.analysis.measurement import Measurement, Side, in_points
from faultprof.analysis.round_tables import read_rounds, read_times
from faultprof.analysis.value_arrays import ArrayReader

_RULE = re.compile(r"\s*-{8,}(?: +-{8,})+\s*")
_HEADING = frozenset(("%stddev", "%change", "\\", "|", "fail:runs", "%reproduction"))
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?"
_VALUE = re.compile(rf"\s*(-?{_NUMBER})(?:\s*(?:Â?±|\+-)\s*(\d{{1,6}})%)?(?!\S)")
_CHANGE = re.compile(rf"\s+([+-]{_NUMBER})(%?)(?!\S)")
_FAILURES = re.compile(r"\s*\d*:\d+(?:\s+[+-]?\d+%\s+\d*:\d+)+\s+\S")
_PARAMETERS = re.compile(r"\s*=={10,}\s*")


def parse(text: str) -> ImportedText:
    """Read every table and value array in ``text``.

    Lines that look like data and cannot be read are named in ``unread``; passages without any are
    listed in ``prose``. No line is left out of the account but blank ones.
    """
    return read_page(Page.of(text))


def read_page(page: Page) -> ImportedText:
    """Read what is in those lines of a page that nobody else has read; as :func:`parse`."""
    arrays = ArrayReader(page)
    place = 0
    while place < len(page.lines):
        if page.is_claimed(page.lines[place]):
            place += 1
            continue
        place = (
            _read_table(page, place)
            or arrays.read(place)
            or read_rounds(page, place)
            or read_times(page, place)
            or _pass_over(page, place)
        )
    arrays.finish()
    return page.result()


def _pass_over(page: Page, place: int) -> int:
    """Take a line for prose, unless it is a row whose table is missing."""
    line = page.lines[place]
    if (row := _row(line.text)) is not None and row.name:
        page.refuse(line, "a row without the rule of dashes that begins a table")
    return place + 1


@dataclass(frozen=True, slots=True)
class _Cell:
    """A mean, its deviation in percent or None, and the change that leads to it."""

    mean: str
    deviation: str | None
    change: str = "0"
    percent: bool = True


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[_Cell, ...]
    name: str
    rest: str


def _row(text: str) -> _Row | None:
    """Take a line apart; None when it is no row, which has at least two columns."""
    found = _VALUE.match(text)
    if found is None:
        return None
    cells = [_Cell(found[1], found[2])]
    end = found.end()
    while (change := _CHANGE.match(text, end)) and (found := _VALUE.match(text, change.end())):
        cells.append(_Cell(found[1], found[2], change[1], bool(change[2])))
        end = found.end()
    name, _, rest = text[end:].strip().partition(" ")
    return _Row(tuple(cells), name, rest.strip()) if len(cells) > 1 else None


@dataclass
class _Columns:
    """A table whose rows are being read."""

    labels: list[str]
    titles: list[str]
    identity: str
    measured: list[dict[str, Measurement]] = field(default_factory=list)
    quoted: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.measured = [{} for _ in self.labels]
        self.quoted = [{} for _ in self.labels]

    def add(self, row: _Row) -> str:
        """Take a row in; return what is wrong with it, or nothing."""
        if len(row.cells) != len(self.labels):
            return f"{len(row.cells)} columns, but the table has {len(self.labels)}"
        if row.name in self.measured[0]:
            return f"{row.name} stands in this table a second time"
        # Changes from a base of zero are huge, and only shown.
        if not all(
            number_in(cell.mean) is not None and math.isfinite(float(cell.change))
            for cell in row.cells
        ):
            return "a number beyond all reason"
        if any(cell.percent == in_points(row.name) for cell in row.cells[1:]):
            return "a change in percent where lkp shows a difference, or the other way round"
        for column, cell in enumerate(row.cells):
            deviation = None if cell.deviation is None else int(cell.deviation)
            self.measured[column][row.name] = Measurement(
                table_mean=float(cell.mean), table_text=cell.mean, table_deviation=deviation
            )
            if column:
                self.quoted[column][row.name] = cell.change
        return ""

    def sides(self) -> Iterator[Side]:
        columns = zip(self.labels, self.titles, self.measured, self.quoted, strict=True)
        for label, title, measured, quoted in columns:
            yield Side(label, measured, title, table=self.identity, quoted=quoted)


def _read_table(page: Page, place: int) -> int:
    """Read the table whose rule stands at ``place``; return where it ends, 0 when none does."""
    rule = page.lines[place]
    if not _RULE.fullmatch(rule.text):
        return 0
    labels = _labels(page, place, len(rule.text.split()))
    titles, caption = _context(page, place, labels)
    columns = _Columns(labels, [_title(label, titles) for label in labels], f"line {rule.number}")
    page.claim(rule)
    end = place + 1
    while end < len(page.lines):
        after = _read_row(page, end, columns, rule.depth)
        if not after:
            break
        end = after
    if columns.measured[0]:
        sides = tuple(columns.sides())
        last = page.lines[end - 1].number
        page.tables.append(Table("0-day table", caption, sides, rule.number, last))
    else:
        page.refuse(rule, "a rule of dashes without a row that can be read below it")
    return end


def _labels(page: Page, place: int, count: int) -> list[str]:
    above = page.lines[place - 1] if place else None
    words = above.text.split() if above is not None else []
    if above is not None and len(words) == count:
        page.claim(above)
        return words
    page.refuse(page.lines[place], f"the line above this rule does not name {count} columns")
    return [f"column{number}" for number in range(1, count + 1)]


def _context(page: Page, place: int, labels: list[str]) -> tuple[dict[str, str], str]:
    """Return the titles of a ``commit:`` list, and the parameters, that stand above a table."""
    titles, block = {}, []
    for line in page.above(place - 1, 12):
        block.append(line)
        if line.text.strip() == "commit:":
            break
        short, _, title = line.text.strip().partition(" ")
        if len(short) < 4 or not any(label.startswith(short) for label in labels):
            return {}, ""
        titles[short] = title.strip()
    else:
        return {}, ""
    page.claim(*block)
    start = block[-1].number - 1
    return titles, _parameters(page, start)


def _parameters(page: Page, place: int) -> str:
    """Return the line of parameter values between a rule of ``=`` and ``commit:``."""
    above = list(page.above(place, 3))
    if len(above) < 3 or not _PARAMETERS.fullmatch(above[2].text):
        return ""
    page.claim(*above)
    return above[0].text.strip()


def _title(label: str, titles: dict[str, str]) -> str:
    return next((title for short, title in titles.items() if label.startswith(short)), "")


def _read_row(page: Page, place: int, columns: _Columns, depth: int) -> int:
    """Read one line of a table; return the next place, 0 when the table has ended."""
    line = page.lines[place]
    if line.blank or line.depth != depth:
        return 0
    if set(line.text.split()) <= _HEADING:
        page.claim(line)
        return place + 1
    row = _row(line.text)
    if row is None:
        return _refuse_row(page, place)
    used = [line]
    if not row.name:
        row = _with_wrapped_name(page, place, row, used)
    if not row.name:
        page.refuse(line, "the name of the metric is missing")
    elif problem := columns.add(row):
        page.refuse(line, problem)
    else:
        _doubt(page, line, row)
    page.claim(*used)
    return place + len(used)


def _refuse_row(page: Page, place: int) -> int:
    line = page.lines[place]
    if _FAILURES.match(line.text):
        page.refuse(line, "counts of failed runs are not compared")
    elif re.match(r"\s*[-+]?[\d:]", line.text):
        page.refuse(line, "not a row of this table")
    else:
        return 0
    return place + 1


def _with_wrapped_name(page: Page, place: int, row: _Row, used: list[Line]) -> _Row:
    """Put a name that stands alone on the next line back behind its row."""
    below = page.lines[place + 1] if place + 1 < len(page.lines) else None
    if below is None or below.depth != used[0].depth or len(below.text.split()) != 1:
        return row
    if below.text.strip()[0].isdigit():
        return row
    used.append(below)
    return _Row(row.cells, below.text.strip(), "")


def _doubt(page: Page, line: Line, row: _Row) -> None:
    """Name what stands behind a row's name, and a change that its figures cannot give."""
    if row.rest:
        page.refuse(line, "text behind the name of the metric", row.rest)
    for cell in row.cells[1:]:
        if not _possible(row.cells[0].mean, cell):
            page.refuse(line, "the means beside it give another change", cell.change)


def _possible(base: str, cell: _Cell) -> bool:
    """Return whether means that print like these can have the printed change."""
    low, high = _printed_range(base)
    least, most = _printed_range(cell.mean)
    change, step = float(cell.change), _last_digit(cell.change)
    if not cell.percent:
        return least - high - step <= change <= most - low + step
    if low <= 0:
        return True  # lkp divides by something tiny where the base is zero
    smallest, largest = 100 * (least / high - 1), 100 * (most / low - 1)
    return smallest - step <= change <= largest + step


def _printed_range(text: str) -> tuple[float, float]:
    value, step = float(text), _last_digit(text)
    return value - step, value + step


def _last_digit(text: str) -> float:
    """Return what one more in the last printed digit adds; lkp rounds some, cuts others off."""
    digits, _, exponent = text.partition("e")
    _, _, decimals = digits.partition(".")
    return float(10.0 ** min(int(exponent or 0) - len(decimals), 100))

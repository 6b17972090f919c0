"""Value arrays: the single values of a metric, one per run, as lkp's matrix files hold them.

Knows: arrays under a quoted name, as whole JSON files or as pasted into mails::

    # extra tests on head commit of linus/master
    # good: [9bacdd8996c77c42ca004440be610692275ff9d0] Merge tag ...

      "vm-scalability.throughput": [
        54122867,
        58465096
      ],

Leaves to others: comparing them.

Comment lines shortly above an array begin a new side and give its label (the commit) and title.
Without them, arrays that follow one another are one side's, until a name comes back. All sides in
a text make one table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultprof.analysis.mail_text import Line, Page, Table, number_in
from faultprof.analysis.measurement import Measurement, Side

_OPENING = re.compile(r'\s*"([^"]+)"\s*:\s*\[(.*)')
_SINGLE = re.compile(r'\s*"[^"]+"\s*:\s*-?\d[\d.e+-]*\s*,?')
_COMMIT = re.compile(r"\b[0-9a-f]{12,40}\b")
_FAR = 4  # lines that may stand between a comment and its array


class ArrayReader:
    """Collects the arrays of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.sides: list[Side] = []
        self.metrics: dict[str, Measurement] = {}  # of the last side, which may still grow
        self.first = self.last = 0

    def read(self, place: int) -> int:
        """Read what stands at ``place``; return where it ends, 0 when it is no array."""
        line = self.page.lines[place]
        if _SINGLE.fullmatch(line.text):
            self.page.refuse(line, "a single value, not an array of runs")
            return place + 1
        opening = _OPENING.match(line.text)
        if opening is None:
            return self._read_brace(line, place)
        comment = self._comment(place)
        end, values = self._values(place, opening[2])
        if not values:
            self.page.refuse(line, "an array without values")
            return end
        self._add(opening[1], Measurement(tuple(values)), comment, line.number)
        self.first = self.first or (comment[-1] if comment else line).number
        self.last = self.page.lines[end - 1].number
        return end

    def _read_brace(self, line: Line, place: int) -> int:
        """Braces around the arrays of a JSON file say nothing."""
        if line.text.strip() not in ("{", "}"):
            return 0
        self.page.claim(line)
        return place + 1

    def _comment(self, place: int) -> list[Line]:
        """Return the comment lines that belong to the array at ``place``, upwards."""
        above = list(self.page.above(place, _FAR))
        comment: list[Line] = []
        for line in above:
            if line.text.lstrip().startswith("#"):
                comment.append(line)
            elif comment:
                break
        return comment

    def _values(self, place: int, text: str) -> tuple[int, list[float]]:
        """Read up to the closing bracket, from ``text`` behind the opening one on."""
        values: list[float] = []
        opening = self.page.lines[place]
        end = place
        while True:
            line = self.page.lines[end]
            inside, bracket, _ = text.partition("]")
            values.extend(self._numbers(line, inside))
            self.page.claim(line)
            end += 1
            if bracket:
                return end, values
            if end == len(self.page.lines) or not _continues(self.page.lines[end], opening):
                self.page.refuse(opening, "the array is not closed by ]")
                return end, values
            text = self.page.lines[end].text

    def _numbers(self, line: Line, text: str) -> Iterator[float]:
        for word in text.replace(",", " ").split():
            number = number_in(word)
            if number is None:
                self.page.refuse(line, "not a number", word)
            else:
                yield number

    def _add(self, name: str, values: Measurement, comment: list[Line], line: int) -> None:
        self.page.claim(*comment)
        if not self.sides or comment or name in self.metrics:
            self.metrics = {}
            said = [one.text.strip().lstrip("#").strip() for one in reversed(comment)]
            commit = _COMMIT.search(" ".join(said))
            label = commit[0] if commit else f"line{line}"
            self.sides.append(Side(label, self.metrics, "; ".join(said)))
        self.metrics[name] = values

    def finish(self) -> None:
        """Make a table of all sides."""
        if self.sides:
            table = Table("value arrays", "", tuple(self.sides), self.first, self.last)
            self.page.tables.append(table)


def _continues(line: Line, opening: Line) -> bool:
    """Return whether an array can go on here: a blank line or words end it."""
    return line.depth == opening.depth and bool(re.match(r"\s*(?:[-+.\d\]]|null|nan)", line.text))

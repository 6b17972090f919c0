"""HTML tables and pictures, written in one way.

Knows: rows, cells, which column is a number, and how a picture is put into the page.
Leaves to others: what is in them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faultprof.render.embed import escaped


class Cell(NamedTuple):
    """A cell: its text; its class; what it is sorted by, if that is not its text."""

    text: str
    kind: str = ""
    value: float | None = None


def number(text: str, value: float | None) -> Cell:
    """Return a cell with a number."""
    return Cell(text, "number", value)


def table(name: str, titles: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; the program makes those of the class ``sortable`` so."""
    head = "".join(f'<th scope="col"{_attributes(one)}>{escaped(one.text)}</th>' for one in titles)
    lines = [f'<table class="{name}">\n<thead><tr>{head}</tr></thead>\n<tbody>']
    for row in rows:
        cells = "".join(f"<td{_attributes(one)}>{escaped(one.text)}</td>" for one in row)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody>\n</table>\n"])


def long_text(text: str) -> str:
    """Escape a text that may be longer than a name, in parts that may be that long."""
    return "".join(escaped(text[start : start + 200]) for start in range(0, len(text), 200))


def picture(svg: bytes, says: str) -> str:
    """Return an SVG as a picture, in which nothing can run; ``says`` is for those who see none."""
    data = base64.b64encode(svg).decode("ascii")
    return f'<img class="plot" alt="{escaped(says)}" src="data:image/svg+xml;base64,{data}">\n'


def _attributes(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return kind + (f' data-value="{cell.value!r}"' if cell.value is not None else "")

"""What the probes cost where a recording was made, as a table.

Knows: the columns.
Leaves to others: the figures (``recording.calibration``), their words (``render.calibration``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faultprof.recording.calibration import Calibration, Measured, calibration_of
from faultprof.recording.reader import Recording
from faultprof.render.calibration import UNKNOWN, cost_text, interval, words
from faultprof.render.embed import escaped
from faultprof.render.html.elements import Cell, long_text, number, table
from faultprof.render.units import NOTHING

_NOTE = (
    "inside: the part of a hit that lies in the function's own time; outside: in its caller's; "
    "in ns, the shortest of many passes, with what 95 of 100 passes stayed below"
)


def calibration_html(recordings: Sequence[Recording], labels: Sequence[str]) -> str:
    """Return a table for each recording that was traced; nothing where none was."""
    pieces = []
    for recording, label in zip(recordings, labels, strict=True):
        if not recording.has_trace:
            continue
        if len(recordings) > 1:
            pieces.append(f"<h3>{escaped(label)}</h3>\n")
        found = calibration_of(recording.metadata.calibration)
        if found is None:
            pieces.append(f'<p class="note">{escaped(UNKNOWN)}</p>\n')
        else:
            pieces += _of(found, recording.metadata.functions)
    return "".join(pieces)


def _of(calibration: Calibration, functions: Mapping[str, Any]) -> Iterator[str]:
    titles = ["probe", "threads", "ns a hit", "interval", "inside", "outside"]
    head = [Cell(titles[0]), *(Cell(title, "number") for title in titles[1:])]
    yield table("sortable", head, [_row(one) for one in calibration.measured])
    for kind, why in calibration.missing.items():
        yield f'<p class="note">{escaped(f"{words(kind)}: {why}")}</p>\n'
    for text in (_NOTE, cost_text(calibration, functions)):
        yield f'<p class="note">{long_text(text)}</p>\n'


def _row(one: Measured) -> list[Cell]:
    total = one.total_ns
    cells = [
        Cell(words(one.kind)),
        number(str(one.threads), one.threads),
        number(f"{total.value:.0f}", total.value),
        number(interval(total), total.low),
    ]
    if one.inside_ns is None:
        return [*cells, number(NOTHING, -1), number(NOTHING, -1)]
    parts = (one.inside_ns.value, one.outside_ns.value)
    return [*cells, *(number(f"{ns:.0f}", ns) for ns in parts)]

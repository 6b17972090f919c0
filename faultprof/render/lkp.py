r"""A comparison in lkp's layout, as 0-day mails have it, character by character.

Knows: widths, number formats and heading of that layout; nothing of it is faultprof's own choice::

    578d7699e5c2add8 c8be03806738c86521dbf1e0503
    ---------------- ---------------------------
             %stddev     %change         %stddev
                 \          |                \
        146.95 ±  8%     -83.0%      24.99 ±  3%  vm-scalability.free_time
        233050           -28.1%     167484        vm-scalability.median

A value has 10 columns: two decimals below 1000, four digits above 1e8, else whole, cut off. Its
standard deviation, in percent and cut off, is there only above 2. A change has one decimal (two
digits from 100000 on) and a ``%``, or none where the metric is a percentage itself. From a base of
zero lkp prints a huge number. Blank instead of lkp's 0.00 is what a side has not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.comparison import Comparison, MetricChange, MetricRow
from faultprof.analysis.measurement import Measurement
from faultprof.render.terminal import ASCII, Terminal, sanitise

_VALUE, _DEVIATION, _CHANGE = 10, 6, 12
_BASE = _VALUE + _DEVIATION
_COLUMN = _CHANGE - 1 + _BASE  # one of the change's columns parts it from its neighbour
_HEADING = "         %stddev", "     %change         %stddev"
_POINTERS = "             \\  ", "        |                \\  "


def lkp_lines(comparison: Comparison, terminal: Terminal) -> Iterator[str]:
    """Yield heading and rows."""
    yield from heading_lines([side.label for side in comparison.sides])
    for row in comparison.rows:
        yield row_line(row, terminal)


def heading_lines(labels: Sequence[str]) -> list[str]:
    """Return the four lines above the rows; labels are cut to their columns."""
    widths = [_BASE] + [_COLUMN] * (len(labels) - 1)
    cut = [sanitise(label)[:width] for label, width in zip(labels, widths, strict=True)]
    others = len(labels) - 1
    return [
        "".join(f"{label:>{width}} " for label, width in zip(cut, widths, strict=True)),
        "".join("-" * width + " " for width in widths),
        _HEADING[0] + _HEADING[1] * others,
        _POINTERS[0] + _POINTERS[1] * others,
    ]


def row_line(row: MetricRow, terminal: Terminal) -> str:
    """Return one metric's line."""
    line = _cell(row.measured[0], terminal)
    for change, measured in zip(row.changes, row.measured[1:], strict=True):
        line += _change(change, row.in_points) + _cell(measured, terminal)
    return f"{line}  {sanitise(row.name)}"


def _cell(measured: Measurement | None, terminal: Terminal) -> str:
    if measured is None:
        return " " * _BASE
    value = measured.table_text or _value(measured.mean)
    return f"{value:>{_VALUE}}{_deviation(measured, terminal)}"


def _value(value: float) -> str:
    if abs(value) < 1000:
        return f"{value:.2f}"
    return f"{value:.4g}" if abs(value) > 1e8 else f"{int(value)}"


def _deviation(measured: Measurement, terminal: Terminal) -> str:
    percent = measured.deviation_percent
    # A table's deviation is cut off: its 2 was more, or it would not be there.
    if percent is None or (percent <= 2 and measured.values):
        return " " * _DEVIATION
    sign = "+-" if terminal.glyphs is ASCII else " ±"
    return f"{sign}{int(percent):3d}%"


def _change(change: MetricChange | None, in_points: bool) -> str:
    if change is None:
        return " " * _CHANGE
    small = abs(change.shown) < 100_000
    number = change.printed or (f"{change.shown:+.1f}" if small else f"{change.shown:+.2g}")
    return f"{number:>{_CHANGE - 2}}{' ' if in_points else '%'} "

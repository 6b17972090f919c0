"""Metrics over runs: a small picture of each, and of two recordings the comparison.

Knows: how the pictures are drawn, and the columns of both tables.
Leaves to others: the metrics (``analysis.measurement``), what a change is worth
(``analysis.comparison``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.bootstrap import FEWEST, mean_interval
from faultprof.analysis.comparison import MetricRow, compare_sides
from faultprof.analysis.measurement import Measurement, Side, side_of_recording
from faultprof.recording.reader import Recording
from faultprof.render.compare import interval_text, p_text
from faultprof.render.embed import escaped
from faultprof.render.html.elements import Cell, number, table

_WIDTH, _HEIGHT, _EDGE = 230, 110, 8  # pixels


def _sides(recordings: Sequence[Recording], labels: Sequence[str]) -> list[Side]:
    return [
        side_of_recording(one.metadata, text) for one, text in zip(recordings, labels, strict=True)
    ]


# The comparison.


def comparison_html(recordings: Sequence[Recording], labels: Sequence[str]) -> str:
    """Return the table of two recordings' metrics, with what each change is worth."""
    comparison = compare_sides(_sides(recordings, labels))
    titles = [Cell("metric")]
    titles += [Cell(side.label, "number") for side in comparison.sides]
    titles += [Cell("change", "number"), Cell("interval", "number"), Cell("p", "number")]
    titles.append(Cell("verdict"))
    rows = [_compared(row) for row in comparison.rows]
    return table("sortable", titles, rows) if rows else '<p class="note">no metrics</p>\n'


def _compared(row: MetricRow) -> list[Cell]:
    cells = [Cell(row.name, "name"), *(_mean(one) for one in row.measured)]
    change = row.changes[0]
    if change is None:
        return [*cells, Cell(""), Cell(""), Cell(""), Cell("")]
    unit = "" if row.in_points else "%"
    cells.append(number(f"{change.shown:+.1f}{unit}", change.shown))
    worth = change.worth
    if worth is None:
        return [*cells, Cell(""), Cell(""), Cell("")]
    cells += [number(interval_text(worth, row.in_points), None), number(p_text(worth.p), worth.p)]
    return [*cells, Cell(worth.verdict.value, f"verdict-{worth.verdict.name.lower()}")]


def _mean(measured: Measurement | None) -> Cell:
    if measured is None:
        return Cell("")
    percent = measured.deviation_percent
    known = percent is not None and len(measured.values) != 1
    spread = f" ± {percent:.1f}%" if known else ""
    return number(f"{measured.mean:,.6g}{spread}", measured.mean)


# All runs.


def runs_html(recordings: Sequence[Recording], labels: Sequence[str]) -> str:
    """Return a picture for each metric: a dot per run, means, and intervals."""
    sides = _sides(recordings, labels)
    names = list(dict.fromkeys(name for side in sides for name in side.metrics))
    if not names:
        return '<p class="note">no metrics</p>\n'
    pictures = "".join(_picture(name, sides) for name in names)
    legend = "".join(
        f'<span class="key series-{place}">{escaped(side.label)}</span>'
        for place, side in enumerate(sides)
        if len(sides) > 1
    )
    note = f"dots: runs in their order; line: mean; band: its 95% interval, from {FEWEST} runs on"
    return f'<div class="strips">\n{pictures}</div>\n<p class="note">{legend}{note}</p>\n'


def _picture(name: str, sides: Sequence[Side]) -> str:
    values = [
        value for side in sides if name in side.metrics for value in side.metrics[name].values
    ]
    intervals = [mean_interval(side.metrics[name].values) for side in sides if name in side.metrics]
    ends = [end for one in intervals if one is not None for end in (one.low, one.high)]
    low, high = min([*values, *ends]), max([*values, *ends])
    shapes = "".join(_column(name, sides, place, low, high) for place in range(len(sides)))
    means = ", ".join(_figure(side.metrics[name].mean) for side in sides if name in side.metrics)
    return (
        f"<figure><figcaption><b>{escaped(name)}</b> {escaped(means)}</figcaption>\n"
        f'<svg class="strip" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" aria-label="{escaped(name)}">{shapes}'
        f'<text x="{_WIDTH}" y="{_EDGE + 3}">{_figure(high)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - _EDGE + 4}">{_figure(low)}</text></svg></figure>\n'
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _column(name: str, sides: Sequence[Side], place: int, low: float, high: float) -> str:
    if name not in sides[place].metrics:
        return ""
    values = sides[place].metrics[name].values
    room = (_WIDTH - 60) / len(sides)
    left = place * room + 4
    right = left + room - 12
    shapes = "".join(_shapes(values, left, right, low, high))
    return f'<g class="series-{place}">{shapes}</g>'


def _shapes(
    values: Sequence[float], left: float, right: float, low: float, high: float
) -> Iterator[str]:
    def height(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)

    interval = mean_interval(values)
    if interval is not None:
        top, bottom = height(interval.high), height(interval.low)
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - top:.1f}"/>'
        )
    mean = height(sum(values) / len(values))
    yield f'<path d="M{left:.1f} {mean:.1f}H{right:.1f}"/>'
    step = (right - left) / len(values)
    for number_, value in enumerate(values):
        x = left + step * (number_ + 0.5)
        yield f'<circle cx="{x:.1f}" cy="{height(value):.1f}" r="2.5"/>'

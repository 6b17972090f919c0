"""A comparison as text: lkp's table, and behind each of its rows what the changes are worth.

Knows: what stands around lkp's lines, which themselves stay as they are (``lkp``).
Leaves to others: JSON, CSV and Markdown (``compare_exports``).

Behind a row stand, for each side but the base, the interval of the change (in percent, or in
points where the metric is a percentage itself), p, and the verdict. Tables without single runs
have none of these, and so are lkp's lines and nothing else. All other lines begin with ``#``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.bootstrap import FEWEST, RESAMPLES
from faultprof.analysis.change import Change, Test, Verdict
from faultprof.analysis.comparison import Comparison, MetricRow
from faultprof.render.header import entry
from faultprof.render.lkp import heading_lines, row_line
from faultprof.render.terminal import Terminal, sanitise

_LONG = 36  # columns up to which names are filled, so that what stands behind them is in line
_GAP = "  "
_TITLES = ("interval", "p", "verdict")


def comparison_lines(comparisons: Sequence[Comparison], terminal: Terminal) -> Iterator[str]:
    """Yield the tables, each below what its sides are, and at the end how to read them."""
    for number, comparison in enumerate(comparisons):
        if number:
            yield ""
        for key, text in _about_sides(comparison):
            yield from entry(key, text, terminal)
        yield "#"
        yield from _table(comparison, terminal)
    footer = list(_how_to_read(comparisons))
    if footer:
        yield "#"
    for key, text in footer:
        yield from entry(key, text, terminal)


def _about_sides(comparison: Comparison) -> Iterator[tuple[str, str]]:
    if comparison.caption:
        yield "caption", comparison.caption
    for number, side in enumerate(comparison.sides):
        new = "new" if len(comparison.sides) == 2 else f"new {number}"
        title = f": {side.title}" if side.title else ""
        source = f" ({side.source})" if side.source else ""
        yield ("base" if number == 0 else new), f"{side.label}{title}{source}"
        for note in side.notes:
            yield "note", f"{side.label}: {note}"


def _table(comparison: Comparison, terminal: Terminal) -> Iterator[str]:
    heading = heading_lines([side.label for side in comparison.sides])
    rows = [row_line(row, terminal) for row in comparison.rows]
    behind = [_cells(row) for row in comparison.rows]
    if not any(any(cells) for cells in behind):
        yield from heading
        yield from rows
        return
    start = len(row_line(MetricRow("", *_blank(comparison)), terminal))
    longest = max(len(sanitise(row.name)) for row in comparison.rows)
    start += min(longest, _LONG)
    titles = list(_TITLES) * (len(comparison.sides) - 1)
    columns = [[title, *cells] for title, *cells in zip(titles, *behind, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    yield from heading[:-1]
    for line, cells in zip([heading[-1], *rows], [titles, *behind], strict=True):
        yield f"{line:<{start}}{_GAP}{_aligned(cells, widths)}".rstrip()


def _blank(comparison: Comparison) -> tuple[tuple[None, ...], tuple[None, ...]]:
    """Return the measurements and changes of a row that has none."""
    return (None,) * len(comparison.sides), (None,) * (len(comparison.sides) - 1)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        f"{cell:<{width}}" if number % len(_TITLES) == 2 else f"{cell:>{width}}"
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(aligned)


def _cells(row: MetricRow) -> list[str]:
    cells: list[str] = []
    for change in row.changes:
        worth = None if change is None else change.worth
        if change is None or worth is None:
            cells += ["", "", ""]
        else:
            cells += [interval_text(worth, row.in_points), p_text(worth.p), worth.verdict]
    return cells


def interval_text(worth: Change, in_points: bool) -> str:
    """Return ``[-3.1%, +0.4%]``, in points without ``%``; ``-`` where there is no interval."""
    interval = worth.difference_interval if in_points else worth.relative_interval
    if interval is None:
        return "-"
    scale, unit = (1, "") if in_points else (100, "%")
    low, high = (f"{scale * bound:+.1f}{unit}" for bound in interval)
    return f"[{low}, {high}]"


def p_text(p: float) -> str:
    """Return a p with three decimals, or that it is smaller."""
    return f"{p:.3f}" if p >= 0.0005 else "<0.001"


def _how_to_read(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    rows = [row for comparison in comparisons for row in comparison.rows]
    changes = [one for row in rows for one in row.changes if one is not None]
    worths = [one.worth for one in changes if one.worth is not None]
    if worths:
        yield from _terms(comparisons, worths)
    if len(worths) < len(changes):
        yield "unjudged", "a table of means does not say what its single runs were"
    hidden = sum(comparison.hidden for comparison in comparisons)
    if hidden:
        yield "hidden", f"{hidden} of {hidden + len(rows)} metrics"


def _terms(
    comparisons: Sequence[Comparison], worths: Sequence[Change]
) -> Iterator[tuple[str, str]]:
    alpha, seed = comparisons[0].alpha, comparisons[0].seed
    tested = sum(comparison.tested for comparison in comparisons)
    if any(one.difference_interval is not None for one in worths):
        drawn = "pairs of runs" if any(one.paired for one in worths) else "runs"
        yield (
            "interval",
            f"{100 * (1 - alpha):g}% of the change: bootstrap, {RESAMPLES:,} resamples of {drawn}, "
            f"seed {seed}",
        )
    tests = " and ".join(test for test in Test if any(one.test is test for one in worths))
    yield "p", f"two-sided, exact: {tests}"
    if tested:
        yield (
            "real",
            f"p at most {alpha:g} and an interval without 0; of {tested} such verdicts, chance "
            f"alone makes about {alpha * tested:.1g} real",
        )
    if any(one.verdict is Verdict.TOO_FEW for one in worths):
        yield (
            "too few",
            f"fewer than {FEWEST} runs on a side, or so few that no p can be as small as {alpha:g}",
        )

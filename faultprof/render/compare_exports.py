"""A comparison as JSON, CSV and Markdown.

Knows: the fields of ``faultprof compare --json`` and ``--csv``.
Leaves to others: the text (``compare``).

JSON: one object with ``tool_version``, ``alpha``, ``confidence`` (1 - alpha), ``seed`` and
``resamples`` (of the intervals), ``tables`` and ``texts``.

Each of ``tables`` has ``caption``, ``sides``, ``metrics`` and ``hidden_metrics``.
    ``sides``: ``label``, ``title``, ``source`` (FILE or FILE:SIDE), ``runs`` (0: only means are
    known), ``notes``. The first is the base.
    ``metrics``: ``name``, ``in_points`` (whether lkp shows its difference, not its ratio), and
    ``measured``: one object per side, null where it lacks the metric: ``values`` (one per run;
    empty when only a table's mean is known), ``mean``, ``stddev`` (population; null when not
    known), ``stddev_percent`` (of the mean; from a table a whole number, null up to 2); and
    ``changes``: one object per side but the base, null where either lacks the metric:
    ``difference`` (``value``, ``low``, ``high``; in the metric's unit), ``relative`` (the same as
    fractions of the base's mean, or null), ``shown`` (as lkp prints it: percent or points), ``p``
    (what the verdict is based on), ``test`` (where that comes from: ``Mann-Whitney`` or
    ``signed-rank``), ``mann_whitney_p``, ``paired``, and ``verdict`` (``real``, ``noise``, ``too
    few runs``). What cannot be told is null.

``texts`` has for each text that was read: ``file``, ``unread`` (``line``, ``text``, ``reason``) and
``prose`` (pairs of first and last lines of passages without a table).

CSV: one line per table, metric and side, with the same names; ``table`` and ``side`` count from 0.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faultprof import __version__
from faultprof.analysis.bootstrap import RESAMPLES
from faultprof.analysis.comparison import Comparison, MetricChange, MetricRow
from faultprof.analysis.mail_text import ImportedText
from faultprof.analysis.measurement import Measurement, Side
from faultprof.render.compare import interval_text, p_text
from faultprof.render.terminal import sanitise

_MEASURED = ("values", "mean", "stddev", "stddev_percent")
_INTERVAL = ("value", "low", "high")
_WORTH = ("p", "test", "mann_whitney_p", "paired", "verdict")


def json_text(comparisons: Sequence[Comparison], texts: Mapping[str, ImportedText]) -> str:
    """Return everything as one JSON object, indented; at least one comparison."""
    first = comparisons[0]
    everything = {
        "tool_version": __version__,
        "alpha": first.alpha,
        "confidence": 1 - first.alpha,
        "seed": first.seed,
        "resamples": RESAMPLES,
        "tables": [_table(comparison) for comparison in comparisons],
        "texts": [_text(name, text) for name, text in texts.items()],
    }
    return json.dumps(everything, indent=1, allow_nan=False)


def _table(comparison: Comparison) -> dict[str, Any]:
    return {
        "caption": comparison.caption,
        "sides": [_side(side) for side in comparison.sides],
        "metrics": [_metric(row) for row in comparison.rows],
        "hidden_metrics": comparison.hidden,
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "title": side.title,
        "source": side.source,
        "runs": side.most_runs,
        "notes": list(side.notes),
    }


def _metric(row: MetricRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "in_points": row.in_points,
        "measured": [None if one is None else _measured(one) for one in row.measured],
        "changes": [None if one is None else _change(one) for one in row.changes],
    }


def _measured(measured: Measurement) -> dict[str, Any]:
    figures = (list(measured.values), measured.mean, measured.deviation, measured.deviation_percent)
    return dict(zip(_MEASURED, figures, strict=True))


def _change(change: MetricChange) -> dict[str, Any]:
    worth = change.worth
    figures: tuple[Any, ...] = (None,) * len(_WORTH)
    differences = relatives = None
    if worth is not None:
        figures = (worth.p, worth.test, worth.mann_whitney_p, worth.paired, worth.verdict)
        differences, relatives = worth.difference_interval, worth.relative_interval
    relative = None if change.relative is None else _estimate(change.relative, relatives)
    return {
        "difference": _estimate(change.difference, differences),
        "relative": relative,
        "shown": change.shown,
        **dict(zip(_WORTH, figures, strict=True)),
    }


def _estimate(value: float, interval: tuple[float, float] | None) -> dict[str, float | None]:
    return dict(zip(_INTERVAL, (value, *(interval or (None, None))), strict=True))


def _text(name: str, text: ImportedText) -> dict[str, Any]:
    unread = [{"line": one.line, "text": one.text, "reason": one.reason} for one in text.unread]
    return {"file": name, "unread": unread, "prose": [list(span) for span in text.prose]}


# CSV.


def csv_lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a heading and one line per table, metric and side that has the metric."""
    intervals = [f"{one}_{end}" for one in ("difference", "relative") for end in _INTERVAL]
    yield _csv_line(
        ["table", "metric", "side", "label", "runs", *_MEASURED[1:], *intervals, "shown", *_WORTH]
    )
    for number, comparison in enumerate(comparisons):
        for row in comparison.rows:
            for side, cells in _csv_cells(row):
                label = sanitise(comparison.sides[side].label)
                yield _csv_line([number, sanitise(row.name), side, label, *cells])


def _csv_cells(row: MetricRow) -> Iterator[tuple[int, list[object]]]:
    changes = [None, *row.changes]
    for side, (measured, change) in enumerate(zip(row.measured, changes, strict=True)):
        if measured is None:
            continue
        figures = _measured(measured)
        cells: list[object] = [len(measured.values), *(figures[name] for name in _MEASURED[1:])]
        if change is not None:
            fields = _change(change)
            for name in ("difference", "relative"):
                cells += [(fields[name] or {}).get(end) for end in _INTERVAL]
            cells += [fields["shown"], *(fields[name] for name in _WORTH)]
        else:
            cells += [None] * (2 * len(_INTERVAL) + 1 + len(_WORTH))
        yield side, cells


def _csv_line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


# Markdown.


def markdown_lines(comparison: Comparison) -> Iterator[str]:
    """Yield one table: metric, base, and for each other side mean, change, interval, p, verdict."""
    labels = [_markdown(side.label) for side in comparison.sides]
    titles = ["metric", labels[0]]
    for label in labels[1:]:
        titles += [label, "change", "interval", "p", "verdict"]
    if comparison.caption:
        yield f"**{_markdown(comparison.caption)}**"
        yield ""
    yield _markdown_row(titles)
    yield _markdown_row(["---", *["---:" if one != "verdict" else "---" for one in titles[1:]]])
    for row in comparison.rows:
        yield _markdown_row(_markdown_cells(row))


def _markdown_cells(row: MetricRow) -> Iterator[str]:
    yield _markdown(row.name)
    yield _markdown_measured(row.measured[0])
    for change, measured in zip(row.changes, row.measured[1:], strict=True):
        yield _markdown_measured(measured)
        if change is None:
            yield from ("", "", "", "")
            continue
        yield f"{change.shown:+.1f}{'' if row.in_points else '%'}"
        if change.worth is None:
            yield from ("", "", "")
        else:
            yield interval_text(change.worth, row.in_points)
            yield p_text(change.worth.p)
            yield change.worth.verdict


def _markdown_measured(measured: Measurement | None) -> str:
    if measured is None:
        return ""
    percent = measured.deviation_percent
    spread = f" ± {percent:.1f}%" if percent is not None and measured.values else ""
    if not measured.values and percent is not None:
        spread = f" ± {percent:g}%"
    return f"{measured.mean:.10g}{spread}"


def _markdown(text: str) -> str:
    """Return ``text`` so that nothing in it acts as markup."""
    return "".join(f"\\{char}" if char in "\\`*_|<>[]#" else char for char in sanitise(text))


def _markdown_row(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""The functions as a table, those first that most was spent in themselves.

Knows: the columns, of one recording or of two next to each other.
Leaves to others: the totals (``analysis.tree``, ``analysis.trace_tree``), sorting by others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from faultprof.analysis.areas import area_of
from faultprof.analysis.calls import Calls
from faultprof.analysis.functions import Function
from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure
from faultprof.recording.frames import Frame
from faultprof.recording.reader import Recording
from faultprof.render.html.elements import Cell, number, table
from faultprof.render.names import label
from faultprof.render.terminal import UNICODE
from faultprof.render.units import NOTHING, prose

_MOST = 200  # functions that are listed; the tree has all


class _Row(NamedTuple):
    """A function of one recording: percentages, and its calls if they were traced."""

    frame: Frame
    inclusive: float
    own: float
    calls: Calls | None


def functions_html(
    recordings: Sequence[Recording],
    labels: Sequence[str],
    selection: Selection,
    measure: Measure,
) -> str:
    """Return the table."""
    traced = measure is not Measure.SAMPLES
    sides = [
        {row.frame[:2]: row for row in (_traced if traced else _sampled)(recording, selection)}
        for recording in recordings
    ]
    frames = {key: row.frame for side in sides for key, row in side.items()}
    order = sorted(frames, key=lambda key: -max(_own(side, key) for side in sides))
    titles = [Cell("function")]
    for text in labels:
        before = f"{text}: " if len(labels) > 1 else ""
        titles += [Cell(before + title, "number") for title in _titles(traced)]
    rows = ([_name(frames[key]), *_all_cells(sides, key, traced)] for key in order[:_MOST])
    note = _note(len(order), traced)
    return f'<div class="long">\n{table("sortable", titles, rows)}</div>\n{note}'


def _own(side: dict[Function, _Row], key: Function) -> float:
    return side[key].own if key in side else 0.0


def _titles(traced: bool) -> list[str]:
    times = ["calls", "avg", "p50", "p99", "max", "off-CPU"] if traced else []
    return ["self", "inclusive", *times]


def _note(count: int, traced: bool) -> str:
    said = "percent of all time traced" if traced else "percent of all samples"
    if count > _MOST:
        said += f"; the first {_MOST} of {count:,} functions by self"
    return f'<p class="note">{said}</p>\n'


def _sampled(recording: Recording, selection: Selection) -> Iterator[_Row]:
    tree = selection.tree(recording)
    for frame, samples, own in tree.functions():
        yield _Row(frame, tree.percent(samples), tree.percent(own), None)


def _traced(recording: Recording, selection: Selection) -> Iterator[_Row]:
    tree = selection.trace_tree(recording)
    for frame, calls in tree.functions():
        inclusive, own = tree.percent(calls.inclusive_ns), tree.percent(calls.self_ns)
        yield _Row(frame, inclusive, own, calls)


def _name(frame: Frame) -> Cell:
    return Cell(label(frame), f"name area-{area_of(frame).name.lower()}")


def _all_cells(
    sides: Sequence[dict[Function, _Row]], key: Function, traced: bool
) -> Iterator[Cell]:
    for side in sides:
        if key in side:
            yield from _cells(side[key])
        else:
            yield from [number("", -1)] * len(_titles(traced))


def _cells(row: _Row) -> Iterator[Cell]:
    calls = row.calls
    if calls is not None and not calls.timed:
        yield from (
            number(NOTHING, -1),
            number(NOTHING, -1),
            number(f"{calls.calls:,}", calls.calls),
        )
        yield from [number(NOTHING, -1)] * 5
        return
    yield number(f"{row.own:.2f}%", row.own)
    yield number(f"{row.inclusive:.2f}%", row.inclusive)
    if calls is not None:
        yield number(f"{calls.calls:,}", calls.calls)
        times = (calls.avg_ns, calls.p50_ns, calls.p99_ns, calls.max_ns, calls.offcpu_ns)
        for ns in times:
            yield number(prose(ns, UNICODE), -1 if ns is None else ns)

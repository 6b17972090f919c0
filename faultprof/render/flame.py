"""Flame graphs: one SVG, or one HTML page around it, without anything from elsewhere.

Knows: what a flame graph says around its frames, and the data that its program works with.
Leaves to others: where frames stand in the first picture (``flame_layout``), what pointer and keys
do (``assets/flame.js``), the tree (``analysis.weights``).

Without scripts, as in a mail or a README, the file is a picture of the whole tree with a legend;
browsers that run scripts add zoom, search, tooltips and keys.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from faultprof.analysis.areas import Area, area_of
from faultprof.analysis.calls import Calls
from faultprof.analysis.compensation import Flag, flags
from faultprof.analysis.selection import Selection
from faultprof.analysis.shift import step_of
from faultprof.analysis.weights import Measure, Side, WeightTree
from faultprof.recording.frames import INFERRED, INLINED, SYMBOL, UNRESOLVED, USER, Frame
from faultprof.recording.histogram import bucket_of
from faultprof.recording.metadata import Metadata
from faultprof.render.embed import asset, escaped, script_json, shown
from faultprof.render.flame_layout import CHAR, PAD, ROW, WIDTH, Picture, picture_lines
from faultprof.render.names import label
from faultprof.render.palette import AREA_COLOURS, CHANGE_COLOURS, ink
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

MOST_FRAMES = 20_000  # about 1.5 MB of a file; zooming in shows all of these
_LISTED = 6  # vanished or new functions that are named below a differential flame graph
_AREAS = tuple(Area)
_WIDTHS = {
    Measure.SAMPLES: "width: samples in a function and in what it called",
    Measure.TIME: "width: time in the traced calls, with what they called",
    Measure.CALLS: "width: traced calls of a function and of all below it",
    Measure.OFFCPU: "width: time in which traced calls were not running, with what they called",
}
_TOPS = {
    Measure.SAMPLES: "all samples",
    Measure.TIME: "all traced time",
    Measure.CALLS: "all traced calls",
    Measure.OFFCPU: "all time off the CPU",
}


@dataclass(frozen=True, slots=True)
class FlameSide:
    """A recording that a flame graph shows: its metadata, and what to call it."""

    metadata: Metadata
    label: str


def labels_of(paths: Sequence[Path]) -> list[str]:
    """Return what to call the recordings: their files' names, or paths where those are equal."""
    names = [path.name.removesuffix(".fprof") or path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def flame_pieces(
    tree: WeightTree,
    sides: Sequence[FlameSide],
    selection: Selection,
    *,
    icicle: bool = False,
    html: bool = False,
) -> Iterator[str]:
    """Yield the text of the file.

    Args:
        tree: what to draw, not thinned; with as many sides as there are recordings.
        sides: the recordings: one, or before and after.
        selection: how the tree was chosen.
        icicle: callers at the top.
        html: a page instead of an SVG.
    """
    graph = drawable(tree, selection, MOST_FRAMES)
    title = shown(command_of(sides[-1].metadata))
    if not html:
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield from svg_pieces(graph, sides, selection, icicle=icicle, script=True)
        return
    yield page_start(f"faultprof: {title}", asset("flame.css") + "body { margin: 0; }\n")
    yield from svg_pieces(graph, sides, selection, icicle=icicle)
    yield f"\n<script>\n{asset('flame.js')}</script>\n</body>\n</html>\n"


def page_start(title: str, style: str) -> str:
    """Return the beginning of an HTML page that can load nothing from anywhere."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    )


def svg_pieces(
    graph: WeightTree,
    sides: Sequence[FlameSide],
    selection: Selection,
    *,
    icicle: bool = False,
    script: bool = False,
    head: bool = True,
    histograms: bool = False,
) -> Iterator[str]:
    """Yield the SVG element.

    Args:
        graph: of :func:`drawable`.
        sides: as in :func:`flame_pieces`.
        selection: likewise.
        icicle: likewise.
        script: whether the program and the styles are in it too.
        head: whether to say what is shown; not where a page does.
        histograms: whether the data have those of traced calls, for a table.
    """
    said = _head(graph, sides, selection) if head else [("note", _WIDTHS[graph.measure])]
    data = _data(graph, sides, said, icicle)
    if histograms:
        for side, weights in zip(data["sides"], graph.sides, strict=True):
            side["histograms"] = _histograms(weights)
    picture = Picture(graph, data)
    yield from picture_lines(picture, asset("flame.css") if script else "")
    yield f'<script type="application/json" class="fp-data">{script_json(data)}</script>\n'
    if script:
        yield f"<script><![CDATA[\n{asset('flame.js')}]]></script>\n"
    yield "</svg>\n"


def drawable(tree: WeightTree, selection: Selection, most: int) -> WeightTree:
    """Return what is drawn: the ``most`` largest nodes, in order, below a single one."""
    thin = tree.thinned(most).largest_first()
    if thin.roots == 1 and selection.root and not tree.hidden:
        return thin
    return thin.topped(_TOPS[tree.measure])


# What is said around the frames.


def command_of(metadata: Metadata) -> str:
    """Return the recorded command, or that there was none."""
    return shlex.join(metadata.command) or "a running process, or all"


def _head(
    graph: WeightTree, sides: Sequence[FlameSide], selection: Selection
) -> list[tuple[str, str]]:
    """Return the lines above: (kind, text)."""
    below = f"{selection.root} in " if selection.root else ""
    said = [("title", below + command_of(sides[-1].metadata))]
    for side, weights in zip(sides, graph.sides, strict=True):
        kernel = side.metadata.kernel.release
        before = f"{side.label}: " if len(sides) > 1 else ""
        amount = _amount(graph.measure, weights.root)
        percent = f" ({weights.percent(weights.root):.2f}% of all)" if selection.root else ""
        ledger = side.metadata.ledger
        verdict = "" if ledger.degraded else ", verdict good"
        said.append(("note", f"{before}Linux {kernel}, {amount}{percent}{verdict}"))
        if ledger.degraded:
            said.append(("bad", f"{before}verdict {ledger.verdict}"))
    how = _WIDTHS[graph.measure]
    if len(sides) > 1:
        how += "; colour: change of the share of the total"
    said.append(("note", how))
    return [(kind, shown(text)) for kind, text in said]


def _amount(measure: Measure, weight: int) -> str:
    if measure.is_time:
        return prose(weight, UNICODE)
    return f"{weight:,} {measure.value}"


def _foot(graph: WeightTree) -> list[tuple[str, str]]:
    """Return the lines below: what is not drawn."""
    said = []
    if graph.hidden:
        size = f", each smaller than {100 * graph.hidden_share:.2g}%" if graph.hidden_share else ""
        said.append(f"{graph.hidden:,} frames are not drawn{size}")
    if graph.weightless and graph.measure is not Measure.SAMPLES:
        many = "function on one path has" if graph.weightless == 1 else "functions on paths have"
        said.append(
            f"{graph.weightless:,} {many} no {'time' if graph.measure.is_time else 'calls'} to be "
            "drawn by (calls that were only counted, or none)"
        )
    return [("note", text) for text in said]


def _side_foot(graph: WeightTree, labels: Sequence[str], drawn: int) -> list[tuple[str, str]]:
    """Return what one side of a comparison cannot show: what is on the other side only."""
    other = 1 - drawn
    there, here = graph.sides[other], graph.sides[drawn]
    missing = (there.weight > 0) & (here.weight == 0)
    tops = [
        row
        for row in missing.nonzero()[0].tolist()
        if graph.parent[row] < 0 or not missing[graph.parent[row]]
    ]
    if not tops:
        return []
    tops.sort(key=lambda row: -int(there.weight[row]))
    named = ", ".join(
        f"{shown(graph.frames[graph.frame[row]].function)} "
        f"{there.percent(int(there.weight[row])):.2f}%"
        for row in tops[:_LISTED]
    )
    more = f" and {len(tops) - _LISTED} more" if len(tops) > _LISTED else ""
    return [("note", f"only in {labels[other]}, without width here: {named}{more}")]


# The program's data.


def _data(
    graph: WeightTree,
    sides: Sequence[FlameSide],
    head: list[tuple[str, str]],
    icicle: bool,
) -> dict[str, Any]:
    """Return what ``assets/flame.js`` works with; the first picture is drawn from the same."""
    used = sorted(set(graph.frame.tolist()))
    place = {code: number for number, code in enumerate(used)}
    labels = [shown(side.label) for side in sides]
    sides_data = [
        _side_data(
            side,
            text,
            _side_foot(graph, labels, number) if len(sides) > 1 else [],
            graph.measure,
        )
        for number, (side, text) in enumerate(zip(graph.sides, labels, strict=True))
    ]
    steps = _steps(graph) if len(sides) > 1 else None
    return {
        "id": "fp",
        "geometry": {"row": ROW, "char": CHAR, "pad": PAD, "width": WIDTH},
        "unit": graph.measure.value if not graph.measure.is_time else "ns",
        "is_time": graph.measure.is_time,
        "icicle": icicle,
        "head": head,
        "foot": _foot(graph),
        "areas": [area.value for area in _AREAS],
        "colours": [AREA_COLOURS[area] for area in _AREAS],
        "looks": _change_looks() if steps else _area_looks(),
        "names": [_name_data(graph.frames[code]) for code in used],
        "name": [place[code] for code in graph.frame.tolist()],
        "depth": graph.depth.tolist(),
        "sides": sides_data,
        "steps": steps,
    }


def _name_data(frame: Frame) -> list[Any]:
    """Return name, module, area, how it was found, how its frame is marked, and its label."""
    return [
        shown(frame.function),
        shown(frame.module),
        _AREAS.index(area_of(frame)),
        found(frame),
        mark(frame),
        shown(label(frame)),
    ]


def mark(frame: Frame) -> str:
    """Return the pattern that a frame is drawn with: ``inferred``, or nothing."""
    return INFERRED if INFERRED in frame.resolution.split("+") else ""


_FOUND = {
    SYMBOL: "",
    USER: "in user mode",
    INLINED: "inlined into %",
    INFERRED: "inlined into %, by condition",
    UNRESOLVED: "not: its address has no name",
}


@lru_cache(maxsize=1024)
def found(frame: Frame) -> str:
    """Return how a frame was found; ``%`` stands for the function that it is inlined into."""
    parts = frame.resolution.split("+")
    said = [
        _FOUND.get(part, f"changed by the compiler ({shown(part.removeprefix(SYMBOL + ':'))})")
        for part in parts
        if part
    ]
    said = [one.replace("%", "%" if place == 0 else "its caller") for place, one in enumerate(said)]
    words = [one for one in said if one]
    return ("partly " if len(parts) > 1 and words else "") + "; ".join(words)


def _side_data(
    side: Side, text: str, foot: list[tuple[str, str]], measure: Measure
) -> dict[str, Any]:
    return {
        "label": text,
        "total": side.total,
        "weight": side.weight.tolist(),
        "own": side.own.tolist(),
        "foot": foot,
        "calls": None if side.calls is None else [_calls_data(one) for one in side.calls],
        "limited": _limited(side) if measure is Measure.TIME else [],
    }


def _limited(side: Side) -> list[int]:
    """Return the nodes whose time is for the most part their probes' own."""
    return [
        place
        for place, calls in enumerate(side.calls or ())
        if calls is not None and Flag.OVERHEAD_LIMITED in flags(calls)
    ]


def _calls_data(calls: Calls | None) -> list[Any] | None:
    """Return calls, avg, p99, max, off-CPU (all ns), and calls that did not return."""
    if calls is None:
        return None
    average = None if calls.avg_ns is None else round(calls.avg_ns, 1)
    return [calls.calls, average, calls.p99_ns, calls.max_ns, calls.offcpu_ns, calls.unfinished]


def _histograms(side: Side) -> list[list[int] | None] | None:
    """Return for each node bucket and calls, bucket and calls, ...; None where there are none."""
    if side.calls is None:
        return None
    return [
        None
        if calls is None or not calls.histogram
        else [one for upper, count in calls.histogram for one in (bucket_of(upper), count)]
        for calls in side.calls
    ]


def _steps(graph: WeightTree) -> list[int]:
    before, after = graph.sides
    sampled = graph.measure is Measure.SAMPLES
    return [
        int(step_of(one, before.total, other, after.total, sampled=sampled))
        for one, other in zip(before.weight.tolist(), after.weight.tolist(), strict=True)
    ]


def _area_looks() -> list[tuple[str, str, str]]:
    return [(area.value, AREA_COLOURS[area], ink(AREA_COLOURS[area])) for area in _AREAS]


def _change_looks() -> list[tuple[str, str, str]]:
    return [(text, colour, ink(colour)) for text, colour in CHANGE_COLOURS.values()]

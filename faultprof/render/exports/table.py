"""The call tree as CSV, a line per node.

Knows: the columns.
Leaves to others: what is exported (``source``).

``task`` (name of the tasks), ``node`` and ``parent`` (numbers within the task, callers first; -1:
none), ``depth``, ``function``, ``module``, ``found`` (how: symbol, inlined, inferred, ...),
``area``. Of samples: ``samples`` (inclusive), ``self_samples``. Of a trace: ``calls``,
``unfinished``, ``inclusive_ns``, ``self_ns``, ``avg_ns``, ``min_ns``, ``p50_ns``, ``p99_ns``,
``max_ns``, ``offcpu_ns``; what is not known is empty.

Spreadsheets run cells that begin with = + - or @ as formulas: names that do have ' before them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from faultprof.analysis.areas import area_of
from faultprof.analysis.calls import Calls
from faultprof.analysis.weights import Measure, WeightTree
from faultprof.recording.frames import Frame
from faultprof.render.exports.source import Source, calls_of, clean, frame_name

_NODE = ("task", "node", "parent", "depth", "function", "module", "found", "area")
_SAMPLES = ("samples", "self_samples")
_TIMES = (
    "inclusive_ns",
    "self_ns",
    "avg_ns",
    "min_ns",
    "p50_ns",
    "p99_ns",
    "max_ns",
    "offcpu_ns",
)
_FORMULA = ("=", "+", "-", "@")


def pieces(source: Source) -> Iterator[bytes]:
    """Yield the file."""
    is_sampled = source.weights is Measure.SAMPLES
    figures = _SAMPLES if is_sampled else ("calls", "unfinished", *_TIMES)
    yield _line((*_NODE, *figures))
    # Figures of a trace are a node's own whatever its weight: time has all nodes too.
    for comm, tree in source.tasks_by(Measure.SAMPLES if is_sampled else Measure.TIME):
        names = [_names(frame) for frame in tree.frames]
        for row, (parent, depth, frame) in enumerate(
            zip(tree.parent.tolist(), tree.depth.tolist(), tree.frame.tolist(), strict=True)
        ):
            node = (_text(comm), row, parent, depth, *names[frame])
            yield _line((*node, *_figures(tree, row)))


def _names(frame: Frame) -> tuple[str, ...]:
    texts = (frame_name(frame), clean(frame.module), clean(frame.resolution))
    return (*(_text(text) for text in texts), area_of(frame).value)


def _text(text: str) -> str:
    text = clean(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _figures(tree: WeightTree, row: int) -> Sequence[object]:
    calls = calls_of(tree, row)
    if calls is None:
        side = tree.sides[0]
        return int(side.weight[row]), int(side.own[row])
    return (calls.calls, calls.unfinished, *_times(calls))


def _times(calls: Calls) -> Iterator[object]:
    for name in _TIMES:
        value = getattr(calls, name) if calls.timed else None
        yield round(value, 1) if isinstance(value, float) else value


def _line(cells: Sequence[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()

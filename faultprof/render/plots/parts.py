"""What the fault path is made of: one stacked bar per recording.

Knows: how bars are drawn and written on.
Leaves to others: the look (``style``), the parts (``analysis.parts``).

Bars are as long as what they stand for where that can be compared: the time of one fault, where
faults and their time were traced. Else each is 100 percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from faultprof.analysis.areas import Area
from faultprof.analysis.parts import Parts
from faultprof.analysis.weights import Measure
from faultprof.render.palette import AREA_COLOURS, ink
from faultprof.render.plots.style import GREY, WIDTH, brief, legend, new_figure
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

_HEIGHT = 0.62  # of a bar, in parts of what one has
_LEAST = 0.045  # of the axis, that a number needs


class Bar(NamedTuple):
    """What to call a recording, and its parts."""

    label: str
    parts: Parts


def parts_figure(bars: Sequence[Bar], measure: Measure, root: str | None) -> Any:
    """Return the figure; at least one bar."""
    per_fault = measure.is_time and all(bar.parts.faults for bar in bars)
    figure = new_figure(1.25 + 0.5 * len(bars), WIDTH)
    axes = figure.add_subplot()
    axes.grid(visible=False, axis="y")
    lengths = [_length(bar, per_fault) for bar in bars]
    shown_areas = [area for area in Area if any(bar.parts.weights[area] for bar in bars)]
    for place, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        _draw(axes, place, bar, length, max(lengths), shown_areas)
    axes.set_yticks(range(len(bars)), [brief(bar.label) for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, max(lengths) * (1.07 if any(map(_total, bars)) else 1))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_title(f"{brief(root)} and below" if root else "everything recorded")
    axes.set_xlabel(_axis(measure, per_fault))
    _key(axes, shown_areas)
    return figure


def _length(bar: Bar, per_fault: bool) -> float:
    """Return how long a bar is: microseconds of a fault, or 100 percent."""
    return bar.parts.total / bar.parts.faults / 1000 if per_fault and bar.parts.faults else 100.0


def _axis(measure: Measure, per_fault: bool) -> str:
    what = {
        Measure.SAMPLES: "samples by the function that was running",
        Measure.TIME: "time in the functions themselves",
        Measure.CALLS: "calls",
        Measure.OFFCPU: "time not running",
    }[measure]
    return f"{what}, µs per fault" if per_fault else f"{what} (%)"


def _draw(
    axes: Any, place: int, bar: Bar, length: float, longest: float, areas: Sequence[Area]
) -> None:
    left = 0.0
    for area in areas:
        percent = bar.parts.percent(area)
        width = length * percent / 100
        tint = AREA_COLOURS[area]
        axes.barh(place, width, _HEIGHT, left, color=tint, edgecolor="white", linewidth=0.6)
        if width > _LEAST * longest:
            text = f"{percent:.0f}%" if percent < 99.5 or percent == 100 else f"{percent:.1f}%"
            middle = {"ha": "center", "va": "center", "fontsize": 7, "color": ink(tint)}
            axes.text(left + width / 2, place, text, **middle)
        left += width
    total = _total(bar)
    if total:
        end = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}
        axes.annotate(total, (length, place), color=GREY, annotation_clip=False, **end)


def _total(bar: Bar) -> str:
    """Return what stands behind a bar: the time of a fault, or nothing."""
    return prose(round(bar.parts.total / bar.parts.faults), UNICODE) if bar.parts.faults else ""


def _key(axes: Any, areas: Sequence[Area]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=AREA_COLOURS[area]) for area in areas]
    where = {"loc": "outside lower left", "ncols": min(6, max(1, len(areas)))}
    look = {"handlelength": 1, "handleheight": 1, "columnspacing": 1.2}
    legend(axes.figure, handles, [area.value for area in areas], **where, **look)

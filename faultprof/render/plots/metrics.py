"""Metrics over runs: every run as a dot, the mean of each recording with its interval.

Knows: how runs stand side by side.
Leaves to others: the look (``style``), the intervals (``analysis.bootstrap``).

One panel per metric, one column per recording. In a column, runs stand from left to right in the
order in which they ran, so that drift shows. The line is the mean, the band its 95 percent
interval; of fewer than four runs there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from faultprof.analysis.bootstrap import FEWEST, mean_interval
from faultprof.analysis.measurement import Side
from faultprof.errors import FaultprofError
from faultprof.render.plots.style import GREY, brief, colour, new_figure

MOST_METRICS = 12
_UNITS = {
    "_s": "seconds",
    "free_time": "seconds",
    "%": "percent",
    "throughput": "KB/s",
    "median": "KB/s",
}
_COLUMN = 0.7  # of the room that a recording has, what its runs take


def metrics_figure(sides: Sequence[Side], globs: Sequence[str] = ()) -> Any:
    """Return the figure of all metrics that match any of ``globs``; of all, without any.

    Raises:
        FaultprofError: exit code 2, when nothing matches, or more than can be shown.
    """
    from matplotlib.ticker import StrMethodFormatter

    names = _chosen(sides, globs)
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(0.5 + 2.0 * rows, max(3.2, 2.2 * columns))
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.grid(visible=False, axis="x")
        axes.set_title(brief(name))
        axes.set_ylabel(unit(name))
        for number, side in enumerate(sides):
            if name in side.metrics:
                _column(axes, number, side.metrics[name].values)
        axes.set_xticks(range(len(sides)), [_label(side, name) for side in sides])
        axes.set_xlim(-0.6, len(sides) - 0.4)
        axes.margins(y=0.15)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    few = any(len(one.values) < FEWEST for side in sides for one in side.metrics.values())
    note = f"dots: runs in their order; line: mean; band: 95% interval{_none(few)}"
    figure.supxlabel(note, fontsize=7, color=GREY)
    return figure


def _none(few: bool) -> str:
    return f" (from {FEWEST} runs on)" if few else ""


def unit(name: str) -> str:
    """Return the unit of a metric as far as its name says."""
    return next((said for end, said in _UNITS.items() if name.endswith(end)), "")


def _chosen(sides: Sequence[Side], globs: Sequence[str]) -> list[str]:
    all_ = list(dict.fromkeys(name for side in sides for name in side.metrics))
    names = [name for name in all_ if not globs or any(fnmatchcase(name, g) for g in globs)]
    if not names:
        raise FaultprofError(
            f"no metric matches {' or '.join(globs)}" if globs else "there are no metrics",
            f"there are: {', '.join(all_)}" if all_ else "record a command",
        )
    if len(names) > MOST_METRICS:
        raise FaultprofError(
            f"{len(names)} metrics are too many for one plot", "choose some: --metric GLOB"
        )
    return names


def _label(side: Side, name: str) -> str:
    runs = len(side.metrics[name].values) if name in side.metrics else 0
    return f"{brief(side.label)}\n{runs} run{'s' * (runs != 1)}"


def _column(axes: Any, number: int, values: Sequence[float]) -> None:
    estimate = mean_interval(values)
    left, right = number - _COLUMN / 2, number + _COLUMN / 2
    tint = colour(number)
    if estimate is not None:
        band = [estimate.low, estimate.low], [estimate.high, estimate.high]
        axes.fill_between([left, right], *band, color=tint, alpha=0.18, linewidth=0)
    mean = sum(values) / len(values)
    axes.plot([left, right], [mean, mean], color=tint)
    step = _COLUMN / len(values)
    places = [left + step * (place + 0.5) for place in range(len(values))]
    axes.plot(places, values, "o", color=tint, markersize=3, markeredgecolor="white", mew=0.4)

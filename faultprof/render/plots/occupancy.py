"""The panel of occupancy: mean duration of a call by how many CPUs were inside at its entry.

Knows: which functions are drawn.
Leaves to others: the figures (``analysis.contention.occupancy``), the look (``style``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultprof.analysis.contention.occupancy import (
    FEWEST_CALLS,
    FunctionOccupancy,
    Met,
    Occupancy,
    merged,
)
from faultprof.recording.metadata import RunInfo
from faultprof.render.plots.style import LINES, brief, colour, legend, time_axis

_MOST_LINES = 6


def draw_occupancy(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw the functions that company costs most, else those that most CPUs are inside of."""
    from matplotlib.ticker import MaxNLocator

    data = merged(runs)
    handles, names = [], []
    for number, one in enumerate(chosen(data)):
        met = _enough(one)
        handles.append(
            axes.errorbar(
                [point.occupancy for point in met],
                [point.mean_ns for point in met],
                # Down to no less than a thousandth: the axis is logarithmic.
                yerr=[min(point.error_ns, 0.999 * point.mean_ns) for point in met],
                color=colour(number),
                linestyle=LINES[number % len(LINES)],
                marker="o",
                markersize=3,
                capsize=2,
                elinewidth=0.8,
            )
        )
        names.append(brief(one.name))
    axes.set_title("Duration by occupancy")
    axes.set_xlabel("CPUs inside at the call's entry, its own included")
    axes.set_ylabel("mean duration of a call")
    if not handles:
        axes.text(0.5, 0.5, "too few calls", transform=axes.transAxes, ha="center")
        return
    axes.set_yscale("log")
    time_axis(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    legend(axes, handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5))


def chosen(data: Occupancy) -> list[FunctionOccupancy]:
    """Return the functions that are drawn."""
    drawable = [one for one in (*data.contended, *data.functions) if _enough(one)]
    return list({one.name: one for one in drawable}.values())[:_MOST_LINES]


def _enough(one: FunctionOccupancy) -> list[Met]:
    return [met for met in one.met if met.calls >= FEWEST_CALLS and met.ns]

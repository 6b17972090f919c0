"""The panel of clears and copies: where in a huge page the work was, as its time went by.

Knows: how it is drawn.
Leaves to others: the figures (``analysis.contention.order``), the look (``style``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultprof.analysis.contention.order import merged
from faultprof.recording.contention import ORDER
from faultprof.recording.metadata import RunInfo
from faultprof.render.plots.style import LINES, brief, colour, legend

_TENTH = 10  # percent


def draw_order(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw a line for each function: rising where it goes from the first page to the last."""
    data = merged(run.contention[ORDER] for run in runs)
    handles, names = [], []
    for number, one in enumerate(data.functions):
        if not one.path:
            continue
        handles += axes.plot(
            [_TENTH * (tenth + 0.5) for tenth, _, _ in one.path],
            [100 * place for _, place, _ in one.path],
            color=colour(number),
            linestyle=LINES[number % len(LINES)],
            marker="o",
            markersize=3,
        )
        names.append(brief(one.name))
    axes.set_title("Order of a huge page's pages")
    axes.set_xlabel("time of the call, %")
    axes.set_ylabel("place in the huge page, %")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    if not handles:
        why = "the page allocator cleared them" if data.cleared_by_allocator else "nothing was seen"
        axes.text(50, 50, why, ha="center")
    legend(axes, handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5))

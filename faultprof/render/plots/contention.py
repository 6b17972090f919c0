"""Contention in one figure: a panel for each part that was recorded and can be drawn.

Knows: which panels there are and how they share a figure.
Leaves to others: the look (``style``), the figures (``analysis.contention``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from faultprof.analysis.selection import Selection
from faultprof.errors import FaultprofError
from faultprof.recording.contention import FOLIO, LOCKS, OCCUPANCY, ORDER, YIELD
from faultprof.recording.metadata import RunInfo
from faultprof.recording.reader import Recording
from faultprof.render.contention.report import runs_with
from faultprof.render.plots.folio_waits import draw_folio_waits
from faultprof.render.plots.locks import draw_waits, draw_waits_by_lock
from faultprof.render.plots.occupancy import draw_occupancy
from faultprof.render.plots.order import draw_order
from faultprof.render.plots.style import WIDTH, new_figure
from faultprof.render.plots.yielding import draw_yield

_PANEL_HEIGHT = 2.6  # inches


class Panel(NamedTuple):
    """What is drawn of a part, into axes of its own, from the runs that have it."""

    part: str
    draw: Callable[[Any, Sequence[RunInfo]], None]


# In the order in which they stand below each other.
PANELS: tuple[Panel, ...] = (
    Panel(OCCUPANCY, draw_occupancy),
    Panel(LOCKS, draw_waits),
    Panel(LOCKS, draw_waits_by_lock),
    Panel(FOLIO, draw_folio_waits),
    Panel(YIELD, draw_yield),
    Panel(ORDER, draw_order),
)


def contention_figure(recording: Recording, selection: Selection) -> Any:
    """Return the figure.

    Raises:
        FaultprofError: exit code 2, when nothing was recorded that can be drawn.
    """
    panels = [
        (panel, runs) for panel in PANELS if (runs := runs_with(panel.part, recording, selection))
    ]
    if not panels:
        raise FaultprofError(
            f"{recording.path} has no contention to draw",
            "record it with: faultprof record --contention -- COMMAND",
        )
    figure = new_figure(_PANEL_HEIGHT * len(panels), WIDTH)
    all_axes = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, (panel, runs) in zip(all_axes, panels, strict=True):
        panel.draw(axes, runs)
    return figure

"""How long tasks waited for folios: a histogram for each of what they waited for.

Knows: the lines and their legend.
Leaves to others: the look (``style``), the heights (``durations``), the figures (``analysis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultprof.analysis.contention.folio import LOCK, OTHER, UNLOCKED, WRITEBACK, Folio, merged
from faultprof.analysis.histogram import added
from faultprof.recording.contention import FOLIO
from faultprof.recording.metadata import RunInfo
from faultprof.render.plots.durations import steps_of
from faultprof.render.plots.style import LINES, colour, legend, time_axis
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

_AIMS = {LOCK: "its lock", UNLOCKED: "its release", WRITEBACK: "writeback", OTHER: "other bits"}


def draw_folio_waits(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw the waits of runs that have the part; where nobody waited, that."""
    folio = merged([Folio.from_json(run.contention[FOLIO]) for run in runs])
    axes.set_title("waits for folios")
    if not folio.waits:
        axes.text(0.5, 0.5, "nobody waited", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    axes.set_xscale("log")
    handles, texts = [], []
    for number, (aim, says) in enumerate(_AIMS.items()):
        waits = [one for one in folio.waits if one.aim == aim]
        if not waits:
            continue
        histogram = added(one.histogram for one in waits)
        edges, steps = steps_of(histogram, max(one.max_ns for one in waits))
        look = {"color": colour(number), "linestyle": LINES[number]}
        axes.stairs(steps, edges, fill=True, color=look["color"], alpha=0.08)
        (line,) = axes.step([edges[0], *edges], [0, *steps, 0], where="post", **look)
        count, ns = sum(one.count for one in waits), sum(one.ns for one in waits)
        handles.append(line)
        number_of = f"{count:,} wait{'s' * (count != 1)}"
        texts.append(f"{says}: {number_of}, mean {prose(ns / count, UNICODE)}")
    axes.set_ylim(bottom=0)
    time_axis(axes.xaxis)
    axes.set_xlabel("duration of a wait")
    axes.set_ylabel("waits per doubling (%)")
    legend(axes, handles, texts, loc="upper left")

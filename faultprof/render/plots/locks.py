"""Waits for kernel locks: how long, by type of lock; and how long in all, by lock.

Knows: how these two panels are drawn.
Leaves to others: the look (``style``), the figures (``analysis.contention.locks``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultprof.analysis.contention.locks import Locks, Waited, merged
from faultprof.recording.contention import LOCKS
from faultprof.recording.metadata import RunInfo
from faultprof.render.plots.durations import steps_of
from faultprof.render.plots.style import LINES, brief, colour, legend, time_axis
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

_MOST_TYPES, _MOST_LOCKS = 6, 10


def draw_waits(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw how long waits were, a line per type of lock."""
    types = [one for one in _locks(runs).types.items() if one[1].histogram][:_MOST_TYPES]
    axes.set_title("waits for kernel locks")
    axes.set_xlabel("duration of a wait")
    axes.set_ylabel("waits per doubling (%)")
    if not types:
        _say_nothing(axes)
        return
    axes.set_xscale("log")
    handles = []
    for number, (_, waited) in enumerate(types):
        edges, steps = steps_of(waited.histogram, waited.max_ns)
        look = {"color": colour(number), "linestyle": LINES[number % len(LINES)]}
        axes.stairs(steps, edges, fill=True, color=look["color"], alpha=0.08)
        handles += axes.step([edges[0], *edges], [0, *steps, 0], where="post", **look)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.35)  # room for the legend
    time_axis(axes.xaxis)
    legend(axes, handles, [_text(*one) for one in types], loc="upper right", fontsize=7)


def draw_waits_by_lock(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw the time waited for each lock, the longest on top."""
    locks = _locks(runs).by_lock()[:_MOST_LOCKS]
    axes.set_title("time waited, by lock")
    if not locks:
        _say_nothing(axes)
        return
    axes.set_xlabel("time waited, all tasks together")
    axes.set_xscale("log")
    axes.grid(visible=True, axis="y")
    totals = [max(1, waited.total_ns) for _, waited in locks]
    # Points, not bars: on a logarithmic axis the length of a bar means nothing.
    axes.plot(totals, range(len(locks)), linestyle="", marker="o", markersize=4, color=colour(0))
    for place, (_, waited) in enumerate(locks):
        text = f"{prose(waited.total_ns, UNICODE)}, {_count(waited)}"
        where = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}
        axes.annotate(text, (totals[place], place), annotation_clip=False, **where)
    names = [brief(f"{lock.label} ({lock.type})") for lock, _ in locks]
    axes.set_yticks(range(len(locks)), names)
    axes.set_ylim(len(locks) - 0.5, -0.5)
    low, high = min(totals) / 2, max(totals) * 2
    axes.set_xlim(low, high * (high / low) ** 0.35)  # room for what is written behind the last
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=6)  # many powers of ten share the line
    time_axis(axes.xaxis)


def _locks(runs: Sequence[RunInfo]) -> Locks:
    return merged([Locks.from_json(run.contention[LOCKS]) for run in runs])


def _text(name: str, waited: Waited) -> str:
    return f"{name}: {_count(waited)}, {prose(waited.total_ns, UNICODE)}"


def _count(waited: Waited) -> str:
    return f"{waited.waits:,} wait{'s' * (waited.waits != 1)}"


def _say_nothing(axes: Any) -> None:
    axes.text(0.5, 0.5, "no waits", ha="center", va="center", transform=axes.transAxes)

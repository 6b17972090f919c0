"""Fault-around's yield: how many calls mapped how many pages.

Knows: where the bars of single numbers and of buckets stand.
Leaves to others: the look (``style``), the figures (``analysis.contention.yielding``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultprof.analysis.contention.yielding import Yield, merged
from faultprof.recording.contention import YIELD
from faultprof.recording.metadata import RunInfo
from faultprof.render.plots.style import colour

_USUAL_WINDOW = 16
_ALONE = 64  # up to here a bar is a number of pages
_MOST_MARKS = 17
_MUCH = 50  # heights that differ by more have a logarithmic axis


def draw_yield(axes: Any, runs: Sequence[RunInfo]) -> None:
    """Draw a bar for each number of pages that a call mapped; those of no use are hatched."""
    found = merged([Yield.from_json(one.contention[YIELD]) for one in runs])
    bounds = _bounds(found)
    calls = dict(found.mapped_per_call)
    heights = [calls.get(upper, 0) for upper in bounds]
    bars = axes.bar(range(len(bounds)), heights, width=0.8, color=colour(0))
    bars[0].set(facecolor="white", edgecolor=colour(1), hatch="////")
    step = -(-sum(upper <= _ALONE for upper in bounds) // _MOST_MARKS)
    marks = [at for at, upper in enumerate(bounds) if upper > _ALONE or at % step == 0]
    axes.set_xticks(marks, [_mark(bounds[at]) for at in marks])
    counted = [height for height in heights if height]
    if counted and max(counted) > _MUCH * min(counted):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(bottom=0.5)  # a single call has a bar, too
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("pages mapped by a call of filemap_map_pages (hatched: of no use)")
    axes.set_ylabel("calls")
    share = found.useful_share
    useful = "" if share is None else f": {100 * share:.1f}% of {found.calls:,} calls of use"
    axes.set_title(f"yield of fault-around{useful}")


def _mark(upper: int) -> str:
    return str(upper) if upper <= _ALONE else f"≤{upper}"


def _bounds(found: Yield) -> list[int]:
    """Return what the bars stand for: every number up to the window, buckets behind that."""
    uppers = [upper for upper, _ in found.mapped_per_call]
    alone = max([upper for upper in uppers if upper <= _ALONE], default=0)
    window = min(found.window_pages or _USUAL_WINDOW, _ALONE)
    return [*range(max(alone, window) + 1), *(upper for upper in uppers if upper > _ALONE)]

"""How long the calls of chosen functions took: histograms, overlaid.

Knows: how buckets of different widths become heights that can be compared.
Leaves to others: the look (``style``), the figures (``analysis.calls``).

Buckets of a logarithmic axis differ in width, and the height of a step is the percentage of the
calls in it per doubling of duration: the area below a line is 100 percent, whatever the number of
calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from faultprof.analysis.calls import Calls
from faultprof.errors import FaultprofError
from faultprof.recording.histogram import BUCKETS, Histogram, bucket_lower_ns, bucket_of
from faultprof.render.plots.style import LINES, brief, colour, legend, new_figure, time_axis
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

MOST_FUNCTIONS, MOST_RECORDINGS = 6, len(LINES)
_SHORTEST_NS = 0.5  # where a logarithmic axis shows durations below 1 ns


class Series(NamedTuple):
    """Calls of a function in a recording."""

    function: str
    label: str
    calls: Calls


def durations_figure(series: Sequence[Series]) -> Any:
    """Return the figure; a colour per function, a style of line per recording.

    Raises:
        FaultprofError: exit code 2, when there are too many to be told apart.
    """
    functions = list(dict.fromkeys(one.function for one in series))
    labels = list(dict.fromkeys(one.label for one in series))
    if len(functions) > MOST_FUNCTIONS or len(labels) > MOST_RECORDINGS:
        raise FaultprofError(
            f"more than {MOST_FUNCTIONS} functions or {MOST_RECORDINGS} recordings cannot be told "
            "apart in one plot",
            "plot fewer",
        )
    series = sorted(series, key=lambda one: functions.index(one.function))
    figure = new_figure(3.2 + 0.18 * len(series))
    axes = figure.add_subplot()
    axes.set_xscale("log")
    handles = []
    for one in series:
        look = {
            "color": colour(functions.index(one.function)),
            "linestyle": LINES[labels.index(one.label)],
        }
        handles.append(_draw(axes, one.calls, look))
    axes.set_ylim(bottom=0)
    _mark_quantiles(axes, series, functions)
    time_axis(axes.xaxis)
    axes.set_xlabel("duration of a call (triangle: median; bar: 99th percentile)")
    axes.set_ylabel("calls per doubling of duration (%)")
    texts = [_text(one, several=len(labels) > 1) for one in series]
    where = {"loc": "upper left", "bbox_to_anchor": (0, -0.16), "borderaxespad": 0}
    legend(axes, handles, texts, **where)
    return figure


def heights(calls: Calls) -> tuple[list[float], list[float]]:
    """Return the edges of the steps in ns, rising, and the heights between them.

    A height times the doublings between its edges is the percentage of the calls there; together
    these are 100.
    """
    return steps_of(calls.histogram, calls.max_ns or 0)


def steps_of(histogram: Histogram, max_ns: int) -> tuple[list[float], list[float]]:
    """Return the same of a histogram that holds something, and the longest duration in it."""
    counts = {bucket_of(upper): count for upper, count in histogram}
    first, last = min(counts), max(counts)
    edges = [_edge(bucket) for bucket in range(first, last + 1)]
    edges.append(_edge(last + 1) if last + 1 < BUCKETS else max(2 * edges[-1], max_ns))
    total = sum(counts.values())
    steps = [
        100 * counts.get(bucket, 0) / total / math.log2(right / left)
        for bucket, (left, right) in enumerate(pairwise(edges), first)
    ]
    return edges, steps


def _edge(bucket: int) -> float:
    return max(_SHORTEST_NS, bucket_lower_ns(bucket))


def _draw(axes: Any, calls: Calls, look: dict[str, str]) -> Any:
    edges, steps = heights(calls)
    axes.stairs(steps, edges, fill=True, color=look["color"], alpha=0.08)
    (line,) = axes.step([edges[0], *edges], [0, *steps, 0], where="post", **look)
    return line


def _mark_quantiles(axes: Any, series: Sequence[Series], functions: Sequence[str]) -> None:
    """Mark medians and 99th percentiles at the lower edge."""
    for one in series:
        tint = colour(functions.index(one.function))
        bottom = axes.get_xaxis_transform()  # heights as parts of the axes
        look = {"color": tint, "transform": bottom, "clip_on": False, "linestyle": ""}
        axes.plot([one.calls.p50_ns], [0.015], marker="^", markersize=4, **look)
        axes.plot(
            [one.calls.p99_ns], [0.025], marker="|", markersize=9, markeredgewidth=1.4, **look
        )


def _text(one: Series, *, several: bool) -> str:
    calls = one.calls
    name = f"{brief(one.function)} ({brief(one.label)})" if several else brief(one.function)
    quantiles = (("p50", calls.p50_ns), ("p99", calls.p99_ns))
    figures = ", ".join(f"{text} {prose(ns, UNICODE)}" for text, ns in quantiles)
    return f"{name}: {calls.timed_calls:,} calls, {figures}"

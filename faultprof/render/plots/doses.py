"""Dose and response: what delays at a kernel function did to a command.

Knows: points, intervals, the fitted line and the one that is expected.
Leaves to others: the look (``style``), the figures (``analysis.perturbation``).

Every run is a dot at the delay that there was in truth, which is more than was asked for. The mean
of a dose stands with its interval of Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from faultprof.analysis.perturbation import Perturbation
from faultprof.render.plots.style import GREY, brief, colour, legend, new_figure

_PANEL = (4.2, 3.0)  # inches


class Titled(NamedTuple):
    """A perturbation, and what stands above its panel."""

    title: str
    found: Perturbation


def doses_figure(all_found: Sequence[Titled]) -> Any:
    """Return the figure, a panel for each perturbation."""
    columns = min(2, len(all_found))
    rows = -(-len(all_found) // columns)
    figure = new_figure(_PANEL[1] * rows, max(5.0, _PANEL[0] * columns))
    for place, one in enumerate(all_found):
        _panel(figure.add_subplot(rows, columns, place + 1), one)
    return figure


def _panel(axes: Any, one: Titled) -> None:
    found = one.found
    us = [dose.achieved_ns / 1e3 for dose in found.doses]
    for x, dose in zip(us, found.doses, strict=True):
        axes.plot(
            [x] * len(dose.values), dose.values, ".", color=colour(0), alpha=0.5, markersize=4
        )
    means = [dose.metric.value for dose in found.doses]
    widths = [dose.metric.value - dose.metric.low for dose in found.doses]
    known = [width if math.isfinite(width) else 0.0 for width in widths]
    bars = axes.errorbar(
        us, means, known, fmt="o", color=colour(0), capsize=3, markersize=4, linewidth=1
    )
    ends, base = [0.0, max(us)], found.fit.intercept.value
    (line,) = axes.plot(ends, [base + found.fit.slope.value * x for x in ends], color=colour(1))
    handles, texts = [bars, line], ["mean, 95% interval", "fit"]
    if found.expected is not None:
        slope = found.expected
        handles += axes.plot(ends, [base + slope * x for x in ends], "--", color=GREY)
        texts.append("expected on the critical path")
    axes.set_xlabel("delay of a call (µs)")
    unit = f" ({found.metric.unit})" if found.metric.unit else ""
    axes.set_ylabel(brief(found.metric.name) + unit)
    axes.set_title(f"{brief(one.title)}\n{found.verdict}")
    legend(axes, handles, texts, fontsize=7)

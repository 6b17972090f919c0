"""The observer effect of a session, as text.

Knows: the table and the sentence.
Leaves to others: the figures (``analysis.observer``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.observer import ObserverEffect
from faultprof.analysis.statistics import Estimate, mean
from faultprof.render.header import entry
from faultprof.render.perturbation import number
from faultprof.render.terminal import Terminal, sanitise


def observer_lines(
    found: ObserverEffect, head: dict[str, str], terminal: Terminal
) -> Iterator[str]:
    """Yield the report; ``head`` is what stands above it: command, order, probes."""
    for key, text in head.items():
        yield from entry(key, text, terminal)
    yield "#"
    unit = f" {found.metric.unit}" if found.metric.unit else ""
    base = mean(found.bare)
    yield f"{sanitise(found.metric.name)} without probes  {_values(found.bare)}{unit}"
    yield f"{sanitise(found.metric.name)} with probes     {_values(found.probed)}{unit}"
    yield f"change          {_change(found.change, base, unit)}"
    if found.predicted is not None:
        yield f"predicted       {_change(found.predicted, base, unit)}"
    yield f"verdict         {found.effect}"


def _values(values: Sequence[float]) -> str:
    return f"{number(mean(values))} (mean of {len(values)} runs)"


def _change(change: Estimate, base: float, unit: str) -> str:
    percent = f", {100 * change.value / base:+.2f}%" if base else ""
    return f"{number(change.value)}{unit} [{number(change.low)}, {number(change.high)}]{percent}"

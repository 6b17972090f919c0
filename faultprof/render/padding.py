"""A verified calibration as text.

Knows: the table and the sentence.
Leaves to others: the figures (``analysis.padding``).
"""

from __future__ import annotations

from collections.abc import Iterator

from faultprof.analysis.padding import TIMES, Verification
from faultprof.analysis.statistics import Estimate, mean
from faultprof.render.header import entry
from faultprof.render.perturbation import number
from faultprof.render.terminal import Terminal, sanitise


def padding_lines(found: Verification, head: dict[str, str], terminal: Terminal) -> Iterator[str]:
    """Yield the report; ``head`` is what stands above it: command, order."""
    for key, text in head.items():
        yield from entry(key, text, terminal)
    yield "#"
    unit = f" {found.metric.unit}" if found.metric.unit else ""
    name = sanitise(found.metric.name)
    yield f"{name} without probes               {_interval(found.bare)}{unit}"
    for times in TIMES:
        runs = found.of_times(times)
        achieved = mean([run.achieved for run in runs])
        values = number(mean([run.value for run in runs]))
        yield f"{name} with probes at {times}x their cost  {values}{unit} (it was {achieved:.2f}x)"
    yield f"{name} by the line, at no cost      {_interval(found.fit.intercept)}{unit}"
    yield f"gap      {_interval(found.gap)}{unit}"
    yield f"verdict  the line leads to the command without probes: {found.meets}"


def _interval(one: Estimate) -> str:
    return f"{number(one.value)} [{number(one.low)}, {number(one.high)}]"

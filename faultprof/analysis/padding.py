"""Whether the calibrated cost of probes explains what they do to a command.

Knows: the line through a metric under probes of one, two and four times their cost, and what it
says where it meets probes of no cost.
Leaves to others: the runs (``capture.padding``), the statistics of a line (``statistics``), showing
it (``render.padding``).

If a calibration is right and the command's metric rises in a straight line with what its probes
cost, the line through padded runs leads, at no cost, to the metric of the command without probes.
Where it does not, the calibration is wrong on this command's paths, or the command answers to being
held up in a way that is no straight line: contention.

``faultprof calibrate --verify --json`` is one object: ``command``, ``probes`` and ``order`` (in
words), ``seed``, ``metric`` and its ``unit``, ``unprobed`` (the metric without probes),
``extrapolated`` (where the line leads) and the ``gap`` between the two (each ``value``, ``low``,
``high``), ``verdict``, and ``padded``: for each of 1, 2 and 4 ``times`` the probes' cost, what was
``achieved`` (the mean, in multiples) and the ``values`` of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultprof.analysis.perturbation import Metric, t_interval
from faultprof.analysis.statistics import Estimate, LinearFit, linear_fit, mean
from faultprof.errors import FaultprofError

TIMES = (1, 2, 4)
"""So many times their cost the probes are made to cost."""


class Meets(StrEnum):
    """Whether the line leads to the command without probes."""

    YES = "it does"
    NO = "it does not"
    UNDECIDED = "undecided: the runs differ by more than the probes do to them"


@dataclass(frozen=True, slots=True)
class PaddedRun:
    """One run under probes.

    Args:
        times: of their cost that the probes were to cost.
        value: the metric.
        cost_s: CPU seconds that they cost without padding, by the calibration.
        padded_s: CPU seconds that they waited.
    """

    times: int
    value: float
    cost_s: float
    padded_s: float

    @property
    def achieved(self) -> float:
        """How many times their cost the probes did cost."""
        return 1 + self.padded_s / self.cost_s


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome.

    Args:
        metric: what was measured.
        bare: without probes, with the interval of Student's t.
        padded: the runs under probes.
        fit: the metric against how many times their cost the probes cost.
        gap: from ``bare`` to where the line meets probes of no cost.
        meets: in words.
    """

    metric: Metric
    bare: Estimate
    padded: tuple[PaddedRun, ...]
    fit: LinearFit
    gap: Estimate
    meets: Meets

    def of_times(self, times: int) -> list[PaddedRun]:
        """Return the runs at a multiple."""
        return [run for run in self.padded if run.times == times]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "unprobed": _json(self.bare),
            "padded": [
                {
                    "times": times,
                    "achieved": mean([run.achieved for run in self.of_times(times)]),
                    "values": [run.value for run in self.of_times(times)],
                }
                for times in TIMES
            ],
            "extrapolated": _json(self.fit.intercept),
            "gap": _json(self.gap),
            "verdict": str(self.meets),
        }


def _json(one: Estimate) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def verify(metric: Metric, bare: Sequence[float], padded: Sequence[PaddedRun]) -> Verification:
    """Hold the line through padded runs against the runs without probes.

    The line says something only if it could miss: were its interval wider than what the probes do,
    it would meet with any calibration.

    Args:
        metric: what the values are.
        bare: without probes; at least two.
        padded: at least two at each of ``TIMES``.

    Raises:
        FaultprofError: exit code 2, for too few runs; exit code 2, if no probe was hit.
    """
    if len(bare) < 2:
        raise FaultprofError("one run tells nothing", "give --repeat 2 or more")
    if not all(run.cost_s > 0 for run in padded):
        raise FaultprofError(
            "no probe was hit, or what they cost is not known: there is nothing to verify",
            "run a command that faults, on a machine that can be calibrated",
        )
    fit = linear_fit([run.achieved for run in padded], [run.value for run in padded])
    without = t_interval(bare)
    value = fit.intercept.value - without.value
    width = math.hypot(
        (fit.intercept.high - fit.intercept.low) / 2, (without.high - without.low) / 2
    )
    gap = Estimate(value, value - width, value + width)
    effect = abs(mean([run.value for run in padded if run.times == TIMES[0]]) - without.value)
    return Verification(metric, without, tuple(padded), fit, gap, _meets(gap, width, effect))


def _meets(gap: Estimate, width: float, effect: float) -> Meets:
    if not gap.low <= 0 <= gap.high:
        return Meets.NO
    return Meets.YES if width < effect else Meets.UNDECIDED

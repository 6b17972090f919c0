"""What delays did to a command: the line through dose and metric, and what it says.

Knows: the metrics, the expectation that the line is held against, the verdict, the extrapolation.
Leaves to others: the runs (``capture.dosing``), the statistics of a line (``statistics``), showing
it (``render.perturbation``).

A function that is called N times in a run, by tasks of which P run at the same time, adds N d / P
to the run's wall time if each call takes d longer and nothing else changes (Amdahl). A rate
X falls by X N d / (P T) with T the undelayed wall time. The *anti-scaling index* is the slope that
was measured over the slope that this expects: 1 on the critical path, 0 off it, and below 0 when
the slower function makes a faster command. (Coz varies a virtual speed-up instead: Curtsinger &
Berger, SOSP 2015.)

``faultprof perturb --json`` is one object: ``seed``, ``command``, ``delayed`` and ``order`` (in
words), ``metric`` and its ``unit``; ``doses``: for each ``delay_ns``, ``achieved_ns`` (what calls
really waited, the mean), ``due`` (calls that were to be delayed in a run, the mean), ``values`` (of
each run), and their ``mean`` with its interval from ``low`` to ``high``; ``slope`` and
``intercept`` of the line (each ``value``, ``low``, ``high``; per us of delay), ``expected_slope``
and ``index`` (null: nothing is expected of the metric), ``verdict``, ``calls`` (to be delayed in an
undelayed run, the mean), ``parallel`` (CPUs that delays were spread over), ``missed`` (calls that
were not delayed as they should have been), and where a call was timed ``cost_ns`` (what it takes)
and ``if_free`` (by how much the metric would change if it took no time).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultprof.analysis.compensation import cost_of, costs_of
from faultprof.analysis.metrics import UserMetric, usemem_metrics, usemem_report
from faultprof.analysis.statistics import Estimate, LinearFit, linear_fit, mean, spread_of_sum
from faultprof.errors import FaultprofError
from faultprof.recording.calibration import Calibration

USEMEM = "usemem"
_TIMES = ("wall", "user", "sys")
_NAMED = re.compile(r"[A-Za-z_][\w.%]*=")
_NS_PER_US = 1_000


class Verdict(StrEnum):
    """What the index says, with its interval."""

    CRITICAL = "on the critical path"
    NO_EFFECT = "no effect"
    ANOMALY = "anomaly: slower is faster"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured of each run.

    Args:
        name: how it is called.
        unit: of its values.
        is_rate: whether more is better: it falls when the run takes longer.
        pattern: what finds it in the command's output; None for a time or usemem's throughput.
    """

    name: str
    unit: str
    is_rate: bool
    pattern: UserMetric | None = None

    @classmethod
    def parse(cls, text: str, *, lower_is_better: bool = False) -> Metric:
        """Read ``wall``, ``user``, ``sys``, ``usemem``, ``REGEX`` or ``NAME=REGEX``.

        Raises:
            FaultprofError: exit code 2, for a pattern that cannot be used.
        """
        if text in _TIMES:
            return cls(text, "s", False)
        if text == USEMEM:
            return cls("usemem.throughput", "KB/s", True)
        named = text if _NAMED.match(text) else f"metric={text}"
        pattern = UserMetric.parse(named)
        return cls(pattern.name, "", not lower_is_better, pattern)

    def value(self, times: Mapping[str, float], output: str) -> float:
        """Return the metric of one run.

        Args:
            times: seconds of ``wall``, ``user`` and ``sys``.
            output: what the command printed.

        Raises:
            FaultprofError: exit code 2, when the output does not have it.
        """
        if self.name in _TIMES:
            return times[self.name]
        found = (
            usemem_metrics(usemem_report(output)).get(self.name)
            if self.pattern is None
            else self.pattern.value(output)
        )
        if found is None:
            raise FaultprofError(
                f"the command's output has no {self.name}", "look at what it prints to stdout"
            )
        return found


@dataclass(frozen=True, slots=True)
class Observation:
    """One run.

    Args:
        delay_ns: the dose.
        value: the metric.
        wall_s: seconds of wall time.
        due: calls that were to be delayed.
        delayed: calls that were, for ``delayed_ns`` in all.
        parallel: how many tasks make such calls at the same time.
        missed: calls that were to be delayed and were not, or not for long enough.
    """

    delay_ns: int
    value: float
    wall_s: float
    due: int
    delayed: int = 0
    delayed_ns: int = 0
    parallel: float = 1.0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Dose:
    """All runs with one delay.

    Args:
        delay_ns: the delay that was asked for.
        achieved_ns: the mean delay that there was.
        values: of the metric.
        metric: its mean, with the interval of Student's t.
        due: mean number of calls that were to be delayed.
    """

    delay_ns: int
    achieved_ns: float
    values: tuple[float, ...]
    metric: Estimate
    due: float


@dataclass(frozen=True, slots=True)
class Perturbation:
    """What came of it.

    Args:
        metric: what was measured.
        doses: in rising order.
        fit: metric against the achieved delay in us.
        expected: the slope that Amdahl's law expects of a function on the critical path; None for
            a metric of which it says nothing.
        index: measured over expected slope; None without an expectation.
        verdict: in words.
        calls: mean number of calls in an undelayed run that were to be delayed.
        parallel: CPUs that the delays were spread over.
        missed: calls that were not delayed as they should have been.
    """

    metric: Metric
    doses: tuple[Dose, ...]
    fit: LinearFit
    expected: float | None
    index: Estimate | None
    verdict: Verdict
    calls: float
    parallel: float
    missed: int

    def without(self, cost_ns: Estimate) -> Estimate:
        """Return by how much the metric would change if a call took no time at all.

        Args:
            cost_ns: what a call takes.
        """
        slope, us = self.fit.slope, cost_ns.value / _NS_PER_US
        # Relative errors of slope and cost add up in squares, as those of any product.
        change = -slope.value * us
        width = math.hypot(
            (slope.high - slope.low) / 2 * us,
            slope.value * (cost_ns.high - cost_ns.low) / 2 / _NS_PER_US,
        )
        return Estimate(change, change - width, change + width)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; slopes are in the metric's unit per us of delay."""
        slope = self.fit.slope
        return {
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "doses": [
                {
                    "delay_ns": dose.delay_ns,
                    "achieved_ns": dose.achieved_ns,
                    "due": dose.due,
                    "values": list(dose.values),
                    "mean": dose.metric.value,
                    "low": dose.metric.low,
                    "high": dose.metric.high,
                }
                for dose in self.doses
            ],
            "slope": _json(slope),
            "intercept": _json(self.fit.intercept),
            "expected_slope": self.expected,
            "index": None if self.index is None else _json(self.index),
            "verdict": str(self.verdict),
            "calls": self.calls,
            "parallel": self.parallel,
            "missed": self.missed,
        }


def cost_of_call(calls: int, inclusive_ns: int, kind: str, stored: Calibration | None) -> Estimate:
    """Return what a call takes, less what its own probes put into it where that is known.

    Args:
        calls: that were traced, with no probe below them; at least one.
        inclusive_ns: their time.
        kind: of probe.
        stored: what probes cost.
    """
    each = inclusive_ns / calls
    cost = cost_of(kind, costs_of(stored)) if stored is not None else None
    if cost is None:
        return Estimate(each, each, each)
    inner = cost.inner
    return Estimate(each - inner.value, each - inner.high, each - inner.low)


def _json(one: Estimate) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def perturbation(metric: Metric, observations: Sequence[Observation]) -> Perturbation:
    """Fit the line and judge it.

    Args:
        metric: what the observations' values are.
        observations: undelayed runs among them, and at least three in all.

    Raises:
        FaultprofError: exit code 2, with too few runs or doses.
    """
    undelayed = [one for one in observations if one.delay_ns == 0]
    if not undelayed:
        raise FaultprofError("there is no run without a delay", "give 0 among the delays")
    delays = sorted({one.delay_ns for one in observations})
    doses = tuple(_dose([one for one in observations if one.delay_ns == ns]) for ns in delays)
    achieved = {dose.delay_ns: dose.achieved_ns / _NS_PER_US for dose in doses}
    fit = linear_fit(
        [achieved[one.delay_ns] for one in observations], [one.value for one in observations]
    )
    calls = mean([one.due for one in undelayed])
    parallel = mean([one.parallel for one in undelayed])
    expected = _expected(metric, undelayed, calls, parallel)
    index = _index(fit.slope, expected)
    missed = sum(one.missed for one in observations)
    return Perturbation(
        metric, doses, fit, expected, index, _verdict(index, fit), calls, parallel, missed
    )


def _dose(runs: Sequence[Observation]) -> Dose:
    delayed = sum(run.delayed for run in runs)
    delay_ns = runs[0].delay_ns
    achieved = sum(run.delayed_ns for run in runs) / delayed if delayed else delay_ns
    values = tuple(run.value for run in runs)
    return Dose(delay_ns, achieved, values, t_interval(values), mean([run.due for run in runs]))


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the mean with its interval of Student's t; of one value it is unbounded."""
    centre = mean(values)
    if len(values) < 2:
        return Estimate(centre, -math.inf, math.inf)
    width = spread_of_sum(values, confidence=confidence) / len(values)
    return Estimate(centre, centre - width, centre + width)


def _expected(
    metric: Metric, undelayed: Sequence[Observation], calls: float, parallel: float
) -> float | None:
    """Return the slope expected of a function on the critical path, per us."""
    if metric.name == "user":
        return None  # a delay in the kernel is no time in user mode
    if metric.name == "sys":
        return calls / 1e6
    longer = calls / parallel / 1e6  # s of wall time per us
    if metric.name == "wall":
        return longer
    wall_s, value = (
        mean([getattr(run, name) for run in undelayed]) for name in ("wall_s", "value")
    )
    change = value * longer / wall_s
    return -change if metric.is_rate else change


def _index(slope: Estimate, expected: float | None) -> Estimate | None:
    if expected is None:
        return None
    if expected == 0:
        return Estimate(0.0, 0.0, 0.0)  # nothing was delayed: there is nothing to scale
    low, high = sorted((slope.low / expected, slope.high / expected))
    return Estimate(slope.value / expected, low, high)


def _verdict(index: Estimate | None, fit: LinearFit) -> Verdict:
    if index is None:
        crosses = fit.slope.low <= 0 <= fit.slope.high
        return Verdict.NO_EFFECT if crosses else Verdict.UNDECIDED
    if index.high < 0:
        return Verdict.ANOMALY
    if index.low > 0:
        return Verdict.CRITICAL
    # Around 0; but an interval that holds 1 too rules nothing out.
    return Verdict.NO_EFFECT if index.high < 1 and index.low > -1 else Verdict.UNDECIDED

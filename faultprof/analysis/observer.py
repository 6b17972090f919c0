"""What a session's probes did to the command, against what they are known to cost.

Knows: the change with its interval, the change that calibrated costs predict, and the verdict.
Leaves to others: the runs (``capture.overhead``), what a hit costs (``recording.calibration``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultprof.analysis.compensation import Kinds, cost_of, costs_of
from faultprof.analysis.perturbation import Metric, t_interval
from faultprof.analysis.statistics import Estimate, mean
from faultprof.errors import FaultprofError
from faultprof.recording.calibration import SAMPLE, Calibration


class Effect(StrEnum):
    """What the probes did."""

    AS_PREDICTED = "as predicted"
    LARGER = "larger than predicted"
    SMALLER = "smaller than predicted"
    FASTER = "faster than unprobed: contention relief suspected, run `perturb`"
    UNKNOWN = "not predicted: what these probes cost is not known"


@dataclass(frozen=True, slots=True)
class ObserverEffect:
    """The outcome.

    Args:
        metric: what was measured.
        bare, probed: its values in the runs without and with probes, in the order of their blocks.
        change: probed less bare, of pairs in one block, with the interval of Student's t.
        predicted: the change that the costs predict; None where they are not known.
        cpu_s: CPU seconds that the probes cost in a run, by the same costs.
        effect: in words.
    """

    metric: Metric
    bare: tuple[float, ...]
    probed: tuple[float, ...]
    change: Estimate
    predicted: Estimate | None
    cpu_s: Estimate | None
    effect: Effect


def probe_seconds(
    samples: int,
    calls: Mapping[str, int],
    functions: Mapping[str, Any],
    calibration: Calibration | None,
) -> Estimate | None:
    """Return the CPU seconds that probes cost in a run; None where that is not known of all.

    Args:
        samples: that were taken.
        calls: of each traced function.
        functions: how each was traced, as a recording's metadata has it.
        calibration: what a hit costs.
    """
    if calibration is None:
        return None
    costs, kinds = costs_of(calibration), Kinds(functions)
    hits = [(costs.get(SAMPLE), samples)]
    hits += [
        (cost_of(kinds.of(name), costs), count)
        for name, count in calls.items()
        if not kinds.is_conditional(name)
    ]
    known = [(cost.total, count) for cost, count in hits if cost is not None]
    if len(known) < len(hits):
        return None
    return Estimate(
        sum(cost.value * count for cost, count in known) / 1e9,
        sum(cost.low * count for cost, count in known) / 1e9,
        sum(cost.high * count for cost, count in known) / 1e9,
    )


def observer_effect(
    metric: Metric,
    bare: Sequence[float],
    probed: Sequence[float],
    *,
    wall_s: float,
    parallel: float,
    cpu_s: Estimate | None,
) -> ObserverEffect:
    """Compare runs without and with probes.

    Args:
        metric: what the values are.
        bare: without probes, in the order of their blocks; at least two.
        probed: with probes, of the same blocks.
        wall_s: mean of the runs without probes.
        parallel: CPUs that these kept busy.
        cpu_s: what the probes cost in a run.

    Raises:
        FaultprofError: exit code 2, for fewer than two blocks.
    """
    if len(bare) < 2 or len(bare) != len(probed):
        raise FaultprofError("one pair of runs tells nothing", "give --repeat 2 or more")
    change = t_interval([after - before for before, after in zip(bare, probed, strict=True)])
    predicted = _predicted(metric, mean(bare), wall_s, parallel, cpu_s)
    effect = _effect(metric, change, predicted)
    return ObserverEffect(metric, tuple(bare), tuple(probed), change, predicted, cpu_s, effect)


def _predicted(
    metric: Metric, value: float, wall_s: float, parallel: float, cpu_s: Estimate | None
) -> Estimate | None:
    """Return the change of the metric if the probes' time is shared by the busy CPUs."""
    if cpu_s is None or metric.name == "user":
        return None
    longer = Estimate(*(part / parallel for part in (cpu_s.value, cpu_s.low, cpu_s.high)))
    if metric.name == "sys":
        return cpu_s
    if metric.name == "wall":
        return longer
    scale = value / wall_s * (-1 if metric.is_rate else 1)
    low, high = sorted((longer.low * scale, longer.high * scale))
    return Estimate(longer.value * scale, low, high)


def _effect(metric: Metric, change: Estimate, predicted: Estimate | None) -> Effect:
    better = change.low > 0 if metric.is_rate else change.high < 0
    if better:
        return Effect.FASTER
    if predicted is None:
        return Effect.UNKNOWN
    if change.low <= predicted.high and change.high >= predicted.low:
        return Effect.AS_PREDICTED
    # Of a rate, the larger effect is the deeper fall.
    beyond = change.high < predicted.low if metric.is_rate else change.low > predicted.high
    return Effect.LARGER if beyond else Effect.SMALLER

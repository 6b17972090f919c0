"""The observer effect: what costs predict, and what is said of the change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from faultprof.analysis.observer import Effect, ObserverEffect, observer_effect, probe_seconds
from faultprof.analysis.perturbation import Metric
from faultprof.analysis.statistics import Estimate
from faultprof.errors import FaultprofError
from faultprof.recording.calibration import SAMPLE, Cost, Measured
from faultprof.render.observer import observer_lines
from faultprof.render.terminal import Terminal
from tests.unit.test_calibration import CALIBRATION
from tests.unit.test_compensation import FUNCTIONS

BARE = (1.00, 1.02, 0.98, 1.01, 0.99)
NOISE = (0.001, -0.002, 0.002, -0.001, 0.0)
SAMPLED = replace(
    CALIBRATION,
    measured=(
        *CALIBRATION.measured,
        Measured(SAMPLE, 1, 10, Cost(2_000, 1_900, 3_000)),
    ),
)


def _found(change: float, cpu_s: Estimate | None, metric: str = "wall") -> ObserverEffect:
    probed = [value + change + noise for value, noise in zip(BARE, NOISE, strict=True)]
    chosen = Metric.parse(metric)
    return observer_effect(chosen, BARE, probed, wall_s=1.0, parallel=2.0, cpu_s=cpu_s)


COST = Estimate(0.1, 0.09, 0.12)


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (0.05, Effect.AS_PREDICTED),
        (0.2, Effect.LARGER),
        (0.01, Effect.SMALLER),
        (-0.05, Effect.FASTER),
    ],
)
def test_the_change_is_held_against_the_prediction(change: float, effect: Effect) -> None:
    found = _found(change, COST)
    assert found.predicted == Estimate(0.05, 0.045, 0.06)  # two CPUs share it
    assert found.effect is effect
    assert any(str(effect) in line for line in observer_lines(found, {}, Terminal()))


def test_the_change_is_that_of_pairs() -> None:
    found = _found(0.05, COST)
    differences = [0.05 + noise for noise in NOISE]
    low, high = stats.t.interval(0.95, 4, loc=0.05, scale=stats.sem(differences))
    assert (found.change.low, found.change.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (-0.05, Effect.AS_PREDICTED),
        (-0.2, Effect.LARGER),
        (-0.01, Effect.SMALLER),
        (0.05, Effect.FASTER),
    ],
)
def test_of_a_rate_the_sign_is_the_other(change: float, effect: Effect) -> None:
    assert _found(change, COST, r"x=(\d+)").effect is effect


def test_without_costs_only_what_is_faster_is_told() -> None:
    assert _found(0.05, None).effect is Effect.UNKNOWN
    assert _found(-0.05, None).effect is Effect.FASTER
    assert _found(0.05, COST, "user").predicted is None


def test_a_single_pair_is_refused() -> None:
    with pytest.raises(FaultprofError, match="one pair"):
        observer_effect(Metric.parse("wall"), [1], [2], wall_s=1, parallel=1, cpu_s=None)


def test_the_cost_of_a_run_is_hits_times_cost() -> None:
    functions = {name: one for name, one in FUNCTIONS.items() if name != "beta"}
    calls = {"alpha": 1_000, "rmap": 500, "do_read_fault": 99}
    found = probe_seconds(10, calls, functions, SAMPLED)
    expected = (10 * 2_000 + 1_000 * 500 + 500 * 80) / 1e9
    assert found is not None
    assert found.value == pytest.approx(expected)
    assert found.low < expected < found.high
    assert probe_seconds(10, calls, functions, CALIBRATION) is None  # no sample was measured
    assert probe_seconds(10, {"unheard_of": 1}, functions, SAMPLED) is None
    assert probe_seconds(10, {}, {}, None) is None

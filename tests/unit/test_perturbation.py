"""Doses and metrics: the line, the index and the verdict, on data whose answer is known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from scipy import stats

from faultprof.analysis.perturbation import (
    Metric,
    Observation,
    Verdict,
    perturbation,
    t_interval,
)
from faultprof.analysis.statistics import Estimate
from faultprof.capture.dosing import blocks
from faultprof.capture.perturbing import sharing
from faultprof.errors import FaultprofError

WALL = Metric.parse("wall")
DELAYS = (0, 500, 1_000, 2_000, 4_000)
CALLS = 100_000


def _runs(
    value: Callable[[float], float],
    *,
    noise: float = 0.0,
    calls: int = CALLS,
    parallel: float = 1.0,
    repeat: int = 5,
) -> list[Observation]:
    """Return runs whose metric is a function of the delay in us, and who last a second."""
    draw = random.Random(7)
    return [
        Observation(
            delay_ns,
            value(delay_ns / 1e3) + draw.gauss(0, noise),
            wall_s=1.0,
            due=calls,
            delayed=calls if delay_ns else 0,
            delayed_ns=calls * delay_ns,
            parallel=parallel,
        )
        for _ in range(repeat)
        for delay_ns in DELAYS
    ]


def test_slope_and_interval_are_scipys() -> None:
    runs = _runs(lambda us: 1 + 0.1 * us, noise=0.02)
    found = perturbation(WALL, runs)
    x, y = [run.delay_ns / 1e3 for run in runs], [run.value for run in runs]
    line = stats.linregress(x, y)
    t = stats.t.ppf(0.975, len(x) - 2)
    assert found.fit.slope.value == pytest.approx(line.slope)
    assert found.fit.slope.low == pytest.approx(line.slope - t * line.stderr)
    assert found.fit.slope.high == pytest.approx(line.slope + t * line.stderr)
    assert found.fit.intercept.value == pytest.approx(line.intercept)


def test_the_interval_of_a_dose_is_scipys() -> None:
    values = [1.0, 1.2, 0.9, 1.4, 1.05]
    low, high = stats.t.interval(0.95, 4, loc=1.11, scale=stats.sem(values))
    found = t_interval(values)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    ("us", "index", "verdict"),
    [(0.1, 1.0, Verdict.CRITICAL), (0.0, 0.0, Verdict.NO_EFFECT), (-0.05, -0.5, Verdict.ANOMALY)],
)
def test_a_known_slope_has_its_index_and_verdict(us: float, index: float, verdict: Verdict) -> None:
    found = perturbation(WALL, _runs(lambda delay: 1 + us * delay, noise=0.005))
    assert found.index is not None
    assert found.index.value == pytest.approx(index, abs=0.03)
    assert found.index.low < index < found.index.high
    assert found.verdict is verdict


def test_threads_share_the_delay() -> None:
    # Four busy threads call as often: each is delayed by a quarter.
    four = perturbation(WALL, _runs(lambda us: 1 + 0.025 * us, parallel=4.0))
    assert four.parallel == 4.0
    assert four.index is not None
    assert four.index.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("tasks", "shared"),
    [
        ([], 1),
        ([(100, 0, 1_000)], 1),
        ([(100, 0, 1_000)] * 4, 4),
        ([(100, 0, 1_000), (1, 0, 1_000)], 1.02),  # the second has hardly any
        ([(10, start, start + 100) for start in range(0, 1_000, 100)], 1),  # one after the other
        ([(10, 0, 100), (10, 50, 150)], 200 / 150),
        ([(1, 5, 5)], 1),
    ],
)
def test_tasks_that_overlap_share_the_delays(
    tasks: list[tuple[int, int, int]], shared: float
) -> None:
    assert sharing(tasks) == pytest.approx(shared, rel=0.01)


def test_a_rate_falls() -> None:
    rate = Metric.parse(r"rate=(\d+) MB/s")
    found = perturbation(rate, _runs(lambda us: 500 - 50 * us))
    assert found.expected == pytest.approx(-50)
    assert found.index is not None
    assert found.index.value == pytest.approx(1.0)
    assert perturbation(rate, _runs(lambda us: 500 + 10 * us, noise=2)).verdict is Verdict.ANOMALY


def test_a_function_that_is_never_called_has_no_effect() -> None:
    found = perturbation(WALL, _runs(lambda _: 1, noise=0.05, calls=0))
    assert found.index == Estimate(0, 0, 0)
    assert found.verdict is Verdict.NO_EFFECT
    assert found.fit.slope.low < 0 < found.fit.slope.high


def test_noise_that_hides_everything_is_undecided() -> None:
    found = perturbation(WALL, _runs(lambda us: 1 + 0.1 * us, noise=30))
    assert found.verdict is Verdict.UNDECIDED


def test_user_time_has_no_expectation() -> None:
    found = perturbation(Metric.parse("user"), _runs(lambda _: 1, noise=0.01))
    assert (found.expected, found.index, found.verdict) == (None, None, Verdict.NO_EFFECT)


def test_system_time_takes_all_delays_whatever_runs_at_once() -> None:
    found = perturbation(Metric.parse("sys"), _runs(lambda us: 0.1 * us, parallel=4.0))
    assert found.index is not None
    assert found.index.value == pytest.approx(1.0)


def test_what_was_achieved_counts_not_what_was_asked_for() -> None:
    runs = [
        Observation(ns, 1 + ns * 1.06 * CALLS / 1e9, 1.0, CALLS, CALLS, int(ns * 1.06) * CALLS)
        for ns in (0, 10_000, 20_000)
        for _ in range(3)
    ]
    found = perturbation(WALL, runs)
    assert [dose.achieved_ns for dose in found.doses] == [0, 10_600, 21_200]
    assert found.index is not None
    assert found.index.value == pytest.approx(1.0)


def test_the_gain_of_a_function_that_costs_nothing() -> None:
    found = perturbation(WALL, _runs(lambda us: 1 + 0.1 * us, noise=0.001))
    gain = found.without(Estimate(2_000, 1_900, 2_100))
    assert gain.value == pytest.approx(-0.2, abs=0.002)
    assert gain.low < -0.21 + 0.001
    assert gain.high > -0.19 - 0.001


def test_doses_come_in_blocks_whose_order_the_seed_decides() -> None:
    first = list(blocks(DELAYS, 6, seed=3))
    assert first == list(blocks(DELAYS, 6, seed=3))
    assert first != list(blocks(DELAYS, 6, seed=4))
    for block in range(6):
        assert sorted(ns for number, ns in first if number == block) == sorted(DELAYS)
    orders = {tuple(ns for number, ns in first if number == block) for block in range(6)}
    assert len(orders) > 1


def test_a_metric_is_found_in_the_output() -> None:
    times = {"wall": 2.0, "user": 0.5, "sys": 1.0}
    assert Metric.parse("sys").value(times, "") == 1.0
    assert Metric.parse(r"took (\d+) us").value(times, "took 9 us\ntook 7 us\n") == 7
    named = Metric.parse(r"p99=p99: ([\d.]+)", lower_is_better=True)
    assert (named.name, named.is_rate) == ("p99", False)
    line = "1073741824 bytes / 500000 usecs = 2097152 KB/s\n"
    assert Metric.parse("usemem").value(times, line * 2) == 2 * 2097152
    with pytest.raises(FaultprofError, match=r"output has no usemem\.throughput"):
        Metric.parse("usemem").value(times, "nothing")


def test_undelayed_runs_are_needed() -> None:
    with pytest.raises(FaultprofError, match="without a delay"):
        perturbation(WALL, [run for run in _runs(lambda _: 1) if run.delay_ns])


def test_json_is_as_documented() -> None:
    data = perturbation(WALL, _runs(lambda us: 1 + 0.1 * us, noise=0.01)).to_json()
    assert set(data) >= {"metric", "doses", "slope", "index", "verdict"}
    assert set(data["slope"]) == set(data["index"]) == {"value", "low", "high"}
    assert set(data["doses"][0]) >= {"delay_ns", "values", "mean", "low", "high"}
    assert data["verdict"] == "on the critical path"

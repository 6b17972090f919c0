"""Padded probes: the line that leads to no cost, and what is said of where it leads."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from faultprof.analysis.compensation import costs_by_function
from faultprof.analysis.padding import TIMES, Meets, PaddedRun, Verification, verify
from faultprof.analysis.perturbation import Metric
from faultprof.errors import FaultprofError
from faultprof.render.padding import padding_lines
from faultprof.render.terminal import Terminal
from tests.unit.test_calibration import CALIBRATION
from tests.unit.test_compensation import FUNCTIONS

WALL = Metric.parse("wall")


def _found(base: float, true: float, believed: float, spread: float = 0.002) -> Verification:
    """Return what comes of probes that cost ``true`` s a run and are calibrated at ``believed``."""
    noise = random.Random(3)

    def value(cost: float) -> float:
        return base + cost + noise.gauss(0, spread)

    bare = [value(0) for _ in range(6)]
    runs = []
    for times in TIMES * 6:
        waited = (times - 1) * believed
        runs.append(PaddedRun(times, value(true + waited), believed, waited))
    return verify(WALL, bare, runs)


@pytest.mark.parametrize(
    ("believed", "meets"), [(0.1, Meets.YES), (0.05, Meets.NO), (0.2, Meets.NO)]
)
def test_only_the_right_cost_leads_to_the_unprobed_run(believed: float, meets: Meets) -> None:
    found = _found(1.0, 0.1, believed)
    assert found.meets is meets
    assert found.gap.value == pytest.approx(0.1 - believed, abs=0.01)
    assert any(line.endswith(meets) for line in padding_lines(found, {}, Terminal()))


def test_a_line_that_could_not_miss_says_nothing() -> None:
    assert _found(1.0, 0.01, 0.01, spread=0.1).meets is Meets.UNDECIDED


def test_the_gap_is_between_scipys_intercept_and_the_mean_without_probes() -> None:
    found = _found(1.0, 0.1, 0.1)
    line = stats.linregress(
        [run.achieved for run in found.padded], [run.value for run in found.padded]
    )
    assert found.fit.intercept.value == pytest.approx(line.intercept)
    assert found.gap.value == pytest.approx(line.intercept - found.bare.value)
    reach = stats.t.ppf(0.975, len(found.padded) - 2) * line.intercept_stderr
    width = math.hypot(reach, found.bare.high - found.bare.value)
    assert found.gap.high - found.gap.value == pytest.approx(width)


def test_waits_that_came_out_longer_count_as_long_as_they_were() -> None:
    assert PaddedRun(2, 1.0, cost_s=0.1, padded_s=0.25).achieved == 3.5


def test_without_a_hit_there_is_nothing_to_verify() -> None:
    with pytest.raises(FaultprofError):
        verify(WALL, [1.0, 1.0], [PaddedRun(times, 1.0, 0.0, 0.0) for times in TIMES * 2])


def test_json_has_the_runs_of_each_multiple() -> None:
    data = _found(1.0, 0.1, 0.1).to_json()
    assert [one["times"] for one in data["padded"]] == [1, 2, 4]
    assert [len(one["values"]) for one in data["padded"]] == [6, 6, 6]
    assert data["padded"][2]["achieved"] == pytest.approx(4)
    assert data["verdict"] == "it does"


def test_each_function_has_the_cost_of_its_kind_of_probe() -> None:
    costs = costs_by_function(FUNCTIONS, CALIBRATION)
    assert costs == {
        "handle_mm_fault": 90,  # fentry: what its feature costs was not measured
        "do_fault": 500,
        "alpha": 500,
        "beta": 90,
        "rmap": 80,
    }

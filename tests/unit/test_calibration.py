"""A calibration: from repeats to a cost, to JSON and back, into a report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof import __version__
from faultprof.analysis.compensation import BY_PATH, costs_of
from faultprof.analysis.selection import Selection
from faultprof.analysis.statistics import Estimate
from faultprof.errors import FaultprofError
from faultprof.recording.calibration import (
    HIT,
    Calibration,
    Cost,
    Measured,
    Parts,
    calibration_of,
    shortest,
)
from faultprof.recording.metadata import CpuInfo, KernelInfo
from faultprof.recording.reader import Recording
from faultprof.render.calibration import calibration_lines
from faultprof.render.terminal import Terminal
from faultprof.render.views import VIEWS
from tests.unit.traces import TRACED, traced, traced_metadata

KPROBE = Measured(
    "kprobe", 1, 100, Cost(500, 490, 600), Cost(120, 110, 150), Parts(300, 70, 50, 80)
)
FENTRY = Measured("fentry", 1, 100, Cost(90, 88, 130), Cost(30, 29, 45))
TWO = Measured("kprobe", 2, 100, Cost(520, 480, 900), Cost(125, 105, 200))
HITS = (Measured(HIT, 1, 100, Cost(80, 79, 95)),)
CALIBRATION = Calibration(
    kernel=KernelInfo("6.12.1", "ab" * 20, "x86_64"),
    cpu=CpuInfo("Some CPU", 4),
    measured=(TWO, KPROBE, FENTRY, *HITS),
    missing={"sample": "no perf events\x1b[2J"},
    created="2026-01-02T03:04:05+00:00",
)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_the_shortest_is_within_its_interval(values: list[float]) -> None:
    cost = shortest(values)
    assert cost.value == min(values)
    assert cost.low <= cost.value <= cost.high <= max(values)


def test_the_interval_leaves_out_the_slowest_repeats() -> None:
    assert shortest([*range(100, 200), 9_999, 9_999]) == Cost(100, 99, 196)


def test_json_and_back() -> None:
    placed = replace(FENTRY, in_place_ns=Cost(150, 120, 200))
    for one in (CALIBRATION, replace(CALIBRATION, measured=(placed,))):
        assert Calibration.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_more_threads_widen_the_interval() -> None:
    costs = costs_of(CALIBRATION)
    assert costs["kprobe"].inner == Estimate(120, 105, 200)
    assert costs["kprobe"].outer == Estimate(380, 375, 700)
    assert costs[HIT].inner == Estimate(0, 0, 0)


def test_a_pair_costs_what_it_costs_in_place_and_at_the_least_what_it_does_in_a_loop() -> None:
    placed = replace(KPROBE, in_place_ns=Cost(750, 600, 1_000))
    feature = Measured("kprobe+condition", 1, 100, Cost(600, 590, 700), Cost(200, 190, 220))
    costs = costs_of(replace(CALIBRATION, measured=(placed, feature, FENTRY, *HITS)))

    def between(value: float, low: float, high: float) -> Estimate:
        return Estimate(value, low * (1 - BY_PATH), high * (1 + BY_PATH))

    assert costs["kprobe"].inner == between(180, 110, 240)
    assert costs["kprobe"].outer == between(570, 380, 760)
    assert costs["kprobe+condition"].inner == between(300, 190, 400)
    assert costs[HIT].outer == between(120, 79, 160)
    assert costs["fentry"].total == Estimate(90, 88, 130)  # nobody looked


def test_noise_in_place_does_not_make_a_pair_cheaper_than_it_can_be() -> None:
    placed = replace(FENTRY, in_place_ns=Cost(50, 20, 100))
    cost = costs_of(replace(CALIBRATION, measured=(placed,)))["fentry"]
    assert cost.total.value == 90


def test_it_fits_one_kernel_cpu_and_version() -> None:
    kernel, cpu = CALIBRATION.kernel, CALIBRATION.cpu
    assert CALIBRATION.fits(kernel, cpu)
    assert CALIBRATION.fits(kernel, replace(cpu, count=8))
    assert not CALIBRATION.fits(replace(kernel, build_id="cd" * 20), cpu)
    assert not CALIBRATION.fits(kernel, replace(cpu, model="Other"))
    assert CALIBRATION.tool_version == __version__
    assert not replace(CALIBRATION, tool_version="0").fits(kernel, cpu)


@pytest.mark.parametrize(
    "damage",
    [
        {"probes": None},
        {"probes": [{"kind": "kprobe"}]},
        {"probes": [{**KPROBE.to_json(), "total_ns": {"value": "nan", "low": 0, "high": 0}}]},
        {"probes": [{**KPROBE.to_json(), "parts_ns": {"other": 1}}]},
        {"kernel": 5},
        {"missing": []},
    ],
)
def test_a_damaged_one_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(FaultprofError, match="calibration is damaged") as caught:
        calibration_of({**CALIBRATION.to_json(), **damage})
    assert caught.value.exit_code == 4


def test_a_table_for_people() -> None:
    lines = list(calibration_lines(CALIBRATION, Terminal()))
    pairs = [line.split()[3:] for line in lines if line.startswith("kprobe and kretprobe")]
    assert pairs[0][0] == "2"
    assert " ".join(pairs[1]) == "1 500 490 to 600 - 120 380 300 70 50 80"
    assert not any("\x1b" in line for line in lines)


def _calibrated(path: Path) -> Recording:
    metadata = replace(traced_metadata(), calibration=CALIBRATION.to_json())
    walk = {"how": "symbol", "symbol": "walk", "method": "kprobe"}
    metadata = replace(metadata, functions={**metadata.functions, "walk": walk})
    return traced(path / "x.fprof", TRACED, metadata=metadata)


def test_a_report_has_raw_and_compensated_times(tmp_path: Path) -> None:
    recording = _calibrated(tmp_path)
    lines = list(VIEWS["tree"](recording, Selection(wide=True, root="walk"), Terminal()))
    assert any("comp. " in line and "interval" in line for line in lines)
    header = " ".join(lines)
    assert "# cost" in header
    assert "kprobe and kretprobe 500 ns a call (490 to 600)" in header


def test_a_function_without_a_calibrated_probe_stays_raw(tmp_path: Path) -> None:
    # vma_alloc_folio is below it, and has a probe that nobody calibrated.
    recording = _calibrated(tmp_path)
    data = json.loads("\n".join(VIEWS["json"](recording, Selection(), Terminal())))
    by_name = {one["name"]: one for one in data["trace"]["functions"]}
    assert "compensated_ns" not in by_name["do_anonymous_page"]
    assert data["calibration"] == CALIBRATION.to_json()


def test_json_of_a_compensated_function(tmp_path: Path) -> None:
    recording = _calibrated(tmp_path)
    selection = Selection(root="walk")
    data = json.loads("\n".join(VIEWS["json"](recording, selection, Terminal())))
    tree = data["trace"]["tree"]
    below = tree["children"][0]
    # Three calls that call the function itself three times: their own b + c, the others whole.
    assert tree["compensated_ns"]["value"] == tree["inclusive_ns"] - 3 * 120 - 3 * 500
    assert below["compensated_ns"]["value"] == below["inclusive_ns"] - 3 * 120
    assert tree["flags"] == []

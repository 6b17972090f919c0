"""How far a traced share may be off by what probes cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultprof.analysis.cross_check import cross_check
from faultprof.recording.calibration import Calibration, Cost, Measured
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.recording.traced import TracedPath
from tests.unit.recordings import in_memory
from tests.unit.test_calibration import CALIBRATION
from tests.unit.traces import histogram, traced, traced_metadata

ROOT, LEAF = "alpha", "beta"
PROBED = {"how": "symbol", "method": "kprobe", "traced": True}
# Of 1,000 ns, 400 are the leaf's; probes have 200 of these, and 100 of the rest.
COST = Measured("kprobe", 1, 50, Cost(30, 30, 30), Cost(20, 20, 20))


def _recording(calibration: Calibration | None) -> Recording:
    def path(names: tuple[str, ...], calls: int, ns: int, own: int) -> TracedPath:
        each = ns // calls
        return TracedPath(
            "t",
            tuple(map(Frame, names)),
            calls,
            0,
            ns,
            own,
            each,
            each,
            0,
            histogram({each: calls}),
        )

    paths = [path((ROOT,), 1, 1_000, 600), path((ROOT, LEAF), 10, 400, 400)]
    metadata = replace(
        traced_metadata(),
        functions={ROOT: {**PROBED, "symbol": ROOT}, LEAF: {**PROBED, "symbol": LEAF}},
        calibration=calibration.to_json() if calibration is not None else None,
    )
    samples = [
        PathCount("t", (Frame(ROOT),), 7_500),
        PathCount("t", (Frame(ROOT), Frame(LEAF)), 2_500),
    ]
    return in_memory(lambda file: traced(file, [paths], [samples], metadata))


def test_the_calibrated_cost_explains_a_share_that_is_off() -> None:
    calibrated = cross_check(_recording(replace(CALIBRATION, measured=(COST,))))
    shares = {one.frame.function: one.overhead for one in calibrated.functions}
    # 200 of 1,000 - 20 - 10 * 30 = 680 ns without probes, not 400 of 1,000.
    assert shares == {ROOT: 0, LEAF: pytest.approx(0.4 - 200 / 680)}
    (leaf,) = (one for one in calibrated.functions if one.frame.function == LEAF)
    assert leaf.high < leaf.traced  # samples saw a quarter
    assert leaf.agrees is (leaf.traced <= leaf.high + leaf.overhead)
    assert leaf.agrees is False  # 29% without probes is still more than the samples leave room for


def test_an_interval_explains_as_much_as_its_worse_end() -> None:
    wide = replace(COST, total_ns=Cost(30, 25, 50), inside_ns=Cost(20, 15, 30))
    calibrated = cross_check(_recording(replace(CALIBRATION, measured=(wide,))))
    (leaf,) = (one for one in calibrated.functions if one.frame.function == LEAF)
    assert leaf.overhead == pytest.approx(0.4 - (400 - 300) / (1_000 - 30 - 500))
    assert leaf.agrees


def test_a_cost_as_large_as_the_root_may_explain_anything() -> None:
    huge = replace(COST, total_ns=Cost(200, 200, 200))
    calibrated = cross_check(_recording(replace(CALIBRATION, measured=(huge,))))
    assert {one.overhead for one in calibrated.functions} == {1.0}


def test_without_a_calibration_nothing_is_explained() -> None:
    assert {one.overhead for one in cross_check(_recording(None)).functions} == {0.0}

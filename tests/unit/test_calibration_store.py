"""When a recording measures what probes cost, and when it does not."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultprof.capture import calibration, calibration_store
from faultprof.capture.calibration_store import at_hand, store
from faultprof.capture.calibration_time import TimeLeft, TooSlowError
from faultprof.capture.machine import cpu_info, kernel_info
from tests.unit.test_calibration import CALIBRATION

HERE = replace(CALIBRATION, kernel=kernel_info(), cpu=cpu_info())


class Machine:
    """Counts calibrations; of a slow one there is none in a bounded time."""

    def __init__(self, *, slow: bool) -> None:
        self.slow = slow
        self.asked: list[float] = []

    def calibrate(self, *, seconds: float = float("inf"), **_: Any) -> calibration.Calibration:
        self.asked.append(seconds)
        if self.slow and seconds < float("inf"):
            raise TooSlowError("too slow")
        return HERE


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration_store, "_loop_ms", lambda: 1.0)


def _machine(monkeypatch: pytest.MonkeyPatch, *, slow: bool) -> Machine:
    machine = Machine(slow=slow)
    monkeypatch.setattr(calibration, "calibrate", machine.calibrate)
    return machine


def test_the_first_recording_calibrates_and_the_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, said = _machine(monkeypatch, slow=False), []
    for _ in range(3):
        found = at_hand(None, said.append, seconds=5)
        assert found is not None
        assert found.measured == HERE.measured
    assert machine.asked == [5]
    assert len(said) == 1


def test_a_machine_that_is_too_slow_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, said = _machine(monkeypatch, slow=True), []
    assert [at_hand(None, said.append, seconds=5) for _ in range(3)] == [None] * 3
    assert machine.asked == [5]
    assert all("faultprof calibrate" in line for line in said if "uncompensated" in line)
    # But it can be asked for, and then holds.
    assert at_hand(None, said.append) is not None
    assert machine.asked == [5, float("inf")]
    assert at_hand(None, said.append, seconds=5) is not None


def test_an_emulated_machine_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, said = _machine(monkeypatch, slow=False), []
    monkeypatch.setattr(calibration_store, "_loop_ms", lambda: 40.0)
    assert at_hand(None, said.append, seconds=5) is None
    assert machine.asked == []
    assert "faultprof calibrate" in said[0]
    assert at_hand(None, said.append) is not None  # but can be asked


def test_what_calibrate_has_kept_holds_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _machine(monkeypatch, slow=True)
    assert at_hand(None, lambda _: None, seconds=5) is None
    store(HERE, None)
    assert at_hand(None, lambda _: None, seconds=5) is not None
    assert machine.asked == [5]


def test_time_is_over_when_it_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    left = TimeLeft(5.0)
    now[0] += 1
    left.check()
    left.rounds_begin()
    now[0] += 2
    assert left.for_another(1)  # 3 s have passed, a round takes 2
    now[0] += 2
    assert not left.for_another(2)
    left.check()
    now[0] += 0.5
    with pytest.raises(TooSlowError):
        left.check()

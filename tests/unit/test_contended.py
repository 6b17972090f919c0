"""Nodes that fight: flagged where waits or company were recorded beside the trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faultprof.analysis.compensation import Flag, compensated_tree, flags
from faultprof.analysis.contended import SHARE
from faultprof.errors import FaultprofError
from faultprof.recording.calibration import Cost, Measured
from faultprof.recording.contention import LOCKS, OCCUPANCY
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import RunInfo
from faultprof.recording.reader import Recording
from faultprof.recording.traced import TracedPath
from tests.unit.recordings import in_memory
from tests.unit.test_calibration import CALIBRATION
from tests.unit.traces import histogram, traced, traced_metadata

PROBED = {"how": "symbol", "method": "kprobe", "traced": True}
COST = Measured("kprobe", 1, 50, Cost(3, 3, 3), Cost(2, 2, 2))
NAMES = ("alpha", "beta", "gamma")


def _wait(path: tuple[str, ...] | None, ns: int) -> dict[str, Any]:
    return {
        "type": "mutex",
        "lock": None,
        "how": "unknown",
        "caller": "x",
        "path": path,
        "stack": None if path else ["x"],
        "interrupt": False,
        "waits": 1,
        "total_ns": ns,
        "histogram": [[ns, 1]],
    }


def _locks(*waits: dict[str, Any]) -> dict[str, Any]:
    counters = {"repeated_begins": 0, "begun_before": 0, "unfinished": 0, "lost": {}}
    return {"traced": True, "types": [], "waits": list(waits), **counters}


def _recording(*contention: dict[str, Any]) -> Recording:
    """Return so many runs, in each alpha takes 1,000 ns, of which beta 600, and gamma 100."""

    def path(names: tuple[str, ...], ns: int, own: int) -> TracedPath:
        frames, durations = tuple(map(Frame, names)), histogram({ns: 1})
        return TracedPath("t", frames, 1, 0, ns, own, ns, ns, 0, durations)

    paths = [
        path(("alpha",), 1_000, 300),
        path(("alpha", "beta"), 600, 600),
        path(("alpha", "gamma"), 100, 100),
    ]
    count = len(contention)
    metadata = replace(
        traced_metadata(),
        functions={name: {**PROBED, "symbol": name} for name in NAMES},
        calibration=replace(CALIBRATION, measured=(COST,)).to_json(),
        runs=tuple(
            RunInfo(number, 0, 1.0, 0.0, 0.0, 0, 0.0, {}, contention=one)
            for number, one in enumerate(contention)
        ),
    )
    return in_memory(lambda file: traced(file, [paths] * count, ((),) * count, metadata))


def _flagged(recording: Recording, **chosen: Any) -> set[str]:
    tree = compensated_tree(recording, **chosen)
    return {one.frame.function for one in tree.functions() if Flag.CONTENDED in flags(one.calls)}


def test_a_node_that_waits_for_locks_is_flagged_with_what_is_above_it() -> None:
    assert _flagged(_recording({})) == set()
    assert _flagged(_recording({LOCKS: _locks(_wait(("alpha", "beta"), 60))})) == {"alpha", "beta"}


def test_waits_count_by_their_share_of_the_node() -> None:
    least = int(SHARE * 600)
    below = {LOCKS: _locks(_wait(("alpha", "beta"), least - 1))}
    assert _flagged(_recording(below)) == set()
    # 30 of 600 ns are a twentieth, of the caller's 1,000 ns they are less.
    at = {LOCKS: _locks(_wait(("alpha", "beta"), least))}
    assert _flagged(_recording(at)) == {"beta"}
    assert _flagged(_recording(at, {})) == set()  # no wait in the other run
    assert _flagged(_recording(at, {}), runs=(0,)) == {"beta"}


def test_waits_outside_of_the_tree_or_of_unknown_tasks_flag_nothing() -> None:
    outside = {LOCKS: _locks(_wait(None, 10_000))}
    assert _flagged(_recording(outside)) == set()
    known = {LOCKS: _locks(_wait(("alpha", "beta"), 600))}
    assert _flagged(_recording(known), comms=("t",)) == set()


def _occupancy(alone_ns: int, together_ns: int, calls: int = 100) -> dict[str, Any]:
    """Return what is left of beta's calls, half of them in company."""
    met = [
        [occupancy, calls, calls * ns, 0, calls * (ns * ns + 1)]
        for occupancy, ns in ((1, alone_ns), (2, together_ns))
    ]
    beta = {"inside": [[1, 1000]], "calls": met, "traced": {"calls": 2 * calls, "ns": 60_000}}
    numbers = {"cpus": 2, "frequency_hz": 99, "every": 1, "readings": 9, "missed_readings": 0}
    return {**numbers, "functions": {"beta": beta}, "lost": {}}


def test_a_function_that_takes_longer_in_company_is_flagged() -> None:
    assert _flagged(_recording({OCCUPANCY: _occupancy(500, 700)})) == {"beta"}
    # 510 ns in company are 1% of the time of both: too little.
    assert _flagged(_recording({OCCUPANCY: _occupancy(500, 510)})) == set()
    assert _flagged(_recording({OCCUPANCY: _occupancy(500, 700, calls=5)})) == set()


def test_damaged_waits_are_refused() -> None:
    with pytest.raises(FaultprofError) as caught:
        compensated_tree(_recording({LOCKS: {"waits": 5}}))
    assert caught.value.exit_code == 4
    with pytest.raises(FaultprofError) as caught:
        compensated_tree(_recording({OCCUPANCY: {"functions": 5}}))
    assert caught.value.exit_code == 4

"""Occupancy against what is known of a program, and against the trace beside it.

Threads that do nothing but fault, each on a CPU of its own; see ../occupancy_answers.py for four.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .occupied import check_mean, occupancy
from .traced_shell import compiled

pytestmark = pytest.mark.noisy("a CPU held up")

CPUS = 2


def test_one_thread_is_alone(tmp_path: Path) -> None:
    found = occupancy(tmp_path / "x.fprof", compiled("faulters.c", tmp_path), threads=1)
    for name, one in found["functions"].items():
        assert {cpus for cpus, _ in one["inside"]} <= {0, 1}, name
        assert {met["occupancy"] for met in one["by_occupancy"]} <= {1}, name
        assert one["excess"] is None
    check_mean(found)


def test_as_many_threads_as_cpus(tmp_path: Path) -> None:
    found = occupancy(tmp_path / "x.fprof", compiled("faulters.c", tmp_path), threads=CPUS)
    fault = found["functions"]["handle_mm_fault"]
    assert fault["most"] == CPUS
    assert {cpus for cpus, _ in fault["inside"]} == {0, 1, 2}
    assert {met["occupancy"] for met in fault["by_occupancy"]} == {1, 2}
    # On 6.1 the timer of a CPU that faults is late by a period or more for one reading in seven (on
    # 6.12 and 7.3 one in 30), and what another CPU was inside of has changed by then: means are 5
    # to 10% low there. Why it is so late has not been found; with one thread it is not.
    if not os.uname().release.startswith("6.1."):
        check_mean(found)

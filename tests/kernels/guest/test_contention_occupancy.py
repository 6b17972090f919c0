"""Occupancy against what is known of a program, and against the trace beside it.

Threads that do nothing but fault, each on a CPU of its own; see ../occupancy_answers.py for four.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .occupied import check_mean, occupancy
from .traced_shell import compiled

pytestmark = pytest.mark.noisy("a CPU held up")

CPUS = 2


def test_one_thread_is_alone(tmp_path: Path) -> None:
    """Its mean is not demanded: 0.733 by readings, 0.772 by trace, as far apart on two kernels.

    Why the readings of a single thread come out lower has not been found; two threads' do not.
    """
    found = occupancy(tmp_path / "x.fprof", compiled("faulters.c", tmp_path), threads=1)
    for name, one in found["functions"].items():
        assert {cpus for cpus, _ in one["inside"]} <= {0, 1}, name
        assert {met["occupancy"] for met in one["by_occupancy"]} <= {1}, name
        assert one["excess"] is None


def test_as_many_threads_as_cpus(tmp_path: Path) -> None:
    found = occupancy(tmp_path / "x.fprof", compiled("faulters.c", tmp_path), threads=CPUS)
    fault = found["functions"]["handle_mm_fault"]
    assert fault["most"] == CPUS
    assert {cpus for cpus, _ in fault["inside"]} == {0, 1, 2}
    assert {met["occupancy"] for met in fault["by_occupancy"]} == {1, 2}
    check_mean(found)

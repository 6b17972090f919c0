"""The verdict and the intervals on simulated runs, where the truth is known.

Fixed seeds: the outcomes do not change from one run of the tests to the next.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from faultprof.analysis.change import Change, Verdict, change_between

NOISE = 0.02
COMPARISONS = 400

Sampler = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]

SHAPES: dict[str, Sampler] = {
    "normal": lambda random, size: random.normal(1, NOISE, size),
    "skewed": lambda random, size: random.lognormal(0, 0.3, size),
    # Every tenth run is disturbed.
    "outliers": lambda random, size: (
        random.normal(1, NOISE, size) + 0.2 * (random.random(size) < 0.1)
    ),
    "whole": lambda random, size: np.round(random.normal(20, 2, size)),  # many ties
}


def compared(
    shape: str, runs: tuple[int, int], shift: float, count: int, *, drift: float | None = None
) -> list[Change]:
    """Compare ``count`` simulated pairs of sides; ``drift``: interleaved, with that block noise."""
    random = np.random.default_rng(1)
    changes = []
    for _ in range(count):
        base, new = (SHAPES[shape](random, size) for size in runs)
        if drift is not None:
            blocks = random.normal(0, drift, runs[0])
            base, new = base + blocks, new + blocks
        paired = drift is not None
        changes.append(change_between(base.tolist(), (new * (1 + shift)).tolist(), paired=paired))
    return changes


def count(changes: list[Change], verdict: Verdict) -> int:
    return sum(change.verdict is verdict for change in changes)


def covered(changes: list[Change], truth: float) -> float:
    """Return in what share of comparisons the interval of the change holds the truth."""
    intervals = [change.relative_interval for change in changes if change.relative_interval]
    assert len(intervals) == len(changes)
    return float(np.mean([low <= truth <= high for low, high in intervals]))


@pytest.mark.parametrize(
    ("shape", "runs"),
    [("normal", (5, 5)), ("skewed", (10, 10)), ("outliers", (5, 10)), ("whole", (4, 4))],
)
def test_equal_sides_are_called_real_at_most_7_times_in_100(
    shape: str, runs: tuple[int, int]
) -> None:
    changes = compared(shape, runs, 0, COMPARISONS)
    assert count(changes, Verdict.REAL) <= 0.07 * COMPARISONS
    assert count(changes, Verdict.TOO_FEW) == 0
    assert covered(changes, 0) >= 0.92


def test_equal_interleaved_sides_are_called_real_as_seldom() -> None:
    changes = compared("normal", (10, 10), 0, COMPARISONS, drift=0.1)
    assert count(changes, Verdict.REAL) <= 0.07 * COMPARISONS
    assert covered(changes, 0) >= 0.92


def test_a_shift_of_5_percent_in_2_percent_noise_is_found_95_times_in_100() -> None:
    changes = compared("normal", (10, 10), 0.05, 100)
    assert count(changes, Verdict.REAL) >= 95
    assert covered(changes, 0.05) >= 0.90


def test_pairs_find_the_shift_through_a_drift_that_hides_it() -> None:
    paired = compared("normal", (10, 10), 0.05, 100, drift=0.1)
    assert count(paired, Verdict.REAL) >= 95


def test_half_of_the_runs_find_it_most_of_the_time() -> None:
    changes = compared("normal", (5, 5), 0.05, 100)
    assert count(changes, Verdict.REAL) >= 75

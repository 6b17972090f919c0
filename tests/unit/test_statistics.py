"""Formulas against scipy, against counting everything out, and against their own symmetries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from faultprof.analysis import statistics
from faultprof.analysis.bootstrap import FEWEST, RESAMPLES, ResampledChange, mean_interval
from faultprof.analysis.change import Change, Test, Verdict, change_between
from faultprof.analysis.statistics import (
    deviation,
    linear_fit,
    mann_whitney,
    mean,
    signed_rank,
    smallest_mann_whitney,
    smallest_signed_rank,
    t_quantile,
)
from faultprof.errors import FaultprofError

CLOSE = 1e-9


def normal(size: int, centre: float = 0.0, *, seed: int = 1) -> list[float]:
    return [float(one) for one in np.random.default_rng((seed, size)).normal(centre, 1, size)]


def samples(least: int = 1, most: int = 6) -> st.SearchStrategy[list[float]]:
    """Few distinct values, so that ties are frequent."""
    return st.lists(st.integers(1, 9).map(float), min_size=least, max_size=most)


# Location and spread.


def test_deviation_is_the_populations() -> None:
    assert deviation([2, 4, 4, 4, 5, 5, 7, 9]) == 2


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20))
def test_mean_and_deviation_agree_with_numpy(values: list[float]) -> None:
    scale = max(map(abs, values)) or 1
    assert mean(values) / scale == pytest.approx(np.mean(np.array(values) / scale), abs=1e-12)
    assert deviation(values) / scale == pytest.approx(np.std(np.array(values) / scale), abs=1e-7)


def test_no_value_is_an_error_and_not_a_nan() -> None:
    with pytest.raises(FaultprofError, match="0 values are too few"):
        mean([])
    with pytest.raises(FaultprofError):
        mann_whitney([], [1.0])


# Mann-Whitney.


def test_five_against_five_apart_is_two_of_252() -> None:
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252, rel=CLOSE)
    assert smallest_mann_whitney(5, 5) == 2 / 252


@pytest.mark.parametrize(("few", "many"), [(1, 1), (1, 7), (3, 4), (5, 5), (6, 11), (10, 10)])
def test_mann_whitney_without_ties_agrees_with_scipy(few: int, many: int) -> None:
    for shift in (0, 0.5, 2):
        a, b = normal(few), normal(many, shift, seed=2)
        expected = stats.mannwhitneyu(a, b, method="exact").pvalue
        assert mann_whitney(a, b) == pytest.approx(expected, rel=CLOSE)


@given(samples(), samples())
@settings(max_examples=150, deadline=None)
def test_mann_whitney_with_ties_is_counted_out(a: list[float], b: list[float]) -> None:
    pooled = a + b
    ranks = stats.rankdata(pooled)
    expected_sum = len(a) * ranks.mean()
    distance = abs(ranks[: len(a)].sum() - expected_sum)
    outcomes = [
        abs(sum(chosen) - expected_sum) >= distance - 1e-9
        for chosen in itertools.combinations(ranks, len(a))
    ]
    assert mann_whitney(a, b) == pytest.approx(np.mean(outcomes), rel=CLOSE)


def test_beyond_the_exact_sizes_the_approximation_carries_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = normal(40), [round(one, 1) for one in normal(40, 0.4, seed=2)]
    exact = mann_whitney(a, b)
    monkeypatch.setattr(statistics, "_EXACT_PAIRS", 0)
    expected = stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False).pvalue
    assert mann_whitney(a, b) == pytest.approx(expected, rel=1e-6)
    assert mann_whitney(a, b) == pytest.approx(exact, abs=0.005)
    assert mann_whitney([1.0] * 70, [1.0] * 70) == 1


# Signed ranks.


@pytest.mark.parametrize("pairs", [1, 5, 8, 12, 25])
def test_signed_rank_without_ties_agrees_with_scipy(pairs: int) -> None:
    for shift in (0, 0.4, 1.5):
        differences = normal(pairs, shift)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert signed_rank(differences) == pytest.approx(expected, rel=CLOSE)


@given(st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9))
@settings(max_examples=150, deadline=None)
def test_signed_rank_with_ties_is_counted_out(differences: list[float]) -> None:
    moved = [one for one in differences if one]
    ranks = stats.rankdata([abs(one) for one in moved]) if moved else np.zeros(0)
    half = ranks.sum() / 2
    distance = abs(sum(r for r, one in zip(ranks, moved, strict=True) if one > 0) - half)
    outcomes = [
        abs(np.dot(ranks, signs) - half) >= distance - 1e-9
        for signs in itertools.product((0, 1), repeat=len(moved))
    ]
    assert signed_rank(differences) == pytest.approx(np.mean(outcomes), rel=CLOSE)


def test_smallest_signed_rank() -> None:
    assert smallest_signed_rank(8) == 2 / 256
    assert signed_rank([1.0, 2, 3, 4, 5, 6, 7, 8]) == pytest.approx(2 / 256, rel=CLOSE)


def test_many_pairs_are_approximated(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = normal(100, 0.2)
    exact = signed_rank(differences)
    monkeypatch.setattr(statistics, "_EXACT_SIGNS", 0)
    expected = stats.wilcoxon(differences, method="asymptotic").pvalue
    assert signed_rank(differences) == pytest.approx(expected, rel=1e-6)
    assert signed_rank(differences) == pytest.approx(exact, abs=0.005)


# A straight line.


def test_a_line_is_found_exactly() -> None:
    fit = linear_fit([0, 1, 2, 4], [5, 3, 1, -3])
    assert (fit.slope.value, fit.intercept.value, fit.slope_error) == (-2, 5, 0)
    assert (fit.slope.low, fit.slope.high) == (-2, -2)


@pytest.mark.parametrize("size", [3, 5, 40])
def test_linear_fit_agrees_with_scipy(size: int) -> None:
    x = [1000 + 900 * one for one in normal(size, seed=2)]
    y = [2.5 - 0.01 * one + noise for one, noise in zip(x, normal(size), strict=True)]
    fit, expected = linear_fit(x, y, confidence=0.9), stats.linregress(x, y)
    assert fit.slope.value == pytest.approx(expected.slope, rel=CLOSE)
    assert fit.intercept.value == pytest.approx(expected.intercept, rel=CLOSE)
    assert fit.slope_error == pytest.approx(expected.stderr, rel=1e-7)
    assert fit.intercept_error == pytest.approx(expected.intercept_stderr, rel=1e-7)
    width = stats.t.ppf(0.95, size - 2) * expected.stderr
    assert fit.slope.high - fit.slope.value == pytest.approx(width, rel=1e-7)
    assert fit.slope.value - fit.slope.low == pytest.approx(width, rel=1e-7)


@pytest.mark.parametrize(("x", "reason"), [([1, 2], "too few"), ([3, 3, 3], "one x")])
def test_what_no_line_goes_through(x: list[float], reason: str) -> None:
    with pytest.raises(FaultprofError, match=reason):
        linear_fit(x, x)


def test_t_quantile_agrees_with_scipy() -> None:
    assert t_quantile(0.975, 3.7) == pytest.approx(stats.t.ppf(0.975, 3.7), rel=CLOSE)


# Intervals.


def test_the_percentiles_are_hesterbergs() -> None:
    """For one sample: the share Phi(-sqrt(n/(n-1)) t) of resamples lies outside on either side."""
    values = [9.1, 9.9, 10.2, 10.4, 12.0]
    interval = mean_interval(values, seed=5)
    assert interval is not None
    share = stats.norm.cdf(-math.sqrt(5 / 4) * stats.t.ppf(0.975, 4))
    draws = np.random.default_rng((5, 0)).integers(0, 5, (RESAMPLES, 5), np.int32)
    means = np.sort(np.sort(values)[draws].mean(axis=1))
    place = int(share * RESAMPLES)
    assert place == 9
    assert (interval.low, interval.high) == (means[place], means[-1 - place])
    assert interval.value == pytest.approx(10.32)


def test_large_samples_get_the_normal_interval() -> None:
    """More values than are drawn at once, so that resamples come in chunks."""
    values = normal(300, 50)
    interval = mean_interval(values)
    assert interval is not None
    width = stats.t.ppf(0.975, 299) * np.std(values, ddof=1) / math.sqrt(300)
    assert interval.high - interval.low == pytest.approx(2 * width, rel=0.05)
    assert interval == mean_interval(values)


def test_too_few_values_have_no_interval() -> None:
    assert mean_interval([1.0] * (FEWEST - 1)) is None
    with pytest.raises(ValueError, match="too few"):
        ResampledChange([1.0, 2, 3], [1.0, 2, 3, 4])
    with pytest.raises(ValueError, match="match"):
        change_between([1.0, 2], [1.0], paired=True)


def test_constant_sides_have_an_interval_without_width() -> None:
    change = change_between([5.0] * 5, [6.0] * 5)
    assert change.difference_interval == (1, 1)
    assert change.relative_interval == pytest.approx((0.2, 0.2))
    assert change.verdict is Verdict.REAL


def test_a_base_that_may_be_zero_has_no_relative_interval() -> None:
    change = change_between([0.0, 0, 0, 1, 0], [3.0, 4, 3, 4, 3])
    assert change.relative == pytest.approx(16)
    assert change.relative_interval is None
    assert change.difference_interval is not None
    assert change.verdict is Verdict.REAL
    assert change_between([-1.0] * 4, [1.0] * 4).relative is None


@given(samples(4, 8), samples(4, 8), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_swapping_the_sides_mirrors_everything(a: list[float], b: list[float], seed: int) -> None:
    there, back = change_between(a, b, seed=seed), change_between(b, a, seed=seed)
    # In another order they are equal, too.
    _mirrored(there, back, exactly=sorted(a) != sorted(b))


@given(st.lists(st.tuples(*[st.integers(1, 9).map(float)] * 2), min_size=4, max_size=12))
@settings(max_examples=60, deadline=None)
def test_swapping_pairs_mirrors_everything(pairs: list[tuple[float, float]]) -> None:
    a, b = [list(side) for side in zip(*pairs, strict=True)]
    _mirrored(change_between(a, b, paired=True), change_between(b, a, paired=True), exactly=True)


def _mirrored(there: Change, back: Change, *, exactly: bool) -> None:
    assert there.difference == -back.difference
    assert there.verdict == back.verdict
    assert there.p == back.p
    if not exactly:  # equal sides are drawn from differently, either way round
        return
    assert there.difference_interval is not None
    assert back.difference_interval is not None
    assert there.difference_interval == tuple(-end for end in reversed(back.difference_interval))
    assert there.relative_interval is not None
    assert back.relative_interval is not None
    mirrored = [1 / (1 + end) - 1 for end in reversed(back.relative_interval)]
    assert there.relative_interval == pytest.approx(mirrored, abs=1e-12)


@given(samples(4, 8), samples(4, 8), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_neither_order_nor_unit_matters(a: list[float], b: list[float], random: object) -> None:
    change = change_between(a, b)
    shuffled = [random.sample(side, len(side)) for side in (a, b)]  # type: ignore[attr-defined]
    assert change_between(*shuffled) == change
    scaled = change_between([1024 * one for one in a], [1024 * one for one in b])
    assert scaled.p == change.p
    assert scaled.relative_interval == pytest.approx(change.relative_interval, abs=1e-12)


@given(samples(4, 8), samples(4, 8), st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=60, deadline=None)
def test_both_intervals_leave_out_zero_together(
    a: list[float], b: list[float], alpha: float
) -> None:
    change = change_between(a, b, alpha=alpha)
    assert change.difference_interval is not None
    assert change.relative_interval is not None
    in_both = [low <= 0 <= high for low, high in _ends(change)]
    assert in_both[0] == in_both[1]
    assert (change.verdict is Verdict.REAL) == (change.p <= alpha and not in_both[0])


def _ends(change: Change) -> list[tuple[float, float]]:
    return [ends for ends in (change.difference_interval, change.relative_interval) if ends]


# The verdict.


@pytest.mark.parametrize(
    ("few", "many", "alpha", "verdict"),
    [
        (3, 3, 0.05, Verdict.TOO_FEW),
        (3, 30, 0.05, Verdict.TOO_FEW),
        (4, 4, 0.05, Verdict.REAL),
        (4, 4, 0.01, Verdict.TOO_FEW),  # 2/70
        (5, 5, 0.01, Verdict.REAL),  # 2/252
        (1, 100, 0.05, Verdict.TOO_FEW),
    ],
)
def test_too_few_runs(few: int, many: int, alpha: float, verdict: Verdict) -> None:
    base = [1 + place / 1000 for place in range(few)]
    new = [2 + place / 1000 for place in range(many)]
    assert change_between(base, new, alpha=alpha).verdict is verdict


def test_eight_pairs_are_judged_by_their_differences() -> None:
    """A drift ten times the change hides it from the unpaired test only."""
    base = [100 + 10.0 * block for block in range(8)]
    new = [one + 1 + 0.01 * place for place, one in enumerate(base)]
    unpaired, paired = change_between(base, new), change_between(base, new, paired=True)
    assert (unpaired.verdict, unpaired.test) == (Verdict.NOISE, Test.MANN_WHITNEY)
    assert (paired.verdict, paired.test) == (Verdict.REAL, Test.SIGNED_RANK)
    assert paired.p == pytest.approx(2 / 256)
    assert paired.mann_whitney_p == unpaired.p
    assert change_between(base[:7], new[:7], paired=True).test is Test.MANN_WHITNEY


def test_the_threads_six_values_are_noise() -> None:
    head = [54122867, 58465096, 55888729, 56960948, 56385702, 56392203]
    revert = [56434337, 56199754, 56214041, 55308070, 55401115, 55709753]
    change = change_between(head, revert)
    assert mean(head) == 56369257.5
    assert mean(revert) == 55877845
    assert change.p == pytest.approx(stats.mannwhitneyu(head, revert, method="exact").pvalue)
    assert change.verdict is Verdict.NOISE


def test_a_seed_repeats_and_another_differs() -> None:
    a, b = normal(6, 10), normal(6, 10, seed=2)
    assert change_between(a, b, seed=7) == change_between(a, b, seed=7)
    assert change_between(a, b, seed=7) != change_between(a, b, seed=8)

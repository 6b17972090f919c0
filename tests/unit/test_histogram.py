"""Buckets against the definition in probes/histogram.h, and quantiles against sorted calls."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.analysis.histogram import added, quantile_ns
from faultprof.recording.histogram import (
    BUCKETS,
    NO_END_NS,
    bucket_lower_ns,
    bucket_of,
    bucket_upper_ns,
    histogram_of,
)
from tests.unit.traces import histogram

HEADER = Path(__file__).parents[2] / "probes" / "histogram.h"


def highest_bit(value: int) -> int:
    """``highest_bit()`` of probes/histogram.h, line by line."""
    bit = (value > 0xFFFFFFFF) << 5
    value >>= bit
    step = (value > 0xFFFF) << 4
    value >>= step
    bit += step
    step = (value > 0xFF) << 3
    value >>= step
    bit += step
    step = (value > 0xF) << 2
    value >>= step
    bit += step
    step = (value > 0x3) << 1
    value >>= step
    return bit + step + (value >> 1)


def histogram_bucket(value: int) -> int:
    """``histogram_bucket()`` of probes/histogram.h, line by line."""
    if value < 4:
        return value
    bit = highest_bit(value)
    if bit > 36:
        return 144 - 1
    return (bit - 1) * 4 + ((value >> (bit - 2)) & 3)


near_powers = st.builds(lambda bit, add: (1 << bit) + add, st.integers(2, 62), st.integers(-3, 3))
durations = st.integers(0, 2**63 - 1) | near_powers | st.integers(0, 5_000)


@given(durations)
def test_buckets_are_those_of_the_kernel_side(ns: int) -> None:
    assert bucket_of(ns) == histogram_bucket(ns)


def test_the_kernel_side_has_as_many_buckets() -> None:
    text = HEADER.read_text()
    assert re.findall(r"#define HISTOGRAM_BUCKETS (\d+)", text) == [str(BUCKETS)]
    assert re.findall(r"#define HISTOGRAM_TOP_BIT (\d+)", text) == ["36"]


def test_buckets_follow_each_other_without_a_gap() -> None:
    for bucket in range(BUCKETS):
        lower, upper = bucket_lower_ns(bucket), bucket_upper_ns(bucket)
        assert bucket_of(lower) == bucket_of(upper) == bucket
        assert bucket == 0 or lower == bucket_upper_ns(bucket - 1) + 1
        if bucket < BUCKETS - 1:
            assert upper - lower <= lower / 4
    assert bucket_lower_ns(0) == 0
    assert bucket_upper_ns(BUCKETS - 1) == NO_END_NS
    assert bucket_lower_ns(BUCKETS - 1) == 7 * 2**34


def test_four_buckets_to_a_power_of_two_from_1_ns_to_100_s() -> None:
    assert [bucket_upper_ns(bucket) for bucket in range(12)] == [*range(8), 9, 11, 13, 15]
    assert bucket_of(100 * 10**9) < BUCKETS - 1
    for bit in range(2, 36):
        assert bucket_of(2 ** (bit + 1)) - bucket_of(2**bit) == 4


def test_empty_buckets_are_left_out() -> None:
    assert histogram_of(histogram({5: 2, 100: 1, 2**50: 3})) == ((5, 2), (111, 1), (NO_END_NS, 3))
    assert histogram_of(()) == ()


calls = st.lists(st.integers(0, 2**38) | st.integers(0, 3_000), min_size=1, max_size=40)


@given(calls, st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_lies_in_the_bucket_of_the_call_at_its_rank(
    ns: list[int], quantile: float
) -> None:
    counts = histogram_of(histogram(Counter(ns)))
    found = quantile_ns(counts, quantile, min(ns), max(ns))
    rank = max(1, math.ceil(round(quantile * len(ns), 6)))
    assert bucket_of(found) == bucket_of(sorted(ns)[rank - 1])
    assert min(ns) <= found <= max(ns)


@given(calls, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(ns: list[int], one: float, other: float) -> None:
    counts = histogram_of(histogram(Counter(ns)))
    low, high = (quantile_ns(counts, q, min(ns), max(ns)) for q in sorted((one, other)))
    assert low <= high


@pytest.mark.parametrize(
    ("calls", "p50", "p99"),
    [
        ({777: 1}, 777, 777),  # one call is known exactly
        ({777: 1000}, 777, 777),
        ({5: 99, 6: 1}, 5, 5),  # 100 calls: the 99th is the last of the first bucket
        ({5: 98, 6: 2}, 5, 6),
        ({1024: 1, 1279: 1}, round(1024 + 255 / 2), round(1024 + 255 * 0.99)),
        ({10: 50, 2**20: 50}, 11, 2**20),
        ({2**40: 1, 2**41: 1}, 2**40 + 2**39, 2**40 + round(2**40 * 0.99)),  # the open bucket
    ],
)
def test_known_quantiles(calls: dict[int, int], p50: int, p99: int) -> None:
    counts = histogram_of(histogram(calls))
    ends = min(calls), max(calls)
    assert (quantile_ns(counts, 0.5, *ends), quantile_ns(counts, 0.99, *ends)) == (p50, p99)


def test_evenly_spread_calls_are_found_where_they_are() -> None:
    counts = histogram_of(histogram(dict.fromkeys(range(1000, 9000), 1)))
    for percent in (1, 25, 50, 75, 99):
        found = quantile_ns(counts, percent / 100, 1000, 8999)
        assert abs(found - (1000 + 80 * percent)) <= 1


@given(calls, calls)
def test_added_is_the_histogram_of_all_calls(ns: list[int], more: list[int]) -> None:
    parts = [histogram_of(histogram(Counter(part))) for part in (ns, more)]
    assert added(parts) == histogram_of(histogram(Counter(ns + more)))

"""Totals that several CPUs, nodes and unfinished calls left behind."""

from __future__ import annotations

from faultprof.capture.trace_totals import (
    HISTOGRAM_BUCKETS,
    NodeTotals,
    added_up,
    by_path,
    close_open_frames,
)


def _totals(calls: int, inclusive: int, own: int, least: int = 0, most: int = 0) -> NodeTotals:
    histogram = [0] * HISTOGRAM_BUCKETS
    histogram[0] = calls
    return NodeTotals(calls, 0, inclusive, own, least, most, 0, tuple(histogram))


def test_a_cpu_without_calls_has_no_say_in_the_minimum() -> None:
    both = added_up([_totals(2, 30, 30, 10, 20), _totals(0, 5, 0)])
    assert (both.calls, both.inclusive_ns, both.min_ns, both.max_ns) == (2, 35, 10, 20)
    assert both.histogram[0] == 2


def test_nothing_at_all() -> None:
    assert added_up([]) == _totals(0, 0, 0)


def test_a_caller_that_moved_between_cpus_counts_once() -> None:
    """It was at one call on the first and at two on the second, which takes the one back."""
    first = _totals(1, 5, 5, 5, 5)._replace(per_call=(8, 0))
    second = _totals(1, 5, 5, 5, 5)._replace(per_call=((1 << 64) - 1, 1))
    assert added_up([first, second]).per_call == (7, 1)


def test_two_nodes_of_one_path_are_one() -> None:
    nodes = {1: (0, 7), 2: (0, 7), 3: (1, 8), 4: (2, 8)}
    totals = {number: _totals(1, 10 * number, 10 * number, 1, 1) for number in nodes}
    found = by_path(nodes, totals)
    assert {path: one.inclusive_ns for path, one in found.items()} == {(7,): 30, (7, 8): 70}


def test_open_calls_count_with_their_childrens_time_and_no_more() -> None:
    # 1 > 2 > 3, all open; 2 has finished children of 40 ns, 3 of 5 ns, which are node 4's.
    totals = {1: _totals(0, 0, 0), 2: _totals(0, 40, 0), 3: _totals(1, 9, 9, 9, 9)}
    totals[4] = _totals(1, 40, 40, 40, 40)
    totals[2] = totals[2]._replace(inclusive_ns=0)
    assert close_open_frames(totals, iter([[(1, 0), (2, 40), (3, 5)]])) == 3
    assert totals[3].inclusive_ns == 9 + 5
    assert totals[2].inclusive_ns == 40 + 5
    assert totals[1].inclusive_ns == 45
    assert [totals[node].unfinished for node in (1, 2, 3)] == [1, 1, 1]
    assert totals[2].inclusive_ns == totals[4].inclusive_ns + 5

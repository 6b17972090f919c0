"""The order of a call's pages is told from looks at it, if they can tell."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.capture.contention.order import looked_into
from faultprof.capture.contention.page_order import (
    AROUND,
    ASCENDING,
    CONVERGING,
    DESCENDING,
    OTHER,
    UNDECIDED,
    Look,
    looks_at_one_folio,
    order_of,
)

PAGES, NS = 512, 1_000_000


def process_huge_page(pages: int, asked_for: int) -> list[int]:
    """Return the pages in the order of mm/memory.c up to Linux 6.18."""
    if 2 * asked_for <= pages:
        begin, half = 0, asked_for
        before = list(range(pages - 1, 2 * asked_for - 1, -1))
    else:
        half = pages - asked_for
        begin = pages - 2 * half
        before = list(range(begin))
    pairs = [(begin + i, begin + 2 * half - 1 - i) for i in range(half)]
    return before + list(chain.from_iterable(pairs))


def around(pages: int, asked_for: int) -> list[int]:
    """Return the pages as folio_zero_user() has them since early 2026."""
    first, last = max(0, asked_for - 2), min(pages - 1, asked_for + 2)
    return [*range(last + 1, pages), *range(first), *range(first, last + 1)]


def looks_at(sequence: list[int], moments: list[int]) -> list[Look]:
    """Look at a call that works through a sequence, so many hundredths after its begin."""
    return [Look(NS * at // 100, sequence[len(sequence) * at // 100]) for at in moments]


EVEN = list(range(3, 100, 12))


@pytest.mark.parametrize("asked_for", [0, 100, 256, 300, 511])
def test_many_looks_tell_every_order(asked_for: int) -> None:
    sequences = {
        ASCENDING: list(range(PAGES)),
        DESCENDING: list(range(PAGES))[::-1],
        CONVERGING: process_huge_page(PAGES, asked_for),
        AROUND: around(PAGES, asked_for),
    }
    ends = asked_for in (0, 511)
    for name, sequence in sequences.items():
        assert sorted(sequence) == list(range(PAGES))
        found = order_of(looks_at(sequence, EVEN), PAGES, asked_for, NS)
        if ends and name in (CONVERGING, AROUND):
            assert found in (ASCENDING, DESCENDING), (name, found)
        else:
            assert found == name


def test_converging_on_the_first_page_is_descending() -> None:
    looks = looks_at(process_huge_page(PAGES, 0), EVEN)
    assert order_of(looks, PAGES, 0, NS) == DESCENDING
    looks = looks_at(process_huge_page(PAGES, 511), EVEN)
    assert order_of(looks, PAGES, 511, NS) == ASCENDING


def test_two_looks_do_not_depend_on_the_speed() -> None:
    """The task had to wait for the second half of its time, or its CPU had."""
    assert order_of([Look(1, 100), Look(900_000, 90)], PAGES, 0, NS) == DESCENDING
    assert order_of([Look(1, 100), Look(900_000, 101)], PAGES, 0, NS) == ASCENDING


@pytest.mark.parametrize(("passed", "page", "order"), [(20, 102, ASCENDING), (20, 410, DESCENDING)])
def test_one_look_tells_by_the_time(passed: int, page: int, order: str) -> None:
    assert order_of([Look(NS * passed // 100, page)], PAGES, 0, NS) == order


@pytest.mark.parametrize(("passed", "page"), [(50, 256), (20, 256)])
def test_one_look_may_tell_nothing(passed: int, page: int) -> None:
    """In the middle both ways are as far; and a single look that fits nothing proves nothing."""
    assert order_of([Look(NS * passed // 100, page)], PAGES, 0, NS) == UNDECIDED


def test_looks_that_fit_orders_which_differ_tell_nothing() -> None:
    """Both in the part behind the page that was asked for: ascending, or around it."""
    assert order_of([Look(1, 400), Look(2, 410)], PAGES, 256, NS) == UNDECIDED


def test_looks_at_one_page_are_one_look() -> None:
    looks = [Look(NS // 5, 410), Look(NS // 5 + 10, 410)]
    assert order_of(looks, PAGES, 0, NS) == DESCENDING


@given(st.permutations(range(16)))
def test_what_is_in_no_order_is_not_said_to_be_in_one(sequence: list[int]) -> None:
    known = {
        ASCENDING: list(range(16)),
        DESCENDING: list(range(16))[::-1],
        CONVERGING: process_huge_page(16, 5),
        AROUND: around(16, 5),
    }
    looks = [Look(at, page) for at, page in enumerate(sequence)]
    expected = [name for name, order in known.items() if order == sequence]
    assert order_of(looks, 16, 5, 16) == (expected[0] if expected else OTHER)


def test_looks_elsewhere_are_left_out() -> None:
    size = PAGES * 4096
    folio = 0xFFFF888000000000 + 7 * size
    seen = [(1, folio + 4096 * 5 + 8), (2, 0xFFFFFFFF81000000), (3, folio + 4096 * 6 + 1)]
    assert looks_at_one_folio(seen, PAGES, 4096) == ([Look(1, 5), Look(3, 6)], 1)


def test_looks_between_two_pages_are_left_out() -> None:
    """The register holds a page's end when it is done: 300, though 299 was the last."""
    seen = [(1, 4096 * 299 + 8), (2, 4096 * 300), (3, 4096 * 298 + 8)]
    assert looks_at_one_folio(seen, PAGES, 4096) == ([Look(1, 299), Look(3, 298)], 1)
    assert looks_at_one_folio([(1, 4096)], PAGES, 4096) == ([], 1)
    assert order_of([], PAGES, 0, NS) == UNDECIDED


def test_what_is_told_of_all_calls() -> None:
    size = PAGES * 4096
    forward = [(NS // 4, 128 * 4096 + 8), (3 * NS // 4, 384 * 4096 + 8)]
    calls = [
        (NS, 0, PAGES, False, forward),
        (NS, 3 * size, PAGES, True, [(1, size + 4096 * 9 + 8), (2, size + 4096 * 8 + 8), (3, 8)]),
    ]
    told = looked_into(calls)
    assert told["orders"] == {ASCENDING: 1, DESCENDING: 1}
    assert (told["looks"], told["strayed"]) == (5, 1)
    # The second one's time is no measure of its progress.
    assert told["path"] == [[2, 0.251, 1], [7, 0.751, 1]]


def test_no_looks() -> None:
    assert looked_into([]) == {"orders": {}, "looks": 0, "strayed": 0, "path": []}

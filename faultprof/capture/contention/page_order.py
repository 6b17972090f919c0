"""In which order a large folio's pages were worked on, told from a few looks at one call.

Knows: the orders that kernels use, and when looks at a call can tell them apart.
Leaves to others: taking the looks (``order``).

A look says which page was being worked on, and when. Looks at one call that are in an order's own
sequence fit it, however fast the work went in between. Of a single look only the time tells: where
half of the call has passed, half of the pages are taken to be done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

ASCENDING = "ascending"
DESCENDING = "descending"
CONVERGING = "converging"
AROUND = "around"
OTHER = "other"
UNDECIDED = "undecided"

ORDERS = (ASCENDING, DESCENDING, CONVERGING, AROUND, OTHER)
"""What a call's order can be found to be.

``converging``: from both ends towards the page that was asked for, which is the last one; the
longer side alone first (process_huge_page() up to Linux 6.x). With the first page asked for that
is ``descending``. ``around``: ascending behind the page that was asked for, then ascending before
it, then that page and its neighbours (folio_zero_user() since early 2026).
"""

_NEAR = 0.1  # of a call: how far off a single look may be
_SAME = 0.05  # of the pages: how far apart two orders may have a page that they agree on
_PROBES = 64  # pages that are looked at to compare orders
_NEIGHBOURS = 2  # FOLIO_ZERO_LOCALITY_RADIUS of mm/memory.c

Rank = Callable[[int], int]


class Look(NamedTuple):
    """One look at a call: ns since its entry, and the page, by its index in the folio."""

    ns: int
    page: int


def order_of(looks: Sequence[Look], pages: int, asked_for: int, ns: int) -> str:
    """Return one of ``ORDERS``, or ``UNDECIDED`` where the looks fit several that differ.

    Args:
        looks: by time.
        pages: of the folio.
        asked_for: the page that the fault was on, by its index.
        ns: how long the call took.
    """
    ranks = _ranks(pages, asked_for)
    if not looks:
        return UNDECIDED
    in_turn = [look for at, look in enumerate(looks) if not at or look.page != looks[at - 1].page]
    if len(in_turn) > 1:
        fitting = [name for name, rank in ranks.items() if _is_rising(in_turn, rank)]
    else:
        passed = in_turn[0].ns / ns if ns else 0.0
        fitting = [
            name
            for name, rank in ranks.items()
            if abs(rank(in_turn[0].page) / pages - passed) <= _NEAR
        ]
    if not fitting:
        return OTHER if len(in_turn) > 1 else UNDECIDED
    first, *others = fitting
    same = all(_are_alike(ranks[first], ranks[name], pages) for name in others)
    return first if same else UNDECIDED


def looks_at_one_folio(
    seen: Sequence[tuple[int, int]], pages: int, page_size: int
) -> tuple[list[Look], int]:
    """Return the looks at the folio that most addresses lie in, and how many are left out.

    Left out are those elsewhere, and at the edge of two pages: there is the register before the
    one is begun, and also after the other is done.

    Args:
        seen: of each look, ns since the entry, and an address. Folios lie at multiples of their
            size.
        pages: of the folio.
        page_size: in bytes.
    """
    size = pages * page_size
    ((folio, _),) = Counter(address // size for _, address in seen).most_common(1)
    looks = [
        Look(ns, address % size // page_size)
        for ns, address in seen
        if address // size == folio and address % page_size
    ]
    return looks, len(seen) - len(looks)


def _is_rising(looks: Sequence[Look], rank: Rank) -> bool:
    ranks = [rank(look.page) for look in looks]
    return all(before < after for before, after in pairwise(ranks))


def _are_alike(one: Rank, other: Rank, pages: int) -> bool:
    """Whether two orders have nearly all pages at nearly the same place."""
    places = [pages * place // _PROBES for place in range(min(_PROBES, pages))]
    apart = sum(abs(one(page) - other(page)) > _SAME * pages for page in places)
    return apart <= _SAME * len(places)


def _ranks(pages: int, asked_for: int) -> dict[str, Rank]:
    """Return for each order, the plainest first, how many pages come before a page."""
    return {
        ASCENDING: lambda page: page,
        DESCENDING: lambda page: pages - 1 - page,
        CONVERGING: lambda page: _converging(page, pages, asked_for),
        AROUND: lambda page: _around(page, pages, asked_for),
    }


def _converging(page: int, pages: int, asked_for: int) -> int:
    """Return the place of a page as process_huge_page() of mm/memory.c has it."""
    if 2 * asked_for <= pages:  # the pages behind twice the way first, from the end
        begin, half = 0, asked_for
        if page >= 2 * half:
            return pages - 1 - page
        before = pages - 2 * half
    else:  # those at the beginning first
        half = pages - asked_for
        begin = before = pages - 2 * half
        if page < begin:
            return page
    place = page - begin
    # Then one from the left and one from the right in turn.
    return before + (2 * place if place < half else 2 * (2 * half - 1 - place) + 1)


def _around(page: int, pages: int, asked_for: int) -> int:
    """Return the place of a page as folio_zero_user() has it: behind, before, around."""
    last = min(pages - 1, asked_for + _NEIGHBOURS)
    return page - last - 1 if page > last else pages - 1 - last + page

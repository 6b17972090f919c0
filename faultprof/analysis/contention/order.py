"""Clears and copies of huge pages: time a page, bandwidth, and in which order of their pages.

Knows: what the figures of the part mean (``capture.contention.order`` says how they look), and who
cleared the pages that no function was seen to clear.
Leaves to others: measuring; telling the order of one call (``capture.contention.page_order``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CLEAR = "folio_zero_user"
COPY = "copy_user_large_folio"
UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class FolioWork:
    """All calls of one function that clears or copies.

    Attributes:
        name: the function's, in mainline.
        symbol: what it is on that kernel.
        calls: in which the task ran all the time; the figures below are theirs.
        pages: that they worked on.
        ns: that they took.
        switched: other calls.
        histogram: (upper bound in ns a page, calls), rising.
        orders: calls that were looked at, by their order, UNDECIDED included.
        looks: how many looks there were.
        strayed: of these, elsewhere, or between two pages: left out.
        path: (tenth of the time, mean place in the folio from 0 to 1, looks).
        page_size: in bytes.
    """

    name: str
    symbol: str
    calls: int
    pages: int
    ns: int
    switched: int
    histogram: tuple[tuple[int, int], ...]
    orders: Mapping[str, int]
    looks: int
    strayed: int
    path: tuple[tuple[int, float, int], ...]
    page_size: int

    @property
    def ns_a_page(self) -> float | None:
        """Mean time for one page; None without a call."""
        return self.ns / self.pages if self.pages else None

    @property
    def bytes_a_second(self) -> float | None:
        """Bandwidth; None without a call."""
        return self.pages * self.page_size * 1e9 / self.ns if self.ns else None

    @property
    def shares(self) -> dict[str, float]:
        """Share of each order in the calls whose order could be told, the largest first."""
        told = Counter({name: n for name, n in self.orders.items() if n and name != UNDECIDED})
        return {name: count / told.total() for name, count in told.most_common()}

    @property
    def told(self) -> int:
        """Calls whose order could be told."""
        return sum(count for name, count in self.orders.items() if name != UNDECIDED)


@dataclass(frozen=True, slots=True)
class PageOrder:
    """What some runs have together.

    Attributes:
        frequency: looks a second, on each CPU.
        init_on_alloc: whether the page allocator clears all pages; None where that is not known.
        first_touches: faults that touched an anonymous huge page first; None where not counted.
        functions: those that were called.
        not_kept: calls that were looked at, but were too many to be kept.
        lost: counts by name.
    """

    frequency: int
    init_on_alloc: bool | None
    first_touches: int | None
    functions: tuple[FolioWork, ...]
    not_kept: int
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def clears(self) -> int:
        """Calls that cleared a large folio at a fault."""
        return sum(one.calls + one.switched for one in self.functions if one.name == CLEAR)

    @property
    def cleared_by_allocator(self) -> int:
        """First touches of anonymous huge pages that nothing cleared but the allocator, at least.

        Faults on hugetlb pages clear too: where both are recorded, some of the clears are theirs.
        """
        if not self.first_touches or not self.init_on_alloc:
            return 0
        return max(0, self.first_touches - self.clears)


def merged(runs: Iterable[Mapping[str, Any]]) -> PageOrder:
    """Return what some runs have together.

    Args:
        runs: what the part left of each, at least one.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: that is not what the part writes.
    """
    runs = list(runs)
    names = dict.fromkeys(name for run in runs for name in run["functions"])
    touches = [run["first_touches"] for run in runs]
    lost = Counter[str]()
    for run in runs:
        lost.update({str(name): int(count) for name, count in run["lost"].items()})
    return PageOrder(
        frequency=int(runs[0]["frequency_hz"]),
        init_on_alloc=runs[0]["init_on_alloc"],
        first_touches=None if None in touches else sum(map(int, touches)),
        functions=tuple(
            _work(name, [run["functions"][name] for run in runs if name in run["functions"]], runs)
            for name in names
        ),
        not_kept=sum(int(run["not_kept"]) for run in runs),
        lost=dict(lost),
    )


def _work(name: str, parts: list[Mapping[str, Any]], runs: list[Mapping[str, Any]]) -> FolioWork:
    histogram, orders, places = Counter[int](), Counter[str](), dict[int, tuple[float, int]]()
    for part in parts:
        for upper, count in part["ns_a_page"]:
            histogram[int(upper)] += int(count)
        orders.update({str(order): int(count) for order, count in part["orders"].items()})
        for tenth, place, count in part["path"]:
            total, looks = places.get(int(tenth), (0.0, 0))
            places[int(tenth)] = (total + float(place) * int(count), looks + int(count))
    return FolioWork(
        name=name,
        symbol=str(parts[0]["symbol"]),
        calls=sum(int(part["calls"]) for part in parts),
        pages=sum(int(part["pages"]) for part in parts),
        ns=sum(int(part["ns"]) for part in parts),
        switched=sum(int(part["switched"]) for part in parts),
        histogram=tuple(sorted(histogram.items())),
        orders=dict(orders),
        looks=sum(int(part["looks"]) for part in parts),
        strayed=sum(int(part["strayed"]) for part in parts),
        path=tuple((tenth, total / n, n) for tenth, (total, n) in sorted(places.items())),
        page_size=int(runs[0]["page_size"]),
    )

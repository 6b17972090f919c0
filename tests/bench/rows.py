"""What a benchmark yields: rows of values with a goal, from runs that take turns.

Knows: how variants are interleaved, how paired ratios are made, what meeting a goal means.
Leaves to others: what is measured (one module a subject), how rows are printed (``__main__``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Literal, TypeVar

Measured = TypeVar("Measured")

_MEETS = {"≤": operator.le, "≥": operator.ge}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row's median is held against: at most or at least ``bound``, in the row's unit."""

    sense: Literal["≤", "≥"]
    bound: float

    def __str__(self) -> str:
        return f"{self.sense} {self.bound:g}"

    def met_by(self, value: float) -> bool:
        """Whether ``value`` is on the right side of the bound."""
        return bool(_MEETS[self.sense](value, self.bound))


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure: its values over the repeats, and the goal it is held against, if any."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: Goal | None = None

    @property
    def spread(self) -> tuple[float, float, float]:
        """The least value, the median and the largest."""
        return min(self.values), median(self.values), max(self.values)

    @property
    def meets(self) -> bool | None:
        """Whether the median meets the goal; None without one."""
        return self.goal.met_by(median(self.values)) if self.goal is not None else None


@dataclass(frozen=True, slots=True)
class Subject:
    """One benchmark.

    Attributes:
        name: what ``--only`` takes.
        title: the heading above its rows: what was run.
        rows: measures with so many repeats, and an order drawn from the generator.
        repeats: how often without ``--repeats``; enough for the noise of a shared machine.
        needs_root: whether it records.
    """

    name: str
    title: str
    rows: Callable[[int, Random], list[Row]]
    repeats: int
    needs_root: bool


def interleaved(
    variants: Mapping[str, Callable[[], Measured]], repeats: int, order: Random
) -> dict[str, list[Measured]]:
    """Run every variant once a block, in an order drawn anew for each of ``repeats`` blocks.

    What drifts (other load, the clock rate, free memory) then meets every variant alike, and a
    variant does not always find the caches of the same forerunner. A first block is thrown away:
    it reads programs from disk and compiles Python's.

    Returns:
        What each variant returned, by block: the values at one place are a pair.
    """
    found: dict[str, list[Measured]] = {name: [] for name in variants}
    for block in range(repeats + 1):
        for name in order.sample(list(variants), len(variants)):
            measured = variants[name]()
            if block > 0:
                found[name].append(measured)
    return found


def ratios(values: Sequence[float], base: Sequence[float]) -> tuple[float, ...]:
    """Return the quotient of each pair."""
    return tuple(value / unit for value, unit in zip(values, base, strict=True))

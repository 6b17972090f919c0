"""Sides next to one another, metric by metric: what changed, and what that is worth.

Knows: which change a metric shows, and how rows are chosen and sorted.
Leaves to others: where sides come from (``sides``), what a change is worth (``change``), and
printing (``render.compare``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from faultprof.analysis.bootstrap import SEED
from faultprof.analysis.change import ALPHA, Change, Verdict, change_between
from faultprof.analysis.measurement import Measurement, Side, in_points, paired_values
from faultprof.errors import FaultprofError

_TINY = 1e-100  # what lkp divides by where the base is zero


class Order(StrEnum):
    """How rows are sorted: as given, by name, the largest change or the smallest p first."""

    GIVEN = "given"
    NAME = "name"
    CHANGE = "change"
    P = "p"


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric's change from the base to another side.

    Args:
        difference: of the means, in the metric's unit.
        relative: the same as a fraction of the base's mean; None where that is not above zero.
        shown: as lkp shows it, in percent, or in points (see :attr:`MetricRow.in_points`).
        printed: how an imported table prints that; "" where it comes from no table.
        worth: what it is worth; None where only a table's figures are known, not the runs.
    """

    difference: float
    relative: float | None
    shown: float
    printed: str
    worth: Change | None


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric on all sides.

    Args:
        name: of the metric.
        measured: one per side; None where a side lacks the metric.
        changes: one per side but the base; None where either lacks the metric.
    """

    name: str
    measured: tuple[Measurement | None, ...]
    changes: tuple[MetricChange | None, ...]

    @property
    def in_points(self) -> bool:
        """Whether the difference is shown and not its ratio: the metric is a percentage itself."""
        return in_points(self.name)

    def has(self, verdict: Verdict) -> bool:
        """Return whether any of the changes got ``verdict``."""
        return any(
            one is not None and one.worth is not None and one.worth.verdict is verdict
            for one in self.changes
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table: sides in columns, the first the base, and metrics in rows.

    Args:
        sides: the columns.
        rows: the metrics.
        caption: what an imported text says about the table, or nothing.
        alpha: how often equal sides may be called different; intervals have 1 - alpha.
        seed: of the resampling.
        tested: how many changes had enough runs for a verdict, shown or not.
        hidden: metrics that were left out of ``rows``.
    """

    sides: tuple[Side, ...]
    rows: tuple[MetricRow, ...]
    caption: str = ""
    alpha: float = ALPHA
    seed: int = SEED
    tested: int = 0
    hidden: int = 0


def compare_sides(
    sides: Sequence[Side],
    *,
    caption: str = "",
    paired: bool = False,
    alpha: float = ALPHA,
    seed: int = SEED,
) -> Comparison:
    """Compare the first side with each of the others.

    Args:
        sides: at least two.
        caption: see :class:`Comparison`.
        paired: pair runs by their order even where the sides do not say that they were
            interleaved.
        alpha: see :class:`Comparison`.
        seed: see :class:`Comparison`.

    Raises:
        FaultprofError: exit code 2, when there are fewer sides, or pairs are wanted and two sides
            have different numbers of runs.
    """
    if len(sides) < 2:
        raise FaultprofError("there is one side only", "name what it is to be compared with")
    names = dict.fromkeys(name for side in sides for name in side.metrics)
    rows = tuple(_row(name, sides, paired, alpha, seed) for name in names)
    tested = sum(_judged(one) for row in rows for one in row.changes)
    return Comparison(tuple(sides), rows, caption, alpha, seed, tested)


def _judged(change: MetricChange | None) -> bool:
    worth = None if change is None else change.worth
    return worth is not None and worth.verdict is not Verdict.TOO_FEW


def _row(name: str, sides: Sequence[Side], paired: bool, alpha: float, seed: int) -> MetricRow:
    def change(side: Side) -> MetricChange | None:
        if name not in sides[0].metrics or name not in side.metrics:
            return None
        return _change(name, sides[0], side, _worth(name, sides[0], side, paired, alpha, seed))

    measured = tuple(side.metrics.get(name) for side in sides)
    return MetricRow(name, measured, tuple(change(side) for side in sides[1:]))


def _worth(
    name: str, base: Side, new: Side, paired: bool, alpha: float, seed: int
) -> Change | None:
    before, after = base.metrics[name].values, new.metrics[name].values
    if not before or not after:
        return None
    pairs = paired_values(base, new, name)
    if pairs is None and paired:
        if len(before) != len(after):
            raise FaultprofError(
                f"runs cannot be paired: {name} has {len(before)} on one side and {len(after)} "
                "on the other",
                "leave out --paired",
            )
        pairs = before, after
    if pairs is None:
        return change_between(before, after, alpha=alpha, seed=seed)
    return change_between(*pairs, paired=True, alpha=alpha, seed=seed)


def _change(name: str, base: Side, new: Side, worth: Change | None) -> MetricChange:
    before, after = base.metrics[name].mean, new.metrics[name].mean
    difference = after - before
    relative = difference / before if before > 0 else None
    printed = ""
    if base.table and base.table == new.table and not base.quoted:
        # A table's change comes from figures with more digits than it prints.
        printed = new.quoted.get(name, "")
    shown = difference if in_points(name) else _percent(before, after)
    return MetricChange(difference, relative, float(printed or shown), printed, worth)


def _percent(before: float, after: float) -> float:
    """Return the change in percent; from zero a huge number, as in lkp."""
    return 100 * (after - before) / (before or _TINY) if after != before else 0.0


def choose(
    comparison: Comparison,
    *,
    globs: Sequence[str] = (),
    changed: bool = False,
    order: Order = Order.GIVEN,
) -> Comparison:
    """Return the comparison with some of its rows.

    Args:
        comparison: what to choose from.
        globs: keep metrics whose name matches any of these patterns; none: keep all.
        changed: keep metrics with a real change only.
        order: how to sort.
    """
    rows = [row for row in comparison.rows if not globs or _matches(row.name, globs)]
    if changed:
        rows = [row for row in rows if row.has(Verdict.REAL)]
    if order is not Order.GIVEN:
        rows.sort(key=_KEYS[order])
    hidden = comparison.hidden + len(comparison.rows) - len(rows)
    return replace(comparison, rows=tuple(rows), hidden=hidden)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _size(row: MetricRow) -> float:
    return max((abs(one.shown) for one in row.changes if one is not None), default=-math.inf)


def _smallest_p(row: MetricRow) -> float:
    known = [one.worth.p for one in row.changes if one is not None and one.worth is not None]
    return min(known, default=math.inf)


_KEYS: dict[Order, Callable[[MetricRow], tuple[float, str]]] = {
    Order.NAME: lambda row: (0, row.name),
    Order.CHANGE: lambda row: (-_size(row), row.name),
    Order.P: lambda row: (_smallest_p(row), row.name),
}

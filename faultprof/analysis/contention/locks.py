"""Waits for kernel locks: what was counted, added up by type, by lock and by place.

Knows: the data of the part ``locks``, and how rows add up.
Leaves to others: counting (``capture.contention.locks``), showing (``render.contention.locks``).

Of each run: ``traced`` (whether functions were traced beside it), ``types`` (of each type of lock
``type``, ``waits``, ``total_ns``, ``min_ns``, ``max_ns``), ``waits``, ``repeated_begins`` (a mutex
that slept and spun in one wait), ``begun_before`` and ``unfinished`` (waits that the recording did
not see whole, which are not counted) and ``lost``. A row of ``waits`` has

* ``type``, ``lock`` (its name, null: not known) and ``how`` that is known: ``address`` (a field of
  the task's own structures), ``variable`` (of the kernel), ``caller`` (the only such lock that the
  waiting function takes), ``unknown``;
* ``caller``, the function that waits, and where: ``path`` (traced functions, root first) or,
  outside of them, ``stack`` (all functions); ``interrupt`` (in one, on the task's time);
* ``waits``, ``total_ns``, ``histogram``.

A wait within a wait, such as for the spinlock inside of a mutex, counts in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from faultprof.analysis.histogram import added, quantile_ns
from faultprof.recording.histogram import Histogram, bucket_lower_ns, bucket_of

Path = tuple[str, ...]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Waited:
    """How often and how long: ``total_ns`` together, ``min_ns`` and ``max_ns`` of single waits.

    Where single waits are known by their buckets only, ``exact`` is false: then the shortest may
    be longer and the longest shorter.
    """

    waits: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: Histogram
    exact: bool = True

    @property
    def mean_ns(self) -> float:
        """Duration of a wait."""
        return self.total_ns / self.waits if self.waits else 0.0

    def quantile_ns(self, quantile: float) -> int | None:
        """Return the duration that a share of the waits do not exceed; None: none is known."""
        if not self.histogram:
            return None
        return quantile_ns(self.histogram, quantile, self.min_ns, self.max_ns)

    @classmethod
    def of_buckets(cls, waits: int, total_ns: int, histogram: Histogram) -> Self:
        """Return what a histogram tells; no single wait is longer than all together."""
        shortest = bucket_lower_ns(bucket_of(histogram[0][0])) if histogram else 0
        longest = histogram[-1][0] if histogram else 0
        return cls(waits, total_ns, shortest, min(longest, total_ns), histogram, exact=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits that have lock and place in common; see the module's docstring."""

    type: str
    lock: str | None
    how: str
    caller: str | None
    path: Path | None
    stack: Path | None
    interrupt: bool
    waits: int
    total_ns: int
    histogram: Histogram

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild from a row.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        path, stack = data["path"], data["stack"]
        return cls(
            type=str(data["type"]),
            lock=_text(data["lock"]),
            how=str(data["how"]),
            caller=_text(data["caller"]),
            path=None if path is None else tuple(map(str, path)),
            stack=None if stack is None else tuple(map(str, stack)),
            interrupt=bool(data["interrupt"]),
            waits=int(data["waits"]),
            total_ns=int(data["total_ns"]),
            histogram=_histogram(data["histogram"]),
        )

    @property
    def place(self) -> Path:
        """Where it waits, root first: the call-tree node, or the stack down to the caller."""
        if self.path:
            return self.path
        stack = self.stack or ()
        if self.caller not in stack:
            return stack
        return stack[: len(stack) - stack[::-1].index(self.caller)]

    @property
    def waited(self) -> Waited:
        """Its figures."""
        return Waited.of_buckets(self.waits, self.total_ns, self.histogram)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock, or what is known in the place of its name: the function that waits for it."""

    name: str | None
    type: str
    how: str
    caller: str | None = None

    @property
    def label(self) -> str:
        """What to call it."""
        return self.name or f"unknown, in {self.caller or '?'}"


@dataclass(frozen=True, slots=True)
class Locks:
    """What one run has, or several together."""

    traced: bool
    types: Mapping[str, Waited]
    waits: tuple[Wait, ...]
    repeated_begins: int
    begun_before: int
    unfinished: int
    lost: Mapping[str, int]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild from a run's data.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: they have another shape.
        """
        waits = tuple(Wait.from_json(one) for one in data["waits"])
        return cls(
            traced=bool(data["traced"]),
            types=_types(data["types"], waits),
            waits=waits,
            repeated_begins=int(data["repeated_begins"]),
            begun_before=int(data["begun_before"]),
            unfinished=int(data["unfinished"]),
            lost={str(name): int(count) for name, count in data["lost"].items()},
        )

    @property
    def total_ns(self) -> int:
        """Time waited, of all tasks together."""
        return sum(one.total_ns for one in self.types.values())

    @property
    def count(self) -> int:
        """Waits in all."""
        return sum(one.waits for one in self.types.values())

    def by_lock(self) -> list[tuple[Lock, Waited]]:
        """Return the figures by lock, the longest in all first.

        Waits for a lock without a name are together when the same function waits.
        """
        return _grouped(
            self.waits,
            lambda one: Lock(one.lock, one.type, one.how, None if one.lock else one.caller),
        )

    def by_place(self) -> list[tuple[Path, Waited]]:
        """Return the figures by node of the call tree, or kernel stack, the longest first."""
        return _grouped(self.waits, lambda one: one.place)

    def by_label(self, label: Callable[[Path], str]) -> list[tuple[str, Waited]]:
        """Return the same by what a place is called, which may leave callers out."""
        return _grouped(self.waits, lambda one: label(one.place))

    def by_node(self) -> list[tuple[Path, Waited]]:
        """Return the figures by node of the call tree, without waits outside of it."""
        inside = [one for one in self.waits if one.path]
        return _grouped(inside, lambda one: one.path or ())


def merged(runs: Sequence[Locks]) -> Locks:
    """Return several runs (at least one) as one."""
    types: dict[str, list[Waited]] = {}
    for run in runs:
        for name, waited in run.types.items():
            types.setdefault(name, []).append(waited)
    lost = Counter[str]()
    for run in runs:
        lost.update(run.lost)
    together = {name: _together(parts) for name, parts in types.items()}
    return Locks(
        traced=any(run.traced for run in runs),
        types=dict(sorted(together.items(), key=lambda item: -item[1].total_ns)),
        waits=tuple(one for run in runs for one in run.waits),
        repeated_begins=sum(run.repeated_begins for run in runs),
        begun_before=sum(run.begun_before for run in runs),
        unfinished=sum(run.unfinished for run in runs),
        lost=dict(lost),
    )


def _grouped(waits: Iterable[Wait], key: Callable[[Wait], Key]) -> list[tuple[Key, Waited]]:
    groups: dict[Key, list[Wait]] = {}
    for one in waits:
        groups.setdefault(key(one), []).append(one)
    figures = [
        (
            name,
            Waited.of_buckets(
                sum(one.waits for one in members),
                sum(one.total_ns for one in members),
                added(one.histogram for one in members),
            ),
        )
        for name, members in groups.items()
    ]
    return sorted(figures, key=lambda item: -item[1].total_ns)


def _together(parts: Sequence[Waited]) -> Waited:
    return Waited(
        waits=sum(one.waits for one in parts),
        total_ns=sum(one.total_ns for one in parts),
        min_ns=min(one.min_ns for one in parts),
        max_ns=max(one.max_ns for one in parts),
        histogram=added(one.histogram for one in parts),
    )


def _types(data: Iterable[Mapping[str, Any]], waits: Sequence[Wait]) -> dict[str, Waited]:
    histograms: dict[str, list[Histogram]] = {}
    for one in waits:
        histograms.setdefault(one.type, []).append(one.histogram)
    return {
        str(one["type"]): Waited(
            waits=int(one["waits"]),
            total_ns=int(one["total_ns"]),
            min_ns=int(one["min_ns"]),
            max_ns=int(one["max_ns"]),
            histogram=added(histograms.get(str(one["type"]), ())),
        )
        for one in data
    }


def _histogram(data: Iterable[Sequence[int]]) -> Histogram:
    return tuple((int(upper), int(count)) for upper, count in data)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

"""How functions are inlined in one kernel or another, side by side.

Knows: what copies of a function come to, and when two kernels inline it in the same way.
Leaves to others: finding the copies in debuginfo (``kernel.inline_index``), drawing (``render``).

Two kernels inline a function in the same way when it is out of line in both or in neither, and
inlined into the same functions with the same number of sites each. Bytes do not count: they differ
between any two builds. A function that was renamed is one row, by mainline's name; so are callers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from faultprof.kernel.inlines import Copy

ABSENT, OUT_OF_LINE, INLINED, BOTH = "absent", "out of line", "inlined", "out of line and inlined"


@dataclass(slots=True)
class Sites:
    """The sites of a function within one other: how many, and bytes of code at all of them."""

    count: int = 0
    size: int = 0

    def add(self, size: int) -> None:
        """Add one."""
        self.count += 1
        self.size += size


@dataclass(slots=True)
class Inlining:
    """What became of one function in one kernel.

    Attributes:
        names: what it is called there.
        own: copies that stand by themselves; more than one where several files have their own.
        into: sites by the function that calls it there and the symbol in which both are:
            (caller, host), the same where the caller is not itself inlined.
    """

    names: set[str] = field(default_factory=set)
    own: Sites = field(default_factory=Sites)
    into: dict[tuple[str, str], Sites] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """One of ``ABSENT``, ``OUT_OF_LINE``, ``INLINED``, ``BOTH``."""
        if not self.own.count:
            return INLINED if self.into else ABSENT
        return BOTH if self.into else OUT_OF_LINE

    @property
    def sites(self) -> Sites:
        """All inlined sites."""
        return Sites(
            sum(one.count for one in self.into.values()),
            sum(one.size for one in self.into.values()),
        )

    def same_way(self, other: Inlining) -> bool:
        """Return whether another kernel inlines it in the same way."""
        mine = Counter({where: one.count for where, one in self.into.items()})
        theirs = Counter({where: one.count for where, one in other.into.items()})
        return bool(self.own.count) == bool(other.own.count) and mine == theirs


@dataclass(frozen=True, slots=True)
class InlinedFunction:
    """One row: a function, and what became of it in each kernel."""

    name: str
    kernels: tuple[Inlining, ...]

    @property
    def same(self) -> bool:
        """Whether all kernels inline it in the same way."""
        return all(self.kernels[0].same_way(other) for other in self.kernels[1:])


def compare_inlining(
    copies: Sequence[Iterable[Copy]], logical: Callable[[str], str]
) -> list[InlinedFunction]:
    """Return what became of every function, in alphabetical order.

    Args:
        copies: for each kernel, the copies that were found.
        logical: gives mainline's name of a function that may be called otherwise.
    """
    tables: list[dict[str, Inlining]] = []
    for found in copies:
        table: dict[str, Inlining] = {}
        for copy in found:
            _add(table.setdefault(logical(copy.function), Inlining()), copy, logical)
        tables.append(table)
    names = sorted({name for table in tables for name in table})
    return [
        InlinedFunction(name, tuple(table.get(name, Inlining()) for table in tables))
        for name in names
    ]


def _add(inlining: Inlining, copy: Copy, logical: Callable[[str], str]) -> None:
    inlining.names.add(copy.function)
    if not copy.inlined:
        inlining.own.add(copy.size)
        return
    where = logical(copy.chain[-2]), logical(copy.chain[0])
    inlining.into.setdefault(where, Sites()).add(copy.size)

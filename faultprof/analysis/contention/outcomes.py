"""What kinds of faults there were, how they ended, and how long they took.

Knows: the data of the part ``outcomes`` (below), and what follows from it.
Leaves to others: counting (``capture.contention.outcomes``), words (``render``).

Counted are *attempts*: calls of handle_mm_fault(). Most faults take one. An attempt that would have
to sleep while it holds its lock gives up the lock, and ends in a *retry*: the fault is attempted
again, by the same task at the same address.

The data of a run:

    rows        list of the ways in which attempts ended:
        kind        ``read``, ``cow`` and ``shared``: first access to a page of a file, by what
                    do_fault() does; ``anonymous``: first touch; ``write-protected``: do_wp_page(),
                    which copies the page unless it has no other user; ``swap``: do_swap_page();
                    ``numa``: hinting faults; ``hugetlb``; ``huge``: huge pages of anonymous memory;
                    ``other``
        lock        ``vma_lock`` or ``mmap_lock``
        again       whether an attempt before it had ended in a retry
        end         ``minor``, ``major`` (as the kernel accounts it), ``retry``, ``error``
        count, ns, max_ns, histogram
                    how many, how long
    tried       attempts with FAULT_FLAG_TRIED
    untold      kinds that this kernel does not show; their attempts are in ``other``
    anonymous_by_vma
                whether do_anonymous_page() cannot be probed: then ``anonymous`` is a fault on
                anonymous memory that was nothing else, also one that finds its page already there
    unfinished, functions, missing, lost
                as in ``yielding``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from faultprof.analysis.contention.durations import Durations, together

KINDS = (
    *("read", "cow", "shared", "anonymous", "write-protected", "swap", "numa", "hugetlb"),
    *("huge", "other"),
)
ENDS = ("minor", "major", "retry", "error")
LOCKS = ("vma_lock", "mmap_lock")


class Way(NamedTuple):
    """A way in which attempts ended; the names are those of the data above."""

    kind: str
    lock: str
    again: bool
    end: str

    @property
    def order(self) -> tuple[int, int, bool, int]:
        """Its place among others."""
        return (
            KINDS.index(self.kind),
            LOCKS.index(self.lock),
            self.again,
            ENDS.index(self.end),
        )


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of all attempts."""

    ways: Mapping[Way, Durations]
    tried: int
    unfinished: int
    untold: tuple[str, ...]
    anonymous_by_vma: bool
    functions: Mapping[str, Any]
    missing: Mapping[str, str]
    lost: Mapping[str, int]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcomes:
        """Rebuild from one run's data.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
        """
        ways = {
            Way(row["kind"], row["lock"], bool(row["again"]), row["end"]): Durations.of(
                int(row["ns"]), row["histogram"], int(row["max_ns"])
            )
            for row in data["rows"]
        }
        return cls(
            ways={way: ways[way] for way in sorted(ways, key=lambda way: way.order)},
            tried=int(data["tried"]),
            unfinished=int(data["unfinished"]),
            untold=tuple(data["untold"]),
            anonymous_by_vma=bool(data["anonymous_by_vma"]),
            functions=dict(data["functions"]),
            missing=dict(data["missing"]),
            lost={str(name): int(count) for name, count in data["lost"].items()},
        )

    @property
    def attempts(self) -> int:
        """All attempts that ended."""
        return sum(durations.count for durations in self.ways.values())

    @property
    def faults(self) -> int:
        """Faults that ended, each with its last attempt."""
        return self.count(lambda way: way.end != "retry")

    @property
    def retries(self) -> int:
        """Attempts that had to be made again."""
        return self.count(lambda way: way.end == "retry")

    def count(self, wanted: Callable[[Way], bool]) -> int:
        """Return how many attempts ended in one of the wanted ways."""
        return sum(durations.count for way, durations in self.ways.items() if wanted(way))


def merged(several: Sequence[Outcomes]) -> Outcomes:
    """Return the sum of at least one; what describes the kernel is the last one's."""
    last = several[-1]
    ways = {way for one in several for way in one.ways}
    names = {name for one in several for name in one.lost}
    return Outcomes(
        ways={
            way: together([one.ways[way] for one in several if way in one.ways])
            for way in sorted(ways, key=lambda way: way.order)
        },
        tried=sum(one.tried for one in several),
        unfinished=sum(one.unfinished for one in several),
        untold=last.untold,
        anonymous_by_vma=last.anonymous_by_vma,
        functions=last.functions,
        missing=last.missing,
        lost={name: sum(one.lost.get(name, 0) for one in several) for name in sorted(names)},
    )

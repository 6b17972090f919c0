"""How much of fault-around's work was of use.

Knows: the data of the part ``yield`` (below), and what follows from it.
Leaves to others: counting (``capture.contention.yielding``), words (``render``).

A *fault* is an access that traps, with as many attempts as it takes; a *call* is one of
filemap_map_pages(), which is what fault-around does. A call asks for folios in the page cache
around the faulting page, until there is none left, and maps those of their pages that are not
mapped yet. It is of use if it maps any. If it leaves the faulting page out, the kernel asks the
file for that page (__do_fault()), which may wait for its lock.

The data of a run, counts unless their names end in ``ns``:

    faults                          faults of all kinds that began
    calls, ns                       all calls, and the time in them
    nothing, nothing_ns             those that mapped nothing
    empty                           of these, those that found no folio
    asked, found                    calls of next_uptodate_folio(); folios that it returned
    mapped                          pages that were mapped, apart from whole huge pages
    pmd_mapped, pmd_there           calls that mapped a huge page; that found one mapped already
    second                          calls that were not the first in their fault
    left_out                        calls that did not map the faulting page; of these, those
    file, waited, retried, major    followed by __do_fault(); that waited in it for a folio's lock;
                                    whose attempt had to be made again; whose attempt was major
    file_ns, waited_ns              time in those calls of __do_fault(); in those that waited
    mapped_per_call, found_per_call [upper bound, calls]: by pages mapped (without calls that mapped
                                    a huge page), by folios found; exact up to 64
    useful_histogram, useless_histogram
                                    durations of calls that mapped something, nothing
    unwaited_histogram, waited_histogram
                                    durations of those calls of __do_fault(), by whether they waited
    unfinished                      attempts under way when the run ended; not in the above
    window_pages, huge_pages        fault_around_bytes and a huge page's size in pages; null unknown
    functions, missing              what was probed, and how; why something was not
    lost                            see capture.contention.parts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from faultprof.analysis.contention.durations import Durations, together
from faultprof.analysis.histogram import added
from faultprof.recording.histogram import Histogram

COUNTS = (
    *("faults", "calls", "ns", "nothing", "nothing_ns", "empty", "asked", "found", "mapped"),
    *("pmd_mapped", "pmd_there", "second", "left_out", "file", "waited", "retried", "major"),
    *("file_ns", "waited_ns", "unfinished"),
)


@dataclass(frozen=True, slots=True)
class Yield:
    """What fault-around did; the names are those of the data above."""

    faults: int
    calls: int
    ns: int
    nothing: int
    nothing_ns: int
    empty: int
    asked: int
    found: int
    mapped: int
    pmd_mapped: int
    pmd_there: int
    second: int
    left_out: int
    file: int
    waited: int
    retried: int
    major: int
    file_ns: int
    waited_ns: int
    unfinished: int
    mapped_per_call: Histogram
    found_per_call: Histogram
    useful: Durations
    useless: Durations
    file_unwaited: Durations
    file_waited: Durations
    window_pages: int | None
    huge_pages: int | None
    functions: Mapping[str, Any]
    missing: Mapping[str, str]
    lost: Mapping[str, int]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Yield:
        """Rebuild from one run's data.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
        """
        counts = {name: int(data[name]) for name in COUNTS}
        return cls(
            **counts,
            mapped_per_call=_pairs(data["mapped_per_call"]),
            found_per_call=_pairs(data["found_per_call"]),
            useful=Durations.of(counts["ns"] - counts["nothing_ns"], data["useful_histogram"]),
            useless=Durations.of(counts["nothing_ns"], data["useless_histogram"]),
            file_unwaited=Durations.of(
                counts["file_ns"] - counts["waited_ns"], data["unwaited_histogram"]
            ),
            file_waited=Durations.of(counts["waited_ns"], data["waited_histogram"]),
            window_pages=data["window_pages"],
            huge_pages=data["huge_pages"],
            functions=dict(data["functions"]),
            missing=dict(data["missing"]),
            lost={str(name): int(count) for name, count in data["lost"].items()},
        )

    @property
    def useful_calls(self) -> int:
        """Calls that mapped something."""
        return self.calls - self.nothing

    @property
    def useful_share(self) -> float | None:
        """Their part of all calls; None without any."""
        return self.useful_calls / self.calls if self.calls else None

    @property
    def useful_time_share(self) -> float | None:
        """Their part of the time in all calls; None without any."""
        return 1 - self.nothing_ns / self.ns if self.ns else None

    @property
    def pages(self) -> int | None:
        """Pages that were mapped, huge pages included; None where their size is not known."""
        if self.pmd_mapped and self.huge_pages is None:
            return None
        return self.mapped + self.pmd_mapped * (self.huge_pages or 0)

    @property
    def mapped_each(self) -> float | None:
        """Pages that a useful call mapped in the mean, apart from huge ones; None without any."""
        calls = self.useful_calls - self.pmd_mapped
        return self.mapped / calls if calls else None

    @property
    def asked_per_page(self) -> float | None:
        """How often a folio was asked for by calls that mapped no huge page, by pages mapped."""
        asked = self.asked - self.pmd_mapped
        return asked / self.mapped if self.mapped else None

    @property
    def vanished(self) -> int:
        """Calls without the faulting page that were not followed by __do_fault()."""
        return self.left_out - self.file


def merged(several: Sequence[Yield]) -> Yield:
    """Return the sum of at least one; what describes the kernel is the last one's."""
    last = several[-1]
    summed: dict[str, Any] = {name: sum(getattr(one, name) for one in several) for name in COUNTS}
    for name in ("mapped_per_call", "found_per_call"):
        summed[name] = added(getattr(one, name) for one in several)
    for name in (
        one.name for one in fields(Yield) if isinstance(getattr(last, one.name), Durations)
    ):
        summed[name] = together([getattr(one, name) for one in several])
    names = {name for one in several for name in one.lost}
    summed["lost"] = {name: sum(one.lost.get(name, 0) for one in several) for name in sorted(names)}
    return replace(last, **summed)


def _pairs(data: Sequence[Sequence[int]]) -> Histogram:
    return tuple((int(upper), int(count)) for upper, count in data)

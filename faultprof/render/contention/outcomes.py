"""The section ``outcomes``: what kinds of faults there were, and how they ended.

Knows: its table, and the object ``outcomes`` of the JSON.
Leaves to others: the figures (``analysis.contention.outcomes``).

The object ``outcomes`` has, summed over runs,

    attempts, faults        calls of handle_mm_fault(); those that ended a fault
    minor, major, errors    of the faults
    retries, again, tried   attempts that had to be made again; that were; with FAULT_FLAG_TRIED
    under_vma_lock          attempts
    rows                    list of the ways in which attempts ended: ``kind``, ``lock``, ``again``,
                            ``end`` as in a run's data, and ``count``, ``ns``, ``avg_ns``,
                            ``p50_ns``, ``p99_ns``, ``max_ns``, ``histogram``
    untold, anonymous_by_vma, unfinished, functions, missing, lost
                            as in a run's data
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultprof.analysis.contention.outcomes import Outcomes, Way, merged
from faultprof.recording.contention import OUTCOMES
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import durations
from faultprof.render.contention.losses import loss_lines
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal

_HEAD = ("kind", "lock", "try", "end")
_LOCKS = {"vma_lock": "VMA lock", "mmap_lock": "mmap_lock"}
_BY_VMA = (
    "anonymous: faults on anonymous memory that were nothing else, also those that found their "
    "page already there; do_anonymous_page has no symbol here"
)


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section's lines."""
    found = _of(runs)
    for key, text in _about(found):
        yield from entry(key, text, terminal)
    if found.ways:
        yield "#"
        yield from _table(found, terminal)
    yield from loss_lines(found.lost)


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the object."""
    found = _of(runs)
    return {
        "attempts": found.attempts,
        "faults": found.faults,
        **{name: _ended(found, end) for name, end in _ENDS.items()},
        "retries": found.retries,
        "again": found.count(lambda way: way.again),
        "tried": found.tried,
        "under_vma_lock": found.count(_is_under_vma_lock),
        "rows": [{**way._asdict(), **durations.as_json(one)} for way, one in found.ways.items()],
        "untold": list(found.untold),
        "anonymous_by_vma": found.anonymous_by_vma,
        "unfinished": found.unfinished,
        "functions": dict(found.functions),
        "missing": dict(found.missing),
        "lost": dict(found.lost),
    }


_ENDS = {"minor": "minor", "major": "major", "errors": "error"}


def _of(runs: Sequence[RunInfo]) -> Outcomes:
    return merged([Outcomes.from_json(one.contention[OUTCOMES]) for one in runs])


def _ended(found: Outcomes, end: str) -> int:
    return found.count(lambda way: way.end == end)


def _is_under_vma_lock(way: Way) -> bool:
    return way.lock == "vma_lock"


def _about(found: Outcomes) -> Iterator[tuple[str, str]]:
    minor, major, errors = (_ended(found, end) for end in _ENDS.values())
    text = f"{found.faults:,}: {minor:,} minor, {major:,} major"
    yield "faults", f"{text}, {errors:,} ended in an error" if errors else text
    again = found.count(lambda way: way.again)
    yield (
        "attempts",
        f"{found.attempts:,}: {found.retries:,} had to be made again, {again:,} were; "
        f"{found.tried:,} with FAULT_FLAG_TRIED",
    )
    if found.attempts:
        share = 100 * found.count(_is_under_vma_lock) / found.attempts
        yield "locks", f"{share:.1f}% of the attempts under the VMA lock, the others mmap_lock"
    if found.anonymous_by_vma:
        yield "note", _BY_VMA
    if found.untold:
        yield "note", f"{', '.join(found.untold)}: not told apart here, counted as other"
    if found.unfinished:
        yield "note", f"{found.unfinished:,} attempts under way at the end are not counted"


def _table(found: Outcomes, terminal: Terminal) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [(*_HEAD, "count", "%", *durations.TITLES)]
    for way, one in found.ways.items():
        names = (way.kind, _LOCKS[way.lock], "again" if way.again else "first", way.end)
        share = f"{100 * one.count / found.attempts:.2f}"
        rows.append((*names, f"{one.count:,}", share, *durations.cells(one, terminal.glyphs)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for place, row in enumerate(rows):
        cells = [
            text.ljust(width) if column < len(_HEAD) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("# " if place == 0 else "  ") + "  ".join(cells).rstrip()

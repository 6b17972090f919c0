"""Waits for folios and wake-ups, as text and as JSON.

Knows: the columns, and how many files and pages are shown.
Leaves to others: what the figures mean (``analysis.contention.folio``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultprof.analysis.contention.folio import (
    INLINED,
    LOCK,
    OTHER,
    UNLOCKED,
    WRITEBACK,
    Folio,
    Owned,
    Waits,
    Wakes,
    merged,
)
from faultprof.recording.contention import FOLIO
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention.losses import loss_lines
from faultprof.render.terminal import Glyphs, Terminal, sanitise
from faultprof.render.units import NOTHING, duration

_MOST_FILES = 8
_MOST_PAGES = 3  # of each file
_AIMS = {LOCK: "the lock", UNLOCKED: "its release", WRITEBACK: "writeback", OTHER: "other bits"}
_NO_FUNCTION = "a function not known"


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section."""
    folio = _merged(runs)
    if not folio.waits:
        yield "  nobody waited for a folio"
    else:
        yield from _waits(folio.waits, terminal)
        yield from _files(folio, terminal)
    if folio.wakes:
        yield from _wakes(folio.wakes, terminal.glyphs)
    else:
        yield "  no task called folio_wake_bit"
    yield from _remarks(folio)


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the section's object, see ``analysis.contention.folio``."""
    return _merged(runs).to_json()


def _merged(runs: Sequence[RunInfo]) -> Folio:
    return merged([Folio.from_json(run.contention[FOLIO]) for run in runs])


def _waits(waits: Sequence[Waits], terminal: Terminal) -> Iterator[str]:
    glyphs = terminal.glyphs
    head = ("waits for", "waits", "total", "mean", "p50", "p99", "max", "on CPU", "in")
    yield from _table(
        [
            head,
            *(
                (
                    _AIMS.get(one.aim, one.aim),
                    f"{one.count:,}",
                    *(
                        duration(ns, glyphs)
                        for ns in (
                            one.ns,
                            one.mean_ns,
                            one.quantile_ns(0.5),
                            one.quantile_ns(0.99),
                            one.max_ns,
                        )
                    ),
                    _on_cpu(one),
                    _where(one),
                )
                for one in waits
            ),
        ]
    )


def _where(one: Waits) -> str:
    """Name the function and its caller, as far as they are known."""
    names = [name for name in (one.function, one.caller) if name not in (INLINED, "")]
    return " of ".join(map(sanitise, names)) or _NO_FUNCTION


def _on_cpu(one: Waits | Owned) -> str:
    return f"{100 * (1 - one.off_cpu_ns / one.ns):.1f}%" if one.ns else NOTHING


def _files(folio: Folio, terminal: Terminal) -> Iterator[str]:
    """Show the files that were waited for the longest, and their pages."""
    glyphs = terminal.glyphs
    table: list[tuple[str, ...]] = [("waits for", "waits", "total", "mean", "on CPU", "of")]
    for file in folio.files[:_MOST_FILES]:
        pages = [one for one in folio.pages if (one.file, one.aim) == (file.file, file.aim)]
        table.append((*_sums(file, glyphs), _file(file)))
        for page in pages[:_MOST_PAGES] if file.kind == "file" else ():
            table.append((*_sums(page, glyphs, aim=""), f"  {_page(page)}"))
        if len(pages) > _MOST_PAGES:
            rest = f"  {len(pages) - _MOST_PAGES:,} more pages"
            table.append(("", "", "", "", "", rest))
    yield from _table(table)
    if len(folio.files) > _MOST_FILES:
        yield f"  and {len(folio.files) - _MOST_FILES:,} more, see --json"


def _sums(one: Owned, glyphs: Glyphs, aim: str | None = None) -> tuple[str, ...]:
    return (
        _AIMS.get(one.aim, one.aim) if aim is None else aim,
        f"{one.count:,}",
        duration(one.ns, glyphs),
        duration(one.ns / one.count if one.count else None, glyphs),
        _on_cpu(one),
    )


def _file(one: Owned) -> str:
    """Name a file; whatever has no path says so."""
    if one.kind != "file":
        return sanitise(one.label)
    where = f"inode {one.inode} of device {one.device}"
    if one.path is not None:
        return f"{sanitise(one.path)} ({where})"
    called = f", called {sanitise(one.name)} there" if one.name else ""
    return f"{where}{called}: path not resolved"


def _page(one: Owned) -> str:
    first, count = one.index or 0, one.pages or 1
    return f"page {first}" if count == 1 else f"pages {first} to {first + count - 1}, one folio"


def _wakes(wakes: Sequence[Wakes], glyphs: Glyphs) -> Iterator[str]:
    table: list[tuple[str, ...]] = [
        ("wakes for", "wakes", "let go", "nobody", "total", "mean", "p99", "max")
    ]
    for one in wakes:
        table.append(
            (
                _AIMS.get(one.aim, one.aim),
                f"{one.count:,}",
                *(NOTHING if n is None else f"{n:,}" for n in (one.let_go, one.nobody)),
                *(
                    duration(ns, glyphs)
                    for ns in (one.ns, one.mean_ns, one.quantile_ns(0.99), one.max_ns)
                ),
            )
        )
    yield from _table(table)


def _remarks(folio: Folio) -> Iterator[str]:
    given_up = sum(one.given_up for one in folio.waits)
    if given_up:
        yield f"  {given_up:,} waits were ended by a signal"
    for name, calls in folio.calls.items():
        awake = folio.without_sleep[name]
        if awake:
            yield f"  {awake:,} of {calls:,} calls of {name} did not have to sleep"
    if folio.wakes_in_interrupts:
        yield f"  {folio.wakes_in_interrupts:,} wakes by interrupts are not among these"
    if folio.open:
        yield f"  {folio.open:,} tasks were waiting when the recording ended: not among these"
    for name, why in folio.unseen.items():
        yield f"  {name} is not told apart: {sanitise(why)}"
    yield from loss_lines(folio.lost)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows in columns: the first and the last to the left, numbers between to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [f"{row[0]:<{widths[0]}}"]
        cells += [f"{text:>{width}}" for text, width in zip(row[1:-1], widths[1:-1], strict=True)]
        last = f"{row[-1]:>{widths[-1]}}" if _is_number(rows) else row[-1]
        yield f"{'#' if number == 0 else ' '} {'  '.join([*cells, last])}".rstrip()


def _is_number(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last column holds durations."""
    return rows[0][-1] == "max"

"""The section ``locks``: waits by type, by lock and by place.

Knows: how they are laid out; the object under ``locks`` in JSON.
Leaves to others: the figures (``analysis.contention.locks``).

The object has ``waits``, ``total_ns``, ``traced``, ``repeated_begins``, ``begun_before``,
``unfinished`` and ``lost``; ``by_type`` (``type`` and figures) and ``by_lock`` (``lock``,
``type``, ``how``, ``caller`` and figures), and ``rows``, which is all that was told apart
(``lock``, ``type``, ``how``, ``caller``, ``path``, ``stack``, ``interrupt`` and figures). Figures
are ``waits``, ``total_ns``, ``mean_ns``, ``p50_ns``, ``p99_ns``, ``histogram``; of a type also
``min_ns`` and ``max_ns``. ``analysis.contention.locks`` says what the others mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from faultprof.analysis.contention.locks import Lock, Locks, Waited, merged
from faultprof.recording.contention import LOCKS
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention.losses import loss_lines
from faultprof.render.terminal import Glyphs, Terminal, sanitise
from faultprof.render.units import duration, prose

_MOST = 12  # rows of a table
_NAME, _COLUMN = 44, 9  # characters
_WORDS = {
    "address": "its address",
    "variable": "its address",
    "caller": "who takes it",
    "unknown": "",
}  # how a lock is known


class _Row(NamedTuple):
    """A row of a table, and what stands behind it."""

    name: str
    waited: Waited
    note: str = ""


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section's lines."""
    locks, glyphs = _locks(runs), terminal.glyphs
    if not locks.count:
        yield "  no waits"
    else:
        yield f"  {_summary(locks, runs, glyphs)}"
        types = [
            _Row(name, waited, f"max {prose(waited.max_ns, glyphs)}")
            for name, waited in locks.types.items()
        ]
        yield from _table("by type", types, glyphs)
        by_lock = [
            _Row(_lock_text(lock, glyphs), one, _WORDS[lock.how]) for lock, one in locks.by_lock()
        ]
        yield from _table("by lock", by_lock, glyphs, "known by")
        title = "by call-tree node, or stack" if locks.traced else "by kernel stack"
        places = [_Row(name, waited) for name, waited in locks.by_label(_place_text)]
        yield from _table(f"{title}, innermost first", places, glyphs)
    yield from _remarks(locks)


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the section's object."""
    locks = _locks(runs)
    return {
        "waits": locks.count,
        "total_ns": locks.total_ns,
        "traced": locks.traced,
        "repeated_begins": locks.repeated_begins,
        "begun_before": locks.begun_before,
        "unfinished": locks.unfinished,
        "lost": dict(locks.lost),
        "by_type": [{"type": name, **_figures(one)} for name, one in locks.types.items()],
        "by_lock": [
            {
                "lock": lock.name,
                "type": lock.type,
                "how": lock.how,
                "caller": lock.caller,
                **_figures(waited),
            }
            for lock, waited in locks.by_lock()
        ],
        "rows": [
            {
                "lock": one.lock,
                "type": one.type,
                "how": one.how,
                "caller": one.caller,
                "path": one.path,
                "stack": one.stack,
                "interrupt": one.interrupt,
                **_figures(one.waited),
            }
            for one in sorted(locks.waits, key=lambda one: -one.total_ns)
        ],
    }


def _locks(runs: Sequence[RunInfo]) -> Locks:
    return merged([Locks.from_json(run.contention[LOCKS]) for run in runs])


def _summary(locks: Locks, runs: Sequence[RunInfo], glyphs: Glyphs) -> str:
    wall_ns = 1e9 * sum(run.wall_s for run in runs)
    waits = f"{locks.count:,} wait{'s' * (locks.count != 1)}"
    text = f"{waits}, {prose(locks.total_ns, glyphs)} together"
    if not wall_ns:
        return text
    return f"{text}: {locks.total_ns / wall_ns:.2f} tasks waiting in the mean of the time"


def _table(title: str, rows: Sequence[_Row], glyphs: Glyphs, last: str = "") -> Iterator[str]:
    yield ""
    heads = "".join(f"{head:>{_COLUMN}}" for head in ("waits", "total", "mean", "p50", "p99"))
    yield f"  {title:<{_NAME}}{heads}  {last}".rstrip()
    for row in rows[:_MOST]:
        yield f"  {row.name:<{_NAME}}{_columns(row.waited, glyphs)}  {row.note}".rstrip()
    if len(rows) > _MOST:
        rest = [row.waited for row in rows[_MOST:]]
        waits, total = sum(one.waits for one in rest), sum(one.total_ns for one in rest)
        more = f"{len(rest):,} more (--json has all)"
        yield f"  {more:<{_NAME}}{waits:>{_COLUMN},}{duration(total, glyphs):>{_COLUMN}}"


def _columns(waited: Waited, glyphs: Glyphs) -> str:
    times = (waited.total_ns, waited.mean_ns, waited.quantile_ns(0.5), waited.quantile_ns(0.99))
    cells = (f"{waited.waits:,}", *(duration(ns, glyphs) for ns in times))
    return "".join(f"{cell:>{_COLUMN}}" for cell in cells)


def _lock_text(lock: Lock, glyphs: Glyphs) -> str:
    room = _NAME - len(lock.type) - 4
    name = sanitise(lock.label)
    return f"{name if len(name) <= room else name[: room - 1] + glyphs.cut} ({lock.type})"


def _place_text(path: Sequence[str]) -> str:
    """Return as much of a path as there is room for, the innermost function first."""
    text = ""
    for name in reversed(path):
        longer = f"{text} < {sanitise(name)}" if text else sanitise(name)[: _NAME - 1]
        if len(longer) >= _NAME:
            break
        text = longer
    return text or "[no stack]"


def _remarks(locks: Locks) -> Iterator[str]:
    """Yield what was not counted, and why."""
    said = {
        "waits were under way when the recording began, and are not counted": locks.begun_before,
        "waits were under way when it ended, and are not counted": locks.unfinished,
        "times a waiting mutex changed between spinning and sleeping": locks.repeated_begins,
    }
    for text, count in said.items():
        if count:
            yield f"  {count:,} {text}"
    yield from loss_lines(locks.lost)


def _figures(waited: Waited) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "waits": waited.waits,
        "total_ns": waited.total_ns,
        "mean_ns": round(waited.mean_ns, 1),
        "p50_ns": waited.quantile_ns(0.5),
        "p99_ns": waited.quantile_ns(0.99),
    }
    if waited.exact:
        figures |= {"min_ns": waited.min_ns, "max_ns": waited.max_ns}
    return {**figures, "histogram": waited.histogram}

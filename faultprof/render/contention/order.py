"""The section on clears and copies of huge pages, and the JSON under ``order``.

Knows: the words.
Leaves to others: the figures (``analysis.contention.order``).

The object has ``frequency_hz``, ``init_on_alloc`` (null: not known), ``first_touches`` of
anonymous huge pages (null: not counted), ``cleared_by_allocator`` (of these, at least),
``not_kept``, ``lost`` and ``functions``: by name, ``symbol``, ``calls``, ``switched_calls``,
``pages``, ``ns``,
``ns_a_page``, ``bytes_a_second``, ``histogram`` (calls by ns a page), ``orders`` (calls by order;
see ``capture.contention.page_order``), ``shares`` (of those whose order could be told), ``looks``,
``strayed_looks`` and ``path`` ([tenth of the time, mean place from 0 to 1, looks], ...).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultprof.analysis.contention.order import CLEAR, UNDECIDED, FolioWork, PageOrder, merged
from faultprof.recording.contention import ORDER
from faultprof.recording.metadata import RunInfo
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.units import NOTHING, prose, three_digits

_VERBS = {CLEAR: "cleared"}
_MEANING = {
    "ascending": "first page to last",
    "descending": "last page to first",
    "converging": "from both ends towards the page asked for",
    "around": "the pages behind the one asked for, those before it, then itself",
    "other": "in none of these orders",
}
_LOOKS = (
    "an interrupt shows the address that is being written to, so that no page is probed; calls "
    "in which the task was switched out are in no time"
)


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section."""
    data = _of(runs)
    yield from entry("looks", f"{data.frequency} a second on each CPU: {_LOOKS}", terminal)
    yield from entry("allocator", _allocator(data), terminal)
    for one in data.functions:
        yield from _function(one, terminal)
    if not data.functions:
        yield "no huge page was cleared or copied by a fault"
    if data.not_kept:
        yield f"  the order of {data.not_kept:,} further calls was not kept"


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the object."""
    data = _of(runs)
    return {
        "frequency_hz": data.frequency,
        "init_on_alloc": data.init_on_alloc,
        "first_touches": data.first_touches,
        "cleared_by_allocator": data.cleared_by_allocator,
        "not_kept": data.not_kept,
        "lost": dict(data.lost),
        "functions": {one.name: _function_json(one) for one in data.functions},
    }


def _of(runs: Sequence[RunInfo]) -> PageOrder:
    return merged(run.contention[ORDER] for run in runs)


def _function_json(one: FolioWork) -> dict[str, Any]:
    return {
        "symbol": one.symbol,
        "calls": one.calls,
        "switched_calls": one.switched,
        "pages": one.pages,
        "ns": one.ns,
        "ns_a_page": one.ns_a_page,
        "bytes_a_second": one.bytes_a_second,
        "histogram": [list(pair) for pair in one.histogram],
        "orders": dict(one.orders),
        "shares": one.shares,
        "looks": one.looks,
        "strayed_looks": one.strayed,
        "path": [list(step) for step in one.path],
    }


def _allocator(data: PageOrder) -> str:
    """Say whether the page allocator clears, and what that means for the figures."""
    if data.init_on_alloc is None:
        return "it is not known whether the page allocator clears pages (init_on_alloc)"
    if not data.init_on_alloc:
        return "it does not clear pages (init_on_alloc=0)"
    clears = "it clears all pages (init_on_alloc=1)"
    if data.cleared_by_allocator:
        return (
            f"{clears}: {data.cleared_by_allocator:,} of {data.first_touches:,} anonymous huge "
            "pages were cleared by the page allocator and not again by the fault, so that there "
            "is no clearing of them to be seen here; boot with init_on_alloc=0 for that"
        )
    if data.first_touches and data.clears:
        return f"{clears}, and the fault clears anonymous huge pages once more"
    return clears


def _function(one: FolioWork, terminal: Terminal) -> Iterator[str]:
    formerly = f" ({one.symbol} here)" if one.symbol != one.name else ""
    calls = one.calls + one.switched
    yield f"{sanitise(one.name + formerly)}: {calls:,} calls, {_speed(one, terminal)}"
    if one.switched:
        yield f"  {one.switched:,} calls were switched out and are in no time"
    yield f"  order: {_orders(one)}"
    if one.path:
        steps = " ".join(f"{100 * place:.0f}" for _, place, _ in one.path)
        yield f"  path: after each tenth of the time, at {steps} % of the folio"
    if one.strayed:
        yield f"  {one.strayed:,} of {one.looks:,} looks were in none of its pages and are left out"


def _speed(one: FolioWork, terminal: Terminal) -> str:
    if one.ns_a_page is None or one.bytes_a_second is None:
        return "none without a switch of tasks"
    speed = three_digits(one.bytes_a_second / 1e9)
    verb = _VERBS.get(one.name, "copied")
    return (
        f"{one.pages:,} pages {verb}, {prose(one.ns / one.calls, terminal.glyphs)} a call, "
        f"{prose(one.ns_a_page, terminal.glyphs)} a page, {speed} GB/s"
    )


def _orders(one: FolioWork) -> str:
    undecided = one.orders.get(UNDECIDED, 0)
    unsure = f"; too few looks at {undecided:,} others" if undecided else ""
    if not one.told:
        return f"{NOTHING}, no call was looked at often enough{unsure}"
    shares = ", ".join(
        f"{name} {100 * share:.1f}% ({_MEANING.get(name, name)})"
        for name, share in one.shares.items()
    )
    return f"{shares}, of {one.told:,} calls{unsure}"

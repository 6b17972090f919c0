"""The part order: how long clears and copies of huge pages take, and in which order of pages.

Knows: the maps of probes/order.bpf.c, what the functions take on each kernel, where the code is
that clears and copies, and how a run's data look.
Leaves to others: telling an order from looks (``page_order``).
"""

from __future__ import annotations

import os
import resource
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from faultprof.bpf.bytecode import FUNCTION_NUMBER, FUNCTION_WHAT
from faultprof.bpf.probes import Method, ProbePoint, ProbeSet
from faultprof.bpf.program import Program
from faultprof.capture.contention.page_order import looks_at_one_folio, order_of
from faultprof.capture.kernel_knobs import offset_knobs
from faultprof.capture.options import Attach
from faultprof.capture.scope import Scope
from faultprof.capture.timers import Timers
from faultprof.capture.trace_plan import methods_in_order
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.cpus import online_cpus
from faultprof.kernel.hugepages import init_on_alloc
from faultprof.kernel.kallsyms import Kallsyms
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import Resolved
from faultprof.kernel.selection import choose
from faultprof.recording.histogram import histogram_of

if TYPE_CHECKING:
    from faultprof.capture.contention.setting import Setting
    from faultprof.kernel.conditions import Types
    from faultprof.kernel.view import KernelView

# A prime number, for which see ``occupancy``. 2 MB take some 100 us: a look at every fifth call.
FREQUENCY = 1999

CLEAR, COPY = "folio_zero_user", "copy_user_large_folio"
_FIRST_TOUCH = "do_huge_pmd_anonymous_page"


class _What(IntEnum):
    """``enum what`` of the program: what a function takes."""

    CLEARS_FOLIO = 0
    CLEARS_PAGES = 1
    COPIES_FOLIO = 2
    COPIES_PAGES = 3


_WHATS = {
    "folio_zero_user": _What.CLEARS_FOLIO,
    "clear_huge_page": _What.CLEARS_PAGES,
    "copy_user_large_folio": _What.COPIES_FOLIO,
    "copy_user_huge_page": _What.COPIES_PAGES,
}

# Code that writes pages through the register of the first argument: what is out of line of it, and
# what it may be inlined into. Of no use elsewhere: it only counts within the functions above.
_WRITERS = (
    *("clear_page_erms", "clear_page_rep", "clear_page_orig", "__clear_pages_unrolled"),
    *("clear_page", "clear_pages", "clear_subpage", "clear_contig_highpages"),
    *("clear_gigantic_page", "process_huge_page", "copy_page", "copy_page_regs", "copy_subpage"),
    *("copy_mc_fragile", "copy_mc_enhanced_fast_string", "copy_mc_to_kernel", "__memcpy"),
    *("memcpy", "memcpy_orig", "copy_highpage", "copy_user_highpage", "copy_mc_user_highpage"),
    *_WHATS,
)
_MOST_RANGES = 32

_STATS = ("tasks_full", "unmatched", "not_kept", "first_touches")
_WORK = struct.Struct(
    "=QQQIIII"
)  # ns, address asked for, switches, pages, function, switched, looks
_SEEN = struct.Struct("=QQ")
_FIGURES = 4  # of struct totals: calls, pages, ns, switched
_TENTHS = 10


class Order:
    """Probes at what clears and copies huge pages, and a timer on each CPU.

    Raises:
        FaultprofError: this machine cannot do that (exit code 3).
    """

    def __init__(self, setting: Setting, frequency: int = FREQUENCY) -> None:
        self._frequency = frequency
        view = setting.view
        # A variant (.isra.0) takes other arguments.
        found = _probeable((CLEAR, COPY), view)
        self._functions = [one for one in found if one.places[0].symbol in _WHATS]
        if not self._functions:
            raise _no_probes(view)
        touched = _probeable((_FIRST_TOUCH,), view)
        self._counts_touches = bool(touched and touched[0].kprobe)
        method = _method(self._functions, setting.options.attach, view)
        with ExitStack() as undo:
            knobs = _knobs(setting.types, method, len(self._functions))
            scope = setting.scope
            self._program = undo.enter_context(
                Program("order.bpf.c", {**scope.knobs(), **knobs}, lent=scope.lent_maps())
            )
            self._write_ranges()
            probes = ProbeSet(self._program, setting.types.function_id)
            undo.callback(probes.close)
            for number, one in enumerate(self._functions):
                what = _WHATS[one.places[0].symbol]
                for place in one.places:
                    point = ProbePoint(place.symbol, place.offset)
                    constants = {FUNCTION_NUMBER: number, FUNCTION_WHAT: int(what)}
                    probes.attach_pair(point, method, constants)
            if self._counts_touches:
                probes.attach_hit(ProbePoint(touched[0].places[0].symbol), {})
            look = self._program.load("on_sample", "perf_event")
            self._timers = undo.enter_context(
                closing(Timers(look, "cpu-clock", frequency, online_cpus()))
            )
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Start the timers; calls count while their tasks are in scope."""
        self._timers.start()

    def stop(self) -> dict[str, Any]:
        """Stop the timers and return what was measured.

        Times are in ns. ``init_on_alloc``: whether the page allocator clears all pages; null where
        that cannot be read. ``first_touches``: faults that touched an anonymous huge page first.
        Of each function that was called:
            ``symbol``: what it is on this kernel.
            ``calls``, ``pages``, ``ns``: of the calls in which the task ran all the time;
            ``switched``: how many others there were.
            ``ns_a_page``: a histogram of the calls by that.
            ``orders``: calls that were looked at, by their order (``page_order``).
            ``looks``: how many looks; ``strayed``: of these, not in a page of the folio.
            ``path``: ``[[tenth of the time, mean place, looks], ...]``; a place is from 0, the
            folio's beginning, to 1.
        """
        self._timers.stop()
        stats = dict(zip(_STATS, self._program.read_counters("stats"), strict=True))
        setting = init_on_alloc(os.uname().release)
        return {
            "frequency_hz": self._frequency,
            "page_size": resource.getpagesize(),
            "init_on_alloc": setting[0] if setting is not None else None,
            "first_touches": stats["first_touches"] if self._counts_touches else None,
            "functions": self._read_functions(),
            "not_kept": stats["not_kept"],
            "lost": {"calls_of_too_many_tasks": stats["tasks_full"]},
        }

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, after :meth:`stop`."""
        scope.move_to(self._program)
        for table in ("kept", "running"):
            self._program.clear(table)
        self._program.zero("totals", range(len(self._functions)))
        self._program.zero("stats", range(len(_STATS)))

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _write_ranges(self) -> None:
        """Tell the program where the code is that clears and copies."""
        symbols = Kallsyms.read()
        found = [one for name in _WRITERS for one in symbols.find(name) if not one.module]
        edges = sorted({(one.address, one.end) for one in found})[:_MOST_RANGES]
        flat = [edge for pair in edges for edge in pair] + [0] * 2 * (_MOST_RANGES - len(edges))
        self._program.write("ranges", 0, struct.pack(f"={1 + len(flat)}Q", len(edges), *flat))

    def _read_functions(self) -> dict[str, Any]:
        calls = self._read_calls()
        found = {}
        for number, one in enumerate(self._functions):
            totals = self._program.sum_per_cpu("totals", number)
            if any(totals[:_FIGURES]):
                figures = dict(
                    zip(("calls", "pages", "ns", "switched"), totals[:_FIGURES], strict=True)
                )
                found[one.name] = {
                    "symbol": one.places[0].symbol,
                    **figures,
                    "ns_a_page": [list(pair) for pair in histogram_of(totals[_FIGURES:])],
                    **looked_into(calls.get(number, [])),
                }
        return found

    def _read_calls(self) -> dict[int, list[Call]]:
        calls: dict[int, list[Call]] = {}
        for record in self._program.read_hash_records("kept")[1]:
            raw = record.tobytes()
            ns, asked_for, _, pages, function, switched, count = _WORK.unpack_from(raw)
            seen = list(_SEEN.iter_unpack(raw[_WORK.size : _WORK.size + count * _SEEN.size]))
            calls.setdefault(function, []).append((ns, asked_for, pages, bool(switched), seen))
        return calls


Call = tuple[int, int, int, bool, list[tuple[int, int]]]
"""ns, address asked for, pages, whether the task was switched out, looks (ns, address)."""


def open_part(setting: Setting) -> Order:
    """Attach the probes; the timers are yet to be started."""
    return Order(setting)


def looked_into(calls: list[Call]) -> dict[str, Any]:
    """Return what is told from looks at calls: orders, looks, strayed and path, see ``stop``."""
    page_size = resource.getpagesize()
    orders, strayed, places = Counter[str](), 0, [[0.0, 0] for _ in range(_TENTHS)]
    for ns, asked_for, pages, switched, seen in calls:
        looks, elsewhere = looks_at_one_folio(seen, pages, page_size)
        strayed += elsewhere
        asked_page = asked_for % (pages * page_size) // page_size
        orders[order_of(looks, pages, asked_page, ns)] += 1
        if switched:
            continue  # its time says nothing about how far it was
        for look in looks:
            tenth = places[min(look.ns * _TENTHS // max(ns, 1), _TENTHS - 1)]
            tenth[0] += (look.page + 0.5) / pages
            tenth[1] += 1
    return {
        "orders": dict(orders),
        "looks": sum(len(call[-1]) for call in calls),
        "strayed": strayed,
        "path": [
            [tenth, round(total / count, 4), count]
            for tenth, (total, count) in enumerate(places)
            if count
        ],
    }


def _probeable(names: tuple[str, ...], view: KernelView) -> list[Resolved]:
    found = resolve(choose((), names, view), view)
    return [one for one in found if one.traceable and one.places and one.condition is None]


def _no_probes(view: KernelView) -> FaultprofError:
    if view.can_probe or not view.obstacles:
        return unsupported(f"{CLEAR} cannot be probed here", "see 'faultprof functions'")
    worst = max(view.obstacles, key=lambda one: one.hides_all)
    return unsupported(f"functions cannot be probed: {worst.why}", worst.remedy)


def _method(functions: list[Resolved], attach: Attach, view: KernelView) -> Method:
    """Return how all are probed."""
    for method in methods_in_order(attach, view.preempts):
        if all(getattr(one, method) for one in functions):
            return method
    raise unsupported(f"no one way goes to probe {CLEAR} and {COPY}", "see 'faultprof functions'")


def _knobs(types: Types, method: Method, functions: int) -> dict[str, int]:
    return {
        "FENTRY": int(method == "fentry"),
        "KPROBE": int(method == "kprobe"),
        "FUNCTIONS": functions,
        **dict(_offsets(types)),
    }


def _offsets(types: Types) -> Iterator[tuple[str, int]]:
    """Yield knobs from BTF; of a folio what only kernels have whose functions take one."""
    counts = (("task_struct", "nvcsw"), ("task_struct", "nivcsw"))
    yield from offset_knobs(types, counts, "leave out --order").items()
    # Since 6.6 the order is in the lower bits of the second page's flags.
    yield "OFFSET_FOLIO_FLAGS", types.field_offset("folio", "flags") or 0
    yield "OFFSET_FOLIO_ORDER", types.field_offset("folio", "_flags_1") or 0
    head = types.enumerator("pageflags", "PG_head")
    yield "HEAD_BIT", 1 << head if head is not None else 0

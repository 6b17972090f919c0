"""The delaying probes: attached once, quiet until a run is given its dose.

Knows: the maps of probes/perturb.bpf.c, the bounds of a delay, and which functions are not to be
held up.
Leaves to others: the runs and their order (``dosing``), what the delay did (``analysis``).
"""

from __future__ import annotations

import fnmatch
import os
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import NamedTuple

from faultprof.bpf.bytecode import FUNCTION_NUMBER
from faultprof.bpf.probes import Method, ProbePoint, ProbeSet, Side
from faultprof.bpf.program import Program
from faultprof.capture.options import Attach
from faultprof.capture.scope import Scope
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.conditions import Types
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.selection import choose, require_traceable
from faultprof.kernel.view import KernelView

LONGEST_NS = 100_000
LONGEST_FORCED_NS = 10_000_000

_DOSE = struct.Struct("=QQQIIII")
_TASK = struct.Struct("=QQQ")  # due hits, time of the first and of the last
_TASKS = "due_of_task"
_MOST_CPUS = 8192

# What a coarse step takes at the least: 32 reads of the clock at 16 ns.
_STEP_NS = 512
_FEWEST_STEPS = 64

# Functions that run with interrupts off, or hold a raw spinlock, by name: of the scheduler, timers,
# RCU, locks and interrupt handling.
_NEVER = (
    *("*raw_spin*", "*_irq", "*_irq_*", "*_irqsave", "*_irqrestore", "*_nmi*", "*interrupt*"),
    *("__schedule", "schedule", "context_switch", "finish_task_switch*", "try_to_wake_up"),
    *("ttwu_*", "*enqueue_task*", "*dequeue_task*", "update_curr*", "update_rq_clock*"),
    *("pick_next_task*", "tick_*", "hrtimer_*", "timekeeping_*", "ktime_get*", "rcu_*", "__rcu_*"),
    *("queued_spin_*", "native_queued_*", "rt_mutex_*", "console_*", "smp_call_function*"),
)


class Dose(NamedTuple):
    """What a run is given.

    Attributes:
        delay_ns: how long each due hit is held up; 0 only counts.
        budget_ns: of all delays together.
        seconds: after which none begins.
        every: of so many hits on a CPU, one is due.
        jitter: whether the delay is random, between none and twice as long.
        cpus: where; None for everywhere.
    """

    delay_ns: int
    budget_ns: int
    seconds: float
    every: int = 1
    jitter: bool = False
    cpus: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What the probes of one function did in one run; ``struct counts`` of the program.

    Attributes:
        hits: in recorded tasks.
        due: that were to be held up.
        delayed: that were, for ``delayed_ns`` in all.
        interrupts_off: that were not, since interrupts were off.
        in_interrupt: that were not, since an interrupt made them.
        over_budget: that were not, since all had been spent.
        too_late: that were not, since the time was over.
        cut_short: that were held up for less than they should have been.
    """

    hits: int = 0
    due: int = 0
    delayed: int = 0
    delayed_ns: int = 0
    interrupts_off: int = 0
    in_interrupt: int = 0
    over_budget: int = 0
    too_late: int = 0
    cut_short: int = 0


class Delayer:
    """Probes at some functions' entries or returns; frees everything when closed.

    Args:
        names: the functions.
        side: where in them.
        attach: how.
        longest_ns: the longest delay that will be asked for.
        view: the kernel.

    Raises:
        FaultprofError: this machine or one of the functions does not permit it.
    """

    def __init__(
        self, names: Sequence[str], side: Side, attach: Attach, longest_ns: int, view: KernelView
    ) -> None:
        self.functions = _delayable(names, view)
        self.side = side
        self.method = _method(self.functions, attach)
        types = _need_types(view)
        self._scope: Scope | None = None
        with ExitStack() as undo:
            knobs = _knobs(types, self.method, len(self.functions), longest_ns)
            self._program = undo.enter_context(Program("perturb.bpf.c", knobs))
            self._probes = ProbeSet(self._program, types.function_id)
            undo.callback(self._probes.close)
            for number, function in enumerate(self.functions):
                for place in function.places:
                    point = ProbePoint(place.symbol, place.offset)
                    self._probes.attach_side(point, self.method, side, {FUNCTION_NUMBER: number})
            self._undo = undo.pop_all()
        self._before = self._read()

    def aim(self, scope: Scope, dose: Dose) -> None:
        """Get ready for the tasks of a held process."""
        if self._scope is None:
            scope.attach(self._program)
        else:
            scope.move_to(self._program)
        self._scope = scope
        until = time.monotonic_ns() + int(dose.seconds * 1e9)
        for cpu in dose.cpus or ():
            self._program.write("cpus", cpu, struct.pack("=I", 1))
        self._program.write("spent_ns", 0, bytes(8))
        packed = (*dose[:2], until, dose.every, int(dose.jitter), int(dose.cpus is not None), 0)
        self._program.write("dose", 0, _DOSE.pack(*packed))
        self._program.clear(_TASKS)
        self._before = self._read()
        scope.start(self._program)

    def done(self) -> tuple[list[Counts], float]:
        """End a run; return its counts by function, and by how many CPUs the delays are shared."""
        assert self._scope is not None
        self.quiet()
        self._scope.stop(self._program)
        now = self._read()
        counts = [
            Counts(*(b - a for a, b in zip(before, after, strict=True)))
            for before, after in zip(self._before, now, strict=True)
        ]
        tasks = [_TASK.unpack(one.tobytes()) for one in self._program.read_hash_records(_TASKS)[1]]
        return counts, min(sharing(tasks), len(os.sched_getaffinity(0)))

    def quiet(self) -> None:
        """Let no further delay begin."""
        self._program.write("dose", 0, bytes(_DOSE.size))

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _read(self) -> list[tuple[int, ...]]:
        known = len(fields(Counts))  # behind them is what only the program needs
        return [
            tuple(map(sum, zip(*self._program.read_per_cpu("counts", number), strict=True)))[:known]
            for number in range(len(self.functions))
        ]


def sharing(tasks: Sequence[tuple[int, int, int]]) -> float:
    """Return how many tasks are delayed at the same time, at least 1.

    Of tasks that overlap in time that is the sum of their spans over the span of all; of tasks
    with unequal numbers of hits, no more than the square of the sum over the sum of the squares,
    which is their number if all have as many, and 1 if one has them all.

    Args:
        tasks: of each, due hits, and the first and the last one's time.
    """
    hits = [due for due, _, _ in tasks]
    spans = [last - first for _, first, last in tasks]
    if not sum(spans):
        return 1.0
    whole = max(last for *_, last in tasks) - min(first for _, first, _ in tasks)
    even = sum(hits) ** 2 / sum(hit * hit for hit in hits)
    return max(1.0, min(sum(spans) / whole, even))


def check_delays(delays_ns: Iterable[int], *, force: bool) -> None:
    """Refuse delays that are too long.

    Raises:
        FaultprofError: exit code 2.
    """
    longest = max(delays_ns)
    if longest > LONGEST_FORCED_NS:
        raise FaultprofError(
            f"a delay of {longest / 1e6:g} ms is refused", "10 ms is the most, with --force"
        )
    if longest > LONGEST_NS and not force:
        raise FaultprofError(
            f"a delay of {longest / 1e3:g} us holds a CPU up for long",
            "give at most 100us, or --force for up to 10ms",
        )


def check_cpus(cpus: Iterable[int]) -> None:
    """Refuse numbers that no CPU has."""
    for cpu in cpus:
        if not 0 <= cpu < _MOST_CPUS:
            raise FaultprofError(f"there is no CPU {cpu}", "give numbers such as 0-3,8")


def _delayable(names: Sequence[str], view: KernelView) -> list[Resolved]:
    """Return the functions, each where a probe can hold it up."""
    if not view.can_probe:
        why = max(view.obstacles, key=lambda one: one.hides_all)
        raise unsupported(
            f"nothing can be delayed here: {why.why}",
            f"{why.remedy}; what works without: faultprof record --check-overhead",
        )
    found = resolve(choose((), names, view), view)
    require_traceable(found, view, named=names)
    for one in found:
        for pattern in _NEVER:
            symbol = one.symbol or one.name
            if fnmatch.fnmatchcase(symbol, pattern):
                raise FaultprofError(
                    f"{symbol} is not to be held up: it may run with interrupts off, or hold a "
                    f"raw spinlock",
                    "delay its caller",
                )
        if one.how is How.CONDITION:
            raise FaultprofError(
                f"{one.name} is inlined here and told by a condition only",
                f"delay its host, {one.symbol}",
            )
    return found


def _method(functions: Sequence[Resolved], attach: Attach) -> Method:
    """Return how all are probed: by kprobe where that goes, which sees if interrupts are on."""
    methods: tuple[Method, ...] = ("kprobe", "fentry") if attach == "auto" else (attach,)
    for method in methods:
        if all(getattr(one, method) for one in functions):
            return method
    refused = next(one for one in functions if not getattr(one, methods[-1]))
    raise unsupported(f"{methods[-1]} cannot attach to {refused.name}", "see 'faultprof functions'")


def _need_types(view: KernelView) -> Types:
    if view.types is None:
        raise unsupported(
            "delays need the kernel's BTF (/sys/kernel/btf/vmlinux)",
            "what still works here: faultprof record --check-overhead",
        )
    return view.types


def _knobs(types: Types, method: Method, functions: int, longest_ns: int) -> dict[str, int]:
    return {
        "SCOPE_ALL": 0,
        "FENTRY": int(method == "fentry"),
        "KPROBE": int(method == "kprobe"),
        "FUNCTIONS": functions,
        "COARSE": longest_ns // _STEP_NS + _FEWEST_STEPS,
        "OFFSET_TASK_STRUCT_STACK": types.field_offset("task_struct", "stack") or 0,
    }

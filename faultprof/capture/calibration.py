"""Measures what probes cost here, each kind with the tracer's own programs and maps.

Knows: the kinds of probes, and how the four parts of a pair are told apart.
Leaves to others: the loop that hits them (``calibration_loop``), pairs on the fault path
(``calibration_in_place``), what is no pair of probes (``calibration_beside``), what a calibration
is (``recording.calibration``) and keeping it (``calibration_store``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from faultprof.bpf.probes import Method, ProbePoint
from faultprof.capture.calibration_beside import measured_sample, measured_switch, switch_ns
from faultprof.capture.calibration_in_place import CALLED, CALLER, Faults, InPlace
from faultprof.capture.calibration_loop import Bench, Loop, repeated
from faultprof.capture.calibration_time import TimeLeft
from faultprof.capture.idle_libraries import keep_idle
from faultprof.capture.machine import cpu_info, kernel_info
from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.capture.scope import Scope
from faultprof.capture.trace_plan import TracedFunction, TracePlan, What
from faultprof.errors import FaultprofError
from faultprof.kernel.conditions import Condition, Kind, Types
from faultprof.kernel.cpus import online_cpus
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.selection import choose
from faultprof.kernel.view import KernelView
from faultprof.progress import Steps
from faultprof.recording.calibration import (
    CONDITION,
    FAULT_FLAGS,
    HIT,
    OCCUPANCY,
    Calibration,
    Measured,
    Parts,
    shortest,
)

METHODS: tuple[Method, ...] = ("kprobe", "fentry")

_ROUNDS = 3
_PARTS_REPEATS = 16  # each reads all tasks' shadow stacks

# What the loop calls; see probes/calibrate.bpf.c.
_EMPTY, _CLOCK = "bpf_get_numa_node_id", "bpf_ktime_get_boot_ns"
# What the loop is called by. It is traced too: a probe has more to do below a traced caller, and
# on a real path most are. Measured without, a fentry pair looked 1.1 us cheaper than it was.
_CALLER = "bpf_prog_test_run_raw_tp"


@dataclass(frozen=True, slots=True)
class _Subject:
    """A kind of probe, the function that it is measured on, and one that tells its parts apart.

    ``caller``: the traced function that these are called in.
    """

    kind: str
    function: TracedFunction
    clock: TracedFunction | None = None
    caller: TracedFunction | None = None


def calibrate(
    *,
    threads: Iterable[int] = (1,),
    methods: Sequence[Method] = METHODS,
    beside: bool = True,
    seconds: float = float("inf"),
    owner: tuple[int, int] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Measure every kind of probe that can be had here.

    Args:
        threads: for each of these numbers of threads, up to ``MOST_THREADS``.
        methods: which ways of attaching; each with its features, and count-only probes.
        beside: measure too what only some recordings have, or what is no pair of probes and
            compensates nothing; that takes longer.
        seconds: as many rounds as fit into these, at least one.
        owner: whose cache is used for what is known of the kernel.
        say: told what is being measured.

    Raises:
        TooSlowError: not even one round fits.
        FaultprofError: nothing can be measured (exit code 3).
    """
    keep_idle()
    time_left = TimeLeft(seconds)
    view = KernelView.read(owner=owner)
    subjects, missing = _subjects(view, methods)
    measured: list[Measured] = []
    if view.types is not None:
        plan = _plan(subjects)
        places = dict(_places(plan, view, methods))
        switch = switch_ns() if beside else None
        with (
            closing(Loop()) as loop,
            closing(_opened(plan, view.types, time_left)) as bench,
            closing(Faults()) as faults,
        ):
            if switch is not None:
                measured.append(measured_switch(switch))
            rounds = _Rounds(subjects, loop, bench, tuple(threads), time_left)
            with Steps("measuring probes, round", _ROUNDS) as steps:
                for number in range(_ROUNDS):
                    rounds.go(missing)
                    for place in places.values():
                        place.go(bench, faults)
                    steps.advance()
                    if not time_left.for_another(number + 1):
                        break
            measured += (_with_place(one, places) for one in rounds.measured())
    if beside and view.types is not None:
        say("measuring probes with occupancy")
        measured += _with_occupancy(view, methods, tuple(threads), missing)
    if beside:
        say("measuring a sample")
        measured.append(measured_sample())
    return Calibration(
        kernel=kernel_info(), cpu=cpu_info(), measured=tuple(measured), missing=missing
    )


def _with_occupancy(
    view: KernelView, methods: Sequence[Method], threads: Sequence[int], missing: dict[str, str]
) -> list[Measured]:
    """Measure plain pairs of a tracer that tells the occupancy; its programs are others."""
    assert view.types is not None
    subjects, _ = _subjects(view, methods, {OCCUPANCY: What.PLAIN}, hits=False)
    plan = _plan(subjects)
    knobs = OccupancyKnobs(len(plan.functions), max(online_cpus()) + 1)
    unbounded = TimeLeft()
    with closing(Loop()) as loop, closing(_opened(plan, view.types, unbounded, knobs)) as bench:
        rounds = _Rounds(subjects, loop, bench, threads, unbounded)
        for _ in range(_ROUNDS):
            rounds.go(missing)
        return list(rounds.measured())


def _opened(
    plan: TracePlan, types: Types, time_left: TimeLeft, occupancy: OccupancyKnobs | None = None
) -> Bench:
    time_left.check()
    bench = Bench(Scope(os.getpid()), plan, types, occupancy=occupancy)
    bench.start()
    time_left.rounds_begin()
    return bench


# What is measured.


def _subjects(
    view: KernelView,
    methods: Sequence[Method],
    features: Mapping[str, What] | None = None,
    *,
    hits: bool = True,
) -> tuple[list[_Subject], dict[str, str]]:
    """Return what is measured, and why the rest is not; functions have yet to be numbered."""
    features = features or _FEATURES
    empty, clock, caller = resolve(choose((), (_EMPTY, _CLOCK, _CALLER), view), view)
    missing: dict[str, str] = {}
    subjects: list[_Subject] = []
    for method in methods:
        if view.types is None or not getattr(empty, method):
            missing[method] = _reason(view, empty, method)
            continue
        for kind, what in features.items():
            above = _traced(caller, method) if getattr(caller, method) else None
            function = _traced(empty, method, what)
            subjects.append(_Subject(method + kind, function, caller=above))
        if getattr(clock, method):
            plain = subjects[-len(features)]
            subjects[-len(features)] = replace(plain, clock=_traced(clock, method))
    if not hits:
        return subjects, missing
    if "kprobe" in missing:
        missing[HIT] = missing["kprobe"]
    elif "kprobe" in methods:
        above = _traced(caller, "kprobe") if caller.kprobe else None
        subjects.append(_Subject(HIT, _traced(empty, None), caller=above))
    return subjects, missing


def _plan(subjects: list[_Subject]) -> TracePlan:
    """Return a plan of the functions, which get their numbers here."""
    plan = TracePlan([_conditional()])
    for place, one in enumerate(subjects):
        numbered: list[TracedFunction | None] = []
        for role in (one.function, one.clock, one.caller):
            if role is not None:
                role = replace(role, number=len(plan.functions))
                plan.functions.append(role)
            numbered.append(role)
        function, clock, caller = numbered
        assert function is not None
        subjects[place] = replace(one, function=function, clock=clock, caller=caller)
    return plan


def _places(
    plan: TracePlan, view: KernelView, methods: Sequence[Method]
) -> Iterator[tuple[str, InPlace]]:
    """Add the functions of the fault path to the plan; yield what is measured there."""
    caller, called = resolve(choose((), (CALLER, CALLED), view), view)
    for method in methods:
        if getattr(caller, method) and getattr(called, method):
            number = len(plan.functions)
            above = replace(_traced(caller, method), number=number)
            below = replace(_traced(called, method), number=number + 1)
            plan.functions += [above, below]
            yield method, InPlace(above, below)


def _with_place(one: Measured, places: Mapping[str, InPlace]) -> Measured:
    if one.kind not in places or one.threads > 1:
        return one
    return replace(one, in_place_ns=places[one.kind].cost())


_FEATURES = {"": What.PLAIN, CONDITION: What.SET_PTE_RANGE, FAULT_FLAGS: What.HANDLE_MM_FAULT}


def _reason(view: KernelView, empty: Resolved, method: Method) -> str:
    if view.types is None:
        return "tracing needs the kernel's BTF"
    if not view.can_probe and view.obstacles:
        return max(view.obstacles, key=lambda one: one.hides_all).why
    return empty.reason or f"{method} cannot attach to {_EMPTY}"


def _traced(resolved: Resolved, method: Method | None, what: What = What.PLAIN) -> TracedFunction:
    points = tuple(ProbePoint(place.symbol, place.offset) for place in resolved.places)
    return TracedFunction(0, resolved, points, method, what)


def _conditional() -> TracedFunction:
    """Return the function that stands for one told by a condition."""
    condition = Condition(Kind.SINGLE_PAGE, _EMPTY, 3, {}, (), "", "")
    return TracedFunction(0, Resolved("", How.CONDITION, condition=condition))


# Measuring.


def _passes(loop: Loop, threads: int) -> list[float]:
    """Let each of several threads, on CPUs of their own, go through the loop at the same time."""
    if threads == 1:
        return [loop.pass_ns()]
    cpus = sorted(os.sched_getaffinity(0))
    together = threading.Barrier(threads)
    found: list[float] = []

    def go(thread: int) -> None:
        os.sched_setaffinity(0, {cpus[thread % len(cpus)]})  # of this thread only
        together.wait()
        found.append(loop.pass_ns(thread))

    workers = [threading.Thread(target=go, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


class _Rounds:
    """All kinds in turn, again and again.

    What disturbs a machine comes in spells: were each kind measured in one go, a spell would make
    one kind look dear, and the next cheap.
    """

    def __init__(
        self,
        subjects: list[_Subject],
        loop: Loop,
        bench: Bench,
        threads: Sequence[int],
        time_left: TimeLeft,
    ) -> None:
        self._subjects = subjects
        self._loop = loop
        self._bench = bench
        self._threads = threads
        self._time_left = time_left
        self._base: dict[int, list[float]] = {count: [] for count in threads}
        self._found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self._parts: dict[str, Parts] = {}

    def go(self, missing: dict[str, str]) -> None:
        """Measure everything once; what cannot be attached is entered in ``missing``."""
        for count in self._threads:
            self._base[count] += repeated(partial(_passes, self._loop, count))
        for one in self._subjects:
            if one.kind in missing:
                continue
            if (one.kind, self._threads[0]) not in self._found:  # in the first round
                self._time_left.check()
            try:
                with self._bench.attached(one.caller, one.function):
                    self._go(one)
                if one.clock is not None and one.kind not in self._parts:
                    self._tell_parts(one, one.clock)
            except FaultprofError as error:
                missing[one.kind] = error.message

    def _go(self, subject: _Subject) -> None:
        for count in self._threads:
            _both(subject, self._loop, self._bench, count)  # the first hits find cold caches
            found = repeated(partial(_both, subject, self._loop, self._bench, count))
            self._found.setdefault((subject.kind, count), []).extend(found)

    def _tell_parts(self, subject: _Subject, clock: TracedFunction) -> None:
        call = _shortest_call(self._loop)
        with self._bench.attached(subject.caller, clock):
            parts = _parts(clock, self._loop, self._bench, call)
        if parts is not None:
            self._parts[subject.kind] = parts

    def measured(self) -> Iterator[Measured]:
        """Yield what was found of each kind and number of threads."""
        timed = {one.kind: one.function.method is not None for one in self._subjects}
        for (kind, count), found in self._found.items():
            base = min(self._base[count])
            yield Measured(
                kind,
                count,
                len(found),
                shortest([ns - base for ns, _ in found]),
                shortest([inside for _, inside in found]) if timed[kind] else None,
                self._parts.get(kind) if count == 1 else None,
            )


def _both(subject: _Subject, loop: Loop, bench: Bench, threads: int) -> list[tuple[float, float]]:
    """Return of each thread the ns of a call with its probes, and what they measured of it."""
    calls, ns = bench.so_far(subject.function)
    passes = _passes(loop, threads)
    more_calls, more_ns = bench.so_far(subject.function)
    inside = (more_ns - ns) / max(1, more_calls - calls)
    return [(one, inside) for one in passes]


# The four parts of a pair.


def _shortest_call(loop: Loop) -> tuple[float, float]:
    """Return what a call of the clock function takes, and by how much its clock is ahead.

    Its clock counts the time that the machine was suspended too, the probes' does not.
    """
    calls = [loop.moments() for _ in range(_PARTS_REPEATS)]
    began, body, ended = min(calls, key=lambda call: call[2] - call[0])
    return ended - began, body - (began + ended) / 2


def _parts(
    clock: TracedFunction, loop: Loop, bench: Bench, call: tuple[float, float]
) -> Parts | None:
    """Tell the parts of a pair apart; in each is a quarter of what the call takes anyway."""
    unprobed, ahead = call
    before, to_body, after = [], [], []
    for _ in range(_PARTS_REPEATS):
        began, body, ended = loop.moments()
        entered = bench.last_call(began, ended)
        if entered is not None:
            before.append(entered - began)
            to_body.append(body - ahead - entered)
            after.append(ended - body + ahead)
    if not before:
        return None
    from_body = bench.shortest_ns(clock) - min(to_body)
    parts = (min(before), min(to_body), from_body, min(after) - from_body)
    return Parts(*(part - unprobed / 4 for part in parts))

"""The part ``locks``: waits for kernel locks, by lock and by who waits.

Knows: the maps of probes/locks.bpf.c and what its counters mean, and how a lock gets its name.
Leaves to others: names of functions (``kernel.symbols``), which function takes which lock
(``kernel.lock_names``), what the figures mean (``analysis.contention.locks``).

A lock is known by where it is (the mmap_lock of the task's own memory), by the variable that it is
or is part of, or by the function that takes it. The second needs a kernel that lists its data
(CONFIG_KALLSYMS_ALL).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import dropwhile
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

from faultprof.bpf.maps import Map
from faultprof.bpf.program import Program
from faultprof.capture.contention.setting import Setting
from faultprof.capture.kernel_knobs import offset_knobs
from faultprof.capture.scope import Scope
from faultprof.kernel.lock_names import lock_taken_by, of_the_lock, of_the_probe, type_name
from faultprof.kernel.variables import Variables
from faultprof.recording.frames import UNRESOLVED
from faultprof.recording.histogram import BUCKETS, histogram_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from faultprof.recording.frames import Frame

MAX_WAITS = 4096
MAX_STACKS = 4096

_STACK_DEPTH = 32
_LOCK_TYPES = 64
_NO_NODE, _INTERRUPT, _NO_STACK = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF

# enum stat of the program.
_STATS = (
    "repeated_begins",
    "unmatched_ends",
    "missing_ends",
    "sleepers_full",
    "waits_full",
    "stacks_full",
)
_LOSSES = ("missing_ends", "sleepers_full", "waits_full", "stacks_full")

# enum known_lock of the program.
_KNOWN = {1: "mmap_lock", 2: "mmap_lock (its wait_lock)", 3: "mm->page_table_lock", 4: "siglock"}
_VARIABLE = 5

_OFFSETS = (
    ("task_struct", "stack"),
    ("task_struct", "mm"),
    ("task_struct", "sighand"),
    ("mm_struct", "mmap_lock"),
    ("mm_struct", "page_table_lock"),
    ("sighand_struct", "siglock"),
)

_PLACE = struct.Struct("=QIIII")  # address, type, known, node, stack
_TOTALS = struct.Struct(f"={2 + BUCKETS}Q")
_BRIEF = struct.Struct("=QQ")  # how it begins: waits, ns
_IMAGE = struct.Struct("=QQ")
_SPINNING_DEPTH = 0  # the word of struct spinning that has it


class _Place(NamedTuple):
    """``struct place`` of the program."""

    address: int
    type: int
    known: int
    node: int
    stack: int


class _Stack(NamedTuple):
    """A kernel stack without what is ours: names, root first, and at which of them it waits.

    ``waiting``: the function that waits, first, and what is inlined in it there.
    """

    names: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class _Row(NamedTuple):
    """Which waits are counted together."""

    type: str
    lock: str | None
    how: str
    caller: str | None
    path: tuple[str, ...] | None
    stack: tuple[str, ...] | None
    interrupt: bool


def open_part(setting: Setting) -> Locks:
    """Attach the part, quiet until started.

    Raises:
        FaultprofError: the kernel has no BTF, or not these tracepoints (exit code 3).
    """
    return Locks(setting)


class Locks:
    """The part, attached; see ``parts.Part``."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._held = setting.scope.held
        self._misses_before = (0, 0)
        self._labels: dict[_Place, str] = {}  # for who looks meanwhile
        self._variables = Variables.read()
        knobs, lent = _knobs(setting), setting.scope.lent_maps()
        if setting.tracer is not None:
            more_knobs, more_maps = setting.tracer.lend_shadow_stack()
            knobs |= more_knobs
            lent |= more_maps
        with ExitStack() as undo:
            self._program = undo.enter_context(_loaded(knobs, lent))
            for number in range(MAX_STACKS):
                self._program.push("free_stacks", number)
            if image := self._variables.image:
                self._program.write("image", 0, _IMAGE.pack(*image))
            for tracepoint, function in (("contention_end", "on_end"), _BEGIN):
                self._program.attach_raw_tracepoint(tracepoint, function)
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Nothing to do: the programs follow the scope."""

    def stop(self) -> dict[str, Any]:
        """Return what was counted; the scope's lender has stopped."""
        stats = dict(zip(_STATS, self._program.read_counters("stats"), strict=True))
        begins, ends = map(sub, self._misses(), self._misses_before)
        # A wait whose begin or end was skipped is counted as that already.
        unmatched = max(0, stats["unmatched_ends"] - stats["sleepers_full"] - begins)
        stats["missing_ends"] = max(0, stats["missing_ends"] - ends)
        lost = {name: stats[name] for name in _LOSSES}
        lost["tracepoints_skipped"] = begins + ends
        if self._held:
            lost["unmatched_ends"] = unmatched
        return {
            "traced": self._setting.tracer is not None,
            "types": self._types(),
            "waits": self._waits(),
            "repeated_begins": stats["repeated_begins"],
            "begun_before": 0 if self._held else unmatched,
            "unfinished": self._unfinished(),
            "lost": lost,
        }

    def peek(self) -> dict[str, tuple[int, int]]:
        """Return waits and ns so far by lock, while it is counted; a place is named once."""
        keys, values = self._program.read_hash_records("waits")
        places = [_Place(*_PLACE.unpack(key.tobytes())) for key in keys]
        if unknown := [one for one in places if one not in self._labels]:
            stacks = self._named_stacks({one.stack for one in unknown} - {_NO_STACK})
            for place in unknown:
                row = self._row(place, stacks.get(place.stack, _Stack()), None)
                self._labels[place] = row.lock or f"{row.type} of {row.caller or 'nobody known'}"
        found: dict[str, tuple[int, int]] = {}
        for place, value in zip(places, values, strict=True):
            waits, total_ns = _BRIEF.unpack_from(value.tobytes())
            before = found.get(self._labels[place], (0, 0))
            found[self._labels[place]] = before[0] + waits, before[1] + total_ns
        return found

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        return self._program.costs()

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted; the numbers of stacks stay."""
        self._held = scope.held
        for table in ("waits", "sleeping"):
            self._program.clear(table)
        self._program.zero("types", range(_LOCK_TYPES))
        self._program.zero("stats", range(len(_STATS)))
        self._program.zero("spinning", [0])
        self._misses_before = self._misses()

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _misses(self) -> tuple[int, int]:
        """Return how often the kernel has skipped the programs of begins and of ends."""
        return self._program.misses("on_begin"), self._program.misses("on_end")

    def _unfinished(self) -> int:
        """Return how many waits had not ended when the recording did."""
        spinning = self._program.read_per_cpu("spinning", 0)
        sleeping, _ = self._program.read_hash_records("sleeping")
        return len(sleeping) + sum(cpu[_SPINNING_DEPTH] for cpu in spinning)

    def _types(self) -> list[dict[str, Any]]:
        """Return exact figures by type of lock, the longest waits in all first."""
        found = []
        for flags in range(_LOCK_TYPES):
            cpus = [cpu for cpu in self._program.read_per_cpu("types", flags) if cpu[0]]
            if cpus:
                waits, totals, shortest, longest = zip(*cpus, strict=True)
                figures = (sum(waits), sum(totals), min(shortest), max(longest))
                keys = ("waits", "total_ns", "min_ns", "max_ns")
                found.append({"type": type_name(flags), **dict(zip(keys, figures, strict=True))})
        return sorted(found, key=lambda one: -one["total_ns"])

    def _waits(self) -> list[dict[str, Any]]:
        """Return the waits by lock and place, the longest in all first."""
        keys, values = self._program.read_hash_records("waits")
        places = [_Place(*_PLACE.unpack(key.tobytes())) for key in keys]
        stacks = self._named_stacks({one.stack for one in places} - {_NO_STACK})
        tracer = self._setting.tracer
        paths = tracer.node_paths() if tracer is not None else {}
        rows: dict[_Row, list[int]] = {}
        for place, value in zip(places, values, strict=True):
            figures = _TOTALS.unpack(value.tobytes())
            if figures[0]:
                row = self._row(place, stacks.get(place.stack, _Stack()), paths.get(place.node))
                total = rows.setdefault(row, [0] * len(figures))
                rows[row] = [a + b for a, b in zip(total, figures, strict=True)]
        longest = sorted(rows.items(), key=lambda item: -item[1][1])
        return [_row_json(row, figures) for row, figures in longest]

    def _row(self, place: _Place, stack: _Stack, path: Sequence[str] | None) -> _Row:
        kind = type_name(place.type)
        lock, how = self._lock(place, stack, kind)
        return _Row(
            kind,
            lock,
            how,
            stack.waiting[0] if stack.waiting else None,
            tuple(path) if path else None,
            None if path else stack.names,
            place.node == _INTERRUPT,
        )

    def _lock(self, place: _Place, stack: _Stack, kind: str) -> tuple[str | None, str]:
        """Return the lock's name and how it is known."""
        if place.known in _KNOWN:
            return _KNOWN[place.known], "address"
        if place.known == _VARIABLE and (name := self._variables.name(place.address)):
            return name, "variable"
        if name := lock_taken_by(reversed(stack.waiting), kind):
            return name, "caller"
        return None, "unknown"

    def _named_stacks(self, wanted: Iterable[int]) -> dict[int, _Stack]:
        """Return stacks by number."""
        import numpy as np

        keys, values = self._program.read_hash_records("stacks")
        words = keys.view(np.uint64).reshape(len(keys), 1 + _STACK_DEPTH)
        numbers = values.view(np.uint32).tolist()
        known = dict(zip(numbers, words, strict=True))
        stacks = {number: known[number] for number in wanted if number in known}
        if not stacks:
            return {}
        names = self._names(np.unique(np.concatenate([one[1:] for one in stacks.values()])))
        return {
            number: _cut([names[address] for address in one[1 : 1 + int(one[0])].tolist()])
            for number, one in stacks.items()
        }

    def _names(self, addresses: npt.NDArray[np.uint64]) -> Mapping[int, tuple[Frame, ...]]:
        import numpy as np

        frames = self._setting.symbols.resolve(addresses, np.ones(len(addresses), bool))
        return dict(zip(addresses.tolist(), frames, strict=True))


# Attached last: a wait that begins before its end is looked for has nothing to match.
_BEGIN = ("contention_begin", "on_begin")


def _loaded(knobs: dict[str, int], lent: dict[str, Map]) -> Program:
    return Program("locks.bpf.c", knobs, lent=lent)


def _knobs(setting: Setting) -> dict[str, int]:
    return {
        **setting.scope.knobs(),
        "TRACED": int(setting.tracer is not None),
        "MAX_WAITS": MAX_WAITS,
        "MAX_STACKS": MAX_STACKS,
        **offset_knobs(setting.types, _OFFSETS, "leave out --locks"),
        "SIZE_MMAP_LOCK": setting.types.size("rw_semaphore") or 0,
    }


def _cut(chain: Sequence[tuple[Frame, ...]]) -> _Stack:
    """Return a stack, given innermost first, without the frames of the tracepoint and program."""
    rest = list(dropwhile(_is_ours, chain))
    waiting = next((frames for frames in rest if not of_the_lock(frames[0].function)), ())
    names = [frame.function for frames in reversed(rest) for frame in frames]
    return _Stack(tuple(names), tuple(frame.function for frame in waiting))


def _is_ours(frames: tuple[Frame, ...]) -> bool:
    """Whether a frame at the top is of the tracepoint or of our program, which may lack a name."""
    return any(frame.resolution == UNRESOLVED or of_the_probe(frame.function) for frame in frames)


def _row_json(row: _Row, figures: Sequence[int]) -> dict[str, Any]:
    return {
        **row._asdict(),
        "waits": figures[0],
        "total_ns": figures[1],
        "histogram": histogram_of(figures[2:]),
    }

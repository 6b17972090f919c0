"""Waits for folios and wake-ups, as probes/folio.bpf.c adds them up.

Knows: that program's maps.
Leaves to others: what it needs of the kernel (``folio_probes``), what files are called
(``file_names``), what the numbers mean (``analysis.contention.folio``), which tasks (``scope``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from faultprof.bpf.bytecode import FUNCTION_NUMBER, FUNCTION_WHAT
from faultprof.bpf.probes import ProbePoint, ProbeSet
from faultprof.bpf.probing import try_kprobe_multi
from faultprof.bpf.program import Program, settle
from faultprof.capture.contention.file_names import FileName, Names
from faultprof.capture.contention.folio_callers import callers_of
from faultprof.capture.contention.folio_probes import WAKE_FUNCTION, Probe, folio_probes
from faultprof.capture.contention.setting import Setting
from faultprof.capture.scope import Scope
from faultprof.kernel.view import KernelView
from faultprof.recording.histogram import BUCKETS, histogram_of

if TYPE_CHECKING:
    from faultprof.kernel.symbols import Symbolizer

MAX_TASKS = 8192
MAX_PLACES = 64
MAX_FILES = 1024
MAX_PAGES = 16384

OTHERS = ""  # instead of a function: the wait began in none of them

# enum aim and enum owner of the program.
AIMS = ("lock", "unlocked", "writeback", "other")
OWNERS = ("file", "anonymous", "none")
# enum stat; the last one is no loss.
_STATS = (
    "waits_of_too_many_tasks",
    "waits_in_too_many_places",
    "waits_for_too_many_files",
    "waits_for_too_many_pages",
    "waits_without_an_end",
    "tasks_that_ended_inside",
    "wake_ups_by_too_many_tasks",
    "wakes_in_interrupts",
)
_NO_LOSS = "wakes_in_interrupts"

_FRAMES = 5
_PLACE = struct.Struct(f"={_FRAMES}QII")  # stack, function, aim
_TOTALS = struct.Struct(f"={5 + BUCKETS}Q")  # of each CPU
_FILE = struct.Struct("=QIHH")  # inode, device, owner, aim
_PAGE = struct.Struct("=QIHHQ")  # and the page's index
_SUM = struct.Struct("=QQQQ")  # waits, ns, ns off CPU, pages of the folio
_NAME_KEY = struct.Struct("=QQ")
_NAME_PARTS, _NAME_BYTES = 12, 64


def open_part(setting: Setting) -> FolioWaits:
    """Attach the probes.

    Raises:
        FaultprofError: this kernel does not permit it (exit code 3).
    """
    return FolioWaits(setting.scope, setting.view, lambda: setting.symbols)


class FolioWaits:
    """Probes attached but quiet until started; frees everything when closed.

    Args:
        scope: whose waits.
        view: the kernel.
        symbols: gives names for its addresses.

    Raises ``FaultprofError`` (exit code 3) when this kernel does not permit it.
    """

    def __init__(self, scope: Scope, view: KernelView, symbols: Callable[[], Symbolizer]) -> None:
        self.scope = scope
        self._symbols = symbols
        self._wanted = folio_probes(view)
        self.functions = self._wanted.functions
        together = try_kprobe_multi().works
        knobs = {
            **scope.knobs(),
            **self._wanted.knobs,
            "KPROBE": int(not together),
            "KPROBE_MANY": int(together),
            "FUNCTIONS": len(self.functions),
            "MAX_TASKS": MAX_TASKS,
            "MAX_PLACES": MAX_PLACES,
            "MAX_FILES": MAX_FILES,
            "MAX_PAGES": MAX_PAGES,
        }
        with ExitStack() as undo:
            program = Program("folio.bpf.c", knobs, lent=scope.lent_maps())
            self._program = undo.enter_context(program)
            self._program.write("settings", 0, struct.pack("=Q", self._wanted.wake_function))
            self.scope.attach(self._program)
            self._program.attach_raw_tracepoint("sched_switch", "on_switch")
            self._program.attach_raw_tracepoint("sched_process_free", "on_task_free")
            self._probes = ProbeSet(self._program, lambda _: None)
            undo.callback(self._probes.close)
            self._attach(together=together)
            self._undo = undo.pop_all()
        self._misses_before = self._probes.kprobe_misses()

    def start(self) -> None:
        """Let the probes count; a held command is looked at from its exec(2) on."""
        self.scope.start(self._program)

    def stop(self) -> dict[str, Any]:
        """Return what one run left, see ``analysis.contention.folio``."""
        lost_tasks = self.scope.stop(self._program)
        misses = self._probes.kprobe_misses()
        settle()
        stats = dict(zip(_STATS, self._program.read_counters("stats"), strict=True))
        inside = len(self._program.read_hash_records("waits")[0])
        lost = {name: count for name, count in stats.items() if name != _NO_LOSS}
        lost["tasks_not_followed"] = lost_tasks
        lost["kprobe_hits_missed"] = misses - self._misses_before
        names = self._names()
        return {
            "waits": self._waits(),
            "calls": self._calls(),
            "files": [_file(key, value, names) for key, value in self._records("files")],
            "pages": [_page(key, value) for key, value in self._records("pages")],
            "wakes": self._wakes(),
            "unseen": dict(self._wanted.unseen),
            "open": inside,
            _NO_LOSS: stats[_NO_LOSS],
            "lost": {name: count for name, count in lost.items() if count},
        }

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, after :meth:`stop`, and look at other tasks from now on."""
        self.scope = scope
        scope.move_to(self._program)
        for table in ("waits", "wakes", "places", "files", "pages", "names"):
            self._program.clear(table)
        self._program.zero("calls", range(len(self.functions) + 1))
        self._program.zero("wake_totals", range(len(AIMS)))
        self._program.zero("stats", range(len(_STATS)))
        self._misses_before = self._probes.kprobe_misses()

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _attach(self, *, together: bool) -> None:
        if not together:
            for one in self._wanted.probes:
                self._attach_one(one)
            return
        for returns in (True, False):
            cookies = {
                one.symbol: one.number | one.what << 16
                for one in self._wanted.probes
                if one.has_return is returns
            }
            self._probes.attach_together(cookies, returns=returns)

    def _attach_one(self, probe: Probe) -> None:
        point = ProbePoint(probe.symbol)
        constants = {FUNCTION_NUMBER: probe.number, FUNCTION_WHAT: int(probe.what)}
        if probe.has_return:
            self._probes.attach_pair(point, "kprobe", constants)
        else:
            self._probes.attach_side(point, "kprobe", "entry", constants)

    def _waits(self) -> list[dict[str, Any]]:
        """Return waits by place and by what is waited for."""
        records = self._records("places")
        if not records:
            return []
        keys = [_PLACE.unpack(key) for key, _ in records]
        callers = callers_of([key[:_FRAMES] for key in keys], self._symbols())
        found = []
        for (*_, number, aim), caller, (_, value) in zip(keys, callers, records, strict=True):
            row = _Row.of(list(_TOTALS.iter_unpack(value)))
            waits, given_up, ns, offcpu_ns = row.sums[:4]
            found.append(
                {"function": (*self.functions, OTHERS)[number], "caller": caller}
                | {"aim": AIMS[aim], "waits": waits, "given_up": given_up}
                | {"ns": ns, "off_cpu_ns": offcpu_ns, "max_ns": row.largest[4]}
                | {"histogram": _histogram(row.sums[5:])}
            )
        return found

    def _calls(self) -> dict[str, dict[str, int]]:
        found = {}
        for number, function in enumerate(self.functions):
            calls, without_sleep = self._per_cpu("calls", number).sums
            found[function] = {"calls": calls, "without_sleep": without_sleep}
        return found

    def _wakes(self) -> list[dict[str, Any]]:
        """Return wake-ups by what the woken waited for; ``nobody`` is None where nobody knows."""
        known = WAKE_FUNCTION not in self._wanted.unseen
        found = []
        for place, aim in enumerate(AIMS):
            row = self._per_cpu("wake_totals", place)
            wakes, let_go, nobody, ns = row.sums[:4]
            if wakes:
                found.append(
                    {"aim": aim, "wakes": wakes, "ns": ns, "max_ns": row.largest[4]}
                    | {"let_go": let_go if known else None, "nobody": nobody if known else None}
                    | {"histogram": _histogram(row.sums[5:])}
                )
        return found

    def _names(self) -> dict[tuple[int, int], FileName]:
        """Return the names of files by inode and device."""
        raw = {_NAME_KEY.unpack(key): _parts(value) for key, value in self._records("names")}
        return Names(self.scope.pid).resolve(raw)

    def _per_cpu(self, table: str, index: int) -> _Row:
        return _Row.of(self._program.read_per_cpu(table, index))

    def _records(self, table: str) -> list[tuple[bytes, bytes]]:
        keys, values = self._program.read_hash_records(table)
        return [(key.tobytes(), value.tobytes()) for key, value in zip(keys, values, strict=True)]


class _Row(NamedTuple):
    """An element of a per-CPU array, over all CPUs."""

    sums: tuple[int, ...]
    largest: tuple[int, ...]

    @classmethod
    def of(cls, per_cpu: Sequence[tuple[int, ...]]) -> _Row:
        columns = list(zip(*per_cpu, strict=True))
        return cls(tuple(map(sum, columns)), tuple(map(max, columns)))


def _histogram(counts: Sequence[int]) -> list[list[int]]:
    return [list(bucket) for bucket in histogram_of(counts[:BUCKETS])]


def _file(key: bytes, value: bytes, names: Mapping[tuple[int, int], FileName]) -> dict[str, Any]:
    inode, device, owner, aim = _FILE.unpack(key)
    found = {**_owner(inode, device, owner, aim), **_sums(value)}
    name = names.get((inode, device))
    return found if name is None else {**found, "path": name.path, "name": name.name}


def _page(key: bytes, value: bytes) -> dict[str, Any]:
    *file, index = _PAGE.unpack(key)
    return {**_owner(*file), "index": index, "pages": _SUM.unpack(value)[3], **_sums(value)}


def _owner(inode: int, device: int, owner: int, aim: int) -> dict[str, Any]:
    """Return whose folio it is: of a file, or not."""
    found: dict[str, Any] = {"kind": OWNERS[owner], "aim": AIMS[aim]}
    if OWNERS[owner] == "file":
        found |= {"device": f"{device >> 20}:{device & 0xFFFFF}", "inode": inode}
    return found


def _sums(value: bytes) -> dict[str, int]:
    waits, ns, offcpu_ns, _ = _SUM.unpack(value)
    return {"waits": waits, "ns": ns, "off_cpu_ns": offcpu_ns}


def _parts(value: bytes) -> list[bytes] | None:
    """Return the names from the file upwards as far as they were read; None if there are none."""
    count = int.from_bytes(value[:8], "little")
    parts = [
        value[8 + number * _NAME_BYTES :][:_NAME_BYTES].partition(b"\0")[0]
        for number in range(min(count, _NAME_PARTS))
    ]
    if count > _NAME_PARTS:
        parts.append(b"")  # what would be no name: the rest is not known
    return parts or None

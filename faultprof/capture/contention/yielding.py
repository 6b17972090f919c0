"""The part ``yield``: how much of fault-around's work is of use.

Knows: the maps of probes/fault_around.bpf.c, and what of a kernel that program must know.
Leaves to others: what the figures mean (``analysis.contention.yielding``, which also says what the
data hold).
"""

from __future__ import annotations

import os
from enum import IntEnum
from itertools import accumulate
from pathlib import Path
from typing import Any

from faultprof.capture.contention.counting import CountingProgram
from faultprof.capture.contention.probed import Probed, Wanted, find
from faultprof.capture.contention.setting import Setting
from faultprof.capture.kernel_knobs import bit_knobs
from faultprof.capture.scope import Scope
from faultprof.kernel.conditions import Types
from faultprof.kernel.files import ROOT, read_int
from faultprof.recording.histogram import BUCKETS, histogram_of

_AROUND = Path("sys/kernel/debug/fault_around_bytes")
_HUGE = Path("sys/kernel/mm/transparent_hugepage/hpage_pmd_size")

# enum count of the program; the last are losses.
_COUNTS = (
    *("faults", "calls", "ns", "nothing", "nothing_ns", "empty", "asked", "found", "mapped"),
    *("pmd_mapped", "pmd_there", "second", "left_out", "file", "waited", "retried", "major"),
    *("file_ns", "waited_ns"),
)
_LOST = ("attempts_without_room", "missed_returns", "unmatched_returns", "tasks_ended_inside")

_PAGES_ALONE = 64
_PAGES_BUCKETS = 75

# What follows the counts in an element of the map ``totals``.
_PAGES = ("mapped_per_call", "found_per_call")
_TIMES = (
    *("useful_histogram", "useless_histogram"),
    *("unwaited_histogram", "waited_histogram"),
)

# struct fault: inside, behind other fields.
_INSIDE = "=37xB"


class _What(IntEnum):
    """``enum what`` of the program."""

    HANDLE_MM_FAULT = 0
    MAP_PAGES = 1
    NEXT_FOLIO = 2
    SET_PTES = 3
    SET_PMD = 4
    ASK_FILE = 5
    FOLIO_LOCK = 6


_SET = "set_pte_range"
WANTED = (
    Wanted("handle_mm_fault", _What.HANDLE_MM_FAULT, "both", needed=True, reads_arguments=True),
    Wanted("filemap_map_pages", _What.MAP_PAGES, "both", needed=True),
    Wanted("next_uptodate_folio", _What.NEXT_FOLIO, needed=True),
    Wanted(_SET, _What.SET_PTES, needed=True, reads_arguments=True),
    Wanted("do_set_pmd", _What.SET_PMD, "exit"),
    Wanted("__do_fault", _What.ASK_FILE, "both"),
    Wanted("__folio_lock", _What.FOLIO_LOCK),
    Wanted("__folio_lock_killable", _What.FOLIO_LOCK),
    Wanted("__folio_lock_or_retry", _What.FOLIO_LOCK),
)


def open_part(setting: Setting) -> YieldPart:
    """Attach the probes.

    Raises:
        FaultprofError: this machine cannot do that (exit code 3).
    """
    return YieldPart(setting)


class YieldPart:
    """Probes of fault-around, attached but quiet until the scope's lender starts."""

    def __init__(self, setting: Setting) -> None:
        self._probed = find(WANTED, setting.view, setting.options.attach)
        self._program = CountingProgram(
            "fault_around.bpf.c",
            _knobs(setting.types, self._probed),
            self._probed,
            setting,
            tasks="faults",
            inside=_INSIDE,
        )

    def start(self) -> None:
        """Begin to count."""
        self._program.start()

    def stop(self) -> dict[str, Any]:
        """Stop counting and return this run's data."""
        skipped = self._program.stop()
        words = self._program.program.sum_per_cpu("totals", 0)
        sizes = [len(_COUNTS) + len(_LOST), *(_PAGES_BUCKETS for _ in _PAGES)]
        sizes += [BUCKETS for _ in _TIMES]
        ends = list(accumulate(sizes))
        counts, *parts = (words[end - size : end] for size, end in zip(sizes, ends, strict=True))
        pages, times = parts[: len(_PAGES)], parts[len(_PAGES) :]
        return {
            **dict(zip(_COUNTS, counts, strict=False)),
            **{name: pages_histogram(one) for name, one in zip(_PAGES, pages, strict=True)},
            **{
                name: list(map(list, histogram_of(one)))
                for name, one in zip(_TIMES, times, strict=True)
            },
            "unfinished": self._program.unfinished,
            "window_pages": _pages(_AROUND),
            "huge_pages": _pages(_HUGE),
            "functions": self._probed.functions(),
            "missing": dict(self._probed.missing),
            "lost": {
                **dict(zip(_LOST, counts[len(_COUNTS) :], strict=True)),
                "skipped_hits": skipped,
            },
        }

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, and count the tasks of ``scope``."""
        self._program.next_run(scope, {"totals": 1})

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._program.close()


def pages_histogram(counts: list[int]) -> list[list[int]]:
    """Return calls by numbers of pages, as [upper bound, calls] of those that there are.

    Up to 64 the bound is the number; above it is one less than a power of two.
    """
    return [[_upper(bucket), count] for bucket, count in enumerate(counts) if count]


def _upper(bucket: int) -> int:
    return bucket if bucket <= _PAGES_ALONE else (2 << (bucket - _PAGES_ALONE + 5)) - 1


def _pages(file: Path) -> int | None:
    """Return the number of bytes in a file as pages; None where there is no such file."""
    size = read_int(ROOT / file)
    return None if size is None else size // os.sysconf("SC_PAGE_SIZE")


def _knobs(types: Types, probed: Probed) -> dict[str, int]:
    arguments = types.arguments(probed.symbol(_SET)) or ()
    return {
        "SET_ONE": int("nr" not in arguments),
        **bit_knobs(
            types,
            {
                "RESULT_NOPAGE": ("vm_fault_reason", "VM_FAULT_NOPAGE"),
                "RESULT_RETRY": ("vm_fault_reason", "VM_FAULT_RETRY"),
                "RESULT_MAJOR": ("vm_fault_reason", "VM_FAULT_MAJOR"),
            },
        ),
    }

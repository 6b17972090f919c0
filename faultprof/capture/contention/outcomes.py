"""The part ``outcomes``: faults by kind, by lock, by how they ended; how long they took.

Knows: the maps of probes/outcomes.bpf.c, and which functions stand for which kind of fault.
Leaves to others: what the figures mean (``analysis.contention.outcomes``, which also says what the
data hold).
"""

from __future__ import annotations

import itertools
from typing import Any

from faultprof.capture.contention.counting import CountingProgram
from faultprof.capture.contention.probed import Probed, Wanted, find
from faultprof.capture.contention.setting import Setting
from faultprof.capture.kernel_knobs import FAULT_FIELDS, bit_knobs, offset_knobs
from faultprof.capture.scope import Scope
from faultprof.kernel.conditions import Types
from faultprof.recording.histogram import BUCKETS, histogram_of

# enum kind and enum end of the program.
KINDS = (
    *("other", "read", "cow", "shared", "anonymous", "write-protected", "swap", "numa"),
    *("hugetlb", "huge"),
)
ENDS = ("minor", "major", "retry", "error")
LOCKS = ("mmap_lock", "vma_lock")

_STATS = (
    "attempts_without_room",
    "missed_returns",
    "unmatched_returns",
    "tasks_ended_inside",
    "tried",
)
_LOST = _STATS[:-1]

_HANDLE_MM_FAULT, _DO_FAULT = 0x100, 0x101

# struct attempt: inside, behind other fields.
_INSIDE = "=21xB"

_ANONYMOUS, _ANONYMOUS_KIND = "do_anonymous_page", "anonymous"
# Functions whose return says that small pages follow are probed there too. Where do_numa_page() is
# inlined, what it calls (under the one name or the other) stands for it.
WANTED = (
    Wanted("handle_mm_fault", _HANDLE_MM_FAULT, "both", needed=True, reads_arguments=True),
    Wanted("do_fault", _DO_FAULT, reads_arguments=True),
    Wanted(_ANONYMOUS, KINDS.index(_ANONYMOUS_KIND)),
    Wanted("do_wp_page", KINDS.index("write-protected")),
    Wanted("do_swap_page", KINDS.index("swap")),
    Wanted("do_numa_page", KINDS.index("numa")),
    Wanted("numa_migrate_prep", KINDS.index("numa")),
    Wanted("numa_migrate_check", KINDS.index("numa")),
    Wanted("do_huge_pmd_numa_page", KINDS.index("numa")),
    Wanted("hugetlb_fault", KINDS.index("hugetlb")),
    Wanted("do_huge_pmd_anonymous_page", KINDS.index("huge"), "both"),
    Wanted("do_huge_pmd_wp_page", KINDS.index("huge"), "both"),
)


def open_part(setting: Setting) -> OutcomesPart:
    """Attach the probes.

    Raises:
        FaultprofError: this machine cannot do that (exit code 3).
    """
    return OutcomesPart(setting)


class OutcomesPart:
    """Probes of all faults, attached but quiet until the scope's lender starts."""

    def __init__(self, setting: Setting) -> None:
        self._probed = find(WANTED, setting.view, setting.options.attach)
        self._program = CountingProgram(
            "outcomes.bpf.c",
            _knobs(setting.types, self._probed),
            self._probed,
            setting,
            tasks="attempts",
            inside=_INSIDE,
        )

    def start(self) -> None:
        """Begin to count."""
        self._program.start()

    def stop(self) -> dict[str, Any]:
        """Stop counting and return this run's data."""
        skipped = self._program.stop()
        stats = dict(zip(_STATS, self._program.program.read_counters("stats"), strict=True))
        return {
            "rows": [row for index in range(_ROWS) if (row := self._row(index))],
            "tried": stats["tried"],
            "untold": untold(self._probed),
            "anonymous_by_vma": not self._probed.has(_ANONYMOUS),
            "unfinished": self._program.unfinished,
            "functions": self._probed.functions(),
            "missing": dict(self._probed.missing),
            "lost": {**{name: stats[name] for name in _LOST}, "skipped_hits": skipped},
        }

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, and count the tasks of ``scope``."""
        self._program.next_run(scope, {"totals": _ROWS, "stats": len(_STATS)})

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._program.close()

    def _row(self, index: int) -> dict[str, Any]:
        """Return what ended in one way; empty where nothing did."""
        per_cpu = self._program.program.read_per_cpu("totals", index)
        count, ns, _, *buckets = (sum(column) for column in zip(*per_cpu, strict=True))
        if not count:
            return {}
        kind, lock, again, end = _MEANING[index]
        assert len(buckets) == BUCKETS
        return {
            "kind": kind,
            "lock": lock,
            "again": again,
            "end": end,
            "count": count,
            "ns": ns,
            "max_ns": max(cpu[2] for cpu in per_cpu),
            "histogram": list(map(list, histogram_of(buckets))),
        }


def untold(probed: Probed) -> list[str]:
    """Return the kinds that none of the probed functions stands for."""
    told = {one.wanted.what for one in probed.found} | {KINDS.index("other")}
    told |= {KINDS.index(_ANONYMOUS_KIND)}  # by the VMA if need be
    if _DO_FAULT in told:
        told |= {KINDS.index(kind) for kind in ("read", "cow", "shared")}
    return [kind for number, kind in enumerate(KINDS) if number not in told]


_MEANING = tuple(itertools.product(KINDS, LOCKS, (False, True), ENDS))
_ROWS = len(_MEANING)


def _knobs(types: Types, probed: Probed) -> dict[str, int]:
    errors = ("OOM", "SIGBUS", "HWPOISON", "HWPOISON_LARGE", "SIGSEGV", "FALLBACK")
    parts = {name: ("vm_fault_reason", f"VM_FAULT_{name}") for name in errors}
    return {
        "ANONYMOUS_BY_VMA": int(not probed.has(_ANONYMOUS)),
        "RESULT_ERROR": sum(bit_knobs(types, parts).values()),
        **offset_knobs(types, FAULT_FIELDS),
        **bit_knobs(
            types,
            {
                "FLAG_WRITE": ("fault_flag", "FAULT_FLAG_WRITE"),
                "FLAG_TRIED": ("fault_flag", "FAULT_FLAG_TRIED"),
                "FLAG_VMA_LOCK": ("fault_flag", "FAULT_FLAG_VMA_LOCK"),
                "RESULT_MAJOR": ("vm_fault_reason", "VM_FAULT_MAJOR"),
                "RESULT_RETRY": ("vm_fault_reason", "VM_FAULT_RETRY"),
                "RESULT_FALLBACK": ("vm_fault_reason", "VM_FAULT_FALLBACK"),
            },
        ),
    }

"""The ledger of a trace: every counter is there, and every loss is said."""

from __future__ import annotations

from typing import Any

import pytest

from faultprof.capture.trace_plan import TracePlan
from faultprof.capture.trace_quality import judge_trace
from faultprof.capture.tracing import _STATS, Traced
from faultprof.kernel.resolved import How, Resolved
from faultprof.recording.ledger import Ledger

# 1,000 faults of which 3 were tried again: 1,003 calls, 900 of them under the VMA lock.
GOOD = dict.fromkeys((*_STATS, "lost_tasks"), 0) | {
    "entries": 5_000,
    "hits": 70,
    "returns": 5_000,
    "faults": 1_003,
    "faults_retried": 3,
    "faults_under_vma_lock": 900,
}


def judged(
    stats: dict[str, int] | None = None, plan: TracePlan | None = None, **given: Any
) -> Ledger:
    defaults: dict[str, Any] = {
        "open_frames": 0,
        "misses": {},
        "kprobe_misses": 0,
        "page_faults": 1_000,
    }
    failed = given.pop("failed", {})
    ledger = Ledger()
    traced = Traced(nodes={}, stats=GOOD | (stats or {}), **(defaults | given))
    judge_trace(ledger, traced, plan or TracePlan(), failed)
    return ledger


def texts(ledger: Ledger) -> list[str]:
    return [note.text for note in ledger.notes]


def test_nothing_lost() -> None:
    ledger = judged()
    assert (ledger.degraded, ledger.notes) == (False, [])
    assert ledger.counters == GOOD | {
        "faults_under_mmap_lock": 103,
        "unfinished_calls": 0,
        "recursion_misses": 0,
        "kprobe_misses": 0,
        "page_faults": 1_000,
    }


LOSSES = {
    "unmatched_returns": "7 returns had no entry",
    "missed_returns": "7 calls were never seen to return",
    "too_deep": "7 calls below 32 traced functions",
    "tasks_full": "7 calls of tasks beyond the first 8,192",
    "nodes_full": "7 calls on paths beyond the first 1,024",
    "callees_full": "7 calls are missing where calls for one call of the caller are counted",
    "lost_tasks": "7 tasks were not followed",
}


@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_degrades_and_is_said(name: str) -> None:
    ledger = judged({name: 7})
    assert ledger.degraded
    assert ledger.counters[name] == 7
    (text,) = texts(ledger)
    assert text.startswith(LOSSES[name])


def test_skipped_hits_and_failed_functions_degrade() -> None:
    ledger = judged(
        misses={"folio_unlock": 5, "do_fault": 9},
        kprobe_misses=2,
        failed={"do_swap_page": "EBUSY"},
    )
    assert ledger.degraded
    assert ledger.counters["recursion_misses"] == 14
    assert ledger.counters["kprobe_misses"] == 2
    skipped, of_kprobes, failed = texts(ledger)
    assert of_kprobes == "2 hits of kprobes were skipped by the kernel"
    assert skipped.startswith("14 hits were skipped by the kernel")
    assert "most at do_fault, folio_unlock " in skipped
    assert failed == "do_swap_page is not traced: EBUSY"


def test_what_is_no_loss_is_told_and_does_not_degrade() -> None:
    refused = [Resolved(f"f{number}", How.UNAVAILABLE) for number in range(5)]
    ledger = judged(
        {"in_interrupt": 2}, TracePlan(refused=refused), open_frames=4, page_faults=1_001
    )
    assert not ledger.degraded
    assert ledger.counters["unfinished_calls"] == 4
    interrupts, not_here, faults = texts(ledger)
    assert interrupts.startswith("2 calls in interrupts were left out")
    assert not_here.startswith("not to be traced here: f0, f1, f2, f3 and 1 more")
    assert faults.startswith("the kernel counted 1,001 page faults")
    assert "handle_mm_fault was called 1,000 times, retries not counted" in faults


def test_faults_are_compared_only_where_both_are_known() -> None:
    assert not judged({"faults": 0, "faults_under_vma_lock": 0}, page_faults=50).notes
    everything = judged(page_faults=None)
    assert "page_faults" not in everything.counters
    assert not everything.notes

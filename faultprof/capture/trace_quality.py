"""Fills the ledger of traced runs: what the probes missed, and how that shows in the numbers.

Knows: which of the tracer's counters is a loss and what it means for the tree.
Leaves to others: counting (tracing), printing (render).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faultprof.capture.trace_plan import TracePlan
from faultprof.capture.tracing import MAX_NODES, Traced
from faultprof.recording.ledger import Ledger

_SHOWN = 4

# Counters that are losses, with what to say of them.
_LOSSES = {
    "unmatched_returns": "{count} returns had no entry and were left out",
    "missed_returns": "{count} calls were never seen to return and have no time of their own",
    "too_deep": "{count} calls below 32 traced functions were left out",
    "tasks_full": "{count} calls of tasks beyond the first 8,192 were left out",
    "nodes_full": f"{{count}} calls on paths beyond the first {MAX_NODES:,} were left out",
    "callees_full": "{count} calls are missing where calls for one call of the caller are counted: "
    "it had called 8 other functions before",
    "lost_tasks": "{count} tasks were not followed, the map of tasks was full",
}


def added_up(runs: Sequence[Traced]) -> Traced:
    """Return the counters of all runs together, without their nodes."""
    stats, misses = Counter[str](), Counter[str]()
    for run in runs:
        stats.update(run.stats)
        misses.update(run.misses)
    faults = [run.page_faults for run in runs if run.page_faults is not None]
    return Traced(
        nodes={},
        stats=dict(stats),
        open_frames=sum(run.open_frames for run in runs),
        misses=dict(misses),
        kprobe_misses=sum(run.kprobe_misses for run in runs),
        page_faults=sum(faults) if faults else None,
    )


def judge_trace(ledger: Ledger, traced: Traced, plan: TracePlan, failed: dict[str, str]) -> None:
    """Enter the tracer's counters, and in words what they mean.

    Args:
        ledger: where to.
        traced: what the tracer counted, in all runs.
        plan: what was to be traced.
        failed: functions that could not be attached after all, and why.
    """
    for name, count in traced.stats.items():
        ledger.count(name, count)
    locked = traced.stats["faults"] - traced.stats["faults_under_vma_lock"]
    ledger.count("faults_under_mmap_lock", locked)
    ledger.count("unfinished_calls", traced.open_frames)
    for name, sentence in _LOSSES.items():
        if traced.stats[name]:
            ledger.degrade(sentence.format(count=f"{traced.stats[name]:,}"))
    ledger.count("recursion_misses", sum(traced.misses.values()))
    if traced.misses:
        ledger.degrade(_missed(traced.misses))
    ledger.count("kprobe_misses", traced.kprobe_misses)
    if traced.kprobe_misses:
        ledger.degrade(f"{traced.kprobe_misses:,} hits of kprobes were skipped by the kernel")
    if traced.stats["in_interrupt"]:
        ledger.info(
            f"{traced.stats['in_interrupt']:,} calls in interrupts were left out: they belong to "
            f"no task"
        )
    for name, reason in failed.items():
        ledger.degrade(f"{name} is not traced: {reason}")
    _say_refused(ledger, plan)
    if traced.page_faults is not None:
        _compare_faults(ledger, traced.page_faults, traced.stats)


def _missed(misses: dict[str, int]) -> str:
    worst = sorted(misses, key=misses.__getitem__, reverse=True)[:_SHOWN]
    return (
        f"{sum(misses.values()):,} hits were skipped by the kernel, as the program was preempted "
        f"while it ran, most at {', '.join(worst)} (--attach kprobe is not preempted)"
    )


def _say_refused(ledger: Ledger, plan: TracePlan) -> None:
    names = [one.name for one in plan.refused]
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        ledger.info(
            f"not to be traced here: {', '.join(names[:_SHOWN])}{more} (see 'faultprof functions')"
        )


def _compare_faults(ledger: Ledger, counted: int, stats: dict[str, int]) -> None:
    """Compare the kernel's own count of page faults with calls of handle_mm_fault().

    One fault calls it again for each retry; get_user_pages() calls it without a fault; a fault
    on a bad address, or one that another thread has settled meanwhile, does not call it.
    """
    ledger.count("page_faults", counted)
    if not stats["faults"]:
        return
    first = stats["faults"] - stats["faults_retried"]
    if first != counted:
        ledger.info(
            f"the kernel counted {counted:,} page faults, of which and besides which "
            f"handle_mm_fault was called {first:,} times, retries not counted (get_user_pages "
            f"calls it without a fault, a bad address faults without a call)"
        )

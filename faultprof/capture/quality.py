"""Fills the ledger of a sampled run: counts every loss and says it in words.

Knows: which counter is a loss, and how many samples there should have been.
Leaves to others: counting (sampling, paths), printing (render).
"""

from __future__ import annotations

from collections import Counter
from math import sqrt

from faultprof.capture.labels import Labelled
from faultprof.capture.sampling import KERNEL_DEPTH, Samples, SamplingOptions
from faultprof.recording.ledger import Ledger

# Below this many samples one of them is more than a percent.
_FEW = 100

# A timer that slips, as hrtimers do a little, is no loss; a throttled one misses far more.
_MISSING_SHARE = 0.03


def judge_samples(
    ledger: Ledger, samples: Samples, options: SamplingOptions, on_cpu_s: float | None
) -> None:
    """Enter what the sampling program counted, and whether samples are missing.

    ``on_cpu_s``: seconds that the recorded tasks ran, None where nobody counted them.
    """
    stats = samples.stats
    kept = int(samples.counts.sum())
    ledger.count("samples", kept)
    ledger.count("distinct_stacks", len(samples.counts))
    for name in ("map_full", "map_busy", "truncated", "no_kernel_stack", "lost_tasks"):
        ledger.count(name, stats[name])
    lost = stats["runs"] - kept - stats["map_full"] - stats["map_busy"]
    ledger.count("unaccounted", lost)
    total = stats["runs"]
    if stats["map_full"]:
        ledger.degrade(
            f"{stats['map_full']} of {total} samples lost, the map of {options.max_stacks} "
            f"distinct stacks was full (raise --max-stacks)"
        )
    if stats["map_busy"]:
        ledger.degrade(f"{stats['map_busy']} of {total} samples lost, the stack map was busy")
    if stats["truncated"]:
        ledger.degrade(
            f"{stats['truncated']} stacks deeper than {KERNEL_DEPTH} frames lost their callers"
        )
    if stats["no_kernel_stack"]:
        ledger.degrade(f"{stats['no_kernel_stack']} samples have no kernel stack")
    if stats["lost_tasks"]:
        ledger.degrade(f"{stats['lost_tasks']} tasks not followed, the map of tasks was full")
    if lost:
        ledger.degrade(f"{lost} samples unaccounted for")
    if kept < _FEW:
        ledger.info(f"{kept} samples are few: percentages are coarse (run longer, or raise -F)")
    if on_cpu_s is not None:
        _judge_rate(ledger, stats["runs"], options.frequency * on_cpu_s)


def _judge_rate(ledger: Ledger, taken: int, expected: float) -> None:
    """Compare with the samples that the tasks' own time on CPUs should have given."""
    ledger.count("expected_samples", round(expected))
    missing = expected - taken
    # Timers and tasks are independent: a count of n scatters by at most its square root.
    if missing > _MISSING_SHARE * expected + 3 * sqrt(max(expected, 1)):
        ledger.degrade(
            f"{missing / expected:.0%} of the expected samples are missing, the kernel throttled "
            f"the timer or held interrupts off"
        )


def judge_labels(ledger: Ledger, labelled: Counter[Labelled]) -> None:
    """Enter how many samples below do_fault could be told to be read faults or others."""
    ledger.count("fault_label_read", labelled[Labelled.READ])
    ledger.count("fault_label_other", labelled[Labelled.OTHER])
    ledger.count("fault_label_unknown", labelled[Labelled.UNKNOWN])
    if labelled[Labelled.READ]:
        ledger.info(
            "do_read_fault is inlined into do_fault here and was inferred from what each fault "
            "was; matching debuginfo would make it exact"
        )
    unknown = labelled[Labelled.UNKNOWN]
    if unknown:
        faults = unknown + labelled[Labelled.READ] + labelled[Labelled.OTHER]
        ledger.info(
            f"{unknown} of {faults} samples in do_fault are from faults of unknown kind and have "
            f"no do_read_fault frame"
        )

"""Fills the ledger of sampled runs: counts every loss and says it in words.

Knows: which counter is a loss, and how many samples there should have been.
Leaves to others: counting (sampling, paths), printing (render).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from faultprof.capture.labels import Labelled
from faultprof.capture.sampling import KERNEL_DEPTH, Samples, SamplingOptions
from faultprof.recording.ledger import Ledger

# Below this many samples one of them is more than a percent.
_FEW = 100

# A timer that slips, as hrtimers do a little, is no loss; a throttled one misses far more.
_MISSING_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class SampledRun:
    """What is to be judged of one run.

    Attributes:
        stats: the sampling program's counters.
        kept: samples that are in the recording.
        distinct: stacks that the map held.
        on_cpu_s: seconds that the recorded tasks ran, None where nobody counted them.
    """

    stats: Mapping[str, int]
    kept: int
    distinct: int
    on_cpu_s: float | None

    @classmethod
    def of(cls, samples: Samples, on_cpu_s: float | None) -> SampledRun:
        """Return what is to be judged, without the stacks themselves."""
        return cls(samples.stats, int(samples.counts.sum()), len(samples.counts), on_cpu_s)


def judge_samples(ledger: Ledger, runs: Sequence[SampledRun], options: SamplingOptions) -> None:
    """Enter what the sampling program counted in all runs, and whether samples are missing.

    ``distinct_stacks`` is that of the run with the most, as each run has the map to itself.
    """
    stats = Counter[str]()
    for run in runs:
        stats.update(run.stats)
    kept = sum(run.kept for run in runs)
    ledger.count("samples", kept)
    ledger.count("distinct_stacks", max(run.distinct for run in runs))
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
    _judge_rate(ledger, runs, options.frequency)


def _judge_rate(ledger: Ledger, runs: Sequence[SampledRun], frequency: int) -> None:
    """Compare with the samples that the tasks' own time on CPUs should have given."""
    pairs: list[tuple[float, float]] = [
        (run.stats["runs"], frequency * run.on_cpu_s) for run in runs if run.on_cpu_s is not None
    ]
    if not pairs:
        return
    taken, expected = sum(one for one, _ in pairs), sum(one for _, one in pairs)
    ledger.count("expected_samples", round(expected))
    short = [number for number, pair in enumerate(pairs) if _lacks_samples(*pair)]
    where = ""
    if not _lacks_samples(taken, expected):
        if not short or len(pairs) == 1:
            return
        # One run that was disturbed is lost among many, and yet it is compared like the others.
        taken, expected = (sum(pairs[number][side] for number in short) for side in (0, 1))
        where = f" in run{'s' * (len(short) > 1)} {', '.join(map(str, short))}"
    ledger.degrade(
        f"{(expected - taken) / expected:.0%} of the expected samples are missing{where}, the "
        f"kernel throttled the timer or held interrupts off"
    )


def _lacks_samples(taken: float, expected: float) -> bool:
    # Timers and tasks are independent: a count of n scatters by at most its square root.
    return expected - taken > _MISSING_SHARE * expected + 3 * sqrt(max(expected, 1))


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

"""What the ledger of a sampled run says of each loss."""

from __future__ import annotations

import numpy as np
import pytest

from faultprof.capture.quality import SampledRun, judge_samples
from faultprof.capture.sampling import Samples, SamplingOptions, key_dtype
from faultprof.recording.ledger import Ledger

OPTIONS = SamplingOptions(1000, "cpu-clock", 16, user_stacks=False, fault_labels=False)
NO_LOSS = dict.fromkeys(("map_full", "map_busy", "truncated", "no_kernel_stack", "lost_tasks"), 0)


def _judge(kept: int, on_cpu_s: float | None, runs: int | None = None, **losses: int) -> Ledger:
    stats = {"runs": kept if runs is None else runs, "keys": 1, **NO_LOSS, **losses}
    samples = Samples(np.zeros(1, key_dtype(False)), np.array([kept], np.uint64), stats, on_cpu_s)
    ledger = Ledger()
    judge_samples(ledger, [SampledRun.of(samples, on_cpu_s)], OPTIONS)
    return ledger


def test_nothing_lost() -> None:
    assert _judge(1000, 1.0).verdict == "good"


@pytest.mark.parametrize("loss", NO_LOSS)
def test_each_loss_degrades_and_is_counted(loss: str) -> None:
    runs = 1007 if loss.startswith("map_") else 1000
    ledger = _judge(1000, None, runs, **{loss: 7})
    assert ledger.degraded
    assert ledger.counters[loss] == 7
    assert "7" in ledger.verdict


def test_samples_that_vanish_without_a_reason_are_said() -> None:
    assert "3 samples unaccounted for" in _judge(1000, None, 1003).verdict


@pytest.mark.parametrize(("seen", "good"), [(10_000, True), (9_500, True), (9_000, False)])
def test_missing_samples_are_told_from_scatter(seen: int, good: bool) -> None:
    ledger = _judge(seen, 10.0)
    assert ledger.degraded is not good
    assert ledger.counters["expected_samples"] == 10_000


def test_few_samples_scatter_more() -> None:
    assert not _judge(2, 0.009).degraded
    assert not _judge(0, 0.002).degraded


def _judge_runs(*seen: int) -> Ledger:
    runs = [SampledRun({"runs": one, **NO_LOSS}, one, 5 + one, 10.0) for one in seen]
    ledger = Ledger()
    judge_samples(ledger, runs, OPTIONS)
    return ledger


def test_runs_are_added_up() -> None:
    ledger = _judge_runs(10_000, 9_990)
    assert not ledger.degraded
    assert (ledger.counters["samples"], ledger.counters["expected_samples"]) == (19_990, 20_000)
    assert ledger.counters["distinct_stacks"] == 10_005


def test_one_run_that_lacks_samples_is_named_among_many() -> None:
    ledger = _judge_runs(*[10_000] * 9, 8_000)
    assert "20% of the expected samples are missing in run 9" in ledger.verdict
    assert "in run" not in _judge_runs(8_000, 8_000).verdict

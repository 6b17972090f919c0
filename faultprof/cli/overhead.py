"""``faultprof record --check-overhead``: run both ways, compare, print."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.analysis.observer import ObserverEffect
    from faultprof.analysis.perturbation import Metric
    from faultprof.analysis.statistics import Estimate
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.overhead import ProbedRun
    from faultprof.recording.calibration import Calibration


_REPEAT = 5  # where --repeat does not say


def print_overhead(options: RecordOptions, repeat: int, say: Callable[[str], None]) -> None:
    """Run the command of ``options`` without and with its probes and say what they change.

    Raises:
        FaultprofError: it cannot be done here, or the command failed.
    """
    from faultprof.analysis.perturbation import Metric
    from faultprof.capture.identity import invoking_user
    from faultprof.capture.overhead import run_overhead
    from faultprof.capture.schedule import fresh_seed
    from faultprof.render.observer import observer_lines
    from faultprof.render.terminal import Terminal, write_lines

    if not options.command:
        raise FaultprofError("there is no command to run", "--check-overhead needs one, not -p, -a")
    if len(options.metrics) > 1:
        raise FaultprofError("--check-overhead looks at one metric", "give --metric once")
    repeat = repeat if repeat > 1 else _REPEAT
    chosen, seed = Metric.parse(*options.metrics or ("wall",)), fresh_seed()
    runs, costs = run_overhead(
        options, invoking_user(os.environ), repeat, seed, say, lambda run: _value(run, chosen)
    )
    found = _effect(runs, chosen, costs)
    head = {
        "command": shlex.join(options.command),
        "probes": _probes(runs),
        "order": f"blocks of random order, seed {seed}",
    }
    write_lines(sys.stdout, observer_lines(found, head, Terminal.of(sys.stdout)))


def _effect(runs: Sequence[ProbedRun], metric: Metric, costs: Calibration | None) -> ObserverEffect:
    from faultprof.analysis.observer import observer_effect
    from faultprof.analysis.statistics import mean

    bare = [run for run in runs if not run.probed]
    probed = [run for run in runs if run.probed]
    wall_s = mean([run.timed.wall_s for run in bare])
    busy = mean([run.timed.user_s + run.timed.sys_s for run in bare]) / wall_s
    return observer_effect(
        metric,
        [_value(run, metric) for run in bare],
        [_value(run, metric) for run in probed],
        wall_s=wall_s,
        parallel=max(1.0, busy),
        cpu_s=_cpu_s(probed, costs),
    )


def _cpu_s(probed: Sequence[ProbedRun], costs: Calibration | None) -> Estimate | None:
    """Return the CPU seconds that the probes cost, in the mean of the runs."""
    from faultprof.analysis.observer import probe_seconds
    from faultprof.analysis.statistics import Estimate, mean

    found = [probe_seconds(run.samples, run.calls, run.functions, costs) for run in probed]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return Estimate(
        mean([one.value for one in known]),
        mean([one.low for one in known]),
        mean([one.high for one in known]),
    )


def _value(run: ProbedRun, metric: Metric) -> float:
    timed = run.timed
    times = {"wall": timed.wall_s, "user": timed.user_s, "sys": timed.sys_s}
    return metric.value(times, timed.output)


def _probes(runs: Sequence[ProbedRun]) -> str:
    probed = [run for run in runs if run.probed]
    samples = sum(run.samples for run in probed) / len(probed)
    calls = sum(sum(run.calls.values()) for run in probed) / len(probed)
    traced = f"{calls:,.0f} traced calls and " if probed[0].functions else ""
    return f"{traced}{samples:,.0f} samples a run"

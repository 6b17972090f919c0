"""``faultprof calibrate --verify``: run under padded probes, extrapolate, print."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.analysis.padding import Verification
    from faultprof.analysis.perturbation import Metric
    from faultprof.capture.padding import PaddingRun
    from faultprof.recording.calibration import Calibration


def print_verification(
    command: Sequence[str],
    calibration: Calibration,
    *,
    metric: str,
    repeat: int,
    as_json: bool,
    say: Callable[[str], None],
) -> None:
    """Say whether what probes cost by a calibration explains what they do to a command.

    Raises:
        FaultprofError: it cannot be done here, or the command failed.
    """
    from pathlib import Path

    from faultprof.analysis.compensation import costs_by_function
    from faultprof.analysis.padding import TIMES
    from faultprof.analysis.perturbation import Metric
    from faultprof.capture.identity import invoking_user
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.padding import run_padded
    from faultprof.capture.schedule import fresh_seed
    from faultprof.render.padding import padding_lines
    from faultprof.render.terminal import Terminal, write_lines

    chosen, seed = Metric.parse(metric), fresh_seed()
    runs, functions = run_padded(
        RecordOptions(Path(), command=tuple(command)),
        invoking_user(os.environ),
        lambda functions: costs_by_function(functions, calibration),
        TIMES,
        repeat=repeat,
        seed=seed,
        say=say,
        check=lambda run: _value(run, chosen),
    )
    found = _verification(runs, functions, chosen, calibration)
    head = {
        "command": shlex.join(command),
        "probes": _probes(runs),
        "order": f"blocks of random order, seed {seed}",
    }
    if as_json:
        print(json.dumps({**head, "seed": seed, **found.to_json()}, indent=1))
    else:
        write_lines(sys.stdout, padding_lines(found, head, Terminal.of(sys.stdout)))


def _verification(
    runs: Sequence[PaddingRun],
    functions: Mapping[str, Any],
    metric: Metric,
    calibration: Calibration,
) -> Verification:
    from faultprof.analysis.observer import probe_seconds
    from faultprof.analysis.padding import PaddedRun, verify

    padded = []
    for run in runs:
        if run.times:
            cost = probe_seconds(0, run.calls, functions, calibration)
            if cost is None:
                raise FaultprofError(
                    "what these probes cost is not known", "see 'faultprof calibrate'"
                )
            value, waited_s = _value(run, metric), run.padded_ns / 1e9
            padded.append(PaddedRun(run.times, value, cost.value, waited_s))
    return verify(metric, [_value(run, metric) for run in runs if not run.times], padded)


def _value(run: PaddingRun, metric: Metric) -> float:
    timed = run.timed
    times = {"wall": timed.wall_s, "user": timed.user_s, "sys": timed.sys_s}
    return metric.value(times, timed.output)


def _probes(runs: Sequence[PaddingRun]) -> str:
    probed = [sum(run.calls.values()) for run in runs if run.times]
    return f"{sum(probed) / len(probed):,.0f} traced calls a run"

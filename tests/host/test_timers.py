"""When the sampling timers of CPUs fire, as the kernel's own tracepoint tells it."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from faultprof.kernel.cpus import online_cpus
from tests.running import FAULTPROF

pytestmark = pytest.mark.noisy("interrupts come late on a busy machine")

PERIOD_US = 1e6 / 999


def test_cpus_are_sampled_evenly_spread(tmp_path: Path) -> None:
    fired = _fired(tmp_path)
    assert sorted(fired) == sorted(online_cpus())
    phases = sorted(median(_unwrapped(times)) % PERIOD_US for times in fired.values())
    phases.append(phases[0] + PERIOD_US)
    distances = [after - before for before, after in pairwise(phases)]
    print([f"{one:.0f}" for one in distances], "us from one CPU's timer to the next")
    assert min(distances) > PERIOD_US / len(fired) / 2


def _fired(directory: Path) -> dict[int, list[float]]:
    """Return when each CPU's sampling timer fired, in us, while a command was recorded."""
    perf = shutil.which("perf")
    assert perf is not None
    data = directory / "perf.data"
    ours = [*FAULTPROF, "record", "-o", directory / "a.fprof", "--clock", "cpu-clock", "--"]
    spin = ["timeout", "1", "sh", "-c", "while :; do :; done"]
    trace = ["record", "-q", "-a", "-e", "timer:hrtimer_expire_entry", "-o", data, "--"]
    subprocess.run([perf, *trace, *ours, *spin], check=False, capture_output=True)
    shown = [perf, "script", "-i", data, "--ns", "-F", "cpu,time,trace"]
    lines = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.splitlines()
    fired: dict[int, list[float]] = {}
    for cpu, time, *rest in (line.split() for line in lines):
        if any("perf_swevent_hrtimer" in word for word in rest):
            fired.setdefault(int(cpu.strip("[]")), []).append(float(time.rstrip(":")) * 1e6)
    return fired


def _unwrapped(times: list[float]) -> list[float]:
    """Return each time's phase, near that of the first so that a median of them has a meaning."""
    first = times[0] % PERIOD_US
    half = PERIOD_US / 2
    return [first + (time - times[0] + half) % PERIOD_US - half for time in times]

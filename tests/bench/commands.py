"""The command lines that are compared, and running one to its end.

Knows: how each recorder is called so that they do the same work: stacks at 999 Hz of cpu-clock,
of a command and its children (perf as its users type it: with user stacks, which it unwinds by
frame pointers). How to measure a process as a whole.
Leaves to others: what is run below the recorders, and figures from inside of it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.running import FAULTPROF

FREQUENCY = 999


def faultprof_record(output: Path, *options: str) -> list[str]:
    """Return what goes before a command so that faultprof samples it into ``output``."""
    sampling = ("--mode", "sample", "--clock", "cpu-clock", "-F", str(FREQUENCY))
    return [*FAULTPROF, "record", "-q", *sampling, *options, "-o", str(output), "--"]


def perf_record(output: Path) -> list[str]:
    """Return what goes before a command so that perf samples it into ``output``."""
    perf = shutil.which("perf")
    if perf is None:
        sys.exit("bench: perf is not there to compare with: apt install linux-perf")
    sampling = ("-g", "-e", "cpu-clock", "-F", str(FREQUENCY))
    return [perf, "record", "-q", *sampling, "-o", str(output), "--"]


def output_of(command: Sequence[str]) -> str:
    """Run a command and return its standard output; end the benchmark if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: exit status {done.returncode} of {' '.join(command)}\n{done.stderr}")
    return done.stdout


# Runs in a process of its own: a child's peak counts from what its parent held at the fork.
_METER = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - start, usage.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measure(*arguments: str) -> tuple[float, float]:
    """Run ``faultprof`` to its end; return wall seconds and peak resident megabytes."""
    command = [sys.executable, "-c", _METER, sys.executable, "-m", "faultprof", *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall, peak = map(float, result.stdout.split())
    return wall, peak

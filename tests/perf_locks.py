"""Runs threads that contend for locks under faultprof and `perf lock` at once, for any tier.

perf records all tasks; what it says of a thread is told by the thread's id, which the program
prints. A wait of perf's is the time from contention_begin to contention_end of one task and lock.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.running import FAULTPROF, run

ENOUGH = 200  # waits to compare
_ATTEMPTS = 5
SOURCE = Path(__file__).parent / "contend.c"

# tracefs need not be mounted here, and nobody else is to notice that it is.
_SCRIPT = """
[ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
perf lock record -a -o perf.data -- sh -c 'echo $$ >pid; touch ready; exec sleep 1000' &
perf=$!
while [ ! -e ready ]; do sleep 0.05; done
"$@" >ids
status=$?
kill $(cat pid)
wait $perf
perf lock contention -i perf.data -t >waits 2>&1  # which it prints where a pager would
exit $status
"""
_LINE = re.compile(r"^ *(\d+) +([\d.]+) (\ws?) .* (\d+)   \S")
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


class Both(NamedTuple):
    """What both tools say of one run of the program; ``ours``: see ``render.contention.locks``."""

    ours: dict[str, Any]
    perf_waits: int
    perf_ns: float
    recording: Path


def compiled(directory: Path) -> Path:
    """Compile the program."""
    binary = directory / "contend"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", binary, SOURCE], check=True
    )
    return binary


def contended(
    contend: Path, directory: Path, threads: int, milliseconds: int, *options: str
) -> Both:
    """Run the program until its threads have met often, at both kinds of lock.

    Where other work keeps the CPUs busy, two of the threads may hardly ever run at once.
    """
    for _ in range(_ATTEMPTS):
        both = by_both(contend, directory, threads, milliseconds, *options)
        locks = {one["lock"] for one in both.ours["by_lock"]}
        if both.perf_waits > ENOUGH and {"mmap_lock", "pipe->mutex"} <= locks:
            break
    return both


def by_both(contend: Path, directory: Path, threads: int, milliseconds: int, *options: str) -> Both:
    """Run the program with so many threads for so long."""
    recording = directory / "locks.fprof"
    command = [*FAULTPROF, "record", *options, "--locks", "-o", recording, "--"]
    command += [contend, str(threads), str(milliseconds)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", *command],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ids = set(map(int, (directory / "ids").read_text().split()))
    assert len(ids) == threads + 1
    waits, total = 0, 0.0
    for line in (directory / "waits").read_text().splitlines():
        if (found := _LINE.match(line)) and int(found[4]) in ids:
            waits += int(found[1])
            total += float(found[2]) * _UNITS[found[3]]
    shown = run("contention", recording, "--json")
    assert shown.returncode == 0, shown.stderr
    return Both(json.loads(shown.stdout)["locks"], waits, total, recording)

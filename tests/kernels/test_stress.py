"""Many threads that fault at once, on more CPUs than this machine may have: nothing is lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from .vm.machine import Machine, Result
from .vm.session import run_script

CPUS, THREADS, SECONDS = 8, 64, 8

SCRIPT = """\
cd /job/src
cc -O1 -pthread -o /tmp/stress tests/kernels/stress.c
dmesg -C
faultprof record -q --mode trace --attach {attach} --preset read --preset anon --preset lock \\
    -F 99 -o /tmp/x.fprof -- /tmp/stress {threads} {seconds} /dev/shm/faultprof-stress
python -c '
import json, sys
import faultprof
json.dump(faultprof.load(sys.argv[1]).metadata.ledger.to_json(), sys.stdout)
' /tmp/x.fprof >/results/ledger.json
dmesg >/results/dmesg
"""

# What the kernel says when something is wrong with it; not that an emulated CPU got no time.
WARNING = re.compile(r"WARNING:|BUG:|Oops|refcount_t|possible recursive|suspicious")


def run_stress(machine: Machine, attach: str, seconds: int) -> Result:
    """Record threads that fault for so long, in a machine with more CPUs."""
    script = SCRIPT.format(attach=attach, threads=THREADS, seconds=seconds)
    return run_script(replace(machine, cpus=CPUS), script, timeout=300 + 4 * seconds)


def test_many_threads_on_many_cpus(machine: Machine) -> None:
    result = run_stress(machine, "kprobe", SECONDS)
    assert result.status == 0, result.output
    counters = json.loads(result.files["ledger.json"])["counters"]
    assert counters["entries"] > 10_000
    assert counters["unmatched_returns"] == 0, counters
    # A kprobe's return that is missed shows as an entry without one.
    assert counters["missed_returns"] <= counters["kprobe_misses"], counters
    assert not WARNING.search(result.files["dmesg"].decode()), result.files["dmesg"].decode()

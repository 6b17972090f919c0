"""What a traced call costs: a pair of our probes, against bpftrace's usual latency one-liner.

Knows: the recorders' command lines, and that both time every call of one function.
Leaves to others: the virtual machine (tests/kernels/vm); this machine's kernel may have no kprobes.

The machine's time is the number of its instructions (machine.py): the ratio is one of path lengths,
the same whatever else this machine does. A real CPU also pays for traps and cache misses.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.bench.rows import Goal, Row, Subject, ratios
from tests.kernels.vm import session
from tests.kernels.vm.kernels import KERNELS

KERNEL = "6.12-exact"
FUNCTION = "handle_mm_fault"
PAGES = 500

# One sample a second beside the trace: as good as none. Labels are for samples, at every fault.
_SAMPLES = "--clock cpu-clock -F 1 --fault-labels off"
_TRACE = f"faultprof record -q --mode trace -f {FUNCTION} {_SAMPLES} -o /tmp/x.fprof --attach"
_ONE_LINER = (
    f"kprobe:{FUNCTION} {{ @start[tid] = nsecs; }} kretprobe:{FUNCTION} /@start[tid]/ "
    "{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }"
)
_WORKLOAD = f"/tmp/faults {PAGES} /results"
_LINES = {
    "bare": f"{_WORKLOAD}/bare",
    "kprobe": f"{_TRACE} kprobe -- {_WORKLOAD}/kprobe",
    "fentry": f"{_TRACE} fentry -- {_WORKLOAD}/fentry",
    "bpftrace": f"bpftrace -e '{_ONE_LINER}' -c '{_WORKLOAD}/bpftrace' >/dev/null",
}
_SETUP = "set -e; cd /job/src; gcc -O2 -o /tmp/faults tests/bench/faults.c; chmod 777 /results"


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure all in one virtual machine, in turns."""
    turns = [name for _ in range(repeats) for name in order.sample(list(_LINES), len(_LINES))]
    script = "\n".join([_SETUP, *(_LINES[name] for name in turns)])
    # With one CPU nothing runs beside the workload, and attaching cannot meet QEMU's race.
    machine = replace(session.prepare(KERNELS[KERNEL]), cpus=1)
    result = session.run_script(machine, script, timeout=60 + 300 * repeats)
    if result.status != 0:
        raise SystemExit(f"bench: the guest ended with status {result.status}\n{result.output}")
    fault = {name: [float(word) for word in result.files[name].split()] for name in _LINES}
    cost = {
        name: tuple(with_ - bare for with_, bare in zip(fault[name], fault["bare"], strict=True))
        for name in ("kprobe", "fentry", "bpftrace")
    }
    return [
        Row("a page fault, not traced", "ns", tuple(fault["bare"])),
        Row("a pair of our kprobes", "ns", cost["kprobe"]),
        Row("a pair of our fentry programs", "ns", cost["fentry"]),
        Row("bpftrace's one-liner", "ns", cost["bpftrace"]),
        Row("our kprobes ÷ bpftrace", "ratio", ratios(cost["kprobe"], cost["bpftrace"]), _GOAL),
        Row("our fentry ÷ bpftrace", "ratio", ratios(cost["fentry"], cost["bpftrace"]), _GOAL),
    ]


_GOAL = Goal("≤", 0.8)

SUBJECT = Subject(
    name="pairs",
    title=f"cost of a call of {FUNCTION} that is traced, on Linux {KERNEL}, emulated",
    rows=rows,
    repeats=5,
    needs_root=True,
)

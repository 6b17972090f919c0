"""What `record --folio` costs: a workload whose threads wait for folios, and one where none does.

Knows: the recorder's command lines, and what the workloads say of their own speed.
Leaves to others: the virtual machine (tests/kernels/vm); this machine's kernel may have no kprobes.

Under emulation a nanosecond is not one of a real CPU; the percentage is what counts.
"""

from __future__ import annotations

from random import Random

from tests.bench.rows import Row, Subject
from tests.kernels.vm import session
from tests.kernels.vm.kernels import KERNELS

KERNEL = "6.12"
PAGES = 500
SHARED = "-t 4 --readonly -f /dev/shm/bench 16m"

# One sample a second: as good as none.
_RECORD = "faultprof record -q --mode sample --clock cpu-clock -F 1 -o /tmp/x.fprof"
_OPTIONS = {"off": "", "on": "--folio"}
_SETUP = "set -e; cd /job/src; gcc -O2 -o /tmp/faults tests/bench/faults.c; chmod 777 /results"
_SPEED = "awk '/KB.s$/ { sum += $(NF - 1) } END { print sum }'"


def _lines(name: str) -> str:
    """Return the commands of one turn; each workload's figure goes to a file of its own."""
    record = f"{_RECORD} {_OPTIONS[name]} --"
    return "\n".join(
        (
            f"{record} /tmp/faults {PAGES} /results/fault-{name}",
            f"{record} usemem {SHARED} >/tmp/said",
            f"{_SPEED} /tmp/said >>/results/shared-{name}",
            "rm /dev/shm/bench",
        )
    )


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure all in one virtual machine, in turns."""
    names = list(_OPTIONS)
    turns = [name for _ in range(repeats) for name in order.sample(names, len(names))]
    script = "\n".join([_SETUP, *map(_lines, turns)])
    result = session.run_script(
        session.prepare(KERNELS[KERNEL]), script, timeout=120 + 200 * repeats
    )
    if result.status != 0:
        raise SystemExit(f"bench: the guest ended with status {result.status}\n{result.output}")
    said = {
        f"{what}-{name}": [float(word) for word in result.files[f"{what}-{name}"].split()]
        for what in ("fault", "shared")
        for name in names
    }
    fault = tuple(
        100 * (on / off - 1) for on, off in zip(said["fault-on"], said["fault-off"], strict=True)
    )
    shared = tuple(
        100 * (off / on - 1) for on, off in zip(said["shared-on"], said["shared-off"], strict=True)
    )
    return [
        Row("a page fault, nobody waits", "ns", tuple(said["fault-off"])),
        Row("longer with --folio", "%", fault),
        Row(f"usemem {SHARED}", "KB/s", tuple(said["shared-off"])),
        Row("slower with --folio", "%", shared),
    ]


SUBJECT = Subject(
    name="folio",
    title=f"cost of watching folio locks, on Linux {KERNEL}, emulated",
    rows=rows,
    repeats=5,
    needs_root=True,
)

"""What the parts of contention cost that bring their own probes: beside samples, on and off.

Knows: the recorder's command lines, and what two workloads say of their own speed: faults of one
task, where nobody waits, and threads that read one file and want the same folios.
Leaves to others: the virtual machine (tests/kernels/vm); this machine's kernel may have no kprobes.

Under emulation a nanosecond is not one of a real CPU; the percentage is what counts.
"""

from __future__ import annotations

from random import Random

from tests.bench.rows import Row, Subject, ratios
from tests.kernels.vm import session
from tests.kernels.vm.kernels import KERNELS

KERNEL = "6.12"
PARTS = ("folio", "yield", "outcomes")
PAGES = 500
SHARED = "-t 4 --readonly -f /dev/shm/bench 16m"

# One sample a second: as good as none.
_RECORD = "faultprof record -q --mode sample --clock cpu-clock -F 1 -o /tmp/x.fprof"
_OPTIONS = {"off": "", "again": "", **{part: f"--{part}" for part in PARTS}}
_SETUP = "set -e; cd /job/src; gcc -O2 -o /tmp/faults tests/bench/faults.c; chmod 777 /results"
_SPEED = "awk '/KB.s$/ { sum += $(NF - 1) } END { print sum }'"


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure all in one virtual machine, in turns."""
    turns = [name for _ in range(repeats) for name in order.sample(list(_OPTIONS), len(_OPTIONS))]
    script = "\n".join([_SETUP, *map(_turn, turns)])
    machine = session.prepare(KERNELS[KERNEL])
    result = session.run_script(machine, script, timeout=120 + 300 * repeats)
    if result.status != 0:
        raise SystemExit(f"bench: the guest ended with status {result.status}\n{result.output}")

    def said(what: str, name: str) -> list[float]:
        return [float(word) for word in result.files[f"{what}-{name}"].split()]

    return [
        *(
            Row(f"{title}, {text}", "ratio", ratios(said(what, name), said(what, "off")))
            for what, title in (("fault", "ns of a fault"), ("shared", "KB/s of 4 readers"))
            for name, text in (
                *((part, f"{part} on ÷ off") for part in PARTS),
                ("again", "off ÷ off (noise)"),
            )
        ),
    ]


def _turn(name: str) -> str:
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


SUBJECT = Subject(
    name="probed",
    title=f"contention by probes: faults, and threads that share a file, Linux {KERNEL}, emulated",
    rows=rows,
    repeats=5,
    needs_root=True,
)

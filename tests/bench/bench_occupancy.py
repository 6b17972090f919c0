"""What occupancy costs a trace, and order: each on and off, in percent of the workload's time.

Knows: which workload meets a part's probes, and what is recorded beside it either way.
Leaves to others: the virtual machine (tests/kernels/vm); this machine's kernel may have no kprobes.

Under emulation a nanosecond is not one of a real CPU, but instructions cost about alike: the share
of a workload's time is what counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.bench.rows import Row, Subject
from tests.kernels.vm import session
from tests.kernels.vm.kernels import KERNELS

KERNEL = "6.12"
PAGES = 500

# One sample a second beside a trace: as good as none.
_TRACE = "--mode trace -f handle_mm_fault -f do_anonymous_page --clock cpu-clock -F 1"
_SAMPLE = "--mode sample --clock cpu-clock -F 99"
_FAULTS = f"/tmp/faults {PAGES} $out"
_HUGE = "/tmp/huge anon 24 0 >>$out"


@dataclass(frozen=True, slots=True)
class Part:
    """A part's option, what is recorded without it too, and what meets its probes.

    The workload appends a figure to ``$out`` in each run: the less, the quicker.
    """

    option: str
    beside: str
    workload: str


PARTS = (
    Part("--occupancy", _TRACE, _FAULTS),
    Part("--order", _SAMPLE, _HUGE),
)

_SETUP = """\
set -e
cd /job/src
gcc -O2 -o /tmp/faults tests/bench/faults.c
gcc -O1 -o /tmp/huge tests/kernels/guest/huge.c
chmod 777 /results
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
"""


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure all in one virtual machine, each part's two variants in turns."""
    variants = [(part, state) for part in PARTS for state in ("off", "on")]
    turns = [one for _ in range(repeats + 1) for one in order.sample(variants, len(variants))]
    script = _SETUP + "\n".join(_line(part, state) for part, state in turns)
    # With one CPU nothing runs beside the workload, and attaching cannot meet QEMU's race.
    machine = replace(session.prepare(KERNELS[KERNEL]), cpus=1)
    result = session.run_script(machine, script, timeout=120 + 300 * (repeats + 1))
    if result.status != 0:
        raise SystemExit(f"bench: the guest ended with status {result.status}\n{result.output}")
    return [_row(part, result.files) for part in PARTS]


def _line(part: Part, state: str) -> str:
    option = part.option if state == "on" else ""
    out = f"/results/{_file(part, state)}"
    return (
        f"out={out} faultprof record -q {part.beside} {option} -o /tmp/x.fprof "
        f"-- sh -c '{part.workload}'"
    )


def _file(part: Part, state: str) -> str:
    return f"{part.option.removeprefix('--')}-{state}"


def _row(part: Part, files: Mapping[str, bytes]) -> Row:
    """Return the percentage that a part costs; the first round, which compiles, is left out."""
    off, on = (
        [float(word) for word in files[_file(part, state)].split()][1:] for state in ("off", "on")
    )
    costs = tuple(100 * (with_ / without - 1) for with_, without in zip(on, off, strict=True))
    return Row(f"record {part.option}", "%", costs)


SUBJECT = Subject(
    name="occupancy",
    title=f"cost of occupancy beside a trace, and of order, on Linux {KERNEL}, emulated",
    rows=rows,
    repeats=5,
    needs_root=True,
)

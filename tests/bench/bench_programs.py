"""What the BPF programs themselves cost: the part of the throughput that noise cannot hide.

Knows: the kernel's own accounting of BPF programs (kernel.bpf_stats_enabled) and where a process
finds that of the programs of another.
Leaves to others: the recorder's command line (``commands``), timing (``stopwatch``).

The accounting reads the clock twice a run, which an empty program is charged some 20 to 70 ns
for; what it leaves out is the interrupt or the tracepoint around a program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.commands import FREQUENCY, faultprof_record
from tests.bench.rows import Row, Subject, interleaved
from tests.bench.stopwatch import Stopwatch

WORKLOAD = ("-t", "2", "512m")

_SWITCH = Path("/proc/sys/kernel/bpf_stats_enabled")
# Runs a command, then copies to $0 what the kernel tells about the open files of our parent,
# the recorder, which holds its programs and links until the command has ended.
_ACCOUNTS = '"$@" && for file in /proc/$PPID/fdinfo/*; do cat "$file"; echo; done >"$0"'


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one recording: nanoseconds a run of each kind of program; percent of CPU time in all."""

    sample_ns: float
    fault_ns: float
    share: float


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure recordings with fault labels."""
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as name, _accounting():
        directory = Path(name)
        measure = partial(_record, Stopwatch(directory), directory)
        costs = interleaved({"labels": measure}, repeats, order)["labels"]
    return [
        Row("a sample", "ns", tuple(cost.sample_ns for cost in costs)),
        Row("a page fault's label", "ns", tuple(cost.fault_ns for cost in costs)),
        Row("both, of usemem's CPU time", "%", tuple(cost.share for cost in costs)),
    ]


@contextmanager
def _accounting() -> Iterator[None]:
    before = _SWITCH.read_text()
    _SWITCH.write_text("1")
    try:
        yield
    finally:
        _SWITCH.write_text(before)


def _record(stopwatch: Stopwatch, directory: Path) -> Costs:
    accounts = directory / "accounts"
    recorder = faultprof_record(directory / "bench.fprof", "--fault-labels", "on")
    timing = stopwatch.time([*recorder, "sh", "-c", _ACCOUNTS, str(accounts)], *WORKLOAD)
    sample, fault = _read(accounts.read_text())
    spent = sample.nanoseconds + fault.nanoseconds
    return Costs(sample.mean, fault.mean, 100 * spent / 1e9 / timing.cpu_s)


@dataclass(frozen=True, slots=True)
class _Account:
    """One program's runs, on all tasks of the machine, and the nanoseconds that they took."""

    runs: int
    nanoseconds: int

    @property
    def mean(self) -> float:
        return self.nanoseconds / self.runs


def _read(text: str) -> tuple[_Account, _Account]:
    """Return the accounts of the sampling program and of the one that hangs on page faults."""
    files = [dict(_fields(part)) for part in text.split("\n\n")]
    programs = {file["prog_id"]: file for file in files if "run_cnt" in file}
    timers = [key for key, file in programs.items() if file["prog_type"] == "7"]  # perf_event
    faults = [file["prog_id"] for file in files if file.get("tp_name") == "page_fault_user"]
    return _account(programs[timers[0]]), _account(programs[faults[0]])


def _fields(lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _account(program: dict[str, str]) -> _Account:
    return _Account(int(program["run_cnt"]), int(program["run_time_ns"]))


SUBJECT = Subject(
    name="programs",
    title=f"BPF programs' own time while usemem {' '.join(WORKLOAD)} is sampled at {FREQUENCY} Hz",
    rows=rows,
    repeats=7,
    needs_root=True,
)

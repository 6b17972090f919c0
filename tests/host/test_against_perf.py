"""Our shares of the kernel's functions against those that perf record finds, run in turn."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import faultprof
from faultprof.kernel.kallsyms import fold
from faultprof.recording.frames import SYMBOL
from faultprof.workloads.usemem import find_usemem
from tests.running import record

pytestmark = pytest.mark.noisy("shares of a few hundred samples")

PAIRS = 10
LARGEST = 10
POINTS = 3.0
WARM_UPS = 3


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Give a path in memory, removed afterwards."""
    file = Path("/dev/shm/faultprof-against-perf")
    yield file
    file.unlink(missing_ok=True)


def test_shares_of_writes_to_new_memory(tmp_path: Path) -> None:
    # The host of a virtual machine adds memory at its first touch, in the middle of what clears
    # the page: of the first pairs on a fresh machine one share was 58 points apart.
    workload = [str(find_usemem().path), "-t", "2", "2g"]
    for _ in range(WARM_UPS):
        subprocess.run(workload, check=True, stdout=subprocess.DEVNULL)
    _compare(workload, tmp_path)


def test_shares_of_reads_of_a_file(tmp_path: Path, scratch: Path) -> None:
    # One task: two that read the same pages in step wait for each other's cache lines, and whatever
    # puts them out of step makes them faster: bare 231 to 273 ms, under perf 169 to 228, under ours
    # 185 to 213. What is then true of one run is not of the next.
    workload = [str(find_usemem().path), "--readonly", "-j", "4096", "-f", str(scratch), "6g"]
    subprocess.run(workload, check=True, stdout=subprocess.DEVNULL)
    _compare(workload, tmp_path)


def _compare(workload: list[str], directory: Path) -> None:
    ours: list[dict[str, float]] = []
    perfs: list[dict[str, float]] = []
    for pair in range(PAIRS):
        # Whoever goes first finds other caches: take turns.
        for tool in (_ours, _perf) if pair % 2 else (_perf, _ours):
            (ours if tool is _ours else perfs).append(tool(directory, workload))
    names = sorted({name for shares in ours for name in shares})
    typical = {name: median(shares.get(name, 0.0) for shares in ours) for name in names}
    for name in sorted(typical, key=typical.__getitem__, reverse=True)[:LARGEST]:
        differences = [a.get(name, 0) - b.get(name, 0) for a, b in zip(ours, perfs, strict=True)]
        print(f"{name}: {typical[name]:.1f}%, perf {median(differences):+.2f} points away")
        assert abs(median(differences)) <= POINTS, name


def _ours(directory: Path, workload: list[str]) -> dict[str, float]:
    out = directory / "ours.fprof"
    record(out, "--clock", "cpu-clock", "--fault-labels", "off", "--", *workload)
    recording = faultprof.load(out)
    total = recording.runs[0].samples
    return {
        function.frame.function: 100 * function.samples / total
        for function in recording.functions()
        if function.frame.resolution.startswith(SYMBOL)
    }


def _perf(directory: Path, workload: list[str]) -> dict[str, float]:
    perf = shutil.which("perf")
    assert perf is not None
    data = directory / "perf.data"
    subprocess.run(
        [perf, "record", "-q", "-g", "-e", "cpu-clock", "-F", "999", "-o", data, "--", *workload],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    script = subprocess.run(
        [perf, "script", "-i", data, "-F", "comm,ip,sym,dso"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # Samples are paragraphs: the task's name, then a line for each frame.
    samples = [part.splitlines()[1:] for part in script.split("\n\n") if part.strip()]
    counts: Counter[str] = Counter()
    for frames in samples:
        kernel = (line.split() for line in frames if line.endswith("([kernel.kallsyms])"))
        counts.update({fold(words[1]).function for words in kernel if len(words) == 3})
    return {name: 100 * count / len(samples) for name, count in counts.items()}

"""Recording on a stock kernel: what is below what, and that nothing stays behind."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.noisy("a late timer")

# Emulation runs at a tenth of the speed: at the default frequency the timer would be throttled,
# which the ledger rightly calls degraded.
SLOW = ("-F", "199")


@pytest.mark.usefixtures("small_pages")
def test_write_faults_on_anonymous_memory(tmp_path: Path, kernel: str) -> None:
    from tests.running import paths, record, samples_below

    out = tmp_path / "anon.fprof"
    record(out, *SLOW, "--", "usemem", "-t", "2", "256m", timeout=900)
    # On 6.1 do_anonymous_page is inlined into its caller, and that is all that can be seen.
    nearest = "__handle_mm_fault" if kernel == "6.1" else "do_anonymous_page"
    faults = samples_below(out, "handle_mm_fault", nearest)
    clearing = sum(
        samples
        for path, samples in paths(out).items()
        if nearest in path and path[-1].startswith(("clear_page", "__clear_page", "kernel_init"))
    )
    assert faults > 0
    if kernel != "7.3":  # there the clearing routine is inlined: it is its caller's own time
        assert 0 < clearing < faults


def test_read_faults_on_a_shared_file(tmp_path: Path) -> None:
    from tests.running import record, samples_below

    out, file = tmp_path / "read.fprof", Path("/dev/shm/faultprof-test")
    try:
        record(
            out, *SLOW, "--", "usemem", "-t", "2", "--readonly", "-f", str(file), "64m",
            timeout=900,
        )  # fmt: skip
    finally:
        file.unlink(missing_ok=True)
    inferred = samples_below(out, "handle_mm_fault", "do_fault", "do_read_fault")
    around = samples_below(out, "do_read_fault", "filemap_map_pages")
    assert 0 < around < inferred
    assert inferred > 0.95 * samples_below(out, "do_fault")


def test_samples_are_frequency_times_time_on_cpu(tmp_path: Path) -> None:
    import faultprof
    from tests.running import comes_within, record

    out = tmp_path / "burn.fprof"
    loop = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"

    def deviation() -> float:
        # A virtual CPU that waits for a real one takes no sample, while its clock goes on: few
        # waits are longer than the 34 ms between two samples.
        record(out, "-F", "29", "--", "sh", "-c", loop, timeout=900)
        run = faultprof.load(out).runs[0]
        expected = 29 * run.on_cpu_s
        print(f"{run.samples} samples, {expected:.1f} expected")
        return (abs(run.samples - expected) - 2) / expected

    assert comes_within(0.03, deviation)


# Takes 500 more faults each time, and leaves something behind that then takes faults on and on.
_MORE_EACH_TIME = """
import mmap, os, pathlib, sys, time
count = pathlib.Path(sys.argv[1])
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
def touch(pages):
    memory = mmap.mmap(-1, pages << 12)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page << 12] = 1
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    while os.getppid() == parent:
        time.sleep(0.01)
    time.sleep(1)  # by then its own run has been read out
    for _ in range(100):
        touch(100)
        time.sleep(0.01)
    os._exit(0)
touch(500 * number)
"""


def test_traced_runs_are_apart(tmp_path: Path) -> None:
    import sys

    import faultprof
    from tests.running import record

    out, count = tmp_path / "x.fprof", tmp_path / "count"
    arguments = ["--mode", "trace", "-f", "handle_mm_fault", "--repeat", "4", *SLOW, "--"]
    record(out, *arguments, sys.executable, "-c", _MORE_EACH_TIME, str(count), timeout=900)
    loaded = faultprof.load(out)
    trees = [loaded.trace(runs=[number]) for number in range(4)]
    calls = [tree.faults or 0 for tree in trees]
    # The first run finds files that are not cached yet.
    for fewer, more in itertools.pairwise(calls[1:]):
        assert 450 < more - fewer < 550, calls
    assert sum(calls) == loaded.trace().faults
    ledger = loaded.metadata.ledger
    assert not [note.text for note in ledger.notes if "trace of run" in note.text]
    assert ledger.counters["unmatched_returns"] == 0


def test_nothing_stays_attached() -> None:
    listed = subprocess.run(["bpftool", "prog"], capture_output=True, text=True, check=True)
    assert "name on_" not in listed.stdout


def test_the_command_of_sudo_is_the_users(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    out = tmp_path / "x.fprof"
    script = f"sudo faultprof record --mode sample -q -o {out} -- sh -c 'id -un; echo $HOME'"
    done = subprocess.run(
        ["su", "user", "-c", script], capture_output=True, text=True, cwd="/", timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["user", "/home/user"]
    assert out.owner() == "user"

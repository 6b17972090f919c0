"""The named cases on this machine: real mounts, real huge pages, put back whatever happens.

They change the kernel's settings: a second run at the same time waits for the first.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from faultprof.analysis.sides import read_comparands
from faultprof.errors import ExitCode, FaultprofError
from faultprof.workloads import mounts, setup
from faultprof.workloads.cases import CASES, Case
from faultprof.workloads.journal import DIRECTORY, Journal, Mount
from faultprof.workloads.run import prepared
from faultprof.workloads.usemem import acting_as, find_usemem
from tests.unit.test_usemem import PAGE, faults, speeds
from tests.unit.test_workload_journal import killed_at

WORKLOAD = (sys.executable, "-m", "faultprof", "workload")
NOBODY = (65534, 65534)
HUGETLB = setup.OVERCOMMIT.exists()
needs_hugetlb = pytest.mark.skipif(not HUGETLB, reason="this kernel has no hugetlb")
SPEED = re.compile(r"^\d+ bytes / \d+ usecs = \d+ KB/s$", re.MULTILINE)


def overcommit() -> int:
    return int(setup.OVERCOMMIT.read_text()) if HUGETLB else 0


def own_mounts() -> set[str]:
    return {point for point, _ in mounts.mounted() if point.startswith(f"{DIRECTORY}/")}


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """Keep a second run of these tests waiting."""
    with Path("/run/faultprof-test-workload").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def restored() -> Iterator[int]:
    """Yield the overcommit; every test must leave the machine as it was."""
    setup.undo_what_dead_processes_left()
    before = overcommit()
    yield before
    assert overcommit() == before
    assert own_mounts() == set()
    assert [path.name for path in DIRECTORY.iterdir()] == ["lock"]


@pytest.fixture(scope="module")
def usemem() -> Path:
    return find_usemem().path


def start(*arguments: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*WORKLOAD, *arguments],
        env={**os.environ, **environ},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def workload(*arguments: str, **environ: str) -> tuple[int, str, str]:
    process = start(*arguments, **environ)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def until_it_runs(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if "running" in line:
            return
    raise AssertionError("it never ran")


def eventually(look: Callable[[], bool]) -> None:
    for _ in range(2000):
        if look():
            return
        time.sleep(0.01)
    raise AssertionError("never seen")


# The cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_runs(case: Case) -> None:
    if case.uses_hugetlb and not HUGETLB:
        pytest.skip("this kernel has no hugetlb")
    status, output, errors = workload("run", case.name, "--size", "16m", "--tasks", "2")
    assert status == 0, errors
    assert len(SPEED.findall(output)) == (2 if case.program == "usemem" else 0)
    assert ("nr_overcommit_hugepages" in errors) == case.uses_hugetlb


def test_prepared_names_a_sparse_file_that_is_gone_afterwards() -> None:
    with prepared("shm-pread-seq-mt", 4 << 20, 2) as ready:
        file = Path(ready.argv[ready.argv.index("-f") + 1])
        assert (file.stat().st_size, file.stat().st_blocks) == (4 << 20, 0)
        assert subprocess.run(ready.argv, capture_output=True).returncode == 0
        assert file.stat().st_blocks == (4 << 20) // 512
    assert not file.parent.exists()


@needs_hugetlb
def test_two_at_once_both_get_their_huge_pages(restored: int) -> None:
    def used() -> int:
        return (setup._meminfo("HugePages_Total") or 0) - (setup._meminfo("HugePages_Free") or 0)

    pages = (16 << 20) // setup.huge_page_size()
    before = used()
    command = ("run", "anon-w-seq-hugetlb", "--size", "16m", "--tasks", "2", "--", "-T", "600")
    both = [start(*command), start(*command)]
    for process in both:
        until_it_runs(process)
    assert overcommit() == restored + 2 * (pages + 2 + 1)
    eventually(lambda: used() == before + 2 * pages)
    for process in both:
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM


def test_without_root_nothing_is_tried() -> None:
    for name in ("shm-pread-seq-mt", "tmpfs-fallocate", *(["anon-w-seq-hugetlb"] * HUGETLB)):
        with acting_as(NOBODY), pytest.raises(FaultprofError) as raised, prepared(name, 1 << 20, 1):
            pass
        assert raised.value.exit_code == ExitCode.UNSUPPORTED
        assert "needs root" in raised.value.message


def test_under_sudo_the_case_and_its_files_are_the_users() -> None:
    with TemporaryDirectory(dir="/var/tmp") as directory:  # where every user gets to
        Path(directory).chmod(0o755)
        cache = Path(directory) / "cache"
        cache.mkdir()
        os.chown(cache, *NOBODY)
        user = {"SUDO_UID": "65534", "SUDO_GID": "65534", "XDG_CACHE_HOME": str(cache)}
        options = ("--size", "1m", "--tasks", "1", "--", "-T", "60")
        process = start("run", "shm-pread-seq-mt", *options, **user)
        until_it_runs(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        eventually(lambda: children.read_text() != "")
        child = int(children.read_text().split()[0])
        program = Path(f"/proc/{child}/exe")
        eventually(lambda: program.readlink().name == "usemem")
        assert Path(f"/proc/{child}").stat().st_uid == NOBODY[0]
        process.terminate()
        process.communicate(timeout=30)
        made = [*cache.rglob("*")]
        assert {path.name for path in made} > {"faultprof", "usemem"}
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {NOBODY}


# Put back


KILLED = ("shm-xread-seq-mt", *(["anon-w-seq-hugetlb"] * HUGETLB))


@pytest.mark.parametrize("name", KILLED)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_case_and_puts_back(name: str, number: signal.Signals) -> None:
    process = start("run", name, "--size", "8m", "--tasks", "2", "--", "-T", "60")
    until_it_runs(process)
    assert not Journal().is_empty()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number


@pytest.mark.parametrize("name", KILLED)
@pytest.mark.parametrize("how", ["restore", "next run"])
def test_after_a_kill_it_is_put_back(restored: int, name: str, how: str) -> None:
    process = start("run", name, "--size", "8m", "--tasks", "2", "--", "-T", "60")
    until_it_runs(process)
    process.kill()
    process.communicate(timeout=30)
    assert own_mounts() or overcommit() != restored
    if how == "next run":
        assert workload("run", "shm-xread-seq-mt", "--size", "1m")[0] == 0
    else:
        assert workload("restore")[1].startswith("undone: ")
        assert workload("restore")[1] == "nothing to undo\n"


def test_the_command_dies_with_a_killed_faultprof() -> None:
    process = start("run", "anon-w-seq", "--size", "8m", "--tasks", "2", "--", "-T", "60")
    until_it_runs(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    eventually(lambda: children.read_text() != "")
    child = int(children.read_text().split()[0])
    process.kill()
    process.communicate(timeout=30)
    eventually(lambda: not Path(f"/proc/{child}").exists())


def test_a_mount_in_use_goes_as_well() -> None:
    with setup.tmpfs(1 << 20, huge=False) as directory:
        held = (directory / "file").open("wb")
    assert str(directory) not in own_mounts()
    held.close()


def test_a_kill_before_any_step_of_a_mount_is_made_good() -> None:
    journal = Journal()

    def mount_and_unmount() -> None:
        change = Mount("tmpfs", f"{DIRECTORY}/killed", "faultprof-killed", "size=1m")
        with journal.locked():
            name = journal.make(change)
        with journal.locked():
            journal.undo(name)

    event, mounted = 1, set()
    while killed_at(event, mount_and_unmount):
        mounted.add(len(own_mounts()))
        setup.undo_what_dead_processes_left()
        assert own_mounts() == set(), f"killed before step {event}"
        assert [path.name for path in DIRECTORY.iterdir()] == ["lock"], f"before step {event}"
        event += 1
    assert event > 10
    assert mounted == {0, 1}


# What the mounts are like


def test_tmpfs_holds_the_size_and_not_much_more() -> None:
    with setup.tmpfs(64 << 20, huge=False) as directory:
        with (directory / "file").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 64 << 20)
        with (directory / "other").open("wb") as file, pytest.raises(OSError, match="No space"):
            os.posix_fallocate(file.fileno(), 0, 64 << 20)


def test_tmpfs_has_huge_pages_if_asked_for() -> None:
    def allocated(huge: bool) -> int:
        with setup.tmpfs(64 << 20, huge=huge) as directory:
            before = setup._meminfo("ShmemHugePages") or 0
            with (directory / "file").open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, 64 << 20)
            return ((setup._meminfo("ShmemHugePages") or 0) - before) >> 10

    assert allocated(huge=False) == 0
    assert allocated(huge=True) >= 32


def test_the_mount_is_its_owners_only() -> None:
    with setup.tmpfs(1 << 20, huge=False, owner=(1234, 5678)) as directory:
        state = directory.stat()
        assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (1234, 5678, 0o700)


# usemem on them


@needs_hugetlb
def test_huge_page_faults_are_exactly_the_huge_pages(usemem: Path) -> None:
    huge = setup.huge_page_size()
    with setup.overcommitted_huge_pages(30):
        for options, copies in ((("-U",), 1), (("-O", "-U", "-R"), 1), (("-U", "-o"), 1)):
            few, many = (faults(usemem, *options, pages * huge) for pages in (5, 13))
            assert many - few == copies * 8


def test_readers_of_a_sparse_file_fault_each_page_then_each_window(usemem: Path) -> None:
    around = Path("/sys/kernel/debug/fault_around_bytes")
    window = int(around.read_text()) // PAGE if around.exists() else (64 << 10) // PAGE
    pages = [window * prime for prime in (67, 251)]
    with setup.tmpfs(pages[1] * PAGE, huge=False) as directory:
        file = directory / "file"
        counts = []
        for fresh in (True, False):
            for count in pages:
                if fresh:
                    file.unlink(missing_ok=True)
                counts.append(faults(usemem, "-o", "-f", file, count * PAGE))
    assert counts[1] - counts[0] == pages[1] - pages[0]
    assert counts[3] - counts[2] == (pages[1] - pages[0]) // window


def test_a_full_tmpfs_is_explained(usemem: Path) -> None:
    with setup.tmpfs(1 << 20, huge=False) as directory:
        command = [usemem, "-f", directory / "file", "64m"]
        for options in ([], ["-n", "2"], ["-t", "2"], ["-P", "--prefault"]):
            done = subprocess.run([*command, *options], capture_output=True)
            assert done.returncode == 1
            assert speeds(done.stdout) == []
            assert f"no page to be had for {directory}/file (SIGBUS)" in done.stderr.decode()
            (directory / "file").unlink()


@contextmanager
def few_huge_pages(pages: int) -> Iterator[None]:
    if setup.free_huge_pages():
        pytest.skip("this machine has a pool of huge pages: they do not run out")
    with setup.overcommitted_huge_pages(pages):
        yield


@needs_hugetlb
def test_running_out_of_huge_pages_is_explained(usemem: Path) -> None:
    with few_huge_pages(1):
        page = str(setup.huge_page_size())
        for options, words in (
            (["-U", "-r", "1", str(8 * setup.huge_page_size())], "not enough huge pages"),
            (["-U", "-n", "1", "-P", "--prefault", page], "out of huge pages"),
        ):
            done = subprocess.run([usemem, *options], capture_output=True)
            assert done.returncode == 1
            assert words in done.stderr.decode()
            assert "nr_overcommit_hugepages" in done.stderr.decode()


@needs_hugetlb
def test_a_file_on_hugetlbfs(usemem: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(setup.overcommitted_huge_pages(8))
        directory = stack.enter_context(setup.hugetlbfs())
        done = subprocess.run(
            [usemem, "-t", "2", "-f", directory / "file", "3m"], capture_output=True
        )
        assert [size for size, _, _ in speeds(done.stdout)] == [3 << 20] * 2, done.stderr
        assert (directory / "file").stat().st_size % setup.huge_page_size() == 0


@needs_hugetlb
def test_huge_pages_are_cleared_four_ways_in_rounds(tmp_path: Path) -> None:
    done = subprocess.run(
        [*WORKLOAD, "run", "clear", "--pages", "1,4", "--rounds", "3"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert own_mounts() == set()
    # The table is one that compare reads, as it reads the mails'.
    (tmp_path / "table").write_text(done.stdout)
    (table,) = read_comparands([str(tmp_path / "table")]).tables
    ways = ["fault", "fallocate_tmpfs", "fallocate_hugetlb", "cow"]
    assert [side.label for side in table.sides] == ways
    for side in table.sides:
        assert [len(side.metrics[name].values) for name in ("N=1", "N=4")] == [3, 3]
        # Clearing 8 MB in no time at all is not clearing it: 100 GB/s is beyond any one CPU.
        assert min(side.metrics["N=4"].values) > 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pages", "0"), "not a list of numbers"),
        (("--pages", "1,x"), "not a list of numbers"),
        (("--rounds", "0"), "0 rounds"),
        (("--pages", "1,99999999"), "give --pages 1\n"),
        (("--size", "1g"), "has no --size"),
    ],
)
def test_numbers_that_clear_cannot_have(arguments: tuple[str, ...], words: str) -> None:
    done = subprocess.run([*WORKLOAD, "run", "clear", *arguments], capture_output=True, text=True)
    assert done.returncode in (2, 3)
    assert words in done.stderr

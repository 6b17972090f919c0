"""The named cases against the table of vm-scalability's command lines, and sizes."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.errors import ExitCode, FaultprofError
from faultprof.workloads.cases import CASES, Need, find_case
from faultprof.workloads.sizes import LARGEST, format_size, parse_size

SYNOPSES = {
    "anon-w-seq": "usemem -n nt $((u/nt))",
    "anon-w-seq-mt": "usemem -t nt $((u/nt))",
    "anon-w-seq-hugetlb": "usemem -n nt -O -U $((u/nt))",
    "anon-cow-seq": "usemem -n nt --prealloc --prefault $((u/(nt+1)))",
    "anon-cow-seq-hugetlb": "usemem -n nt --prealloc --prefault -O -U $((u/(nt+1)))",
    "shm-pread-seq-mt": "usemem -t nt -f SHM --readonly u",
    "shm-xread-seq-mt": "usemem -t nt -f SHM --prealloc --readonly u",
    "tmpfs-fallocate": "fallocate -l u SHM",
    "hugetlb-fallocate": "fallocate -l u SHM",
}


def test_the_command_lines_are_those_of_vm_scalability() -> None:
    assert {case.name: case.synopsis for case in CASES} == SYNOPSES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(("size", "tasks"), [(256 << 20, 1), (256 << 20, 3), (1_000_003, 7)])
def test_the_shell_computes_the_same_command(case, size: int, tasks: int) -> None:
    script = f"u={size}; nt={tasks}; echo {case.synopsis.replace('u/', '$u/').replace(' u', ' $u')}"
    script = script.replace(" nt ", " $nt ").replace("nt)", "$nt)").replace("(nt+", "($nt+")
    shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    command = case.command(size, tasks, program=case.program, file="SHM")
    assert " ".join(command) == shell.stdout.strip()


def test_extra_options_come_before_the_size() -> None:
    case = find_case("shm-pread-seq-mt")
    command = case.command(4096, 2, program="/x/usemem", file="/a b/file", extra=["-R", "-j", "64"])
    assert command == [
        "/x/usemem", "-t", "2", "-f", "/a b/file", "--readonly", "-R", "-j", "64", "4096",
    ]  # fmt: skip


def test_huge_pages_allowed_beyond_the_pool() -> None:
    two_mb = 2 << 20
    assert find_case("anon-w-seq-hugetlb").overcommit_pages(256 << 20, 4, two_mb) == 128 + 4 + 1
    assert find_case("anon-cow-seq-hugetlb").overcommit_pages(3 << 20, 2, two_mb) == 1 + 2 + 1
    assert find_case("hugetlb-fallocate").overcommit_pages(1 << 30, 1, 1 << 30) == 1 + 1 + 1
    assert find_case("anon-w-seq").overcommit_pages(256 << 20, 4, two_mb) == 0


@given(st.integers(1 << 20, 1 << 40), st.integers(1, 64), st.sampled_from([2 << 20, 64 << 10]))
def test_the_huge_pages_are_enough(size: int, tasks: int, huge_page: int) -> None:
    for name, copies in (("anon-w-seq-hugetlb", tasks), ("anon-cow-seq-hugetlb", tasks + 1)):
        case = find_case(name)
        share = int(case.command(size, tasks, program="usemem")[-1])
        assert case.overcommit_pages(size, tasks, huge_page) >= copies * -(-share // huge_page)


def test_a_case_that_changes_the_machine_needs_root() -> None:
    for case in CASES:
        assert (Need.ROOT in case.needs) == bool(case.needs - {Need.ROOT})


def test_memory_counts_a_page_table_for_each_mapping_of_a_file() -> None:
    assert find_case("anon-w-seq").memory(512 << 20, 4) == 513 << 20
    assert find_case("shm-pread-seq-mt").memory(512 << 20, 4) == 516 << 20


@pytest.mark.parametrize(
    ("name", "near"),
    [("anon-w-sq", "anon-w-seq"), ("shm-pread-seq", "shm-pread-seq-mt"), ("fallocate", "tmpfs-f")],
)
def test_an_unknown_case_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(FaultprofError) as raised:
        find_case(name)
    assert raised.value.exit_code == ExitCode.USAGE
    assert name in raised.value.message
    assert near in raised.value.hint
    assert "faultprof workload list" in raised.value.hint


@pytest.mark.parametrize(("size", "tasks"), [(8192, 3), (1 << 30, 0), (1 << 30, 65537)])
def test_shares_below_a_page_and_impossible_tasks_are_refused(size: int, tasks: int) -> None:
    with pytest.raises(FaultprofError) as raised:
        find_case("anon-w-seq").command(size, tasks, program="usemem")
    assert raised.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("4096", 4096), ("12k", 12 << 10), ("256M", 256 << 20), ("3g", 3 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "m", "-1", "+1", "1.5g", "1mb", "1 m", "0", "0k", "8388608t", "²", "1\n"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(FaultprofError) as raised:
        parse_size(text)
    assert raised.value.exit_code == ExitCode.USAGE


@given(st.integers(1, LARGEST))
def test_a_size_survives_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size

"""The bundled usemem: its options, its report, and the page faults that it makes."""

from __future__ import annotations

import itertools
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faultprof.workloads.usemem import FLAGS, SOURCE

PAGE = os.sysconf("SC_PAGE_SIZE")
SPEED = re.compile(rb"(\d+) bytes / (\d+) usecs = (\d+) KB/s")
FREE = re.compile(rb"\d+ usecs to free memory")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")

# No huge pages: a fault is a page. No address randomisation: the start-up always faults alike.
COUNT_FAULTS = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None)
assert libc.prctl(41, 1, 0, 0, 0) == 0 and libc.personality(0x0040000) >= 0
out = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[out])
_, status, usage = os.wait4(pid, 0)
assert status == 0, status
print(usage.ru_minflt + usage.ru_majflt)
"""

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def build(directory: Path, *flags: str) -> Path:
    program = directory / "usemem"
    command = ["cc", *FLAGS, *STRICT, *flags, str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("usemem"))


@pytest.fixture
def usemem(program: Path) -> Run:
    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
        command = [str(program), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def speeds(output: bytes) -> list[tuple[int, int, int]]:
    """Return (bytes, usecs, KB/s) of each task; every line must be one that is expected."""
    lines = output.splitlines()
    assert all(SPEED.fullmatch(line) or FREE.fullmatch(line) for line in lines), output
    found = [SPEED.fullmatch(line) for line in lines]
    return [tuple(map(int, match.groups())) for match in found if match]  # type: ignore[misc]


def frees(output: bytes) -> int:
    return sum(FREE.fullmatch(line) is not None for line in output.splitlines())


def faults(program: Path, *arguments: object) -> int:
    command = [sys.executable, "-c", COUNT_FAULTS, str(program), *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


# The report


@pytest.mark.parametrize(
    ("arguments", "tasks", "free_lines"),
    [
        ("1m", 1, 1),
        ("-n 3 1m", 3, 3),
        ("-t3 1m", 3, 3),
        ("-n 2 -t 3 1m", 6, 6),
        ("--nproc=2 --thread=3 --prealloc 1m", 6, 2),
        ("-t 3 -P 1m", 3, 1),
        ("-n 3 -P --prefault 1m", 3, 3),
        ("-n 2 -O 1m", 2, 2),
        ("-u 64k 1m", 1, 1),
    ],
)
def test_each_task_reports_once_and_each_mapping_is_freed_once(
    usemem: Run, arguments: str, tasks: int, free_lines: int
) -> None:
    done = usemem(*arguments.split())
    assert (done.returncode, done.stderr) == (0, b"")
    assert [size for size, _, _ in speeds(done.stdout)] == [1 << 20] * tasks
    assert frees(done.stdout) == free_lines


@pytest.mark.parametrize("arguments", ["4096", "9999999", "-r 50 4m", "-n 4 1m", "-R 3m"])
def test_the_speed_is_bytes_over_time_in_kilobytes_of_1024(usemem: Run, arguments: str) -> None:
    for size, usecs, speed in speeds(usemem(*arguments.split()).stdout):
        assert speed == size * 1_000_000 // usecs // 1024


def test_lines_of_many_tasks_stay_whole(usemem: Run, tmp_path: Path, program: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        subprocess.run([program, "-n", "8", "-t", "8", "64k"], stdout=output, check=True)
    for text in ((tmp_path / "output").read_bytes(), usemem("-n8", "-t8", "64k").stdout):
        assert (len(speeds(text)), frees(text)) == (64, 64)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("12K", 12 << 10), ("3m", 3 << 20), ("1G", 1 << 30)],
)
def test_sizes(usemem: Run, text: str, size: int) -> None:
    assert speeds(usemem("-j", "1g", text).stdout)[0][0] == size


def test_repeat_counts_every_pass(usemem: Run) -> None:
    assert speeds(usemem("-r", 7, "1m").stdout)[0][0] == 7 << 20
    assert speeds(usemem("-r", 7, "-u", "64k", "1m").stdout)[0][0] == 7 << 20


@pytest.mark.parametrize(
    "arguments", ["64k", "-R 64k", "-u 4k 64k", "-P -t 2 -R 64k", "-r 2000000000 64k"]
)
def test_runtime_repeats_until_the_time_is_up(usemem: Run, arguments: str) -> None:
    for size, usecs, _ in speeds(usemem("-T", 1, *arguments.split()).stdout):
        assert usecs >= 1_000_000
        assert size > 64 << 10


def test_runtime_cuts_a_pass_short(usemem: Run) -> None:
    # More passes than a machine makes in the time, so that the last is cut at any place.
    size = speeds(usemem("-T", 1, "-r", 4_000_000_000, "-j", 64, "1g").stdout)[0][0]
    assert size % 64 == 0


def test_runtime_and_repeat_end_with_whichever_comes_first(usemem: Run) -> None:
    assert speeds(usemem("-T", 60, "-r", 3, "1m").stdout)[0][0] == 3 << 20


def test_help_names_every_option(usemem: Run) -> None:
    done = usemem("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    for option in (
        "-n, --nproc", "-t, --thread", "-f, --file", "-O, --anonymous", "-U, --hugetlb",
        "-P, --prealloc", "--prefault", "-u, --unit", "-j, --step", "-r, --repeat",
        "-o, --readonly", "-R, --random", "-T, --runtime", "-w, --open-rw", "-h, --help",
    ):  # fmt: skip
        assert option in done.stdout.decode()
    assert usemem("-h").stdout == done.stdout


# Where the accesses go


def words(file: Path) -> list[int]:
    data = file.read_bytes()
    return [int.from_bytes(data[i : i + 8], sys.byteorder) for i in range(0, len(data), 8)]


UNTOUCHED = 2**64 - 1


def untouched(file: Path, count: int) -> Path:
    file.write_bytes(b"\xff" * 8 * count)
    return file


def test_a_file_is_written_in_order(usemem: Run, file: Path) -> None:
    usemem("-f", untouched(file, 1000), "8000")
    assert words(file) == list(range(1000))


def test_step_leaves_out_what_lies_between(usemem: Run, file: Path) -> None:
    usemem("-f", untouched(file, 1000), "--step=40", "8000")
    assert words(file)[::5] == list(range(200))
    assert all(word == UNTOUCHED for i, word in enumerate(words(file)) if i % 5)


@pytest.mark.parametrize("count", [*range(1, 40), 255, 256, 257, 1000, 4096, 65537])
def test_random_order_takes_each_place_once(usemem: Run, file: Path, count: int) -> None:
    usemem("-R", "-f", untouched(file, count), 8 * count)
    # A word holds the turn in which it was written: distinct turns are distinct places.
    assert len(set(words(file))) == count
    assert UNTOUCHED not in words(file)


def test_random_order_has_no_trend_and_is_the_same_each_time(usemem: Run, file: Path) -> None:
    usemem("-R", "-f", untouched(file, 4096), 8 * 4096)
    first = words(file)
    steps = [b - a for a, b in itertools.pairwise(first)]
    # Half of the steps go up, within four standard deviations; none makes a stride (2 %).
    assert abs(sum(step > 0 for step in steps) - 2048) < 4 * 32
    assert max(Counter(steps).values()) < 82
    usemem("-R", "-f", untouched(file, 4096), 8 * 4096)
    assert words(file) == first


def test_units_are_walked_one_after_the_other(usemem: Run, file: Path) -> None:
    usemem("-u", PAGE, "-f", untouched(file, 2 * PAGE // 8), 2 * PAGE)
    assert words(file) == [*range(PAGE // 8)] * 2


def test_readonly_writes_nothing(usemem: Run, file: Path) -> None:
    for options in (["--readonly"], ["-o", "-w"], ["-o", "-R"], ["-o", "--prefault", "-P"]):
        assert usemem(*options, "-f", untouched(file, 1000), 8000).returncode == 0
        assert set(words(file)) == {UNTOUCHED}


def test_a_missing_file_is_made_and_a_short_one_grows(usemem: Run, file: Path) -> None:
    assert usemem("-o", "-f", file, "1m").returncode == 0
    assert file.stat().st_size == 1 << 20
    assert usemem("-f", file, "2m").returncode == 0
    assert file.stat().st_size == 2 << 20
    assert usemem("-f", file, "1m").returncode == 0
    assert file.stat().st_size == 2 << 20


def test_without_a_size_the_whole_file_is_used(usemem: Run, file: Path) -> None:
    file.write_bytes(bytes(12345))
    assert [size for size, _, _ in speeds(usemem("-t2", "-oPf", file).stdout)] == [12345] * 2


@pytest.fixture
def running(program: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: object) -> subprocess.Popen[bytes]:
        command = [str(program), *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def eventually(look: Callable[[], object]) -> object:
    """Return what ``look`` finds, as soon as it does."""
    for _ in range(2000):
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("never seen")


@pytest.mark.parametrize(
    ("options", "mode"), [(["-o"], "r--s"), (["-o", "-w"], "rw-s"), ([], "rw-s")]
)
def test_protection_of_the_mapping(
    running: Callable[..., subprocess.Popen[bytes]], file: Path, options: list[str], mode: str
) -> None:
    process = running("-T", 60, *options, "-f", file, "64k")
    maps = Path(f"/proc/{process.pid}/maps")
    lines = eventually(lambda: [x for x in maps.read_text().splitlines() if x.endswith(str(file))])
    assert [line.split()[1] for line in lines] == [mode]  # type: ignore[attr-defined]


# Page faults: with two prime numbers of pages, the difference is exact.

PRIMES = (1009, 4001)
GROWTH = PRIMES[1] - PRIMES[0]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "-O",
        "-j 4096",
        "--readonly",
        "--readonly -j 4096 -R",
        "-R",
        "-r 3",
        "--prefault",
        "--prealloc",
        "--prealloc --prefault --readonly",
        "-u 2m",
    ],
)
def test_a_task_faults_exactly_its_pages(program: Path, arguments: str) -> None:
    few, many = (faults(program, *arguments.split(), pages * PAGE) for pages in PRIMES)
    assert many - few == GROWTH


@pytest.mark.parametrize(
    ("arguments", "tasks", "each"),
    [
        ("-t 3", 3, 3),
        ("-n 3", 3, 3),
        ("-n 3 -t 2", 6, 6),
        # Copy on write: the parent's pages, and a copy in each child.
        ("-n 3 --prealloc --prefault", 3, 4),
        # The pages are there when the threads start.
        ("-t 3 --prealloc --prefault", 3, 1),
    ],
)
def test_several_tasks_fault_their_pages(
    program: Path, arguments: str, tasks: int, each: int
) -> None:
    few, many = (faults(program, *arguments.split(), pages * PAGE) for pages in PRIMES)
    # Starting a task takes a few faults more or less: stacks and copied pages may be used again.
    assert abs(many - few - each * GROWTH) <= 8 * tasks


def test_step_of_two_pages_faults_half_of_them(program: Path) -> None:
    few, many = (faults(program, "-j", 2 * PAGE, pages * PAGE) for pages in PRIMES)
    assert many - few == GROWTH // 2


# Refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--foo 1m", "unknown or ambiguous option --foo"),
        ("--pre 1m", "unknown or ambiguous option --pre"),
        ("-Z 1m", "unknown option -Z"),
        ("-oZ 1m", "unknown option -Z"),
        ("1m -n", "option --nproc needs a value"),
        ("--readonly=1 1m", "option --readonly takes no value"),
        ("", "no size given"),
        ("-n 2", "no size given"),
        ("1m 2m", "'2m' is one too many"),
        ("0", "must not be 0"),
        ("12q", "not '12q'"),
        ("1mb", "not '1mb'"),
        ("1.5g", "not '1.5g'"),
        ("-- -1", "not '-1'"),
        ("99999999999999999999", "too large"),
        ("8388608t", "too large"),
        ("-n 0 1m", "--nproc is out of range: 0"),
        ("-t x 1m", "--thread needs a number, not 'x'"),
        ("-r -1 1m", "--repeat needs a number, not '-1'"),
        ("-T 0 1m", "--runtime is out of range: 0"),
        ("-j 12 1m", "--step must be a multiple of 8"),
        ("-u 5000 1m", "--unit must be a multiple of the page size"),
        ("-O -f x 1m", "--anonymous and --file exclude each other"),
        ("-U -f x 1m", "--hugetlb and --file exclude each other: put the file on hugetlbfs"),
        ("-f /dev/null", "/dev/null has no length"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(usemem: Run, arguments: str, words: str) -> None:
    done = usemem(*arguments.split())
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.decode().startswith("usemem: ")
    assert words in done.stderr.decode()


# Failures


def test_a_file_that_cannot_be_made(usemem: Run, tmp_path: Path) -> None:
    done = usemem("-f", tmp_path / "missing" / "file", "1m")
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"usemem: cannot make {tmp_path}/missing/file: No such")


def test_memory_that_cannot_be_mapped(usemem: Run) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    for options in ([], ["-n", "1"], ["-P"], ["-t", "1"]):
        done = usemem(*options, "2g", preexec_fn=limit)
        assert (done.returncode, speeds(done.stdout)) == (1, [])
        assert b"cannot map 2147483648 bytes" in done.stderr
        assert b"use less" in done.stderr


def test_a_report_that_cannot_be_written_is_a_failure(program: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([program, "64k"], stdout=full).returncode == 1


def children(process: subprocess.Popen[bytes]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_a_killed_task_fails_the_whole(running: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = running("-n", 2, "-T", 1, "64k")
    victim = eventually(lambda: len(children(process)) == 2 and children(process))[0]  # type: ignore[index]
    os.kill(victim, signal.SIGKILL)
    output, errors = process.communicate()
    assert process.returncode == 1
    assert len(speeds(output)) == 1
    assert f"process {victim} was killed by signal 9" in errors.decode()


def test_no_task_outlives_its_parent(running: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = running("-n", 3, "-T", 60, "64k")
    tasks = eventually(lambda: len(children(process)) == 3 and children(process))
    process.kill()
    process.wait()
    eventually(lambda: not any(Path(f"/proc/{task}").exists() for task in tasks))  # type: ignore[attr-defined]


# Undefined behaviour and data races


@pytest.mark.parametrize("checks", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, checks: str) -> None:
    program = build(tmp_path, "-g", f"-fsanitize={checks}", "-fno-sanitize-recover=all")
    sparse = tmp_path / "sparse"
    for arguments in (
        "300k", "-R -r2 300001", "-t 4 -P 300k", "-t 4 -P -R 300k", "-n 2 -P --prefault 300k",
        "-n 2 -t 2 -u 8k 300k", "-T 1 -u 4k 300k", "-t 2 -T 1 -R -P 300k", "-j 1m 300k",
        f"-t 2 -f {sparse} 300k", f"-t 2 -of {sparse} 5001", f"-wof {sparse} -P --prefault",
        "8", "1", "--help",
    ):  # fmt: skip
        # The thread sanitizer of gcc 12 knows no address space as random as newer kernels make.
        command = ["setarch", "-R", str(program), *arguments.split()]
        done = subprocess.run(command, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b""), arguments

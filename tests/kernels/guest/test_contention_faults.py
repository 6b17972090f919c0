"""The parts ``yield`` and ``outcomes`` say what is known beforehand of faults of each kind.

A program (ways.c) takes prime numbers of faults of one kind after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from .traced_shell import compiled, setting

pytestmark = pytest.mark.noisy("disk and swap")

if TYPE_CHECKING:
    from faultprof.capture.contention.parts import Parts
    from faultprof.capture.options import Attach

AROUND = 16  # pages in a window of fault-around: fault_around_bytes is 64 KB
HUGE = 512  # small pages in a huge one

PAGES = {
    "sparse": 101,
    "around": 13,  # windows
    "cow": 103,
    "shared": 107,
    "anonymous": 109,
    "protected": 113,
    "huge": 3,
    "hugetlb": 5,
    "cold": 127,
    "useless": 131,
    "pmd": 3,
    "error": 37,
    "swapped": 139,
    "numa": 997,
}
TRACED = ("cold",)
CGROUP = Path("/sys/fs/cgroup/ways")
DISK = "/dev/vdc"  # for the results of the tests, written to when all is over
EVENT = Path("/sys/kernel/tracing/events/filemap/mm_filemap_map_pages")

MMAP, VMA = "mmap_lock", "vma_lock"


@dataclass(frozen=True)
class Round:
    """What the parts have of one round, and what the kernel says of it."""

    pages: int
    around: dict[str, Any]
    outcomes: dict[str, Any]
    minor: int
    major: int
    hits: int | None
    """Of the tracepoint mm_filemap_map_pages; None where there is none."""
    traced: dict[str, int]
    """Counters of a tracer beside the parts; only of kinds in TRACED."""
    hinting: int
    """NUMA hinting faults of the whole machine."""

    @property
    def ways(self) -> dict[tuple[str, str, bool, str], int]:
        """How many attempts ended in which way."""
        return {
            (row["kind"], row["lock"], row["again"], row["end"]): row["count"]
            for row in self.outcomes["rows"]
        }

    @property
    def ends(self) -> Counter[str]:
        """How many attempts ended how."""
        ends: Counter[str] = Counter()
        for (*_, end), count in self.ways.items():
            ends[end] += count
        return ends

    def counts(self, *names: str) -> list[int]:
        """Return counts of the part ``yield``."""
        return [self.around[name] for name in names]


class Ways:
    """The program, and the parts that follow it."""

    def __init__(self, program: Path, attach: Attach) -> None:
        self._program = program
        self._attach = attach
        self._parts: Parts | None = None

    def rounds(self, directories: list[str], kinds: list[str]) -> dict[str, Round]:
        """Return what was counted in a round of each kind; one that fails is left out."""
        found = {}
        for kind in kinds:
            try:
                found[kind] = self._run(directories, kind)
            except AssertionError as error:
                print(f"{kind}: {error}")
        return found

    def _run(self, directories: list[str], kind: str) -> Round:
        # First in, first out, as in traced_shell.py.
        start = f'echo $$ >{CGROUP}/cgroup.procs; exec chrt --fifo 1 setarch -R "$0" "$@"'
        words = [*directories, f"{CGROUP}/memory.reclaim", f"{kind}:{PAGES[kind]}"]
        with subprocess.Popen(
            ["sh", "-c", start, self._program, *words],
            env={**os.environ, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "\n", "it has ended"
            found = self._round(kind, process.pid, process.stdin, process.stdout)
            assert process.wait() == 0
        return found

    def _round(self, kind: str, pid: int, to: IO[str], of: IO[str]) -> Round:
        parts, hinting = self._aimed(pid), hinting_faults()
        with counted_events(pid) as hits, self._traced(kind, pid) as traced:
            parts.start()
            to.write("\n")
            minor, major = map(int, of.readline().split())
        data, hinting = parts.stop(), hinting_faults() - hinting
        to.write("\n")
        numbers = {name: one for name, one in data["yield"].items() if isinstance(one, int) and one}
        print(kind, minor, major, hits, traced.get("faults_retried"), hinting, numbers)
        print([(*row.values(),)[:5] for row in data["outcomes"]["rows"]])
        found = hits[0] if hits else None
        around, outcomes = data["yield"], data["outcomes"]
        return Round(PAGES[kind], around, outcomes, minor, major, found, traced, hinting)

    @contextmanager
    def _traced(self, kind: str, pid: int) -> Iterator[dict[str, int]]:
        """Trace as well, if this kind is to be; afterwards the tracer's counters are returned."""
        from faultprof.capture.options import RecordOptions
        from faultprof.capture.scope import Scope
        from faultprof.capture.trace_setup import open_tracer
        from faultprof.kernel.view import KernelView

        counters: dict[str, int] = {}
        if kind not in TRACED:
            yield counters
            return
        options = RecordOptions(
            Path("unused"), functions=("handle_mm_fault",), attach=self._attach, off_cpu=False
        )
        with closing(open_tracer(options, Scope(pid), KernelView.read())) as tracer:
            tracer.start()
            yield counters
            counters |= tracer.stop().stats

    def _aimed(self, pid: int) -> Parts:
        """Return the parts, attached at the first time, aimed at a process."""
        from faultprof.capture.contention.parts import Parts
        from faultprof.capture.contention.setting import Setting
        from faultprof.capture.options import RecordOptions
        from faultprof.capture.scope import Scope

        if self._parts is None:
            options = RecordOptions(Path("unused"), attach=self._attach)
            parts = ("yield", "outcomes")
            self._parts = Parts(parts, parts, Setting(options, Scope(pid), None))
        else:
            self._parts.next_run(Scope(pid))
        return self._parts

    def close(self) -> None:
        """Detach the probes."""
        if self._parts is not None:
            self._parts.close()


@contextmanager
def counted_events(pid: int) -> Iterator[list[int]]:
    """Have the kernel trace a process; afterwards the number of its events is in the list."""
    found: list[int] = []
    if not EVENT.is_dir():
        yield found
        return
    instance = EVENT.parents[2] / "instances/ways"
    instance.mkdir()
    try:
        (instance / "set_event_pid").write_text(str(pid))
        enable = instance / "events/filemap/mm_filemap_map_pages/enable"
        enable.write_text("1")
        yield found
        enable.write_text("0")
        lines = (instance / "trace").read_text().splitlines()
        found.append(sum("mm_filemap_map_pages" in line for line in lines))
    finally:
        instance.rmdir()


@contextmanager
def cgroup() -> Iterator[None]:
    """Have a cgroup whose memory can be reclaimed."""
    (CGROUP.parent / "cgroup.subtree_control").write_text("+memory")
    CGROUP.mkdir()
    try:
        yield
    finally:
        CGROUP.rmdir()


@contextmanager
def swap() -> Iterator[None]:
    """Swap to the disk, one page at a time."""
    subprocess.run(["mkswap", DISK], check=True, capture_output=True)
    subprocess.run(["swapon", DISK], check=True)
    try:
        with setting("/proc/sys/vm/page-cluster", "0"):
            yield
    finally:
        subprocess.run(["swapoff", DISK], check=True)


def hinting_faults() -> int:
    """Return the kernel's own count."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts["numa_hint_faults"])


@contextmanager
def numa_balancing() -> Iterator[None]:
    """Have the kernel look early and often at which pages are used where."""
    scan = "/sys/kernel/debug/sched/numa_balancing"
    with (
        setting(f"{scan}/scan_delay_ms", "10"),
        setting(f"{scan}/scan_period_min_ms", "100"),
        setting("/proc/sys/kernel/numa_balancing", "1"),
    ):
        yield


@contextmanager
def mounted(where: Path, *words: str) -> Iterator[str]:
    """Mount a file system for a while."""
    where.mkdir()
    subprocess.run(["mount", *words, where], check=True)
    try:
        yield str(where)
    finally:
        subprocess.run(["umount", where], check=True)


@pytest.fixture(scope="module", params=("kprobe", "fentry"))
def rounds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kernel: str
) -> Iterator[dict[str, Round]]:
    """Return what was counted in a round of each kind, for each way of attaching."""
    directory = tmp_path_factory.mktemp("ways")
    names = [kind for kind in PAGES if kind not in ("swapped", "numa")]
    # In 6.1 do_fault cannot be probed by fentry (see test_trace_answers.py).
    attach: Attach = "auto" if (kernel, request.param) == ("6.1", "fentry") else request.param
    with (
        closing(Ways(compiled("ways.c", directory), attach)) as ways,
        setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        setting("/proc/sys/vm/nr_overcommit_hugepages", str(2 + 1 + PAGES["hugetlb"])),
        cgroup(),
        mounted(directory / "huge", "-t", "tmpfs", "-o", "huge=always", "huge") as huge,
    ):
        with swap():
            found = ways.rounds(["/dev/shm", huge, "-"], ["swapped"])
        with numa_balancing():
            found |= ways.rounds(["/dev/shm", huge, "-"], ["numa"])
        subprocess.run(["mkfs.ext4", "-q", "-F", DISK], check=True)
        with mounted(directory / "disk", DISK) as disk:
            found |= ways.rounds(["/dev/shm", huge, f"{disk}/cold"], names)
        yield found


def lock_of(kernel: str) -> str:
    """Return the lock that a first attempt is made under."""
    return MMAP if kernel == "6.1" else VMA


def test_nothing_is_lost(rounds: dict[str, Round]) -> None:
    for kind, one in rounds.items():
        lost = one.around["lost"] | one.outcomes["lost"]
        assert not any(lost.values()), (kind, lost)
        assert one.around["unfinished"] == one.outcomes["unfinished"] == 0


def test_the_kernel_counts_as_many_faults(rounds: dict[str, Round]) -> None:
    """Minor and major ones, as getrusage(2) has them; it has none that ended in an error."""
    for kind, one in rounds.items():
        if kind != "numa":
            assert (one.ends["minor"], one.ends["major"]) == (one.minor, one.major), kind
            assert one.around["faults"] == one.pages, kind


ONE_WAY = {
    "sparse": "read",
    "around": "read",
    "useless": "read",
    "pmd": "read",
    "cow": "cow",
    "shared": "shared",
    "anonymous": "anonymous",
    "protected": "write-protected",
    "huge": "huge",
    "hugetlb": "hugetlb",
}


@pytest.mark.parametrize("kind", ONE_WAY)
def test_each_page_is_one_fault_of_its_kind(
    rounds: dict[str, Round], kernel: str, kind: str
) -> None:
    one = rounds[kind]
    assert one.ways == {(ONE_WAY[kind], lock_of(kernel), False, "minor"): one.pages}
    (row,) = one.outcomes["rows"]
    assert sum(count for _, count in row["histogram"]) == one.pages
    assert 0 < row["max_ns"] <= row["ns"] <= one.pages * row["max_ns"]


def test_a_fault_behind_the_end_of_a_file_is_an_error(
    rounds: dict[str, Round], kernel: str
) -> None:
    one = rounds["error"]
    assert one.ways == {("read", lock_of(kernel), False, "error"): one.pages}


def test_a_fault_that_reads_from_disk_is_made_twice(rounds: dict[str, Round], kernel: str) -> None:
    """The first attempt lets go of its lock to read; the second, of which the kernel says so, maps.

    To the kernel the whole of it is one major fault.
    """
    one = rounds["cold"]
    assert one.ways == {
        ("read", lock_of(kernel), False, "retry"): one.pages,
        ("read", MMAP, True, "major"): one.pages,
    }
    assert one.outcomes["tried"] == one.traced["faults_retried"] == one.pages
    assert one.traced["faults"] == 2 * one.pages
    # Fault-around looks at both: at first there is nothing, then the one page that was read.
    names = ("calls", "nothing", "empty", "second", "left_out", "file", "retried", "major")
    assert one.counts(*names) == [2 * one.pages, *[one.pages] * 7]
    assert one.around["mapped_per_call"] == [[0, one.pages], [1, one.pages]]


def test_a_swapped_page_is_a_major_fault(rounds: dict[str, Round]) -> None:
    """It is read by the first attempt; whether that has to be made again is up to the disk."""
    one = rounds["swapped"]
    assert {kind for kind, *_ in one.ways} == {"swap"}
    assert one.ends["major"] == one.pages
    retries = one.ends["retry"]
    again = sum(count for (_, _, again, _), count in one.ways.items() if again)
    assert again == retries == one.outcomes["tried"]
    assert one.around["calls"] == 0


def test_hinting_faults_are_as_many_as_the_kernel_counts(rounds: dict[str, Round]) -> None:
    one = rounds["numa"]
    assert {(kind, end) for kind, _, _, end in one.ways} == {("numa", "minor")}
    # The kernel has a count of this program's faults while it looks, and one of the whole machine.
    assert one.pages <= one.minor <= sum(one.ways.values()) <= one.hinting


def test_cached_pages_are_mapped_a_window_at_a_time(rounds: dict[str, Round]) -> None:
    one = rounds["around"]
    windows = one.pages
    assert one.counts("calls", "mapped", "nothing", "left_out") == [windows, AROUND * windows, 0, 0]
    # Once more to learn that there is none.
    assert one.counts("asked", "found") == [(AROUND + 1) * windows, AROUND * windows]
    for name in ("mapped_per_call", "found_per_call"):
        assert one.around[name] == [[AROUND, windows]]
    assert one.around["window_pages"] == AROUND
    assert one.hits in (windows, None)


def test_in_a_file_of_holes_there_is_nothing_to_map(rounds: dict[str, Round]) -> None:
    """What fault-around finds there are the pages before, which are mapped already."""
    one = rounds["sparse"]
    found = [page % AROUND for page in range(one.pages)]
    assert_useless(one, found)


def test_calls_that_find_only_mapped_pages_are_useless(rounds: dict[str, Round]) -> None:
    """A sibling thread has mapped every other page; the rest are holes, read in random order."""
    one = rounds["useless"]
    found, there = [], {2 * page for page in range(one.pages)}
    for page in random_order(one.pages):
        faulting = 2 * page + 1
        window = range(faulting // AROUND * AROUND, (faulting // AROUND + 1) * AROUND)
        found.append(len(there & set(window)))
        there.add(faulting)
    assert_useless(one, found)


def random_order(pages: int) -> list[int]:
    """Return the order that ways.c makes."""
    order: list[int] = []
    state = 1
    for page in range(pages):
        state = state * 48271 % 2147483647
        order.append(page)
        place = state % (page + 1)
        order[page], order[place] = order[place], page
    return order


def assert_useless(one: Round, found: list[int]) -> None:
    """Demand that each page had a call that found so many folios, and nothing to map."""
    assert one.counts("calls", "nothing", "left_out", "file") == [one.pages] * 4
    names = ("mapped", "second", "waited", "retried", "major", "pmd_mapped", "pmd_there")
    assert one.counts(*names) == [0] * len(names)
    assert one.counts("found", "asked") == [sum(found), sum(found) + one.pages]
    assert one.around["found_per_call"] == [list(pair) for pair in sorted(Counter(found).items())]
    assert one.around["mapped_per_call"] == [[0, one.pages]]
    empty = found.count(0)
    assert one.around["empty"] == empty
    # The kernel's own event comes where a folio was found.
    assert one.hits in (one.pages - empty, None)


def test_a_huge_page_is_mapped_as_one(rounds: dict[str, Round]) -> None:
    one = rounds["pmd"]
    assert one.counts("calls", "pmd_mapped", "asked", "found") == [one.pages] * 4
    names = ("mapped", "nothing", "left_out", "pmd_there", "second")
    assert one.counts(*names) == [0] * len(names)
    assert one.around["huge_pages"] == HUGE
    assert one.around["mapped_per_call"] == []


@pytest.mark.parametrize("kind", ["cow", "shared", "anonymous", "protected", "huge", "hugetlb"])
def test_other_faults_map_nothing_around(rounds: dict[str, Round], kind: str) -> None:
    assert rounds[kind].counts("calls", "asked", "mapped") == [0, 0, 0]


def test_two_threads_that_meet_in_a_file(tmp_path: Path) -> None:
    """Recorded as a user does: what both parts count belongs together, whoever comes first."""
    from tests.running import record, run

    file, out = Path("/dev/shm/faultprof-met"), tmp_path / "x.fprof"
    parts = ("--yield", "--outcomes", "-F", "49")
    record(out, *parts, "--", "usemem", "-t", "2", "--readonly", "-f", str(file), "8m", timeout=300)
    file.unlink()
    done = run("contention", out, "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    around, outcomes = report["yield"], report["outcomes"]
    print({name: one for name, one in around.items() if isinstance(one, int)})
    assert not any((around["lost"] | outcomes["lost"]).values())
    assert around["unfinished"] == outcomes["unfinished"] == 0
    assert around["faults"] == outcomes["faults"]
    reads = sum(row["count"] for row in outcomes["rows"] if row["kind"] == "read")
    # Each attempt to read from a file looks around, but for files that have no pages to map.
    assert 0 < around["calls"] <= reads
    assert around["calls"] == around["useful"] + around["nothing"]
    for name in ("mapped_per_call", "found_per_call"):
        assert sum(calls for _, calls in around[name]) == around["calls"]
    assert sum(pages * calls for pages, calls in around["mapped_per_call"]) == around["mapped"]
    assert around["useful_calls"]["count"] == around["useful"]
    assert around["useless_calls"]["count"] == around["nothing"]
    # Both read all of 2,048 pages, by faults of their own or in the other's wake.
    assert around["left_out"] >= 2048
    assert around["left_out"] == around["file"] >= around["waited"]
    assert around["file_waited"]["count"] == around["waited"]
    assert around["file_unwaited"]["count"] == around["file"] - around["waited"]

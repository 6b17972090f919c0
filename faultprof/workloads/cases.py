"""The named cases of vm-scalability, as data.

Knows: for each case its command line, what of the fault path it exercises, and what the
machine must offer. Leaves to others: offering it (``setup``), running it (``run``).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from faultprof.errors import FaultprofError
from faultprof.workloads.sizes import format_size

SMALLEST_SHARE = 4096
MOST_TASKS = 65536


class Need(StrEnum):
    """What a case needs from the machine; all of it is set up, and undone, by faultprof."""

    TMPFS = "tmpfs"
    HUGE_TMPFS = "tmpfs-huge"
    HUGETLB = "hugetlb"
    HUGETLBFS = "hugetlbfs"
    ROOT = "root"


@dataclass(frozen=True)
class Division:
    """How the memory of a case, u bytes, is divided among its nt tasks.

    Attributes:
        symbol: the size argument as a shell would compute it.
        parents: what is added to nt in the divisor.
        whole: whether there is no divisor: every task uses all of u.
    """

    symbol: str
    parents: int = 0
    whole: bool = False

    def share(self, size: int, tasks: int) -> int:
        """Return the size argument in bytes, for ``size`` = u bytes and ``tasks`` = nt."""
        return size if self.whole else size // (tasks + self.parents)


WHOLE = Division("u", whole=True)
BY_TASKS = Division("$((u/nt))")
# Of a copy-on-write case the parent has a share too: the pages that are copied.
BY_TASKS_AND_PARENT = Division("$((u/(nt+1)))", parents=1)


@dataclass(frozen=True)
class Case:
    """One named case.

    Attributes:
        name: the name in vm-scalability and in 0-day's reports.
        summary: one line for a list.
        exercises: the functions of the fault path where its time goes.
        options: arguments of the program before the size; ``{tasks}`` and ``{file}`` are
            filled in. The size ends the line, but for ``fallocate``, whose file does.
        division: how u bytes become the size argument.
        needs: what has to be set up.
        program: ``usemem`` or ``fallocate`` (util-linux).
    """

    name: str
    summary: str
    exercises: str
    options: str
    division: Division
    needs: frozenset[Need] = frozenset()
    program: str = "usemem"

    @property
    def synopsis(self) -> str:
        """The command line as vm-scalability's scripts write it (u bytes, nt tasks)."""
        return " ".join(self._line(self.program, "nt", self.division.symbol, "SHM", ()))

    @property
    def uses_tasks(self) -> bool:
        """Whether the number of tasks makes a difference."""
        return "{tasks}" in self.options

    @property
    def uses_hugetlb(self) -> bool:
        """Whether its memory comes from the hugetlb pool."""
        return bool(self.needs & {Need.HUGETLB, Need.HUGETLBFS})

    def command(
        self, size: int, tasks: int, *, program: str, file: str = "", extra: Sequence[str] = ()
    ) -> list[str]:
        """Return the argument list.

        Args:
            size: u, bytes that the whole case uses.
            tasks: nt, processes or threads.
            program: path of usemem or fallocate.
            file: path of the file, for a case that has one.
            extra: further options of the program.

        Raises:
            FaultprofError: exit code 2, when there are no tasks, too many, or when a share
                is smaller than a page.
        """
        if not 1 <= tasks <= MOST_TASKS:
            raise FaultprofError(f"{tasks} tasks cannot be run", f"--tasks takes 1 to {MOST_TASKS}")
        share = self.division.share(size, tasks)
        if share < SMALLEST_SHARE:
            raise FaultprofError(
                f"size {format_size(size)} leaves less than a page for each of {tasks} tasks",
                "give a larger --size or fewer --tasks",
            )
        return self._line(program, str(tasks), str(share), file, extra)

    def overcommit_pages(self, size: int, tasks: int, huge_page: int) -> int:
        """Return the huge pages (of ``huge_page`` bytes) that may be allocated beyond the pool.

        vm-scalability's formula: u / Hugepagesize + nt + 1, because each share is rounded up.
        """
        if not self.uses_hugetlb:
            return 0
        return size // huge_page + tasks + 1

    def memory(self, size: int, tasks: int) -> int:
        """Return the bytes of memory that the case fills: u, and the tables that map it.

        A page table takes 8 bytes for a page of 4096. Threads with a mapping each of one
        file have a table each.
        """
        tables = tasks if self.division.whole and self.uses_tasks else 1
        return size + tables * (size // 512)

    def _line(
        self, program: str, tasks: str, size: str, file: str, extra: Sequence[str]
    ) -> list[str]:
        options = [word.format(tasks=tasks, file=file) for word in self.options.split()]
        if self.program == "fallocate":
            return [program, *options, size, *extra, file]
        return [program, *options, *extra, size]


_TMPFS = frozenset({Need.TMPFS, Need.ROOT})
_HUGETLB = frozenset({Need.HUGETLB, Need.ROOT})

CASES: tuple[Case, ...] = (
    Case(
        "anon-w-seq",
        "processes write private memory of their own",
        "do_anonymous_page, page clearing",
        "-n {tasks}",
        BY_TASKS,
    ),
    Case(
        "anon-w-seq-mt",
        "threads of one process write private memory",
        "do_anonymous_page, VMA locks, page-table locks",
        "-t {tasks}",
        BY_TASKS,
    ),
    Case(
        "anon-w-seq-hugetlb",
        "processes write private huge pages",
        "hugetlb_fault, folio_zero_user (clear_huge_page)",
        "-n {tasks} -O -U",
        BY_TASKS,
        _HUGETLB,
    ),
    Case(
        "anon-cow-seq",
        "processes write memory that they share copy-on-write",
        "do_wp_page (wp_page_copy), page copying",
        "-n {tasks} --prealloc --prefault",
        BY_TASKS_AND_PARENT,
    ),
    Case(
        "anon-cow-seq-hugetlb",
        "processes write huge pages shared copy-on-write",
        "hugetlb_wp, copy_user_large_folio (copy_user_huge_page)",
        "-n {tasks} --prealloc --prefault -O -U",
        BY_TASKS_AND_PARENT,
        _HUGETLB,
    ),
    Case(
        "shm-pread-seq-mt",
        "threads read a sparse tmpfs file, a mapping each",
        "do_read_fault, filemap_map_pages, shmem_fault, folio locks",
        "-t {tasks} -f {file} --readonly",
        WHOLE,
        _TMPFS,
    ),
    Case(
        "shm-xread-seq-mt",
        "threads read a sparse tmpfs file, one mapping",
        "do_read_fault, filemap_map_pages, shmem_fault, page-table locks",
        "-t {tasks} -f {file} --prealloc --readonly",
        WHOLE,
        _TMPFS,
    ),
    Case(
        "tmpfs-fallocate",
        "allocate a file on tmpfs mounted huge=always",
        "shmem_fallocate, shmem_get_folio_gfp, page clearing; no faults",
        "-l",
        WHOLE,
        frozenset({Need.HUGE_TMPFS, Need.ROOT}),
        "fallocate",
    ),
    Case(
        "hugetlb-fallocate",
        "allocate a file on hugetlbfs",
        "hugetlbfs_fallocate, folio_zero_user (clear_huge_page); no faults",
        "-l",
        WHOLE,
        frozenset({Need.HUGETLBFS, Need.ROOT}),
        "fallocate",
    ),
)

# The microbenchmark of thread clear-page-order (clear.py): N huge pages each, in rounds.
PAGES = (1, 100, 512)
ROUNDS = 5
CLEAR = Case(
    "clear",
    "clear and copy N huge pages four ways, in rounds (--pages, --rounds)",
    "folio_zero_user (clear_huge_page), copy_user_large_folio, clear_highpage",
    "ROUNDS TMPFS HUGETLBFS",
    WHOLE,
    frozenset({Need.HUGE_TMPFS, Need.HUGETLB, Need.HUGETLBFS, Need.ROOT}),
    "clear",
)


def find_case(name: str) -> Case:
    """Return the case of :data:`CASES` called ``name``.

    Raises:
        FaultprofError: exit code 2, with the names that come nearest.
    """
    names = [case.name for case in CASES]
    if name in names:
        return CASES[names.index(name)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise FaultprofError(
        f"no case is called '{name}'", f"{meant}All of them: faultprof workload list"
    )

"""Traced calls are exact: programs that touch a number of pages, and then another, both prime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FEW, MANY = 211, 1009
FEW_HUGE, MANY_HUGE = 3, 7

METHODS = ("kprobe", "fentry")
# An IOMMU driver has a function of this name too, and BTF does not tell which one is meant.
NO_FENTRY = {"6.1": ("do_fault", "do_read_fault", "do_cow_fault", "do_shared_fault")}

# Kernels that preempt can skip an fentry program, and count it: such a run says nothing.
ATTEMPTS = 4


@dataclass(frozen=True)
class Case:
    """A way of touching pages: how often each page makes a function be called."""

    per_page: dict[str, int]
    never: tuple[str, ...] = ()
    """Functions that no page makes be called."""
    pages: tuple[int, int] = (FEW, MANY)
    differs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kernel, what is otherwise there."""

    def calls(self, kernel: str, tasks: int) -> list[dict[str, int]]:
        """Return the calls of each round, when each of so many tasks touches the pages."""
        per_page = dict.fromkeys(self.never, 0) | self.per_page | self.differs.get(kernel, {})
        return [
            {name: each * tasks * pages for name, each in per_page.items()} for pages in self.pages
        ]


CASES = {
    "anon": Case(
        {"handle_mm_fault": 1, "do_anonymous_page": 1},
        never=("do_fault", "do_read_fault", "do_wp_page", "folio_zero_user", "hugetlb_fault"),
    ),
    "read": Case(
        {"handle_mm_fault": 1, "do_fault": 1, "do_read_fault": 1, "shmem_fault": 1},
        never=("do_cow_fault", "do_shared_fault", "do_anonymous_page"),
    ),
    "cow": Case(
        {"handle_mm_fault": 1, "do_fault": 1, "do_cow_fault": 1, "shmem_fault": 1},
        never=("do_read_fault", "do_shared_fault", "do_anonymous_page"),
    ),
    "huge": Case(
        {"handle_mm_fault": 1, "do_huge_pmd_anonymous_page": 1, "folio_zero_user": 1},
        never=("do_anonymous_page", "hugetlb_fault"),
        pages=(FEW_HUGE, MANY_HUGE),
        # Debian boots with init_on_alloc=1: the allocator has cleared the page, and newer kernels
        # then leave it at that.
        differs={"7.3": {"folio_zero_user": 0}},
    ),
    "hugetlb": Case(
        {"handle_mm_fault": 1, "hugetlb_fault": 1, "folio_zero_user": 1},
        never=("do_huge_pmd_anonymous_page", "do_anonymous_page"),
        pages=(FEW_HUGE, MANY_HUGE),
    ),
}
FUNCTIONS = tuple(
    dict.fromkeys(name for case in CASES.values() for name in (*case.per_page, *case.never))
)


@pytest.fixture(scope="module")
def touch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program that touches pages."""
    from .traced_shell import compiled

    return compiled("touch.c", tmp_path_factory.mktemp("touch"))


@pytest.fixture(scope="module", params=METHODS)
def shell(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a traced shell for each way of attaching."""
    from .traced_shell import TracedShell

    traced = TracedShell(FUNCTIONS, request.param)
    yield traced
    traced.close()


def _calls(shell: Any, touch: Path, what: str, tasks: str) -> list[dict[str, int]]:
    """Return the calls of each round; of a run in which the kernel skipped none."""
    from .traced_shell import setting

    file = Path("/dev/shm/faultprof-touch")
    pages = CASES[what].pages
    command = f"{touch} {what} {tasks} {file} {' '.join(map(str, pages))}"
    huge = "always" if what == "huge" else "never"
    with (
        setting("/sys/kernel/mm/transparent_hugepage/enabled", huge),
        setting("/proc/sys/vm/nr_overcommit_hugepages", str(1 + FEW_HUGE + MANY_HUGE)),
    ):
        for _ in range(ATTEMPTS):
            skipped = shell.skipped()
            calls: list[dict[str, int]] = shell.calls_by_round(command, len(pages))
            file.unlink(missing_ok=True)
            if shell.skipped() == skipped:
                return calls
    raise AssertionError(f"the kernel skipped hits in each run: {shell.tracer.misses()}")


@pytest.mark.parametrize(
    ("what", "tasks"),
    [
        *((what, "1") for what in CASES),
        # Threads, processes, children of children.
        *((what, tasks) for what in ("anon", "read") for tasks in ("t4", "p2", "f3")),
    ],
)
def test_each_page_is_one_call(shell: Any, touch: Path, kernel: str, what: str, tasks: str) -> None:
    absent = NO_FENTRY.get(kernel, ()) if shell.attach == "fentry" else ()
    expected = CASES[what].calls(kernel, int(tasks.strip("tpf")))
    for found, calls in zip(_calls(shell, touch, what, tasks), expected, strict=True):
        assert {name: found.get(name) for name in calls} == {
            name: None if name in absent else count for name, count in calls.items()
        }


def test_the_tree_adds_up(shell: Any) -> None:
    """Last of all, since it ends the trace."""
    from .traced_shell import assert_consistent

    result = shell.tracer.stop()
    assert_consistent(result.nodes)
    for loss in ("too_deep", "tasks_full", "nodes_full", "lost_tasks"):
        assert result.stats[loss] == 0, (loss, result.stats)
    if not result.misses and not result.kprobe_misses:
        assert result.stats["unmatched_returns"] == result.stats["missed_returns"] == 0

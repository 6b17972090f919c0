"""A trace says what is known beforehand.

Calls: programs touch a number of pages, and then another, both prime. Times: some is burnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .burner import Burner
from .traced_shell import TracedShell, assert_consistent, compiled, setting

pytestmark = pytest.mark.noisy("a CPU held up")

if TYPE_CHECKING:
    from faultprof.capture.trace_totals import NodeTotals

    Totals = dict[tuple[str, ...], NodeTotals]

FEW, MANY = 211, 1009
FEW_HUGE, MANY_HUGE = 3, 7

# An IOMMU driver has a function of this name too, and BTF does not tell which one is meant.
NO_FENTRY = {"6.1": ("do_fault", "do_read_fault", "do_cow_fault", "do_shared_fault")}

# A time that is burnt for each page, at a function that is called once for it on every kernel.
DOSE_NS, DOSED = 50_000, "__mem_cgroup_charge"
# Whose own time it is: of the nearest function that is traced.
BURNERS = {"6.1": "__handle_mm_fault"}
BURNER = "do_anonymous_page"
# Short rounds without and with the dose take turns. What a hypervisor does meanwhile only adds
# time: of each kind the quickest round counts.
DOSED_PAGES, PAIRS = 7, 31

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


@pytest.fixture(scope="module")
def touch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program that touches pages."""
    return compiled("touch.c", tmp_path_factory.mktemp("touch"))


@pytest.fixture(scope="module", params=("kprobe", "fentry"))
def shell(request: pytest.FixtureRequest) -> Iterator[TracedShell]:
    """Return a traced shell for each way of attaching; one for all tests, as it takes long."""
    traced = TracedShell(request.param)
    yield traced
    traced.close()


def _calls(shell: TracedShell, touch: Path, what: str, tasks: str) -> list[dict[str, int]]:
    """Return the calls of each round; of a run in which the kernel skipped none."""
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
            calls = shell.calls_by_round(command, len(pages))
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
def test_each_page_is_one_call(
    shell: TracedShell, touch: Path, kernel: str, what: str, tasks: str
) -> None:
    absent = NO_FENTRY.get(kernel, ()) if shell.attach == "fentry" else ()
    expected = CASES[what].calls(kernel, int(tasks.strip("tpf")))
    for found, calls in zip(_calls(shell, touch, what, tasks), expected, strict=True):
        assert {name: found.get(name) for name in calls} == {
            name: None if name in absent else count for name, count in calls.items()
        }


def test_the_tree_adds_up(shell: TracedShell) -> None:
    assert_consistent(shell.tracer.totals())
    counters = shell.tracer.counters()
    for loss in ("too_deep", "tasks_full", "nodes_full"):
        assert counters[loss] == 0, (loss, counters)
    if not shell.skipped():
        assert counters["unmatched_returns"] == counters["missed_returns"] == 0


def _self_times(before: Totals, after: Totals) -> dict[str, float]:
    """Return each function's own nanoseconds a call, between two looks at the trace."""
    times = {}
    for path, totals in after.items():
        calls, own = totals.calls, totals.self_ns
        if path in before:
            calls, own = calls - before[path].calls, own - before[path].self_ns
        if calls == DOSED_PAGES:  # or a path of the shell
            times[path[-1]] = own / calls
    return times


@pytest.mark.parametrize("shell", ["kprobe"], indirect=True)
def test_burnt_time_is_its_functions_own(shell: TracedShell, touch: Path, kernel: str) -> None:
    times: dict[int, list[dict[str, float]]] = {0: [], DOSE_NS: []}
    with (
        setting("/sys/kernel/mm/transparent_hugepage/enabled", "never"),
        closing(Burner(DOSED)) as burner,
    ):
        shell.begin(f"{touch} anon 1 -" + f" {DOSED_PAGES}" * (2 * PAIRS))
        looks = [shell.tracer.totals()]
        for dose in PAIRS * [0, DOSE_NS]:
            burner.set_dose(dose)
            shell.next_round()
            looks.append(shell.tracer.totals())
            times[dose].append(_self_times(*looks[-2:]))
        shell.end()
        assert burner.burnt == PAIRS * DOSED_PAGES
    burner_name = BURNERS.get(kernel, BURNER)
    grown = {
        name: min(own[name] for own in times[DOSE_NS]) - min(own[name] for own in times[0])
        for name in times[0][0]
    }
    print(grown)
    assert set(grown) >= {"handle_mm_fault", "__handle_mm_fault", "folio_add_lru", burner_name}
    assert grown.pop(burner_name) == pytest.approx(DOSE_NS, rel=0.1)
    assert grown == pytest.approx(dict.fromkeys(grown, 0), abs=0.1 * DOSE_NS)

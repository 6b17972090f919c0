"""The microbenchmark of clearing and copying huge pages: what it needs, and its command.

Knows: how many huge pages each way takes, and what must be mounted.
Leaves to others: measuring (``clear.c``), mounts and huge pages (``setup``), running (``run``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from faultprof.errors import FaultprofError, unsupported
from faultprof.workloads import setup
from faultprof.workloads.cases import CLEAR, PAGES, ROUNDS
from faultprof.workloads.run import Prepared, User, check_root
from faultprof.workloads.usemem import bundled_program

SOURCE = Path(__file__).with_name("clear.c")
_MOST_ROUNDS = 10_000
_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def parse_pages(text: str) -> tuple[int, ...]:
    """Return the numbers of huge pages that ``text`` (``1,100,512``) lists.

    Raises:
        FaultprofError: exit code 2, when one is no positive number.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and 0 < int(word) < 2**31 for word in words):
        raise FaultprofError(
            f"not a list of numbers of huge pages: '{text}'", "such as --pages 1,100,512"
        )
    return tuple(map(int, words))


@contextmanager
def prepared_clear(
    pages: Sequence[int] = PAGES, rounds: int = ROUNDS, *, user: User | None = None
) -> Iterator[Prepared]:
    """Set up what the benchmark needs, yield its command, and put things back.

    Args:
        pages: huge pages that each table is of.
        rounds: of each table.
        user: who will run the command, if root sets up for him.

    Raises:
        FaultprofError: exit code 2 for a number of rounds out of range; 3 when this machine, or
            this user, cannot run it.
    """
    if not 1 <= rounds <= _MOST_ROUNDS:
        raise FaultprofError(
            f"{rounds} rounds cannot be run", f"--rounds takes 1 to {_MOST_ROUNDS}"
        )
    check_root(CLEAR)
    _check_huge_pages()
    size, most = setup.huge_page_size(), max(pages)
    _check_memory(pages, size)
    owner = user.owner if user else None
    source = bundled_program(SOURCE, home=user.home if user else None, owner=owner)
    notes = [f"built {source.path} from the bundled source"] if source.built else []
    with ExitStack() as stack:
        # A parent's pages and its child's copies.
        stack.enter_context(setup.overcommitted_huge_pages(2 * most + 1))
        huge = stack.enter_context(setup.hugetlbfs(owner=owner))
        tmpfs = stack.enter_context(setup.tmpfs(most * size, huge=True, owner=owner))
        notes += [
            f"added {2 * most + 1} to {setup.OVERCOMMIT}",
            f"mounted hugetlbfs on {huge} and tmpfs (huge=always) on {tmpfs}",
        ]
        argv = [str(source.path), str(rounds), str(tmpfs), str(huge), *map(str, pages)]
        yield Prepared(argv, tuple(notes), None)


def _check_huge_pages() -> None:
    if not _ENABLED.exists():
        raise unsupported(
            "this kernel has no transparent huge pages", "CONFIG_TRANSPARENT_HUGEPAGE=y"
        )
    if "[never]" in _ENABLED.read_text():
        raise unsupported("transparent huge pages are off", f"echo madvise | sudo tee {_ENABLED}")


def _check_memory(pages: Sequence[int], size: int) -> None:
    """Raise when twice the largest number of pages, which copying takes, does not fit."""
    available = setup.available_memory() + setup.free_huge_pages() * size
    if 2 * max(pages) * size > available:
        fit = [str(number) for number in pages if 2 * number * size <= available]
        most = ",".join(fit) or str(max(1, available // (2 * size)))
        raise unsupported(
            f"copying {max(pages)} huge pages takes {2 * max(pages) * size >> 20} MB of memory, "
            f"{available >> 20} MB are available",
            f"give --pages {most}",
        )

"""Mounts and huge pages for the time of a case, put back afterwards whatever happens.

Knows: how a change stays in force for exactly the time of a ``with`` block, whether that ends
by itself, by an exception, or by a signal. After kill -9 the journal remains, and whoever uses
it next puts things back. Leaves to others: which case needs what (``run``).
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from faultprof.errors import FaultprofError, unsupported
from faultprof.workloads.journal import Change, Journal, Mount, Share
from faultprof.workloads.usemem import Owner

OVERCOMMIT = Path("/proc/sys/vm/nr_overcommit_hugepages")
_MEMINFO = Path("/proc/meminfo")
_PMD_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def tmpfs(
    size: int, *, huge: bool, owner: Owner | None = None, journal: Journal | None = None
) -> Iterator[Path]:
    """Mount a tmpfs that holds a file of ``size`` bytes, and yield its directory.

    Args:
        size: bytes.
        huge: mounted ``huge=always``, otherwise ``huge=never``.
        owner: (uid, gid) of the one user who may use it, the calling one without it.
        journal: where the change is written down.

    Raises:
        FaultprofError: exit code 3, when the kernel has no huge pages for tmpfs, or the
            mount is not allowed.
    """
    # The file's last page may be a huge one.
    room = size + 2 * _huge_page_of_tmpfs()
    options = f"size={room},huge={'always' if huge else 'never'}"
    with _mounted("tmpfs", options, owner, journal) as point:
        yield point


@contextmanager
def hugetlbfs(*, owner: Owner | None = None, journal: Journal | None = None) -> Iterator[Path]:
    """Mount a hugetlbfs (default page size), and yield its directory. As ``tmpfs``."""
    with _mounted("hugetlbfs", "", owner, journal) as point:
        yield point


@contextmanager
def overcommitted_huge_pages(
    pages: int, *, journal: Journal | None = None, file: Path = OVERCOMMIT
) -> Iterator[None]:
    """Allow ``pages`` huge pages more than are allowed already.

    The number is added, and later subtracted, so that several processes can do so at once.

    Args:
        pages: huge pages of the default size.
        journal: where the change is written down.
        file: stands for ``/proc/sys/vm/nr_overcommit_hugepages``.

    Raises:
        FaultprofError: exit code 3, without hugetlb, or when the number cannot be set.
    """

    def explained(error: OSError) -> FaultprofError:
        return unsupported(
            f"cannot set {file}: {error.strerror}",
            "it takes root, a writable /proc/sys, and a default huge page smaller than 1 GB",
        )

    with _in_force(Share(str(file), pages), journal or Journal(), explained):
        yield


def undo_what_dead_processes_left(journal: Journal | None = None) -> list[Change]:
    """Undo what processes that were killed have left of their changes, and return it.

    Raises:
        FaultprofError: exit code 3, without root privileges.
    """
    with _signals_held(), (journal or Journal()).locked() as undone:
        return undone


def huge_page_size() -> int:
    """Return the bytes of a default huge page.

    Raises:
        FaultprofError: exit code 3, when the kernel has no hugetlb.
    """
    kilobytes = _meminfo("Hugepagesize")
    if kilobytes is None or not OVERCOMMIT.exists():
        raise unsupported(
            "this kernel has no hugetlb pages",
            "it takes a kernel with CONFIG_HUGETLBFS and a CPU with huge pages (flag pse)",
        )
    return kilobytes * 1024


def free_huge_pages() -> int:
    """Return how many pages of the hugetlb pool nobody uses or has reserved."""
    return max(0, (_meminfo("HugePages_Free") or 0) - (_meminfo("HugePages_Rsvd") or 0))


def available_memory() -> int:
    """Return the bytes that can be used without swapping (MemAvailable)."""
    return (_meminfo("MemAvailable") or 0) * 1024


def _meminfo(name: str) -> int | None:
    """Return a field's number (mostly kilobytes), None if the kernel does not have it."""
    for line in _MEMINFO.read_text().splitlines():
        field, _, value = line.partition(":")
        if field == name:
            return int(value.split()[0])
    return None


def _huge_page_of_tmpfs() -> int:
    """Return its bytes; 2 MB where the kernel does not tell because it has none."""
    return int(_PMD_SIZE.read_text()) if _PMD_SIZE.exists() else 2 << 20


@contextmanager
def _mounted(
    kind: str, options: str, owner: Owner | None, journal: Journal | None
) -> Iterator[Path]:
    journal = journal or Journal()
    uid, gid = owner or (os.geteuid(), os.getegid())
    name = f"{kind}-{os.urandom(4).hex()}"
    change = Mount(
        kind,
        str(journal.directory / name),
        f"faultprof-{name}",
        ",".join(filter(None, (options, f"mode=0700,uid={uid},gid={gid}"))),
    )

    def explained(error: OSError) -> FaultprofError:
        if error.errno in (errno.EINVAL, errno.ENODEV):
            return unsupported(
                f"this kernel has no {kind} with {change.options}",
                "CONFIG_HUGETLBFS=y or, for huge=always, CONFIG_TRANSPARENT_HUGEPAGE=y",
            )
        return unsupported(
            f"cannot mount {kind}: {error.strerror}",
            "run it as root (sudo); in a container, give it CAP_SYS_ADMIN",
        )

    with _in_force(change, journal, explained):
        yield Path(change.point)


@contextmanager
def _in_force(
    change: Change, journal: Journal, explained: Callable[[OSError], FaultprofError]
) -> Iterator[None]:
    """Make the change, and undo it at the end; a signal comes before or after, never amid."""
    name = None
    with _termination_raises():
        try:
            with _signals_held():
                name = _make(change, journal, explained)
            yield
        finally:
            if name is not None:
                with _signals_held(), journal.locked():
                    journal.undo(name)


def _make(change: Change, journal: Journal, explained: Callable[[OSError], FaultprofError]) -> str:
    # For a signal that falls between the end of a with statement's entry and its body.
    atexit.unregister(_undo_at_exit)
    atexit.register(_undo_at_exit, journal)
    try:
        with journal.locked():
            return journal.make(change)
    except OSError as error:
        raise explained(error) from error


def _undo_at_exit(journal: Journal) -> None:
    if not journal.is_empty():
        with journal.locked():
            journal.undo_own()


@contextmanager
def _signals_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _termination_raises() -> Iterator[None]:
    """Let the signals that would end the process raise SystemExit, if nobody handles them.

    SIGINT raises KeyboardInterrupt by Python's own handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _exit_by_signal)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _exit_by_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

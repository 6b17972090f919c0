"""A named case, made ready to run, and run.

Knows: what has to be there before a case starts, and refuses early if it is not.
Leaves to others: the cases (``cases``), how things are set up and put back (``setup``),
recording the command (``capture``).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from faultprof.errors import FaultprofError, unsupported
from faultprof.workloads import setup
from faultprof.workloads.cases import Case, Need, find_case
from faultprof.workloads.sizes import format_size
from faultprof.workloads.usemem import Owner, UsememSource, find_usemem

_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Prepared:
    """A case that can be started now.

    Attributes:
        argv: the command.
        notes: what was set up or built for it, a sentence each.
        usemem: where its usemem comes from; None for a case that runs another program.
    """

    argv: list[str]
    notes: tuple[str, ...]
    usemem: UsememSource | None


class User(Protocol):
    """Whom root acts for: ``faultprof.capture.identity.Identity`` is one."""

    @property
    def owner(self) -> Owner:
        """User and group id."""

    @property
    def home(self) -> Path:
        """The home directory."""

    def environment(self, base: Mapping[str, str], /) -> dict[str, str]:
        """Return ``base`` with the variables that name the user set to this one."""

    def become(self) -> None:
        """Take this identity for good; for a child process before exec(2)."""


@contextmanager
def prepared(
    name: str, size: int, tasks: int, *, extra: Sequence[str] = (), user: User | None = None
) -> Iterator[Prepared]:
    """Set up what the case called ``name`` needs, yield its command, and put things back.

    They are put back however the block ends, also by SIGINT, SIGTERM or SIGHUP (if the caller
    handles none of them itself). After kill -9 the next call does it, or ``faultprof workload
    restore``.

    Args:
        name: of the case.
        size: u, bytes that the whole case uses.
        tasks: nt, processes or threads.
        extra: further options of the program.
        user: who will run the command, if root sets up for him.

    Raises:
        FaultprofError: exit code 2 for an unknown name, or a size and tasks that do not go
            together; 3 when this machine, or this user, cannot run the case.
    """
    case = find_case(name)
    case.command(size, tasks, program=case.program)
    _check(case, size, tasks)
    program, source = _program(case, user)
    notes = [f"built {program} from the bundled source"] if source and source.built else []
    if not case.uses_tasks:
        notes.append(f"{case.name} is one process, whatever --tasks says")
    with ExitStack() as stack:
        file, set_up = _set_up(case, size, tasks, user.owner if user else None, stack)
        argv = case.command(size, tasks, program=program, file=file, extra=extra)
        yield Prepared(argv, (*notes, *set_up), source)


def _check(case: Case, size: int, tasks: int) -> None:
    """Raise what can be told before anything is changed."""
    available = setup.available_memory()
    if case.uses_hugetlb:
        available += setup.free_huge_pages() * setup.huge_page_size()
    check_root(case)
    needed = case.memory(size, tasks)
    if needed > available:
        raise unsupported(
            f"{case.name} at size {format_size(size)} fills {needed >> 20} MB of memory, "
            f"{available >> 20} MB are available",
            f"give a --size of {max(1, available * 9 // 10 >> 20)}m or less",
        )


def check_root(case: Case) -> None:
    """Refuse, exit code 3, a case whose needs only root can set up, unless we are root."""
    if Need.ROOT in case.needs and os.geteuid() != 0:
        raise unsupported(
            f"{case.name} needs root, to set up {_things(case)}",
            "run it with sudo; anon-w-seq, anon-w-seq-mt and anon-cow-seq need nothing",
        )


def _things(case: Case) -> str:
    named = {
        Need.TMPFS: "a tmpfs",
        Need.HUGE_TMPFS: "a tmpfs with huge pages",
        Need.HUGETLB: "huge pages",
        Need.HUGETLBFS: "a hugetlbfs and its huge pages",
    }
    return " and ".join(text for need, text in named.items() if need in case.needs)


def _program(case: Case, user: User | None) -> tuple[str, UsememSource | None]:
    if case.program == "usemem":
        source = find_usemem(home=user.home if user else None, owner=user.owner if user else None)
        return str(source.path), source
    program = shutil.which(case.program)
    if program is None:
        raise unsupported(f"{case.program} is not installed", "apt install util-linux")
    return program, None


def _set_up(
    case: Case, size: int, tasks: int, owner: Owner | None, stack: ExitStack
) -> tuple[str, list[str]]:
    """Return the path of the case's file ('' if it has none), and what was set up."""
    notes, directory = [], None
    if case.uses_hugetlb:
        pages = case.overcommit_pages(size, tasks, setup.huge_page_size())
        stack.enter_context(setup.overcommitted_huge_pages(pages))
        notes.append(f"added {pages} to {setup.OVERCOMMIT}")
    if Need.HUGETLBFS in case.needs:
        directory = stack.enter_context(setup.hugetlbfs(owner=owner))
        notes.append(f"mounted hugetlbfs on {directory}")
    elif case.needs & {Need.TMPFS, Need.HUGE_TMPFS}:
        huge = Need.HUGE_TMPFS in case.needs
        directory = stack.enter_context(setup.tmpfs(size, huge=huge, owner=owner))
        notes.append(f"mounted tmpfs (huge={'always' if huge else 'never'}) on {directory}")
    if directory is None:
        return "", notes
    if case.program == "usemem":
        _make_sparse(directory / "file", size, owner)
    return str(directory / "file"), notes


def _make_sparse(file: Path, size: int, owner: Owner | None) -> None:
    """Make the file here: not every usemem makes the one that it is to read."""
    with file.open("xb") as stream:
        stream.truncate(size)
    if owner is not None:
        os.chown(file, *owner)


def run_command(argv: Sequence[str], user: User | None = None) -> int:
    """Run ``argv`` and return its exit status, 128 + n for signal n.

    Signals that would end this process go to the command instead. If this process is killed,
    so is the command: nobody would be left to put things back behind it.

    Raises:
        FaultprofError: exit code 126 or 127, when it cannot be started.
    """
    parent = os.getpid()

    def become() -> None:
        if user is not None:
            user.become()
        # After the change of user, which clears it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before that
            os.kill(os.getpid(), signal.SIGKILL)

    environ = os.environ if user is None else user.environment(os.environ)
    with _forwarded_signals() as forward_to:
        try:
            # preexec_fn is safe here: this process has no other thread.
            child = subprocess.Popen(argv, preexec_fn=become, env=environ)
        except OSError as error:
            raise FaultprofError(
                f"cannot run {argv[0]}: {error.strerror}",
                "look at the path and its permissions",
                127 if isinstance(error, FileNotFoundError) else 126,
            ) from error
        forward_to(child)
        status = child.wait()
    return 128 - status if status < 0 else status


@contextmanager
def _forwarded_signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Yield what names the child that gets the signals, those that came before it included."""
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            early.append(number)

    def forward_to(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    # What nohup or a shell's & has ignored stays so, for the command, too.
    wanted = [number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, receive) for number in wanted}
    try:
        yield forward_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

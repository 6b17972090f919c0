"""Changes are put back: by the end of a block, by a signal, and after kill -9 at any point.

The number is in an ordinary file here; tests/host does the same to the kernel's.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faultprof.errors import ExitCode, FaultprofError
from faultprof.workloads.journal import Journal, Process, Share
from faultprof.workloads.setup import (
    overcommitted_huge_pages,
    undo_what_dead_processes_left,
)

FOR_EVER = """
import sys
from pathlib import Path
from faultprof.workloads.journal import Journal
from faultprof.workloads.setup import overcommitted_huge_pages
directory, file = Path(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
while True:
    with overcommitted_huge_pages(7, journal=Journal(directory), file=file):
        pass
"""

# The steps of a change: what touches a file, or calls the C library.
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlsym"}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def number(tmp_path: Path) -> Path:
    file = tmp_path / "number"
    file.write_text("5\n")
    return file


def value(number: Path) -> int:
    return int(number.read_text())


def test_the_share_is_added_and_taken_back(journal: Journal, number: Path) -> None:
    with overcommitted_huge_pages(7, journal=journal, file=number):
        assert value(number) == 12
        with overcommitted_huge_pages(30, journal=journal, file=number):
            assert value(number) == 42
        assert value(number) == 12
    assert value(number) == 5
    assert journal.is_empty()


def test_shares_may_end_in_any_order(journal: Journal, number: Path) -> None:
    first = overcommitted_huge_pages(7, journal=journal, file=number)
    second = overcommitted_huge_pages(30, journal=journal, file=number)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert value(number) == 35
    second.__exit__(None, None, None)
    assert value(number) == 5


def test_a_change_by_somebody_else_stays(journal: Journal, number: Path) -> None:
    with overcommitted_huge_pages(7, journal=journal, file=number):
        number.write_text("112\n")
    assert value(number) == 105
    with overcommitted_huge_pages(7, journal=journal, file=number):
        number.write_text("0\n")
    assert value(number) == 0


def test_an_exception_puts_back(journal: Journal, number: Path) -> None:
    block = overcommitted_huge_pages(7, journal=journal, file=number)
    with pytest.raises(OSError, match="of the block"), block:
        raise OSError("of the block")
    assert value(number) == 5
    assert journal.is_empty()


def test_a_number_that_cannot_be_set(journal: Journal, tmp_path: Path) -> None:
    block = overcommitted_huge_pages(7, journal=journal, file=tmp_path / "missing")
    with pytest.raises(FaultprofError) as raised, block:
        pass
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    assert journal.is_empty()


def killed_at(event: int, action: Callable[[], object]) -> bool:
    """Do ``action`` in a process that is killed before its ``event``-th step; tell if it was."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    seen = 0

    def count(name: str, _arguments: object) -> None:
        nonlocal seen
        if name in EVENTS:
            seen += 1
            if seen == event:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(count)
        action()
    finally:
        os._exit(0)


def test_a_kill_before_any_step_is_made_good(journal: Journal, number: Path) -> None:
    def add_and_take_back() -> None:
        with journal.locked():
            name = journal.make(Share(str(number), 7))
        with journal.locked():
            journal.undo(name)

    event, values = 1, set()
    while killed_at(event, add_and_take_back):
        values.add(value(number))
        if journal.directory.exists():
            undo_what_dead_processes_left(journal)
        assert value(number) == 5, f"killed before step {event}"
        assert journal.is_empty()
        event += 1
    # It was killed in all states: before, with, and after the share.
    assert event > 10
    assert values == {5, 12}


def test_two_dead_ones_are_both_made_good(journal: Journal, number: Path) -> None:
    for _ in range(2):
        if os.fork() == 0:
            with journal.locked():
                journal.make(Share(str(number), 7))
            os._exit(0)
        os.wait()
    # The second has undone the first, because it is gone.
    assert value(number) == 12
    assert [str(each) for each in undo_what_dead_processes_left(journal)] == [
        f"7 added to {number}"
    ]
    assert value(number) == 5


def test_the_living_are_left_alone(journal: Journal, number: Path) -> None:
    with overcommitted_huge_pages(7, journal=journal, file=number):
        assert undo_what_dead_processes_left(journal) == []
        assert value(number) == 12


def test_a_later_process_of_the_same_number_is_another(journal: Journal, number: Path) -> None:
    current = Process.current()
    assert current.lives()
    assert not Process(current.pid, current.start - 1).lives()


def test_a_process_that_nobody_has_waited_for_is_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].split()
    process = Process(child.pid, int(fields[19]))
    assert process.lives()
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.lives()
    child.wait()


def test_a_file_that_is_not_ours_is_named(journal: Journal) -> None:
    with journal.locked():
        (journal.directory / "1-1-x.json").write_text('{"kind": "Share"}')
    with pytest.raises(FaultprofError, match=r"1-1-x\.json cannot be understood"):
        undo_what_dead_processes_left(journal)


@pytest.mark.parametrize("number_of_signal", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_time_puts_back(
    journal: Journal, number: Path, number_of_signal: signal.Signals
) -> None:
    choose = random.Random(number_of_signal)
    for _ in range(12):
        child = subprocess.Popen(
            [sys.executable, "-c", FOR_EVER, str(journal.directory), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(choose.uniform(0.001, 0.02))
        child.send_signal(number_of_signal)
        child.communicate(timeout=30)
        assert value(number) == 5
        assert journal.is_empty()


def test_several_processes_at_once(journal: Journal, number: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", FOR_EVER, str(journal.directory), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    time.sleep(0.2)
    with journal.locked():
        assert value(number) in (5, 12, 19, 26)
        # It is not writing the file now; at any other point, see above.
        children[0].kill()
        children[0].wait()
    children[1].terminate()
    children[2].send_signal(signal.SIGINT)
    for child in children:
        child.communicate(timeout=30)
    undo_what_dead_processes_left(journal)
    assert value(number) == 5
    assert journal.is_empty()

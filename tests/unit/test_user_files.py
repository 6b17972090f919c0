"""Which files the recorded processes execute, learnt from real processes of our own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from faultprof.capture import descendants
from faultprof.capture.descendants import Descendants
from faultprof.capture.user_files import UserFiles
from tests.user_programs import Program, build, tool

# Says that it runs, then waits until its input is closed.
WAITER = """
#include <unistd.h>
int main(void) { char c; write(1, "x", 1); read(0, &c, 1); return 0; }
"""
# Says that it runs, and is there for a second.
SLEEPER = """
#include <unistd.h>
int main(int n, char **v) {
    write(1, "x", 1);
    sleep(1);
    if (n > 1) execv(v[1], v + 1);
    return 0;
}
"""


@pytest.fixture(scope="module")
def waiter(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(tmp_path_factory.mktemp("files") / "waiter", WAITER)


def libc_build_id() -> bytes:
    """Return the build id of the libc that we and the test's programs use."""
    maps = Path("/proc/self/maps").read_text()
    path = next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)
    return bytes.fromhex(tool("readelf", "-n", path).partition("Build ID:")[2].split()[0])


class Running:
    """A process that runs until the test is over."""

    def __init__(self, *command: str | Path) -> None:
        words = [str(word) for word in command]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe)
        assert self.process.stdout is not None
        assert self.process.stdout.read(1) == b"x"

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def running() -> Iterator[list[Running]]:
    """Return a list whose processes are ended after the test."""
    processes: list[Running] = []
    yield processes
    for process in processes:
        process.end()


def name_of(files: UserFiles, build_id: bytes) -> str | None:
    found = files.find(build_id)
    if found is None:
        return None
    name, file = found
    assert file.build_id() == build_id
    file.close()
    return name


def test_files_of_a_process_that_has_ended(waiter: Program, running: list[Running]) -> None:
    process = Running(waiter.path)
    with closing(UserFiles(process.pid)) as files:
        files.start()
        files.stop()  # looks a last time
        process.end()
        assert name_of(files, waiter.build_id) == "waiter"
        assert name_of(files, libc_build_id()) == "libc.so.6"


def test_programs_of_descendants(waiter: Program, tmp_path: Path, running: list[Running]) -> None:
    shell = tmp_path / "shell"
    shutil.copy(os.path.realpath("/bin/sh"), shell)
    running.append(Running(shell, "-c", f"{waiter.path}; exit"))
    with closing(UserFiles(running[0].pid)) as files:
        files.start()
        files.stop()
        assert name_of(files, waiter.build_id) == "waiter"


def test_program_that_ended_while_the_recording_ran(tmp_path: Path, running: list[Running]) -> None:
    program = build(tmp_path / "sleeper", SLEEPER)
    running.append(Running("/bin/sh", "-c", f"{program.path}; echo ended; read x"))
    with closing(UserFiles(running[0].pid)) as files:
        files.start()
        assert running[0].line() == b"ended\n"
        files.stop()
        assert name_of(files, program.build_id) == "sleeper"


def test_program_that_another_one_became(tmp_path: Path) -> None:
    first = build(tmp_path / "first", SLEEPER)
    second = build(tmp_path / "second", SLEEPER + "int second;")
    process = Running(first.path, second.path)
    with closing(UserFiles(process.pid)) as files:
        files.start()
        process.end()
        files.stop()
        assert name_of(files, first.build_id) == "first"
        assert name_of(files, second.build_id) == "second"


def test_command_that_ends_before_the_first_look(tmp_path: Path) -> None:
    program = build(tmp_path / "quick")
    with closing(UserFiles(_ended_pid(), [str(program.path)])) as files:
        files.start()
        files.stop()
        assert name_of(files, program.build_id) == "quick"
        assert name_of(files, libc_build_id()) == "libc.so.6"


def test_command_is_looked_up_in_path_and_its_arguments_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path / "quick")
    monkeypatch.setenv("PATH", f"/usr/bin:{tmp_path}")
    with closing(UserFiles(_ended_pid(), ["timeout", "1", "quick"])) as files:
        files.start()
        files.stop()
        assert name_of(files, program.build_id) == "quick"


@pytest.mark.parametrize("line", ["#!{path} -x", "#! {path}", "#!/usr/bin/env quick"])
def test_interpreter_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    program = build(tmp_path / "quick")
    monkeypatch.setenv("PATH", f"/usr/bin:{tmp_path}")
    script = tmp_path / "script"
    script.write_text(line.format(path=program.path) + "\n")
    script.chmod(0o755)
    with closing(UserFiles(_ended_pid(), [str(script)])) as files:
        files.start()
        files.stop()
        assert name_of(files, program.build_id) == "quick"


def test_script_that_names_itself_ends(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{script}\n")
    script.chmod(0o755)
    with closing(UserFiles(_ended_pid(), [str(script)])) as files:
        files.start()
        files.stop()


def test_file_that_was_replaced_is_not_found(tmp_path: Path) -> None:
    program = build(tmp_path / "program")
    build_id = program.build_id
    with closing(UserFiles(None)) as files:
        assert files.learn(str(program.path)) == build_id
        program.path.unlink()
        assert name_of(files, build_id) is None
        build(tmp_path / "program", "int main(void) { return 7; }")
        assert name_of(files, build_id) is None


def test_files_are_not_kept_open(waiter: Program, running: list[Running]) -> None:
    # Otherwise the command could not unmount where they lie.
    running.append(Running(waiter.path))
    with closing(UserFiles(running[0].pid)) as files:
        files.start()
        files.stop()
        opened = {os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()}
        assert str(waiter.path) not in opened
        assert name_of(files, waiter.build_id) == "waiter"


def test_deleted_program_is_skipped(tmp_path: Path, running: list[Running]) -> None:
    program = build(tmp_path / "program", WAITER + "int deleted;")
    build_id = program.build_id
    running.append(Running(program.path))
    program.path.unlink()
    with closing(UserFiles(running[0].pid)) as files:
        files.start()
        files.stop()
        assert name_of(files, build_id) is None
        assert name_of(files, libc_build_id()) == "libc.so.6"


def test_libraries_of_other_processes_are_a_last_resort(
    waiter: Program, running: list[Running]
) -> None:
    running.append(Running(waiter.path))
    with closing(UserFiles(_ended_pid())) as files:
        assert name_of(files, waiter.build_id) == "waiter"


def test_strange_paths_in_maps(waiter: Program, tmp_path: Path, running: list[Running]) -> None:
    strange = tmp_path / os.fsdecode(b"new\nline \xff r-xp (deleted) x")
    shutil.copy(waiter.path, strange)
    running.append(Running(strange))
    with closing(UserFiles(running[0].pid)) as files:
        files.start()
        files.stop()
        assert name_of(files, waiter.build_id) == strange.name


def test_the_thread_takes_no_signals_and_ours_stay_as_they_were(waiter: Program) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with closing(UserFiles(_ended_pid())) as files:
        files.start()
        (thread,) = (each for each in threading.enumerate() if each.name == "user-files")
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            assert blocked >> (number - 1) & 1
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_closing_ends_the_thread_and_can_be_repeated() -> None:
    files = UserFiles(_ended_pid())
    files.close()
    files = UserFiles(_ended_pid())
    files.start()
    files.close()
    files.close()
    assert "user-files" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("children_files", [True, False])
def test_descendants_and_orphans(
    tmp_path: Path,
    waiter: Program,
    running: list[Running],
    monkeypatch: pytest.MonkeyPatch,
    children_files: bool,
) -> None:
    if not children_files:
        monkeypatch.setattr(descendants, "_CHILDREN_FILE", Path("/no/such/file"))
    running.append(Running("/bin/sh", "-c", f"{waiter.path}; exit"))
    shell = running[0].process
    below = Descendants(shell.pid)
    (child,) = map(int, Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split())
    assert sorted(below.now()) == sorted([shell.pid, child])
    shell.kill()
    shell.wait()
    assert below.now() == [child]


def test_every_process() -> None:
    assert {1, os.getpid()} <= set(Descendants(None).now())


def _ended_pid() -> int:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    return process.pid

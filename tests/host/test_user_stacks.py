"""User stacks from end to end: sampled by the kernel, named from the files, kernel frames below."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultprof.capture.command import Command
from faultprof.capture.paths import name_paths
from faultprof.capture.sampling import Sampler, SamplingOptions
from faultprof.capture.scope import Scope
from faultprof.capture.user_files import UserFiles
from faultprof.capture.user_symbols import UserSymbols
from faultprof.kernel.symbols import Symbolizer
from faultprof.recording.frames import USER, Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.paths import PathCount
from tests.user_programs import Program, build, tool

# Half a second or more: each call of inner() takes the fault for one fresh page, then computes.
# Nothing of it runs in libc, which has no frame pointers.
BURNER = """
#define PAGE 4096
#define PAGES 60000
static volatile char memory[PAGES][PAGE];
static volatile unsigned sum;
__attribute__((noinline)) static void inner(unsigned page) {
    memory[page][0] = 1;
    for (unsigned i = 0; i < 7000; i++) sum += i;
}
__attribute__((noinline)) void outer(void) {
    for (unsigned page = 0; page < PAGES; page++) inner(page);
}
int main(void) { outer(); return 0; }
"""
NEST = ("main", "outer", "inner")


@dataclass(frozen=True, slots=True)
class Recorded:
    paths: list[PathCount]
    ledger: Ledger

    @property
    def samples(self) -> int:
        return sum(path.samples for path in self.paths)

    def share(self, user: Sequence[Frame]) -> float:
        """Return the share of samples whose user frames end in these, one below the other."""
        length = len(user)
        found = 0
        for path in self.paths:
            frames = [frame for frame in path.frames if frame.resolution == USER]
            found += path.samples * (frames[-length:] == list(user))
        return found / self.samples


@pytest.fixture(scope="module")
def burner(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(tmp_path_factory.mktemp("burner") / "burner", BURNER)


def record(*argv: str, running: bool = False) -> Recorded:
    """Record a command with user stacks, as the session does."""
    options = SamplingOptions(
        frequency=499, clock="cpu-clock", max_stacks=4096, user_stacks=True, fault_labels=False
    )
    command = Command(argv, None)
    if running:
        command.release()
        os.kill(command.pid, signal.SIGSTOP)  # until the sampler is ready
    files = UserFiles(command.pid, () if running else argv)
    with closing(Sampler(Scope(command.pid, held=not running), options)) as sampler:
        files.start()
        sampler.start()
        if running:
            os.kill(command.pid, signal.SIGCONT)
        else:
            command.release()
        command.wait()
        samples = sampler.stop()
    command.abandon()
    files.stop()
    ledger = Ledger()
    with closing(files), closing(UserSymbols(files)) as symbols:
        paths = name_paths(samples, Symbolizer(), symbols, infer=False).paths
        symbols.enter(ledger)
    return Recorded(paths, ledger)


def nest_of(program: Path) -> list[Frame]:
    return [Frame(function, program.name, USER) for function in NEST]


@pytest.fixture(scope="module")
def recorded(burner: Program) -> Recorded:
    return record(str(burner.path))


def test_nearly_all_samples_are_in_the_known_nest(burner: Program, recorded: Recorded) -> None:
    assert recorded.samples > 100
    assert recorded.share(nest_of(burner.path)) >= 0.95


def test_page_faults_hang_below_the_function_that_took_them(
    burner: Program, recorded: Recorded
) -> None:
    faults = [path for path in recorded.paths if Frame("handle_mm_fault") in path.frames]
    in_nest = 0
    for path in faults:
        first = next(i for i, frame in enumerate(path.frames) if frame.resolution != USER)
        assert all(frame.resolution != USER for frame in path.frames[first:])
        if list(path.frames[:first][-3:]) == nest_of(burner.path):
            assert path.frames[first].function == "asm_exc_page_fault"
            in_nest += path.samples
    assert in_nest >= 0.9 * sum(path.samples for path in faults) > 10


def test_ledger_of_a_program_with_frame_pointers_is_good(recorded: Recorded) -> None:
    counters = recorded.ledger.counters
    assert recorded.ledger.verdict == "good"
    assert counters["user_frames_named"] > 0.97 * sum(
        count for name, count in counters.items() if name.startswith("user_frames_")
    )
    assert counters["user_stacks_cut"] == 0


def test_function_that_is_called_from_libc_has_its_caller_there(recorded: Recorded) -> None:
    roots = {path.frames[0] for path in recorded.paths if nest_in(path)}
    assert {frame.module for frame in roots} == {"libc.so.6"}


def nest_in(path: PathCount) -> bool:
    functions = tuple(frame.function for frame in path.frames)
    return any(functions[i : i + 3] == NEST for i in range(len(functions)))


def test_process_that_runs_already(burner: Program) -> None:
    recorded = record(str(burner.path), running=True)
    assert recorded.share(nest_of(burner.path)) >= 0.95


def test_child_of_a_shell_that_ended_before_the_recording(burner: Program) -> None:
    recorded = record("/bin/sh", "-c", f"{burner.path}; exit 0")
    assert recorded.share(nest_of(burner.path)) >= 0.95


def test_program_of_another_mount_name_space_that_is_gone(burner: Program, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    script = (
        f"mount -t tmpfs none {place} && cp {burner.path} {place}/hidden && {place}/hidden; exit"
    )
    recorded = record("unshare", "--mount", "/bin/sh", "-c", script)
    assert not list(place.iterdir())
    # By the name that it had there, which nobody else knows.
    assert recorded.share(nest_of(place / "hidden")) >= 0.9


def test_function_without_symbols_has_the_name_of_its_file(burner: Program, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    tool("strip", "-o", stripped, burner.path)
    recorded = record(str(stripped))
    assert recorded.share([Frame("[stripped]", "stripped", USER)] * 3) >= 0.95
    assert "in files without symbols" in recorded.ledger.verdict

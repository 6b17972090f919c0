"""A recording is written whole or not at all, and never through what others planted there."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import read_recording
from faultprof.recording.writer import check_writable, write_recording
from tests.unit.recordings import SESSION, session_metadata


def write(path: Path) -> None:
    write_recording(path, session_metadata(), SESSION)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(params=["unnamed", "named"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with files made without a name, and as on file systems that cannot do that."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_RDONLY)


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Let no file grow beyond 1000 bytes, and that only here: pytest's own output may be one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("either_way")
def test_written_file_is_private_and_alone(tmp_path: Path) -> None:
    write(tmp_path / "x.fprof")
    assert stat.S_IMODE((tmp_path / "x.fprof").stat().st_mode) == 0o600
    assert names(tmp_path) == ["x.fprof"]
    assert read_recording(tmp_path / "x.fprof").rows.samples.sum() > 0


@pytest.mark.usefixtures("either_way")
def test_a_former_file_is_replaced_or_kept(tmp_path: Path) -> None:
    path, old = tmp_path / "x.fprof", tmp_path / "x.fprof.old"
    write_recording(path, session_metadata(), [[]], keep_old=True)
    assert not old.exists()
    write_recording(path, session_metadata(), SESSION, keep_old=True)
    assert len(read_recording(old).rows) == 0
    write_recording(path, session_metadata(), SESSION)
    assert len(read_recording(old).rows) == 0
    assert names(tmp_path) == ["x.fprof", "x.fprof.old"]


@pytest.mark.usefixtures("either_way")
def test_symlinks_are_replaced_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep me")
    (tmp_path / "x.fprof").symlink_to(target)
    write(tmp_path / "x.fprof")
    assert target.read_text() == "keep me"
    assert not (tmp_path / "x.fprof").is_symlink()


def test_a_symlink_at_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_RDONLY)
    monkeypatch.setattr(os, "urandom", bytes)  # zeros
    target = tmp_path / "precious"
    target.write_text("keep me")
    (tmp_path / f".x.fprof.{bytes(8).hex()}").symlink_to(target)
    with pytest.raises(FaultprofError):
        write(tmp_path / "x.fprof")
    assert target.read_text() == "keep me"
    assert (tmp_path / f".x.fprof.{bytes(8).hex()}").is_symlink()


def not_a_directory(path: Path) -> Path:
    path.write_text("")
    return path / "x.fprof"


UNUSABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing directory": (lambda path: path / "missing" / "x.fprof", "No such file or directory"),
    "file as directory": (lambda path: not_a_directory(path / "file"), "Not a directory"),
    "directory": (lambda path: path, "Is a directory"),
    "root": (lambda _: Path("/"), "Is a directory"),
    "parent": (lambda path: path / "..", "Is a directory"),
    "name too long": (lambda path: path / ("x" * 300), "File name too long"),
    "read-only file system": (lambda _: Path("/proc/x.fprof"), "cannot write the recording"),
}


@pytest.mark.parametrize("do", [check_writable, write])
@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_paths_are_named_with_a_remedy(
    name: str, do: Callable[[Path], None], tmp_path: Path
) -> None:
    make, reason = UNUSABLE[name]
    path = make(tmp_path)
    before = names(tmp_path)
    with pytest.raises(FaultprofError) as caught:
        do(path)
    assert caught.value.exit_code == ExitCode.USAGE
    assert reason in caught.value.message
    assert "-o" in caught.value.hint
    assert names(tmp_path) == before


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("do", [check_writable, write])
def test_no_room_is_said_and_leaves_nothing(do: Callable[[Path], None], tmp_path: Path) -> None:
    former = tmp_path / "x.fprof"
    former.write_text("PAR1 former")
    with small_files(), pytest.raises(FaultprofError) as caught:
        do(tmp_path / "x.fprof")
    assert caught.value.exit_code == ExitCode.UNSUPPORTED
    assert "free some space" in caught.value.hint
    assert names(tmp_path) == ["x.fprof"]
    assert former.read_text() == "PAR1 former"


@pytest.mark.usefixtures("either_way")
def test_an_old_name_that_is_a_directory_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.fprof").write_text("PAR1 former")
    (tmp_path / "x.fprof.old").mkdir()
    with pytest.raises(FaultprofError):
        write_recording(tmp_path / "x.fprof", session_metadata(), SESSION, keep_old=True)
    assert (tmp_path / "x.fprof").read_text() == "PAR1 former"
    assert names(tmp_path) == ["x.fprof", "x.fprof.old"]


@pytest.mark.usefixtures("either_way")
def test_the_early_check_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "x.fprof")
    assert names(tmp_path) == []
    (tmp_path / "x.fprof").write_text("PAR1 former")
    check_writable(tmp_path / "x.fprof")
    assert (tmp_path / "x.fprof").read_text() == "PAR1 former"


def test_a_relative_name_goes_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_writable(Path("x.fprof"))
    write(Path("x.fprof"))
    assert names(tmp_path) == ["x.fprof"]


def test_a_killed_writer_leaves_nothing_or_a_whole_file(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.test_recording_write import write\n"
        "while True: write(Path(sys.argv[1])); print('.', flush=True)"
    )
    for round_ in range(6):
        path = tmp_path / str(round_) / "x.fprof"
        path.parent.mkdir()
        command = [sys.executable, "-c", script, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.005 * round_)
            process.send_signal(signal.SIGKILL)
        for left in path.parent.iterdir():
            assert len(read_recording(left).rows) > 0


def test_two_writers_at_once_both_work(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from faultprof.recording.writer import write_recording\n"
        "from tests.unit.recordings import SESSION, session_metadata\n"
        "for _ in range(50):\n"
        "    write_recording(Path(sys.argv[1]), session_metadata(), SESSION, keep_old=True)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "x.fprof")]
    writers = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in writers] == [0, 0]
    assert names(tmp_path) == ["x.fprof", "x.fprof.old"]
    assert len(read_recording(tmp_path / "x.fprof").rows) > 0

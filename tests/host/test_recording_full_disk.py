"""A disk that is really full: a tmpfs of 128 KiB, which takes root to mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import read_recording
from faultprof.recording.writer import check_writable, write_recording
from tests.unit.recordings import SESSION, session_metadata


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 128 KiB; pytest's temporary directory is on another one."""
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "faultprof-test", str(tmp_path)]
    subprocess.run(command, check=True)
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_noticed_before_anything_is_recorded(small_disk: Path) -> None:
    check_writable(small_disk / "x.fprof")
    (small_disk / "filler").write_bytes(b"x" * 100 * 1024)
    with pytest.raises(FaultprofError) as caught:
        check_writable(small_disk / "x.fprof")
    assert caught.value.exit_code == ExitCode.UNSUPPORTED
    assert "No space left on device" in caught.value.message
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_disk_that_fills_up_leaves_the_former_recording(small_disk: Path) -> None:
    path = small_disk / "x.fprof"
    write_recording(path, session_metadata(), SESSION)
    former = path.read_bytes()
    # Names that do not compress, more of them than fit.
    names = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" * 2 for number in range(20_000)]
    paths = [PathCount("t", (Frame(name),), 1) for name in names]
    with pytest.raises(FaultprofError) as caught:
        write_recording(path, session_metadata(), [paths], keep_old=True)
    assert caught.value.exit_code == ExitCode.UNSUPPORTED
    assert "free some space" in caught.value.hint
    assert [entry.name for entry in small_disk.iterdir()] == ["x.fprof"]
    assert path.read_bytes() == former
    assert len(read_recording(path).rows) > 0

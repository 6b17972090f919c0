"""Bytecode of a former run is used again, unless somebody may have tampered with it.

Whether it was used shows when bcc cannot be imported: then nothing can be compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HIDE_BCC = "import sys; sys.modules['bcc'] = None; from faultprof.cli import main; main()"


def _record(directory: Path, *python: str) -> subprocess.CompletedProcess[str]:
    options = ["-q", "--mode", "sample", "-o", str(directory / "x.fprof"), "--", "true"]
    return subprocess.run(
        [sys.executable, *python, "record", *options],
        env={**os.environ, "XDG_CACHE_HOME": str(directory)},
        capture_output=True,
        text=True,
    )


def _stored(directory: Path) -> Path:
    (stored,) = (directory / "faultprof" / "bpf").iterdir()
    return stored


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder as one recording leaves it."""
    directory = tmp_path_factory.mktemp("compiled")
    done = _record(directory, "-m", "faultprof")
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def used(compiled: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(compiled, tmp_path / "used"))


def test_nothing_is_compiled_twice(used: Path) -> None:
    assert _stored(used).stat().st_mode & 0o777 == 0o600
    done = _record(used, "-c", HIDE_BCC)
    assert done.returncode == 0, done.stderr


def _damage(stored: Path) -> None:
    data = stored.read_bytes()
    stored.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])


def _give_away(stored: Path) -> None:
    os.chown(stored, 65534, 65534)


def _open_to_all(stored: Path) -> None:
    stored.chmod(0o666)


def _link(stored: Path) -> None:
    elsewhere = stored.with_name("elsewhere")
    stored.rename(elsewhere)
    stored.symlink_to(elsewhere)


@pytest.mark.parametrize("tamper", [_damage, _give_away, _open_to_all, _link, Path.unlink])
def test_tampered_bytecode_is_not_used(used: Path, tamper: Callable[[Path], None]) -> None:
    tamper(_stored(used))
    done = _record(used, "-c", HIDE_BCC)
    assert done.returncode == 3
    assert "cannot import bcc" in done.stderr


def test_damaged_bytecode_is_replaced(used: Path) -> None:
    _damage(_stored(used))
    assert _record(used, "-m", "faultprof").returncode == 0
    done = _record(used, "-c", HIDE_BCC)
    assert done.returncode == 0, done.stderr

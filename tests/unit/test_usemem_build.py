"""Which usemem is run, and how the bundled one gets built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faultprof.errors import ExitCode, FaultprofError
from faultprof.workloads.usemem import find_usemem

FIND = """
import sys
from pathlib import Path
from faultprof.workloads.usemem import find_usemem
sys.stdin.readline()
found = find_usemem(home=Path(sys.argv[1]))
print(found.path, found.bundled)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH holds a compiler and no usemem."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cc", "as", "ld"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return {"PATH": str(tools), "HOME": str(tmp_path / "home")}


def refusal(environ: dict[str, str]) -> FaultprofError:
    with pytest.raises(FaultprofError) as raised:
        find_usemem(environ=environ)
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    return raised.value


def test_the_users_own_comes_first(environ: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "bin" / "usemem"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    found = find_usemem(environ=environ)
    assert (found.path, found.bundled, found.built) == (own, False, False)


def test_the_bundled_one_is_built_once(environ: dict[str, str], tmp_path: Path) -> None:
    first, second = find_usemem(environ=environ), find_usemem(environ=environ)
    assert (first.bundled, first.built) == (True, True)
    assert (second.path, second.bundled, second.built) == (first.path, True, False)
    assert first.path.parent.parent == tmp_path / "home/.cache/faultprof"
    output = subprocess.run([first.path, "64k"], capture_output=True, check=True).stdout
    assert output.startswith(b"65536 bytes / ")


def test_the_cache_of_the_home_that_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    found = find_usemem(environ=environ, home=tmp_path / "other")
    assert found.path.is_relative_to(tmp_path / "other/.cache/faultprof")


def test_xdg_cache_home_is_used_if_absolute(environ: dict[str, str], tmp_path: Path) -> None:
    environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert find_usemem(environ=environ).path.is_relative_to(tmp_path / "xdg/faultprof")
    environ["XDG_CACHE_HOME"] = "relative"
    assert find_usemem(environ=environ).path.is_relative_to(tmp_path / "home/.cache/faultprof")


def test_another_compiler_makes_another_build(environ: dict[str, str]) -> None:
    first = find_usemem(environ=environ)
    second = find_usemem(environ={**environ, "CC": "cc -O1"})
    assert second.built
    assert second.path != first.path


def test_without_a_compiler_the_remedy_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "cc").unlink()
    error = refusal(environ)
    assert "no C compiler" in error.message
    assert "apt install gcc libc6-dev" in error.hint


def test_a_compiler_in_cc_that_is_not_there(environ: dict[str, str]) -> None:
    assert "tcc-9" in refusal({**environ, "CC": "tcc-9 -w"}).message


def test_a_compiler_that_fails_is_quoted_in_the_detail(
    environ: dict[str, str], tmp_path: Path
) -> None:
    error = refusal({**environ, "CC": "cc -include /missing/header.h"})
    assert "could not compile" in error.message
    assert "/missing/header.h" in error.detail
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".build-")] == []


def test_a_cache_that_cannot_be_written(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    error = refusal(environ)
    assert str(tmp_path / "home/.cache/faultprof") in error.message
    assert "XDG_CACHE_HOME" in error.hint


def test_a_half_written_build_is_not_taken_for_one(environ: dict[str, str]) -> None:
    path = find_usemem(environ=environ).path
    path.unlink()
    (path.parent / ".build-killed").mkdir()
    (path.parent / ".build-killed/usemem").write_bytes(b"\x7fELF")
    found = find_usemem(environ=environ)
    assert (found.path, found.built) == (path, True)
    assert subprocess.run([path, "64k"], capture_output=True).returncode == 0


def test_many_at_once_all_get_the_same_program(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    finders = [
        subprocess.Popen(
            [sys.executable, "-c", FIND, str(tmp_path / "home")],
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for finder in finders:  # all are started by now: let them go
        assert finder.stdin is not None
        finder.stdin.write("go\n")
        finder.stdin.flush()
    results = [finder.communicate() for finder in finders]
    assert [errors for _, errors in results] == [""] * 4
    assert len({output for output, _ in results}) == 1
    path = Path(results[0][0].split()[0])
    assert [each.name for each in path.parent.iterdir()] == ["usemem"]

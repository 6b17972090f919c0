"""The harness itself: what goes into a machine and comes out, and what stays behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from .vm import cache, kernels
from .vm.errors import VmError
from .vm.machine import Machine
from .vm.source import source_tree


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAULTPROF_CACHE", str(tmp_path))
    return cache.root()


def test_bytes_and_status_come_back_as_they_were(machine: Machine, tmp_path: Path) -> None:
    every_byte = bytes(range(256)) * 1000
    (tmp_path / "blob").write_bytes(every_byte)
    script = """
        cat blob >/results/copy
        mkdir /results/directory
        echo x >/results/directory/file
        printf '1\\r\\n'
        exit 7
    """
    result = machine.run(script, {"blob": tmp_path / "blob"}, timeout=120)
    assert result.status == 7
    assert result.output == "1\r\n"
    assert result.files == {"copy": every_byte, "directory/file": b"x\n"}


def test_a_machine_is_ended_when_its_time_is_over(machine: Machine) -> None:
    with pytest.raises(VmError, match=r"ended after 2 s(?s:.*)console"):
        machine.run("sleep 1000", timeout=2)
    children = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    assert not _qemu_among(children.read_text().split())


def test_qemu_dies_with_its_parent(machine: Machine) -> None:
    command = [sys.executable, "-m", "tests.kernels.vm", "run"]
    command += [machine.installed.kernel.name, "--", "sleep 1000"]
    parent = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (qemu := _qemu_among(children.read_text().split())):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while _qemu_among([qemu]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _qemu_among([qemu])


def _qemu_among(pids: list[str]) -> str:
    for pid in pids:
        name = Path(f"/proc/{pid}/comm")
        if name.exists() and name.read_text().startswith("qemu"):
            return pid
    return ""


def test_a_cache_entry_is_built_once_by_many_users(empty_cache: Path) -> None:
    builds: list[Path] = []

    def build(directory: Path) -> None:
        builds.append(directory)
        time.sleep(0.1)
        (directory / "made").touch()

    threads = [threading.Thread(target=cache.entry, args=("x", 1, build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert (cache.entry("x", 1, build) / "made").exists()


def test_another_recipe_or_another_month_is_another_build(empty_cache: Path) -> None:
    builds: list[Path] = []
    first = cache.entry("x", 1, builds.append)
    assert cache.entry("x", 2, builds.append) != first
    month_ago = time.time() - cache.MAX_AGE_S - 1
    os.utime(first, (month_ago, month_ago))
    assert cache.entry("x", 1, builds.append) == first
    assert len(builds) == 3


def test_a_failed_build_leaves_nothing(empty_cache: Path) -> None:
    def build(directory: Path) -> None:
        (directory / "half").touch()
        raise VmError("no")

    with pytest.raises(VmError):
        cache.entry("x", 1, build)
    assert not [path for path in empty_cache.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("linux-image-6.12.117+deb12-amd64", True),
        ("linux-image-6.12.90+deb12.1-amd64", True),
        ("linux-image-6.12.117+deb12-cloud-amd64", False),
        ("linux-image-6.12.117+deb12-rt-amd64", False),
        ("linux-image-6.12.117+deb12-amd64-dbg", False),
        ("linux-image-6.12.117+deb12-amd64-unsigned", False),
        ("linux-image-6.1.0-57-amd64", False),
        ("linux-image-6.12-amd64", False),
    ],
)
def test_only_plain_packages_of_the_series_are_taken(name: str, taken: bool) -> None:
    pattern = kernels.KERNELS["6.12"].package_pattern
    assert bool(re.search(pattern, name)) is taken


def test_an_unknown_kernel_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTPROF_KERNELS", "6.1,5.10")
    with pytest.raises(VmError, match=r"5\.10 is none of 6\.1"):
        kernels.selected()


def test_a_kernel_for_runs_by_hand_is_tested_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTPROF_KERNELS", raising=False)
    names = [kernel.name for kernel in kernels.selected()]
    assert "6.12-exact" in names
    assert "7.3-exact" not in names
    monkeypatch.setenv("FAULTPROF_KERNELS", "7.3-exact")
    assert [kernel.name for kernel in kernels.selected()] == ["7.3-exact"]


def test_the_source_tree_is_what_git_would_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in (".gitignore", "new.py", "a b", "junk.log"):
        (tmp_path / name).write_text("*.log\n")
    assert source_tree(tmp_path).keys() == {"src/.gitignore", "src/new.py", "src/a b"}

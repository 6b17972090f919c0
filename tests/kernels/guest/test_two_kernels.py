"""One workload on each kernel, with known answers; ../test_two_kernels.py compares what is left."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.vm.session import RECORDINGS
from tests.running import record, run

from .traced_shell import setting

PAGES, ROUNDS = 3, 2
ATTACH = ("--attach", "kprobe")  # all at once, which takes less than a second
WAYS = {"do_huge_pmd_anonymous_page", "hugetlb_fault", "hugetlbfs_fallocate"}
PATIENCE = 900  # seconds; beside other machines on two CPUs a recording has taken five minutes
READ = "/dev/shm/faultprof-two-kernels"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Iterator[None]:
    """Leave the recordings to the outer session."""
    yield
    RECORDINGS.mkdir(exist_ok=True)
    for file in tmp_path.glob("*.fprof"):
        shutil.copy(file, RECORDINGS)
    Path(READ).unlink(missing_ok=True)


def test_reading_a_shared_file(tmp_path: Path) -> None:
    workload = ("usemem", "-t", "2", "--readonly", "-f", READ, "8m")
    options = ("--preset", "read", *ATTACH)
    record(tmp_path / "read.fprof", *options, "--", *workload, mode="trace", timeout=PATIENCE)


def test_the_kernels_own_routines_in_clearing_and_copying(tmp_path: Path, kernel: str) -> None:
    """Each way of ``workload run clear`` calls one routine for each page, on a path of its own."""
    out = tmp_path / "huge.fprof"
    clear = ("workload", "run", "clear", "--pages", str(PAGES), "--rounds", str(ROUNDS))
    with setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"):
        presets = ("--preset", "clear", "--preset", "hugetlb", "--preset", "anon")
        record(out, *presets, *ATTACH, "--", "faultprof", *clear, mode="trace", timeout=PATIENCE)
    done = run("report", out, "--json", timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    calls: Counter[tuple[str, str]] = Counter()
    for path, node in _walk(json.loads(done.stdout)["trace"]["tree"]):
        if node["name"] in ("folio_zero_user", "copy_user_large_folio"):
            (way,) = {*path} & WAYS
            calls[way, node["name"]] += node["calls"]
            assert node["self_ns"] > 0
    each = PAGES * ROUNDS
    assert calls.pop(("hugetlb_fault", "folio_zero_user")) == each  # what is copied later
    assert calls.pop(("hugetlb_fault", "copy_user_large_folio")) == each
    assert calls.pop(("hugetlbfs_fallocate", "folio_zero_user")) == each
    # Debian boots with init_on_alloc=1; newer kernels leave it at what the allocator has cleared.
    by_fault = ("do_huge_pmd_anonymous_page", "folio_zero_user")
    assert calls == ({} if kernel == "7.3" else {by_fault: each})


def _walk(
    node: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    yield path, node
    for child in node["children"]:
        yield from _walk(child, (*path, node["name"]))

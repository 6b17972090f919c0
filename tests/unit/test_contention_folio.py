"""Waits for folios: what a run holds, how runs add up, what is shown; and how files are named."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from faultprof.analysis.contention import folio
from faultprof.analysis.contention.folio import Folio, merged
from faultprof.capture.contention.file_names import FileName, Names, is_whole, name_of
from faultprof.capture.contention.folio_probes import kernel_knobs
from faultprof.errors import ExitCode, FaultprofError
from faultprof.kernel.btf_types import BtfTypes
from faultprof.recording.histogram import bucket_of, bucket_upper_ns
from faultprof.recording.metadata import RunInfo
from tests.running import run
from tests.unit.recordings import SESSION, recorded, session_metadata


def _bucket(ns: int) -> int:
    return bucket_upper_ns(bucket_of(ns))


def _page(index: int, waits: int, *, pages: int = 1, inode: int = 7) -> dict[str, Any]:
    return {
        "kind": "file",
        "aim": "lock",
        "device": "8:1",
        "inode": inode,
        "index": index,
        "pages": pages,
        "waits": waits,
        "ns": waits * 1000,
        "off_cpu_ns": waits * 900,
    }


def _run() -> dict[str, Any]:
    """Return what a run has: 3 waits of 1 us in one function, 1 of 2 ms that was inlined."""
    file = {"kind": "file", "aim": "lock", "device": "8:1", "inode": 7}
    return {
        "waits": [
            {"function": "__folio_lock", "caller": "shmem_get_folio_gfp", "aim": "lock"}
            | {"waits": 3, "given_up": 1, "ns": 3000}
            | {"off_cpu_ns": 2700, "max_ns": 1000, "histogram": [[_bucket(1000), 3]]},
            {
                "function": "",
                "caller": "write_begin",
                "aim": "writeback",
                "waits": 1,
                "given_up": 0,
                "ns": 2_000_000,
            }
            | {"off_cpu_ns": 2_000_000, "max_ns": 2_000_000}
            | {"histogram": [[_bucket(2_000_000), 1]]},
        ],
        "calls": {
            "__folio_lock": {"calls": 5, "without_sleep": 2},
            "folio_wait_bit": {"calls": 0, "without_sleep": 0},
        },
        "files": [
            {**file, "path": "/data/x\x1b[2J", "name": "/x\x1b[2J", "waits": 3, "ns": 3000}
            | {"off_cpu_ns": 2700},
            {"kind": "anonymous", "aim": "lock", "waits": 1, "ns": 5, "off_cpu_ns": 0},
            {"kind": "file", "aim": "writeback", "device": "0:25", "inode": 9, "path": None}
            | {"name": "memfd:y", "waits": 1, "ns": 2_000_000, "off_cpu_ns": 2_000_000},
        ],
        "pages": [_page(0, 2), _page(16, 1, pages=16)],
        "wakes": [
            {"aim": "lock", "wakes": 3, "let_go": 2, "nobody": 1, "ns": 900, "max_ns": 500}
            | {"histogram": [[_bucket(200), 2], [_bucket(500), 1]]},
        ],
        "wakes_in_interrupts": 4,
        "unseen": {"folio_put_wait_locked": "inlined, or not in this kernel"},
        "open": 1,
        "lost": {"waits_for_too_many_pages": 2},
    }


def test_runs_add_up() -> None:
    one = Folio.from_json(_run())
    both = merged([one, one])
    assert [(two.function, two.count, two.ns) for two in both.waits] == [
        ("", 2, 4_000_000),
        ("__folio_lock", 6, 6000),
    ]
    for before, after in zip(merged([one]).waits, both.waits, strict=True):
        assert after.mean_ns == before.mean_ns
        assert after.max_ns == before.max_ns
        assert after.histogram == tuple((upper, 2 * count) for upper, count in before.histogram)
    assert [(page.index, page.count) for page in both.pages] == [(0, 4), (16, 2)]
    assert {page.path for page in both.pages} == {"/data/x\x1b[2J"}
    assert both.calls == {"__folio_lock": 10, "folio_wait_bit": 0}
    assert (both.wakes[0].nobody, both.wakes[0].let_go) == (2, 4)
    assert (both.open, both.wakes_in_interrupts) == (2, 8)
    assert both.lost == {"waits_for_too_many_pages": 4}


def test_where_nobody_knows_who_was_woken_the_sum_is_not_known() -> None:
    unknown = _run()
    unknown["wakes"][0] |= {"let_go": None, "nobody": None}
    both = merged([Folio.from_json(_run()), Folio.from_json(unknown)])
    assert (both.wakes[0].count, both.wakes[0].nobody, both.wakes[0].let_go) == (6, None, None)


def test_a_number_that_another_file_has_in_the_next_run_is_another_file() -> None:
    other = _run()
    other["files"][0]["path"] = "/data/z"
    both = merged([Folio.from_json(_run()), Folio.from_json(other)])
    assert {one.path for one in both.files if one.inode == 7} == {"/data/x\x1b[2J", "/data/z"}


def test_what_is_read_is_what_is_written() -> None:
    once = Folio.from_json(_run()).to_json()
    assert Folio.from_json(once).to_json() == once
    assert once["files"][0].items() >= _run()["files"][0].items()


def test_the_section(tmp_path: Path) -> None:
    runs = (RunInfo(0, contention={"folio": _run()}), RunInfo(1, contention={"folio": _run()}))
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    done = run("contention", tmp_path / "a.fprof")
    assert done.returncode == 0, done.stderr
    section = done.stdout.partition("folio: waits for folio locks")[2].partition("yield:")[0]
    lines = [" ".join(line.split()) for line in section.splitlines()]
    assert "writeback 2 4.00 ms 2.00 ms 1.92 ms 2.00 ms 2.00 ms 0.0% write_begin" in lines
    assert (
        "the lock 6 6.00 µs 1.00 µs 948 ns 999 ns 1.00 µs 10.0% __folio_lock of shmem_get_folio_gfp"
        in lines
    )
    assert "the lock 6 6.00 µs 1.00 µs 10.0% /data/x\\x1b[2J (inode 7 of device 8:1)" in lines
    assert "4 4.00 µs 1.00 µs 10.0% page 0" in lines
    assert "2 2.00 µs 1.00 µs 10.0% pages 16 to 31, one folio" in lines
    unresolved = "inode 9 of device 0:25, called memfd:y there: path not resolved"
    assert f"writeback 2 4.00 ms 2.00 ms 0.0% {unresolved}" in lines
    assert "the lock 2 10 ns 5.00 ns 100.0% anonymous memory" in lines
    assert "the lock 6 4 2 1.80 µs 300 ns 498 ns 500 ns" in lines
    assert "2 waits were ended by a signal" in lines
    assert "4 of 10 calls of __folio_lock did not have to sleep" in lines
    assert "lost: waits for too many pages 4" in lines
    assert "folio_put_wait_locked is not told apart: inlined, or not in this kernel" in lines
    data = json.loads(run("contention", "--json", "--run", "1", tmp_path / "a.fprof").stdout)
    assert data["folio"] == merged([Folio.from_json(_run())]).to_json()
    assert data["folio"]["pages"][0]["path"] == "/data/x\x1b[2J"


def test_every_key_is_documented() -> None:
    def keys(data: object) -> set[str]:
        below = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
        own = set(data) if isinstance(data, dict) else set()
        return own.union(*(keys(one) for one in below))

    data = Folio.from_json(_run()).to_json()
    named = {"__folio_lock", "folio_wait_bit", "folio_put_wait_locked", "waits_for_too_many_pages"}
    for key in keys(data) - named:
        assert f"``{key}``" in str(folio.__doc__), key


def test_a_run_without_waits(tmp_path: Path) -> None:
    empty = {name: type(value)() for name, value in _run().items()}
    runs = (RunInfo(0, contention={"folio": empty}),)
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    done = run("contention", tmp_path / "a.fprof")
    assert "nobody waited for a folio" in done.stdout
    assert "no task called folio_wake_bit" in done.stdout


def test_a_report_names_the_worst_place(tmp_path: Path) -> None:
    runs = (RunInfo(0, contention={"folio": _run()}),)
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    done = run("report", tmp_path / "a.fprof")
    said = " ".join(done.stdout.replace("#", "").split())
    waited = "2.00 ms of the 2.00 ms that tasks waited for folios"
    assert f"write_begin: {waited}, chiefly those of memfd:y (see contention)" in said


def test_the_plot(tmp_path: Path) -> None:
    runs = (RunInfo(0, contention={"folio": _run()}),)
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    done = run("contention", tmp_path / "a.fprof", "--plot", tmp_path / "a.svg")
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "a.svg").read_text()
    assert "its lock: 3 waits, mean 1.00 µs" in drawn
    assert "writeback: 1 wait, mean 2.00 ms" in drawn
    assert "its release" not in drawn


# Names.


def _inode(path: Path) -> tuple[int, int]:
    """Return a file's number, and its device as the kernel has it."""
    status = path.stat()
    return status.st_ino, os.major(status.st_dev) << 20 | os.minor(status.st_dev)


def _name_parts(path: Path) -> list[bytes]:
    """Return a file's names as the kernel has them, up to the root of its file system."""
    parts = []
    while not path.is_mount():
        parts.append(os.fsencode(path.name))
        path = path.parent
    return [*parts, b"/"]


@pytest.fixture
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "a file"
    path.write_text("x")
    return path


def test_a_path_leads_to_the_inode(file: Path) -> None:
    named = Names().resolve({_inode(file): _name_parts(file)})[_inode(file)]
    # Beside the file system's own root there may be others that show it.
    assert named.path is not None
    assert file.samefile(named.path)
    assert str(file).endswith(named.name)


def test_a_path_that_leads_elsewhere_is_none(file: Path) -> None:
    number, device = _inode(file)
    parts = _name_parts(file)
    others = {
        (number + 1, device): parts,
        (number, device + 1): parts,
        (number, device): [b"missing", *parts[1:]],
    }
    for inode, names in others.items():
        assert Names().resolve({inode: names})[inode].path is None


def test_a_process_that_has_ended_is_no_obstacle(file: Path) -> None:
    named = Names(2**22 + 1).resolve({_inode(file): _name_parts(file)})[_inode(file)]
    assert named.path is not None


@pytest.mark.parametrize(
    ("parts", "name", "whole"),
    [
        ([b"file", b"dir", b"/"], "/dir/file", True),
        ([b"file", b"dir", b"far", b""], "…/far/dir/file", False),
        ([b"memfd:x"], "memfd:x", False),
        ([b"x" * 63, b"/"], "/" + "x" * 63, False),
        ([b"/"], "", False),
        ([b"\xff", b"/"], "/\udcff", True),
        ([], "", False),
    ],
)
def test_names(parts: list[bytes], name: str, whole: bool) -> None:
    assert (name_of(parts), is_whole(parts)) == (name, whole)
    assert Names().resolve({(1, 1): parts or None}) == {(1, 1): FileName(name, None)}


# Kernels.


def test_this_kernel_has_all_fields() -> None:
    types = BtfTypes.read()
    if types is None:
        pytest.skip("this kernel has no BTF")
    knobs = kernel_knobs(types)
    assert knobs["NAMES"] == 1
    assert knobs["BIT_LOCKED"] == 0


def test_a_kernel_without_the_fields_is_refused() -> None:
    with pytest.raises(FaultprofError) as raised:
        kernel_knobs(Mock(field_offset=Mock(return_value=None)))
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    assert "task_struct.stack" in raised.value.message

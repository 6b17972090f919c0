"""Recordings for tests: one fixed session for snapshots, and random ones for properties.

Every renderer is tested on both, so that a new one is tested by being named in the tests.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hypothesis import strategies as st

from faultprof.recording.frames import INFERRED, INLINED, UNRESOLVED, USER, Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import CpuInfo, KernelInfo, Metadata, RunInfo
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording, read_recording
from faultprof.recording.writer import write_recording

Runs = Sequence[Sequence[PathCount]]

_FAULT = tuple(map(Frame, ("asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault")))
_MM = (*_FAULT, Frame("handle_mm_fault"), Frame("__handle_mm_fault"))
_ANON = (*_MM, Frame("do_anonymous_page"))
_READ = (*_MM, Frame("do_fault", "", "symbol:.isra.0"), Frame("do_read_fault", "", INFERRED))
_MAP = (*_READ, Frame("filemap_map_pages"))
_CLEAR = Frame("clear_page_erms")

# Fault path, user mode, a module, recursion, an unresolved frame, and names meant to do harm.
SESSION: Runs = (
    (
        PathCount("usemem", (*_ANON, Frame("vma_alloc_folio"), _CLEAR), 400),
        PathCount(
            "usemem", (*_ANON, Frame("vma_alloc_folio"), Frame("clear_page", "", INLINED)), 60
        ),
        PathCount("usemem", (*_ANON, Frame("folio_add_lru")), 25),
        PathCount("usemem", _ANON, 15),
        PathCount("usemem", (*_MAP, Frame("next_uptodate_folio")), 180),
        PathCount("usemem", (*_MAP, Frame("set_pte_range"), Frame("folio_add_file_rmap_ptes")), 40),
        PathCount("usemem", (*_MAP, Frame("set_pte_range")), 20),
        PathCount("usemem", (*_READ, Frame("ext4_filemap_fault", "ext4")), 6),
        PathCount("usemem", (Frame("[user]", "", USER),), 150),
        PathCount("kworker/0:1", (Frame("worker_thread"), Frame("[unknown]", "", UNRESOLVED)), 4),
    ),
    (
        PathCount("usemem", (*_ANON, Frame("vma_alloc_folio"), _CLEAR), 60),
        PathCount("usemem", (*_FAULT, Frame("handle_mm_fault", "", INLINED)), 3),
        PathCount("usemem", (Frame("walk"), Frame("step"), Frame("walk"), Frame("step")), 20),
        PathCount("evil;task name", (Frame("<b>a & b;c</b>\n"), Frame("\x1b[31m\u202ered")), 17),
    ),
)


def session_metadata() -> Metadata:
    """Return the metadata of the fixed session."""
    ledger = Ledger()
    ledger.count("map_full", 0)
    ledger.count("unresolved_frames", 4)
    ledger.info("do_read_fault was inferred from the kind of each fault")
    ledger.degrade("12 of 1012 samples lost, the map of stacks was full (raise --max-stacks)")
    return Metadata(
        command=("usemem", "-t", "2", "--file", "my \x1b[2Jfile", "256m"),
        kernel=KernelInfo("6.12.43+deb12-amd64", "8f" * 20, "x86_64"),
        mode="sample",
        clock="cpu-clock",
        frequency=999,
        runs=(
            RunInfo(
                0, exit_status=0, wall_s=1.25, user_s=0.5, sys_s=0.7, samples=900, on_cpu_s=0.9
            ),
            RunInfo(
                1, exit_status=3, wall_s=0.25, user_s=0.0, sys_s=0.1, samples=100, on_cpu_s=0.1
            ),
        ),
        ledger=ledger,
        host="testbox",
        cpu=CpuInfo("Some CPU @ 3 GHz", 2),
        options={"frequency": 999},
        functions={"do_read_fault": {"resolution": INFERRED, "symbol": "do_fault.isra.0"}},
        created="2025-06-01T12:00:00+00:00",
        tool_version="0.1.0",
    )


def recorded(path: Path, runs: Runs, metadata: Metadata | None = None) -> Recording:
    """Write a recording of ``runs`` to ``path`` and read it."""
    write_recording(path, metadata or session_metadata(), runs)
    return read_recording(path)


def held(runs: Runs) -> Recording:
    """Return a recording of ``runs`` that has been read whole; its file is gone again."""
    return in_memory(lambda path: recorded(path, runs))


def in_memory(write: Callable[[Path], Recording]) -> Recording:
    """Return the recording that ``write`` writes and reads, read whole; its file is gone again.

    The file is in memory: hundreds of random recordings need not reach a disk.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        recording = write(Path(directory, "x.fprof"))
        _ = recording.rows, recording.traced
    return recording


# Few names, so that random paths share beginnings, recur and collide.
_frames = st.builds(
    Frame,
    st.sampled_from(["alpha", "beta", "gamma", "delta epsilon", "zeta;eta", "th\x1beta"]),
    st.sampled_from(["", "", "ext4"]),
    st.sampled_from(["symbol", "symbol", "inlined", "symbol:.isra.0", "user"]),
)
_paths = st.builds(
    PathCount,
    st.sampled_from(["usemem", "bash", "a task"]),
    st.lists(_frames, min_size=1, max_size=7).map(tuple),
    st.integers(0, 1000),
)


def random_runs() -> st.SearchStrategy[Runs]:
    """Return a strategy for up to three runs with up to twelve paths each."""
    return st.lists(st.lists(_paths, max_size=12), min_size=1, max_size=3)


def all_paths(runs: Iterable[Iterable[PathCount]]) -> list[PathCount]:
    """Return the paths of all runs."""
    return [path for run in runs for path in run]

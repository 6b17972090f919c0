"""Waits for kernel locks: how rows add up, what locks are called, what is shown."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.contention import locks as analysed_locks
from faultprof.analysis.contention.locks import Locks, merged
from faultprof.analysis.selection import Selection
from faultprof.kernel.lock_names import lock_taken_by, of_the_lock, of_the_probe, type_name
from faultprof.kernel.variables import Variables
from faultprof.recording.histogram import bucket_of, histogram_of
from faultprof.recording.metadata import RunInfo
from faultprof.recording.reader import read_recording
from faultprof.render.contention import locks as shown_locks
from faultprof.render.plots.contention import contention_figure
from faultprof.render.plots.style import file_of, styled
from tests.running import run
from tests.unit.recordings import SESSION, recorded, session_metadata
from tests.unit.traces import histogram

FAULT = ["handle_mm_fault", "do_anonymous_page", "__pte_offset_map_lock"]


def row(durations: dict[int, int], **other: Any) -> dict[str, Any]:
    """Return a row of so many waits of so many ns."""
    usual = {
        "type": "spinlock",
        "lock": "page-table lock",
        "how": "caller",
        "caller": "__pte_offset_map_lock",
        "path": None,
        "stack": [*FAULT, "_raw_spin_lock"],
        "interrupt": False,
    }
    return {
        **usual,
        **other,
        "waits": sum(durations.values()),
        "total_ns": sum(ns * count for ns, count in durations.items()),
        "histogram": histogram_of(histogram(durations)),
    }


def data(rows: list[tuple[dict[int, int], dict[str, Any]]], **other: Any) -> dict[str, Any]:
    """Return a run's data, from durations and what is unusual of each row."""
    types: dict[str, Counter[int]] = {}
    for durations, more in rows:
        types.setdefault(more.get("type", "spinlock"), Counter()).update(durations)
    return {
        "traced": False,
        "types": [
            {
                "type": name,
                "waits": sum(one.values()),
                "total_ns": sum(ns * count for ns, count in one.items()),
                "min_ns": min(one),
                "max_ns": max(one),
            }
            for name, one in types.items()
        ],
        "waits": [row(durations, **more) for durations, more in rows],
        "repeated_begins": 0,
        "begun_before": 0,
        "unfinished": 0,
        "lost": {"waits_full": 0},
        **other,
    }


_LOCKS = st.sampled_from([("zone lock", "caller"), ("mmap_lock", "address"), (None, "unknown")])
_ROWS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 2**30), st.integers(1, 100), min_size=1, max_size=4),
        st.builds(
            lambda lock, kind, caller: {
                "lock": lock[0],
                "how": lock[1],
                "type": kind,
                "caller": caller,
                "stack": ["root", caller, "slowpath"],
            },
            _LOCKS,
            st.sampled_from(["spinlock", "mutex"]),
            st.sampled_from(["alpha", "beta"]),
        ),
    ),
    max_size=6,
)


@given(st.lists(_ROWS, min_size=1, max_size=3))
def test_all_sums_are_of_the_same_waits(runs: list[Any]) -> None:
    locks = merged([Locks.from_json(json.loads(json.dumps(data(rows)))) for rows in runs])
    waits = sum(sum(durations.values()) for rows in runs for durations, _ in rows)
    total = sum(ns * n for rows in runs for durations, _ in rows for ns, n in durations.items())
    assert (locks.count, locks.total_ns) == (waits, total)
    for groups in (locks.by_lock(), locks.by_place(), list(locks.types.items())):
        assert sum(one.waits for _, one in groups) == waits
        assert sum(one.total_ns for _, one in groups) == total
        assert [one.total_ns for _, one in groups] == sorted(
            (one.total_ns for _, one in groups), reverse=True
        )
        for _, one in groups:
            assert sum(count for _, count in one.histogram) == one.waits
            p50, p99 = one.quantile_ns(0.5), one.quantile_ns(0.99)
            assert p50 is not None
            assert p99 is not None
            assert one.min_ns <= p50 <= p99 <= one.max_ns
    every = [ns for rows in runs for durations, _ in rows for ns in durations]
    assert max(every, default=0) == max((one.max_ns for one in locks.types.values()), default=0)


def test_a_place_is_the_node_or_ends_with_the_function_that_waits() -> None:
    rows: list[Any] = [
        ({100: 1}, {}),
        ({100: 2}, {"path": ["handle_mm_fault"], "stack": None}),
        ({100: 3}, {"stack": [], "caller": None}),
    ]
    locks = Locks.from_json(data(rows))
    assert dict(locks.by_place()).keys() == {tuple(FAULT), ("handle_mm_fault",), ()}
    assert [path for path, _ in locks.by_node()] == [("handle_mm_fault",)]


def test_locks_of_unknown_name_are_told_apart_by_who_waits() -> None:
    unknown = {"lock": None, "how": "unknown"}
    rows: list[Any] = [
        ({100: 1}, {**unknown, "caller": "alpha"}),
        ({100: 1}, {**unknown, "caller": "beta"}),
        ({100: 1}, {"caller": "alpha"}),
        ({100: 1}, {"caller": "beta"}),
    ]
    names = [(lock.name, lock.caller) for lock, _ in Locks.from_json(data(rows)).by_lock()]
    assert sorted(map(str, names)) == sorted(
        map(str, [(None, "alpha"), (None, "beta"), ("page-table lock", None)])
    )


def test_the_section(tmp_path: Path) -> None:
    first = data(
        [
            ({1_000: 90, 2_000_000: 10}, {}),
            ({5_000_000: 4}, {"type": "rwsem write", "lock": "mmap_lock", "how": "address"}),
            ({300: 2}, {"lock": None, "how": "unknown", "caller": "\x1b[2Jevil", "stack": ["a"]}),
        ],
        unfinished=3,
        lost={"waits_full": 7, "stacks_full": 0},
    )
    second = data([({1_000: 10}, {})])
    runs = (
        RunInfo(0, wall_s=0.02, contention={"locks": first}),
        RunInfo(1, wall_s=0.02, contention={"locks": second}),
    )
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    shown = run("contention", "a.fprof", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.partition("locks: waits for kernel locks\n")[2].splitlines()
    assert lines[0] == "  116 waits, 40.1 ms together: 1.00 tasks waiting in the mean of the time"
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "page-table lock (spinlock) 110 20.1 ms 183 µs " in text
    assert text.count(" ms who takes it\n") == 1
    assert "mmap_lock (rwsem write) 4 20.0 ms 5.00 ms" in text
    assert "unknown, in \\x1b[2Jevil (spinlock) 2 600 ns" in text
    assert "3 waits were under way when it ended, and are not counted" in text
    assert "lost: waits full 7" in text
    one = json.loads(run("contention", "a.fprof", "--json", "--run", "1", cwd=tmp_path).stdout)
    assert one["locks"]["waits"] == 10
    assert one["locks"]["by_lock"][0] == {
        "lock": "page-table lock",
        "type": "spinlock",
        "how": "caller",
        "caller": None,
        "waits": 10,
        "total_ns": 10_000,
        "mean_ns": 1000.0,
        "p50_ns": one["locks"]["by_lock"][0]["p50_ns"],
        "p99_ns": one["locks"]["by_lock"][0]["p99_ns"],
        "histogram": [[histogram_of([0] * bucket_of(1000) + [1])[0][0], 10]],
    }


def recorded_runs(path: Path, *runs: dict[str, Any]) -> None:
    """Write a recording whose runs have these data of the part."""
    infos = tuple(RunInfo(number, contention={"locks": one}) for number, one in enumerate(runs))
    recorded(path, SESSION, replace(session_metadata(), runs=infos))


def keys_of(value: Any) -> set[str]:
    """Return all keys of an object and of those in it."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_every_key_is_documented(tmp_path: Path) -> None:
    recorded_runs(tmp_path / "a.fprof", data([({5: 1}, {})], lost={}))
    section = json.loads(run("contention", "a.fprof", "--json", cwd=tmp_path).stdout)["locks"]
    said = {*re.findall(r"``(\w+)``", f"{shown_locks.__doc__}{analysed_locks.__doc__}")}
    assert keys_of(section) <= said


def test_a_report_names_the_worst_place(tmp_path: Path) -> None:
    mm = {"type": "rwsem write", "lock": "mmap_lock", "how": "address", "caller": "vm_mmap"}
    there = {"stack": ["root", "do_mmap", "vm_mmap", "down_write"]}
    rows: list[Any] = [
        ({4_000: 1}, {}),
        ({3_000: 1}, {**mm, **there}),
        ({2_000: 1}, {**mm, **there, "lock": None, "how": "unknown", "type": "mutex"}),
    ]
    recorded_runs(tmp_path / "a.fprof", data(rows))
    shown = " ".join(run("report", "a.fprof", cwd=tmp_path).stdout.replace("#", "").split())
    assert (
        "contended vm_mmap < do_mmap < root: 5.00 µs of the 9.00 µs that tasks waited for kernel "
        "locks, chiefly mmap_lock (rwsem write) (see contention)" in shown
    )
    nodes: list[Any] = [*rows, ({1_000: 1}, {"path": ["handle_mm_fault"], "stack": None})]
    recorded_runs(tmp_path / "b.fprof", data(nodes, traced=True))
    shown = run("report", "b.fprof", cwd=tmp_path).stdout
    assert "contended handle_mm_fault: 1.00 µs of the 10.0 µs" in shown


def test_nothing_is_said_where_nobody_waited(tmp_path: Path) -> None:
    recorded_runs(tmp_path / "a.fprof", data([]))
    shown = run("report", "a.fprof", cwd=tmp_path)
    assert (shown.returncode, "contended" in shown.stdout) == (0, False)
    recorded_runs(tmp_path / "b.fprof", {"waits": "none"})
    shown = run("report", "b.fprof", cwd=tmp_path)
    assert (shown.returncode, "contended not known" in shown.stdout) == (0, True)


@given(_ROWS)
@settings(max_examples=5, deadline=None)
def test_every_recording_can_be_drawn(rows: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.fprof")
        recorded_runs(path, data(rows))
        with styled():
            figure = contention_figure(read_recording(path), Selection())
            shown = file_of(figure, "svg").decode()
    for lock, waited in Locks.from_json(data(rows)).by_lock():
        assert f"{lock.label} ({lock.type})" in shown
        assert f", {waited.waits:,} waits" in shown


def test_no_wait_is_no_table(tmp_path: Path) -> None:
    runs = (RunInfo(0, contention={"locks": data([])}),)
    recorded(tmp_path / "a.fprof", SESSION, replace(session_metadata(), runs=runs))
    assert "  no waits" in run("contention", "a.fprof", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("functions", "kind", "lock"),
    [
        (("__pte_offset_map_lock",), "spinlock", "page-table lock"),
        (("unmap_page_range", "zap_pte_range"), "spinlock", "page-table lock"),
        (("folio_lruvec_lock_irqsave",), "spinlock", "lruvec lock"),
        (("hugetlb_fault",), "mutex", "hugetlb fault mutex"),
        (("hugetlb_fault",), "spinlock", "page-table lock"),
        (("unlink_file_vma",), "rwsem write", "i_mmap_rwsem"),
        (("unlink_file_vma",), "spinlock", None),
        (("no_such_function",), "spinlock", None),
        ((), "mutex", None),
    ],
)
def test_a_lock_by_who_takes_it(functions: tuple[str, ...], kind: str, lock: str | None) -> None:
    assert lock_taken_by(functions, kind) == lock


@pytest.mark.parametrize(
    "function",
    [
        "_raw_spin_lock_irqsave",
        "native_queued_spin_lock_slowpath",
        "__pv_queued_spin_lock_slowpath",
        "queued_read_lock_slowpath",
        "rwsem_down_read_slowpath",
        "down_write_killable",
        "__mutex_lock",
        "mutex_lock",
        "percpu_down_write",
        "__percpu_down_read",
        "__down_common",
        "rt_spin_lock",
    ],
)
def test_functions_of_locks(function: str) -> None:
    assert of_the_lock(function)
    assert not of_the_probe(function)


@pytest.mark.parametrize(
    "function",
    ["folio_lruvec_lock_irqsave", "vma_start_write", "lock_mm_and_find_vma", "__schedule"],
)
def test_functions_that_wait(function: str) -> None:
    assert not of_the_lock(function)
    assert not of_the_probe(function)


def test_types() -> None:
    assert [type_name(flags) for flags in (1, 2, 4, 32, 16 | 2)] == [
        "spinlock",
        "rwsem read",
        "rwsem write",
        "mutex",
        "percpu-rwsem read",
    ]
    assert type_name(63) == "flags 0x3f"


KALLSYMS = b"""\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff82000000 D first_lock
ffffffff82000040 b second_lock
ffffffff82000050 t a_function
ffffffff83000000 B _end
ffffffffc0000000 d module_lock\t[ext4]
"""


def test_variables_have_names() -> None:
    variables = Variables(KALLSYMS)
    assert variables.image == (0xFFFFFFFF81000000, 0xFFFFFFFF83000000)
    assert variables.name(0xFFFFFFFF82000000) == "first_lock"
    assert variables.name(0xFFFFFFFF8200003F) == "first_lock+0x3f"
    assert variables.name(0xFFFFFFFF82000060) == "second_lock+0x20"
    assert variables.name(0xFFFFFFFF81000010) is None
    assert Variables(b"").image is None
    assert Variables(KALLSYMS.replace(b" _end", b" _enx")).image is None

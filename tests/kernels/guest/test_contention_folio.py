"""Waits for folio locks are those that a program has measured: how many, how long, for which page.

The program (folio.c) has threads collide on one page of a file whose file system takes its time.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .traced_shell import compiled

pytestmark = pytest.mark.noisy("a CPU held up")

# So long that what a fault takes besides does not count, and in the middle of a bucket.
HOLD_MS = 214
THREADS, ROUNDS = 4, 4
KILLED, KILL_ROUNDS = 3, 2
TRUNCATE_ROUNDS = 2
# By run, ways to want the page, each with a page of its own: threads, rounds, and the page.
RUNS = (
    {"kill": (KILLED, KILL_ROUNDS, 40)},
    {
        "mem": (THREADS, ROUNDS, 5),
        "read": (THREADS, ROUNDS, 9),
        "fault": (THREADS, ROUNDS, 12),
        "truncate": (1, TRUNCATE_ROUNDS, 45),
    },
)
WAITS = {"mem": 12, "read": 12, "fault": 12, "truncate": 2}
# Who reads does not need the lock: when it is free, the page is there.
AIMS = {"mem": "lock", "read": "unlocked", "fault": "lock", "truncate": "lock", "kill": "lock"}


@dataclass(frozen=True)
class Run:
    """What the program measured, by way, and what was recorded in the run that it is in."""

    measured: dict[str, dict[str, int]]
    found: dict[str, Any]
    file: Path

    def page(self, way: str) -> list[dict[str, Any]]:
        """Return what was recorded of a way's page.

        Whoever has read the page in may find its lock taken by the next one, and wait until it is
        free: that is no collision of the program's making.
        """
        index = next(ways[way][2] for ways in RUNS if way in ways)
        return [
            one for one in self.found["pages"] if (one["index"], one["aim"]) == (index, AIMS[way])
        ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, ...]]:
    """Record all ways in turns: two runs of a script that does something else the second time."""
    from tests.running import record
    from tests.running import run as faultprof

    directory = tmp_path_factory.mktemp("folio")
    program = compiled("folio.c", directory)
    files, fifo, out = directory / "files", directory / "fifo", directory / "x.fprof"
    files.mkdir()
    os.mkfifo(fifo)
    server = subprocess.Popen(
        [program, "serve", files, fifo, str(HOLD_MS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        first, second = (
            "\n".join(
                f"{program} {way} {files}/data {fifo} {threads} {rounds} {page} >{directory / way}"
                for way, (threads, rounds, page) in ways.items()
            )
            for ways in RUNS
        )
        script = f"if mkdir {directory}/begun; then\n{first}\nelse\n{second}\nfi"
        options = ("--folio", "-F", "49", "--repeat", "2")
        record(out, *options, "--", "sh", "-ec", script, timeout=600)
        print(faultprof("contention", out).stdout)
        found = []
        for number, ways in enumerate(RUNS):
            measured = {way: json.loads((directory / way).read_text()) for way in ways}
            done = faultprof("contention", "--json", "--run", str(number), out)
            found.append(Run(measured, json.loads(done.stdout)["folio"], files / "data"))
            print(found[-1])
        yield tuple(found)
    finally:
        subprocess.run(["umount", "-l", files], check=True)
        server.wait()


def test_waits_are_counted(runs: tuple[Run, ...]) -> None:
    for run in runs:
        for way in run.measured.keys() & WAITS:
            assert run.measured[way]["waits"] == WAITS[way]
            waits = sum(one["waits"] for one in run.page(way))
            # Those who have dropped their address space's lock may meet again when they retry.
            assert waits == WAITS[way] or (way == "fault" and waits > WAITS[way]), way


def test_the_time_is_what_the_program_measured(runs: tuple[Run, ...]) -> None:
    for run in runs:
        for way in run.measured.keys() & WAITS:
            ns = sum(one["ns"] for one in run.page(way))
            assert ns == pytest.approx(run.measured[way]["ns"], rel=0.1), way


def test_the_mean_of_the_histograms_is_what_the_program_measured(runs: tuple[Run, ...]) -> None:
    """Of the run without waits that nobody has measured, but for short ones of those who retry."""
    from faultprof.recording.histogram import bucket_lower_ns, bucket_of

    run = runs[1]
    buckets = [
        ((bucket_lower_ns(bucket_of(upper)) + upper) / 2, count)
        for one in run.found["waits"]
        for upper, count in one["histogram"]
        if upper > 1e6 * HOLD_MS / 2
    ]
    measured = run.measured.values()
    assert sum(count for _, count in buckets) == sum(one["waits"] for one in measured)
    total = sum(middle * count for middle, count in buckets)
    assert total == pytest.approx(sum(one["ns"] for one in measured), rel=0.1)


def test_file_and_page_are_named(runs: tuple[Run, ...]) -> None:
    for run in runs:
        status = run.file.stat()
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        files = [one for one in run.found["files"] if one["path"] == str(run.file)]
        pages = [page for way in run.measured for page in run.page(way)]
        assert files
        for one in (*files, *pages):
            assert (one["device"], one["inode"]) == (device, status.st_ino)
            assert (one["path"], one["name"]) == (str(run.file), "/data")
        assert {page["pages"] for page in pages} == {1}
        # And none of the other run's.
        indexes = {page["index"] for page in run.found["pages"] if page["path"] == str(run.file)}
        assert indexes == {page["index"] for page in pages}


def test_the_time_off_cpu_is_what_the_program_measured(runs: tuple[Run, ...]) -> None:
    for run in runs:
        for way in run.measured.keys() & WAITS:
            off_cpu = sum(one["off_cpu_ns"] for one in run.page(way))
            measured = run.measured[way]["ns"] - run.measured[way]["cpu_ns"]
            assert off_cpu == pytest.approx(measured, rel=0.1), way
            assert off_cpu <= sum(one["ns"] for one in run.page(way))


def test_who_waits(runs: tuple[Run, ...]) -> None:
    killed, run = runs
    waits: dict[tuple[str, str, str], int] = {}
    for one in run.found["waits"]:
        key = one["function"], one["caller"], one["aim"]
        waits[key] = waits.get(key, 0) + one["waits"]
    truncating = ("__folio_lock", "truncate_inode_pages_range", "lock")
    assert waits[truncating] == WAITS["truncate"], waits
    faults = sum(
        count
        for (_, caller, aim), count in waits.items()
        if (caller, aim) == ("filemap_fault", "lock")
    )
    assert faults >= WAITS["mem"] + WAITS["fault"], waits
    assert run.found["calls"]["__folio_lock"]["calls"] >= WAITS["truncate"]
    given_up = [sum(one["given_up"] for one in each.found["waits"]) for each in (killed, run)]
    assert given_up == [KILLED * KILL_ROUNDS, 0]


def test_who_has_read_the_page_for_the_killed_wakes_nobody(runs: tuple[Run, ...]) -> None:
    (wakes,) = runs[0].found["wakes"]
    assert (wakes["aim"], wakes["wakes"], wakes["nobody"]) == ("lock", KILL_ROUNDS, KILL_ROUNDS)
    assert wakes["let_go"] == 0


def test_all_who_wait_are_let_go(runs: tuple[Run, ...]) -> None:
    """And maybe some who have yet to fall asleep, which are no waits."""
    found = runs[1].found
    let_go = sum(one["let_go"] for one in found["wakes"])
    assert let_go >= sum(one["waits"] for one in found["waits"])
    for one in found["wakes"]:
        assert one["wakes"] - one["nobody"] <= one["let_go"]
        assert sum(count for _, count in one["histogram"]) == one["wakes"]


def test_nothing_is_lost(runs: tuple[Run, ...]) -> None:
    for run in runs:
        assert (run.found["lost"], run.found["open"]) == ({}, 0)

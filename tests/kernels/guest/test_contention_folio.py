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

HOLD_MS = 50
THREADS, ROUNDS = 4, 8
KILLED, KILL_ROUNDS = 3, 2
# Ways to want the page, each with a page of its own.
PAGES = {"mem": 5, "read": 9, "fault": 12, "truncate": 20, "kill": 40}
COLLIDING = ("mem", "read", "fault", "truncate")


@dataclass(frozen=True)
class Run:
    """What the program measured, by way, and what was recorded."""

    measured: dict[str, dict[str, int]]
    found: dict[str, Any]
    file: Path

    def page(self, way: str) -> list[dict[str, Any]]:
        """Return what was recorded of a way's page."""
        return [one for one in self.found["pages"] if one["index"] == PAGES[way]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Record all ways in turns."""
    from tests.running import record
    from tests.running import run as faultprof

    directory = tmp_path_factory.mktemp("folio")
    program = compiled("folio.c", directory)
    mounted, fifo, out = directory / "files", directory / "fifo", directory / "x.fprof"
    mounted.mkdir()
    os.mkfifo(fifo)
    server = subprocess.Popen(
        [program, "serve", mounted, fifo, str(HOLD_MS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        script = "\n".join(
            f"{program} {way} {mounted}/data {fifo} {KILLED if way == 'kill' else THREADS}"
            f" {KILL_ROUNDS if way == 'kill' else ROUNDS} {page} >{directory}/{way}"
            for way, page in PAGES.items()
        )
        record(out, "--folio", "-F", "49", "--", "sh", "-ec", script, timeout=600)
        measured = {way: json.loads((directory / way).read_text()) for way in PAGES}
        print(faultprof("contention", out).stdout)
        found = json.loads(faultprof("contention", "--json", out).stdout)["folio"]
        print(json.dumps(measured), json.dumps(found))
        yield Run(measured, found, mounted / "data")
    finally:
        subprocess.run(["umount", "-l", mounted], check=True)
        server.wait()


def test_waits_are_counted(run: Run) -> None:
    for way in ("mem", "read", "truncate"):
        expected = ROUNDS * (1 if way == "truncate" else THREADS - 1)
        assert run.measured[way]["waits"] == expected
        assert sum(one["waits"] for one in run.page(way)) == expected, way
    # Those who have dropped the lock of their address space may meet again when they retry.
    assert sum(one["waits"] for one in run.page("fault")) >= run.measured["fault"]["waits"]


def test_the_time_is_what_the_program_measured(run: Run) -> None:
    for way in COLLIDING:
        ns = sum(one["ns"] for one in run.page(way))
        assert ns == pytest.approx(run.measured[way]["ns"], rel=0.1), way


def test_the_mean_of_the_histograms_is_what_the_program_measured(run: Run) -> None:
    """Each bucket counts as its middle; short waits and those of the killed are not measured."""
    buckets = [
        bucket
        for one in run.found["waits"]
        for bucket in one["histogram"]
        if bucket[0] > 1e6 * HOLD_MS / 2
    ]
    killed = sum(one["waits"] for one in run.page("kill"))
    assert killed == KILLED * KILL_ROUNDS
    total = sum(run.measured[way]["ns"] for way in COLLIDING)
    total += sum(one["ns"] for one in run.page("kill"))
    count = sum(run.measured[way]["waits"] for way in COLLIDING) + killed
    assert sum(number for _, number in buckets) == count
    middle = sum((7 / 8 * upper) * number for upper, number in buckets) / count
    assert middle == pytest.approx(total / count, rel=0.1)


def test_file_and_page_are_named(run: Run) -> None:
    status = run.file.stat()
    files = [one for one in run.found["files"] if one["path"] == str(run.file)]
    assert files
    for one in (*files, *(page for way in PAGES for page in run.page(way))):
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        assert (one["device"], one["inode"]) == (device, status.st_ino)
        assert (one["path"], one["name"]) == (str(run.file), "/data")
    assert {one["pages"] for way in PAGES for one in run.page(way)} == {1}


def test_waits_sleep(run: Run) -> None:
    for way in COLLIDING:
        off_cpu = sum(one["off_cpu_ns"] for one in run.page(way))
        assert off_cpu == pytest.approx(run.measured[way]["ns"], rel=0.1), way
        assert off_cpu <= sum(one["ns"] for one in run.page(way))


def test_functions_and_aims(run: Run) -> None:
    by_aim = {way: {one["aim"] for one in run.page(way)} for way in PAGES}
    assert by_aim["mem"] == by_aim["fault"] == by_aim["truncate"] == by_aim["kill"] == {"lock"}
    assert by_aim["read"] == {"unlocked"}  # and then the page is there
    truncating = [one for one in run.found["waits"] if one["function"] == "__folio_lock"]
    assert sum(one["waits"] for one in truncating) >= ROUNDS
    assert sum(one["given_up"] for one in run.found["waits"]) == KILLED * KILL_ROUNDS


def test_wake_ups(run: Run) -> None:
    """Who took the page for the killed wakes nobody; all others who waited were let go."""
    waits = sum(one["waits"] for one in run.found["waits"])
    assert sum(one["nobody"] for one in run.found["wakes"]) == KILL_ROUNDS
    let_go = sum(one["let_go"] for one in run.found["wakes"])
    assert let_go == waits - KILLED * KILL_ROUNDS


def test_nothing_is_lost(run: Run) -> None:
    assert (run.found["lost"], run.found["open"]) == ({}, 0)

"""Waits for kernel locks: as many as perf counts and as long, and in the right node of the tree."""

from __future__ import annotations

import json

import pytest

from tests.perf_locks import ENOUGH, Both, compiled, contended
from tests.running import run

pytestmark = pytest.mark.noisy("threads that must meet")

THREADS, MILLISECONDS = 8, 4000
COUNT, TIME = 0.02, 0.02  # how far we may be from perf, in parts

ROOT = "handle_mm_fault"  # of all that is traced by default


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    directory = tmp_path_factory.mktemp("both")
    return contended(compiled(directory), directory, THREADS, MILLISECONDS, "--mode", "trace")


def test_as_many_waits_as_perf_and_as_long(both: Both) -> None:
    locks = both.ours
    print(f"{locks['waits']} waits, perf {both.perf_waits}; {locks['total_ns']}, {both.perf_ns} ns")
    print(locks["lost"])
    assert both.perf_waits > ENOUGH, "too few to compare"
    assert locks["waits"] == pytest.approx(both.perf_waits, rel=COUNT)
    assert locks["total_ns"] == pytest.approx(both.perf_ns, rel=TIME)
    assert set(locks["lost"].values()) == {0}


def test_each_wait_is_in_its_node(both: Both) -> None:
    """A wait that no traced function is charged with has none on its stack.

    But while a probe's own program waits, the function that it is about to note is on the stack.
    """
    inside = [one for one in both.ours["rows"] if one["path"]]
    print(sum(one["waits"] for one in inside), "waits in", {one["path"][-1] for one in inside})
    assert both.ours["traced"]
    for one in both.ours["rows"]:
        if one["path"]:
            assert (one["path"][0], one["stack"]) == (ROOT, None)
        elif not (one["interrupt"] or any(name.startswith("bpf_prog_") for name in one["stack"])):
            assert ROOT not in one["stack"], one["stack"]


def test_no_node_waits_longer_than_it_takes(both: Both) -> None:
    report = json.loads(run("report", both.recording, "--json").stdout)
    (root,) = (one for one in report["trace"]["functions"] if one["name"] == ROOT)
    waited = sum(one["total_ns"] for one in both.ours["rows"] if one["path"])
    print(f"{waited} of {root['inclusive_ns']} ns waited")
    assert waited < root["inclusive_ns"]


def test_locks_have_their_names(both: Both) -> None:
    by_lock = {(one["lock"], one["type"], one["how"]): one for one in both.ours["by_lock"]}
    assert by_lock["mmap_lock", "rwsem write", "address"]["waits"] > 0
    for one in both.ours["rows"]:
        if one["path"] and one["type"] == "spinlock" and one["lock"] == "page-table lock":
            assert one["how"] == "caller"

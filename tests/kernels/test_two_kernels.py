"""One workload recorded on 6.1 and on 7.3, compared here: the same functions by other names.

The recordings are those of guest/test_two_kernels.py, whose tests have to be selected as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.conftest import SESSIONS
from tests.kernels.vm.errors import UnavailableError
from tests.running import run

BASE, NEW = "6.1", "7.3"
RENAMED = {
    "read": ("next_uptodate_page", "next_uptodate_folio"),
    "huge": ("clear_huge_page", "folio_zero_user"),
}


@pytest.fixture(scope="module", params=RENAMED)
def workload(request: pytest.FixtureRequest) -> str:
    """Return what was recorded: ``read`` or ``huge``."""
    return str(request.param)


@pytest.fixture
def pair(workload: str, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Return the recordings of both kernels."""
    files = []
    for kernel in (BASE, NEW):
        try:
            left = request.config.stash[SESSIONS].recordings(kernel)
        except UnavailableError as error:
            pytest.skip(str(error))
        if left is None:
            pytest.skip(f"no test of guest/test_two_kernels.py was selected for {kernel}")
        assert f"{workload}.fprof" in left, f"the tests on {kernel} left no recording"
        files.append(tmp_path / f"{kernel}.fprof")
        files[-1].write_bytes(left[f"{workload}.fprof"])
    return files[0], files[1]


def printed(*arguments: str | Path) -> dict[str, Any]:
    done = run(*map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_renamed_function_is_one_node(pair: tuple[Path, Path], workload: str) -> None:
    former, name = RENAMED[workload]
    symbols = [printed("report", file)["resolved"][name]["symbol"] for file in pair]
    assert symbols == [former, name]
    traced = printed("diff", *pair, "--source", "trace")
    assert any(node["name"] == name and node["state"] == "both" for node in traced["nodes"])
    # Samples have the symbols of their kernel. There may be none of a function, but not of two.
    sampled = printed("diff", *pair, "--source", "sample")
    for diff in (traced, sampled):
        assert former not in {node["name"] for node in diff["nodes"]}
        releases = [diff[side]["kernel"].split(".")[:2] for side in ("base", "new")]
        assert releases == [BASE.split("."), NEW.split(".")]
    for node in sampled["nodes"]:
        if node["name"] == name:
            assert node["names"]["base"] in ([], [former])
            assert node["names"]["new"] == []


@pytest.mark.parametrize("source", ["trace", "sample"])
def test_both_columns_add_up_to_the_reports(pair: tuple[Path, Path], source: str) -> None:
    diff = printed("diff", *pair, "--source", source)
    amount = "ns" if source == "trace" else "samples"
    for side, file in zip(("base", "new"), pair, strict=True):
        report = printed("report", file)
        total = report["trace"]["total_ns"] if source == "trace" else report["total_samples"]
        roots = [node[amount][side] for node in diff["nodes"] if node["parent"] < 0]
        assert sum(roots) == diff[side]["total"] == total > 0
        # Each node's own figure, in the measure: all of them together are the whole.
        faults = diff[side]["faults"]
        assert diff["unit"] == ("ns/fault" if source == "trace" else "percent")
        whole = total / faults if source == "trace" else 100
        assert sum(node["own"][side] for node in diff["nodes"]) == pytest.approx(whole)
        if source == "trace":
            assert faults == report["trace"]["faults"]

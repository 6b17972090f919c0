"""``faultprof ab``: two commands in turns."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

import faultprof
from faultprof.capture.options import RecordOptions
from faultprof.capture.schedule import interleaved
from tests.running import FAULTPROF, run

_NOWHERE = (RecordOptions(Path("a")), RecordOptions(Path("b")))


def test_both_run_in_the_order_that_the_seed_gives_and_compare_in_pairs(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    sides = [f"sh -c 'echo {side} >> {log}; echo v={side}'" for side in (0, 1)]
    arguments = ["--repeat", "5", "--seed", "11", "--metric", r"v=v=(\d)"]
    done = run("ab", *arguments, "-o", out, "--a", sides[0], "--b", sides[1])
    assert done.returncode == 0, done.stderr
    order = interleaved(_NOWHERE, 5, 11).order
    assert tuple(map(int, log.read_text().split())) == order
    assert done.stdout == "".join(f"v={side}\n" for side in order)
    assert "--seed 11" in done.stderr
    for side, name in enumerate("ab"):
        loaded = faultprof.load(out / f"{name}.fprof")
        assert loaded.metadata.command[-1].startswith(f"echo {side}")
        assert [one.metrics["v"] for one in loaded.runs] == [side] * 5
    compared = run("compare", "--json", out / "a.fprof", out / "b.fprof")
    (table,) = json.loads(compared.stdout)["tables"]
    changes = {row["name"]: row["changes"][0] for row in table["metrics"]}
    assert changes["wall_s"]["paired"] is True


def test_ctrl_c_keeps_whole_blocks(tmp_path: Path) -> None:
    out, count = tmp_path / "out", tmp_path / "count"
    script = f"sh -c 'echo x >> {count}; [ $(wc -l < {count}) -lt 6 ] || exec sleep 100'"
    command = ["ab", "--repeat", "9", "-o", str(out), "--a", script, "--b", script]
    process = subprocess.Popen([*FAULTPROF, *command])
    end = time.monotonic() + 60
    while not count.exists() or len(count.read_text().split()) < 6:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT
    for name in "ab":
        loaded = faultprof.load(out / f"{name}.fprof")
        assert [one.exit_status for one in loaded.runs] == [0, 0]
        assert loaded.metadata.options["interleaved"]["blocks"] == [0, 1]
        assert "2 of 9 runs: interrupted" in [n.text for n in loaded.metadata.ledger.notes]


REFUSED = {
    "no blocks": (["--repeat", "0", "--a", "true", "--b", "true"], 2, "0 blocks"),
    "no command": (["--a", " ", "--b", "true"], 2, "--a names no command"),
    "open quote": (["--a", "true", "--b", "sh -c '"], 2, "--b cannot be split"),
    "not found": (["--a", "no-such-command", "--b", "no-such-command"], 127, "not found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path: Path, case: str) -> None:
    arguments, status, message = REFUSED[case]
    done = run("ab", "-o", tmp_path / "out", *arguments)
    assert done.returncode == status
    assert message in done.stderr
    assert not list(tmp_path.glob("out/*"))


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    done = run("ab", "-o", tmp_path / "out", "--a", "true", "--b", "true")
    assert done.returncode == 2
    assert "is no directory" in done.stderr

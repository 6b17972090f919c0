"""Delays of kernel functions, on stock kernels: where there is nothing to delay, and after a kill.

What delays of known length do is in truth_answers.py, which emulation is too uneven for.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.noisy("a CPU held up")

NODE = "__handle_mm_fault"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Compile the program that writes to pages."""
    program = tmp_path_factory.mktemp("pages") / "pages"
    source = Path(__file__).with_name("pages.c")
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    return str(program)


def test_a_function_that_is_never_called_has_no_effect(pages: str) -> None:
    found = _perturb("do_swap_page", "0,50us", 2, pages, "100")
    assert found["calls"] == 0
    assert found["index"]["low"] <= 0 <= found["index"]["high"]
    assert found["verdict"] == "no effect"


def test_a_killed_session_delays_nothing_any_more() -> None:
    from tests.running import FAULTPROF

    options = ("--at", NODE, "--where", "exit", "--delay", "0,1us", "--no-cost", "-q")
    session = subprocess.Popen([*FAULTPROF, "perturb", *options, "--", "sleep", "60"])
    try:
        _wait_until(lambda: "leave_" in _programs())
        _wait_until(lambda: "_bcc_" in KPROBE_EVENTS.read_text())  # attached a little later
    finally:
        session.kill()
        session.wait()
    _wait_until(lambda: "leave_" not in _programs())
    _wait_until(lambda: "_bcc_" not in KPROBE_EVENTS.read_text())


KPROBE_EVENTS = Path("/sys/kernel/tracing/kprobe_events")


def _programs() -> str:
    return subprocess.run(["bpftool", "prog"], capture_output=True, text=True, check=True).stdout


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _perturb(function: str, delays: str, repeat: int, *command: str) -> dict[str, Any]:
    from tests.running import run

    options = ["--delay", delays, "--repeat", str(repeat), "--seed", "1", "--no-cost", "--json"]
    done = run("perturb", "--at", function, *options, "--", *command, timeout=600)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    found = json.loads(done.stdout)
    print({name: found[name] for name in ("slope", "expected_slope", "index", "verdict")})
    assert isinstance(found, dict)
    return found

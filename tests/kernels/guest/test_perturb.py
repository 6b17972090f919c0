"""Delays of kernel functions, on stock kernels: where there is nothing to delay, and after a kill.

What delays of known length do is in truth_answers.py, which emulation is too uneven for.
"""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.running import FAULTPROF, wait_until

from .perturbing import perturb

pytestmark = pytest.mark.noisy("a CPU held up")

NODE = "__handle_mm_fault"

until = partial(wait_until, seconds=120, pause=0.2)


def test_a_function_that_is_never_called_has_no_effect(pages: str) -> None:
    found = perturb("do_swap_page", "0,50us", 2, command=(pages, "100"))
    assert found["calls"] == 0
    assert found["index"]["low"] <= 0 <= found["index"]["high"]
    assert found["verdict"] == "no effect"


def test_a_killed_session_delays_nothing_any_more() -> None:
    options = ("--at", NODE, "--where", "exit", "--delay", "0,1us", "--no-cost", "-q")
    session = subprocess.Popen([*FAULTPROF, "perturb", *options, "--", "sleep", "60"])
    try:
        until(lambda: "leave_" in _programs())
        until(lambda: "_bcc_" in KPROBE_EVENTS.read_text())  # attached a little later
    finally:
        session.kill()
        session.wait()
    until(lambda: "leave_" not in _programs())
    until(lambda: "_bcc_" not in KPROBE_EVENTS.read_text())


KPROBE_EVENTS = Path("/sys/kernel/tracing/kprobe_events")


def _programs() -> str:
    return subprocess.run(["bpftool", "prog"], capture_output=True, text=True, check=True).stdout

"""Runs faultprof perturb as a user does, for tests of what a delay does.

Knows: the options that all of them give.
Leaves to others: what is delayed, and the answers.
"""

from __future__ import annotations

import json
from typing import Any


def perturb(
    function: str, delays: str, repeat: int, *options: str, command: tuple[str, ...]
) -> dict[str, Any]:
    """Run a command with each of the delays in a function, and return what comes out."""
    from tests.running import run

    common = ["--delay", delays, "--repeat", str(repeat), "--seed", "1", "--no-cost", "--json"]
    done = run("perturb", "--at", function, *common, *options, "--", *command, timeout=600)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    found = json.loads(done.stdout)
    print({name: found[name] for name in ("slope", "expected_slope", "index", "verdict")})
    assert isinstance(found, dict)
    return found

"""Records threads that do nothing but fault, and checks the occupancy by the trace beside it.

Knows: what both have to agree on.
Leaves to others: the program (faulters.c).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.running import run

SECONDS = 4
TOLERANCE = 0.05
# From which mean on the readings are many enough: fewer CPUs inside, and chance is larger.
BUSY = 0.5


def occupancy(recording: Path, program: Path, threads: int) -> dict[str, Any]:
    """Record so many threads and return what the view tells of their occupancy."""
    what = ("--mode", "trace", "--occupancy", "--preset", "anon", "--no-calibrate")
    command = ("--", program, str(threads), str(SECONDS))
    done = run("record", "-q", *what, "-o", recording, *command, timeout=900)
    assert done.returncode == 0, done.stderr
    print(run("contention", recording).stdout)
    found: dict[str, Any] = json.loads(run("contention", "--json", recording).stdout)["occupancy"]
    assert found["functions"]["handle_mm_fault"]["calls"] > 5_000
    return found


def check_mean(found: dict[str, Any]) -> None:
    """Demand that the mean of the readings is that of the trace."""
    busy = {name: one for name, one in found["functions"].items() if one["mean_by_trace"] > BUSY}
    assert "handle_mm_fault" in busy
    for name, one in busy.items():
        off = one["mean"] / one["mean_by_trace"] - 1
        print(f"{name}: {one['mean']} by readings, {one['mean_by_trace']} by trace, {off:+.1%}")
        assert abs(off) <= TOLERANCE, name

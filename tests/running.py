"""Runs faultprof as a user does, for tests of any tier."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faultprof

FAULTPROF = (sys.executable, "-m", "faultprof")


def run(
    *arguments: str | Path, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run faultprof and return how it ended, with what it printed."""
    return subprocess.run(
        [*FAULTPROF, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def record(
    output: Path, *arguments: str, mode: str = "sample", **options: Any
) -> subprocess.CompletedProcess[str]:
    """Record into ``output`` and demand that it worked."""
    done = run("record", "--mode", mode, "-o", output, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done


def wait_until(
    condition: Callable[[], object],
    seconds: float = 30,
    seen: Callable[[], object] | None = None,
    *,
    pause: float = 0.05,
) -> None:
    """Wait for something to come to pass; ``seen`` tells what there is if it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {seen() if seen else None}"
        time.sleep(pause)


def comes_within(limit: float, deviation: Callable[[], float], attempts: int = 4) -> bool:
    """Return whether a deviation from the truth is at most ``limit`` in one of some attempts.

    For what a hypervisor can spoil: while it runs something else, a virtual CPU's clock goes on
    and its timers are late. A fault of ours would show every time.
    """
    for _ in range(attempts):
        found = deviation()
        print(f"deviation {found:.4f}, limit {limit}")
        if found <= limit:
            return True
    return False


def paths(recording: Path) -> dict[tuple[str, ...], int]:
    """Return the inclusive samples of each path of functions, root first."""
    tree = faultprof.load(recording).tree()
    found: dict[tuple[str, ...], int] = {}
    stack: list[str] = []
    for index in range(len(tree)):
        del stack[int(tree.depth[index]) :]
        stack.append(tree.frames[int(tree.frame[index])].function)
        found[tuple(stack)] = int(tree.samples[index])
    return found


def samples_below(recording: Path, *functions: str) -> int:
    """Return the samples of paths that have ``functions`` in this order, others between them."""
    total = 0
    for path, samples in paths(recording).items():
        if path[-1] == functions[-1] and _in_order(path[:-1], functions[:-1]):
            # A longer path through the same function is part of this one already.
            total += samples if functions[-1] not in path[:-1] else 0
    return total


def _in_order(path: tuple[str, ...], functions: tuple[str, ...]) -> bool:
    rest = iter(path)
    return all(function in rest for function in functions)


def counters(recording: Path) -> dict[str, int]:
    """Return the counters of a recording's ledger."""
    return dict(faultprof.load(recording).metadata.ledger.counters)


def verdict(recording: Path) -> str:
    """Return the verdict of a recording's ledger."""
    return str(faultprof.load(recording).metadata.ledger.verdict)


__all__ = [
    "comes_within",
    "counters",
    "paths",
    "record",
    "run",
    "samples_below",
    "verdict",
    "wait_until",
]

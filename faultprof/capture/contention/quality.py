"""Fills the ledger of what the parts of contention lost, and of parts that could not be recorded.

Knows: that a part's losses stand under ``lost``.
Leaves to others: counting (the parts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from faultprof.recording.ledger import Ledger


def judge_contention(
    ledger: Ledger, runs: Sequence[Mapping[str, Any]], missing: Mapping[str, str]
) -> None:
    """Enter losses of all runs.

    Args:
        ledger: what they are entered in.
        runs: of each run, what its parts have, by name.
        missing: why parts could not be recorded, by name.
    """
    for part, why in missing.items():
        ledger.info(f"{part} not recorded: {why}")
    lost = Counter[tuple[str, str]]()
    for run in runs:
        for part, data in run.items():
            for name, count in data.get("lost", {}).items():
                lost[part, name] += count
    for (part, name), count in lost.items():
        if count:
            ledger.count(f"{part}_{name}", count)
            ledger.degrade(f"{part}: {count} {name.replace('_', ' ')}")

"""Whether a kernel preempts its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultprof.kernel.preemption import preempts

DYNAMIC = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1"


@pytest.mark.parametrize(
    ("modes", "version", "expected"),
    [
        ("none (voluntary) full", DYNAMIC, False),
        ("(none) voluntary full", DYNAMIC, False),
        ("none voluntary (full)", DYNAMIC, True),
        ("none voluntary full (lazy)", DYNAMIC, True),
        ("full (lazy)", DYNAMIC, True),
        (None, DYNAMIC, True),
        (None, "#1 SMP PREEMPT_RT Debian", True),
        (None, "#1 SMP Debian 5.10.1", False),
        (None, None, False),
    ],
)
def test_what_the_files_say(
    tmp_path: Path, modes: str | None, version: str | None, expected: bool
) -> None:
    for name, text in (
        ("sys/kernel/debug/sched/preempt", modes),
        ("proc/sys/kernel/version", version),
    ):
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(f"{text}\n")
    assert preempts(tmp_path) is expected

"""What a part of contention lost, in words.

Knows: that the names of losses read as words.
Leaves to others: counting them (``capture.contention``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def loss_lines(lost: Mapping[str, int]) -> Iterator[str]:
    """Yield a line that says what was lost, if anything was."""
    said = [f"{name.replace('_', ' ')} {count:,}" for name, count in lost.items() if count]
    if said:
        yield f"  lost: {', '.join(said)}"

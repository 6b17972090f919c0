"""Bars drawn in the terminal.

Knows: how a part of a column is drawn.
Leaves to others: what a bar stands for, and its scale.
"""

from __future__ import annotations

from faultprof.render.terminal import Glyphs


def bar(share: float, room: int, glyphs: Glyphs) -> str:
    """Draw ``share`` of ``room`` columns; anything at all shows."""
    parts = len(glyphs.blocks) - 1
    filled = max(round(share * room * parts), share > 0)
    whole, rest = divmod(filled, parts)
    return (glyphs.blocks[-1] * whole + glyphs.blocks[rest] * (rest > 0)).rstrip()

"""The right side of a tree in text: branches and names.

Knows: how a tree is drawn so that it stays readable at 80 columns, in a pipe and deep down.
Leaves to others: the figures to the left of it (``text``, ``trace_text``), marks (``names``).

A function that stands right below another, without a branch, is the only callee shown of it:
kernel stacks are mostly long chains, and only forks are worth an indentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from faultprof.recording.frames import Frame
from faultprof.render.names import marks
from faultprof.render.terminal import Terminal, sanitise

_NAME_ROOM = 30  # columns that indentation leaves to names, however deep they stand
_LEAST = 8  # columns that marks leave to a name
_RAIL = 3  # columns of one level of indentation


def fitted(frame: Frame, room: int, terminal: Terminal) -> str:
    """Return name and marks in ``room`` columns; where they do not fit, the name is cut."""
    after = marks(frame)
    name = terminal.shorten(sanitise(frame.function), max(_LEAST, room - len(after)))
    return name + terminal.dim(terminal.shorten(after, max(1, room - len(name))))


def indents(
    depths: Sequence[int], parents: Sequence[int], figures: int, terminal: Terminal
) -> Iterator[str]:
    """Yield what stands before each node's name.

    Args:
        depths: callers above each node; nodes stand in preorder.
        parents: each node's caller, -1 for a root.
        figures: columns to the left of the tree.
        terminal: what the output can show.
    """
    glyphs = terminal.glyphs
    room = terminal.layout_width - figures - _NAME_ROOM
    children = Counter(parents)
    still = children.copy()  # of each node (-1: the roots), children not drawn yet
    rails: list[tuple[bool, ...]] = []  # by depth: for each fork above, whether more follows
    for depth, parent in zip(depths, parents, strict=True):
        above = rails[depth - 1] if depth else ()
        still[parent] -= 1
        if children[parent] == 1:
            rails[depth:] = [above]
            yield _drawn(above, room, terminal)
        else:
            rails[depth:] = [(*above, still[parent] > 0)]
            yield _drawn(above, room, terminal) + (glyphs.branch if still[parent] else glyphs.last)


def _drawn(rails: tuple[bool, ...], room: int, terminal: Terminal) -> str:
    """Draw the rails; of very many, the leftmost are only counted, as ``+N``."""
    most = max(4, room // _RAIL - 1)
    skipped = len(rails) - most
    glyphs = terminal.glyphs
    drawn = "".join(glyphs.rail if more else glyphs.blank for more in rails[max(0, skipped) :])
    return f"+{skipped}".ljust(_RAIL + 1) + drawn if skipped > 0 else drawn

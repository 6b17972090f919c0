"""A report as text: the call tree, or the functions as a list.

Knows: how a tree is drawn so that it stays readable at 80 columns, in a pipe and deep down.
Leaves to others: the header (``header``), names (``names``), the terminal (``terminal``).

A function that stands right below another, without a branch, is the only callee shown of it:
kernel stacks are mostly long chains, and only forks are worth an indentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.tree import CallTree, FunctionTotal
from faultprof.recording.frames import Frame
from faultprof.render.names import marks
from faultprof.render.terminal import Terminal, sanitise

_NAME_ROOM = 30  # columns that indentation leaves to names, however deep they stand
_LEAST = 8  # columns that marks leave to a name
_RAIL = 3  # columns of one level of indentation
_FIGURES = 22  # columns of the percentages, and a gap
_COUNT = 12  # columns of a count, and a gap


def tree_lines(tree: CallTree, terminal: Terminal, *, top: str | None) -> Iterator[str]:
    """Yield the nodes of a tree in its order, below a head line.

    Args:
        tree: what to draw, already cut and ordered.
        terminal: what the output can show.
        top: what to call the first line, which stands for all roots together; None leaves it out.
    """
    yield "# inclusive     self  call tree, caller first; no branch: the only callee shown"
    if top is not None:
        figures = _figures(tree, tree.root_samples, None, terminal)
        yield figures + terminal.shorten(sanitise(top), terminal.layout_width - _FIGURES)
    columns = (tree.frame, tree.samples, tree.self_samples)
    for indent, frame, samples, own in zip(
        _indents(tree, terminal), *(column.tolist() for column in columns), strict=True
    ):
        room = terminal.layout_width - _FIGURES - len(indent)
        name = _fitted(tree.frames[frame], room, terminal)
        yield _figures(tree, samples, own, terminal) + terminal.dim(indent) + name


def flat_lines(
    tree: CallTree, totals: Sequence[FunctionTotal], terminal: Terminal
) -> Iterator[str]:
    """Yield the functions, those first that most samples were taken in themselves."""
    yield "# inclusive     self     samples  function, sorted by self"
    for total in sorted(totals, key=lambda total: (-total.self_samples, -total.samples)):
        figures = _figures(tree, total.samples, total.self_samples, terminal)
        room = terminal.layout_width - _FIGURES - _COUNT
        yield f"{figures}{total.samples:>{_COUNT - 2},}  " + _fitted(total.frame, room, terminal)


def cut_line(hidden: int, what: str, min_percent: float, max_depth: int | None) -> str:
    """Say how many nodes (``what``, in the singular) a report leaves out, and why."""
    why = f"below {min_percent:g}%"
    if max_depth is not None:
        why += f" or deeper than {max_depth}"
    plural = "s" if hidden != 1 else ""
    return f"# {hidden:,} {what}{plural} {why} not shown"


def _figures(tree: CallTree, samples: int, own: int | None, terminal: Terminal) -> str:
    inclusive = tree.percent(samples)
    text = terminal.heat(f"{inclusive:10.2f}%", inclusive)
    if own is None:
        return text + " " * (_FIGURES - 11)
    return text + terminal.heat(f"{tree.percent(own):8.2f}%", tree.percent(own)) + "  "


def _fitted(frame: Frame, room: int, terminal: Terminal) -> str:
    """Return name and marks in ``room`` columns; where they do not fit, the name is cut."""
    after = marks(frame)
    name = terminal.shorten(sanitise(frame.function), max(_LEAST, room - len(after)))
    return name + terminal.dim(terminal.shorten(after, max(1, room - len(name))))


def _indents(tree: CallTree, terminal: Terminal) -> Iterator[str]:
    """Yield what stands before each node's name."""
    import numpy as np

    glyphs = terminal.glyphs
    children = np.bincount(tree.parent + 1, minlength=len(tree) + 1).tolist()
    still = children.copy()  # of each node (from 1; 0: the roots), children not drawn yet
    rails: list[tuple[bool, ...]] = []  # by depth: for each fork above, whether more follows
    for depth, parent in zip(tree.depth.tolist(), (tree.parent + 1).tolist(), strict=True):
        above = rails[depth - 1] if depth else ()
        still[parent] -= 1
        if children[parent] == 1:
            rails[depth:] = [above]
            yield _drawn(above, terminal)
        else:
            rails[depth:] = [(*above, still[parent] > 0)]
            yield _drawn(above, terminal) + (glyphs.branch if still[parent] else glyphs.last)


def _drawn(rails: tuple[bool, ...], terminal: Terminal) -> str:
    """Draw the rails; of very many, the leftmost are only counted, as ``+N``."""
    most = max(4, (terminal.layout_width - _FIGURES - _NAME_ROOM) // _RAIL - 1)
    skipped = len(rails) - most
    glyphs = terminal.glyphs
    drawn = "".join(glyphs.rail if more else glyphs.blank for more in rails[max(0, skipped) :])
    return f"+{skipped}".ljust(_RAIL + 1) + drawn if skipped > 0 else drawn

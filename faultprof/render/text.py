"""A report as text: the call tree, or the functions as a list.

Knows: the columns of a report of samples.
Leaves to others: the header (``header``), the branches and names beside the columns
(``branches``), the terminal (``terminal``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.tree import CallTree, FunctionTotal
from faultprof.render.branches import fitted, indents
from faultprof.render.terminal import Terminal, sanitise

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
    branches = indents(tree.depth.tolist(), tree.parent.tolist(), _FIGURES, terminal)
    for indent, frame, samples, own in zip(
        branches, *(column.tolist() for column in columns), strict=True
    ):
        room = terminal.layout_width - _FIGURES - len(indent)
        name = fitted(tree.frames[frame], room, terminal)
        yield _figures(tree, samples, own, terminal) + terminal.dim(indent) + name


def flat_lines(
    tree: CallTree, totals: Sequence[FunctionTotal], terminal: Terminal
) -> Iterator[str]:
    """Yield the functions, those first that most samples were taken in themselves."""
    yield "# inclusive     self     samples  function, sorted by self"
    for total in sorted(totals, key=lambda total: (-total.self_samples, -total.samples)):
        figures = _figures(tree, total.samples, total.self_samples, terminal)
        room = terminal.layout_width - _FIGURES - _COUNT
        yield f"{figures}{total.samples:>{_COUNT - 2},}  " + fitted(total.frame, room, terminal)


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

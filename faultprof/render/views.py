"""The views of a recording: each gives the lines of one, from the same three arguments.

Knows: which pieces make up a view.
Leaves to others: the pieces (``header``, ``text``, ``folded``, ``json``), and printing (``cli``).

A view takes a recording, what to select of it, and what the output can show. It is in ``VIEWS``,
which the command line and the tests go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from faultprof.analysis.selection import Selection
from faultprof.recording.reader import Recording
from faultprof.render.folded import folded_lines
from faultprof.render.header import header_lines
from faultprof.render.json import json_pieces
from faultprof.render.terminal import Terminal
from faultprof.render.text import cut_line, flat_lines, tree_lines

View = Callable[[Recording, Selection, Terminal], Iterator[str]]

_NO_SAMPLES = "# no samples: nothing of the command was caught running"


def tree_view(recording: Recording, selection: Selection, terminal: Terminal) -> Iterator[str]:
    """Yield the call tree as text."""
    tree = selection.tree(recording)
    shown = selection.cut(tree).largest_first()
    yield from header_lines(recording.metadata, tree, selection, terminal)
    yield "#"
    yield from tree_lines(shown, terminal, top=None if selection.root else "all samples")
    if not tree.total:
        yield _NO_SAMPLES
    if shown.hidden:
        yield cut_line(shown.hidden, "node", selection.min_percent, selection.max_depth)


def flat_view(recording: Recording, selection: Selection, terminal: Terminal) -> Iterator[str]:
    """Yield the functions as text."""
    tree = selection.tree(recording)
    totals = tree.functions()
    shown = [total for total in totals if tree.percent(total.samples) >= selection.min_percent]
    yield from header_lines(recording.metadata, tree, selection, terminal)
    yield "#"
    yield from flat_lines(tree, shown, terminal)
    if not tree.total:
        yield _NO_SAMPLES
    if len(shown) < len(totals):
        yield cut_line(len(totals) - len(shown), "function", selection.min_percent, None)


def folded_view(recording: Recording, selection: Selection, _: Terminal) -> Iterator[str]:
    """Yield folded stacks, task by task."""
    for comm, tree in selection.trees_by_comm(recording):
        yield from folded_lines(comm, selection.cut(tree))


def json_view(recording: Recording, selection: Selection, _: Terminal) -> Iterator[str]:
    """Yield the lines of one JSON object."""
    yield from json_pieces(recording.metadata, selection.tree(recording), selection)


VIEWS: dict[str, View] = {
    "tree": tree_view,
    "flat": flat_view,
    "folded": folded_view,
    "json": json_view,
}

"""The views of a recording: each gives the lines of one, from the same three arguments.

Knows: which pieces make up a view, of samples or of traced calls.
Leaves to others: the pieces (``header``, ``text``, ``folded``, ``json``, and their counterparts
``trace_*``), and printing (``cli``).

A view takes a recording, what to select of it, and what the output can show. Those that show either
source are in ``VIEWS``, which the command line and the tests go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from faultprof.analysis.cross_check import cross_check
from faultprof.analysis.selection import Selection, no_trace
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import Recording
from faultprof.render.cross_check import check_lines
from faultprof.render.folded import folded_lines, folded_trace_lines
from faultprof.render.header import header_lines
from faultprof.render.json import json_pieces
from faultprof.render.terminal import Terminal
from faultprof.render.text import cut_line, flat_lines, tree_lines
from faultprof.render.trace_header import trace_header_lines
from faultprof.render.trace_json import trace_json_lines
from faultprof.render.trace_text import trace_flat_lines, trace_tree_lines, unfinished_line

View = Callable[[Recording, Selection, Terminal], Iterator[str]]

_NO_SAMPLES = "# no samples: nothing of the command was caught running"
_NO_CALLS = "# no calls: nothing that was traced was called"


def tree_view(recording: Recording, selection: Selection, terminal: Terminal) -> Iterator[str]:
    """Yield the call tree as text."""
    if selection.is_of_trace(recording):
        yield from _trace_tree_view(recording, selection, terminal)
        return
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
    if selection.is_of_trace(recording):
        yield from _trace_flat_view(recording, selection, terminal)
        return
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
    if selection.is_of_trace(recording):
        for comm, trace in selection.trace_trees_by_comm(recording):
            yield from folded_trace_lines(comm, selection.cut(trace))
        return
    for comm, tree in selection.trees_by_comm(recording):
        yield from folded_lines(comm, selection.cut(tree))


def json_view(recording: Recording, selection: Selection, _: Terminal) -> Iterator[str]:
    """Yield the lines of one JSON object: the samples, and the trace if there is one."""
    if not selection.is_of_trace(recording):
        yield from json_pieces(recording.metadata, selection.tree(recording), selection)
        return
    trace = selection.trace_tree(recording)
    samples = _samples_beside(recording, selection)
    check = None
    if selection.comms is None:
        check = cross_check(recording, selection.root, runs=selection.runs)
    more = trace_json_lines(trace, selection, check)
    yield from json_pieces(recording.metadata, samples, selection, more)


def check_view(recording: Recording, selection: Selection, terminal: Terminal) -> Iterator[str]:
    """Yield the shares of both sources of a recording, function by function."""
    if not recording.has_trace:
        raise no_trace(recording)
    tree = selection.trace_tree(recording)
    yield from trace_header_lines(recording, tree, selection, terminal)
    yield from check_lines(cross_check(recording, selection.root, runs=selection.runs), terminal)


def _samples_beside(recording: Recording, selection: Selection) -> CallTree:
    """Return the samples beside a trace: none when they lack the task or root that it has."""
    try:
        return selection.tree(recording)
    except FaultprofError as error:
        if error.exit_code != ExitCode.USAGE:
            raise
        nothing = CallTree.from_recording(recording, comms=())
        return nothing.relative() if selection.relative else nothing


def _trace_tree_view(
    recording: Recording, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    tree = selection.trace_tree(recording)
    shown = selection.cut(tree).largest_first()
    many = sum(node.parent < 0 for node in tree.nodes) > 1
    top = "all traced calls" if many and selection.root is None else None
    yield from trace_header_lines(recording, tree, selection, terminal, columns="tree")
    yield "#"
    yield from trace_tree_lines(shown, selection, terminal, top=top)
    if shown.hidden:
        yield cut_line(shown.hidden, "node", selection.min_percent, selection.max_depth)
    yield from _remarks(tree)


def _trace_flat_view(
    recording: Recording, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    tree = selection.trace_tree(recording)
    functions = tree.functions()
    shown = [one for one in functions if selection.shows(tree, one.calls)]
    yield from trace_header_lines(recording, tree, selection, terminal, columns="flat")
    yield "#"
    yield from trace_flat_lines(shown, tree, selection, terminal)
    if len(shown) < len(functions):
        yield cut_line(len(functions) - len(shown), "function", selection.min_percent, None)
    yield from _remarks(tree)


def _remarks(tree: TraceTree) -> Iterator[str]:
    """Yield what is to be said below all figures."""
    if not len(tree):
        yield _NO_CALLS
    if tree.unfinished:
        yield unfinished_line(tree.unfinished)


VIEWS: dict[str, View] = {
    "tree": tree_view,
    "flat": flat_view,
    "folded": folded_view,
    "json": json_view,
}

"""A report as JSON, written piece by piece: a tree of millions of nodes is never held as text.

Knows: the fields of ``faultprof report --json``.
Leaves to others: choosing the tree (``analysis.tree``).

One object. From the recording's metadata: ``command`` (list of words), ``kernel`` (``release``,
``build_id``, ``machine``), ``cpu`` (``model``, ``count``), ``host``, ``created``, ``mode``,
``clock``, ``frequency`` (Hz), ``runs`` (see ``RunInfo``; without ``contention``, which has a view
of its own), ``options``, ``ledger`` (``verdict``, ``counters``, and ``notes``, each with
``severity`` and ``text``), ``calibration``, ``tool_version``, ``schema_version``, and ``resolved``
(how logical functions were found). About the report:
``total_samples`` (what is 100 percent), ``percent_of`` (``absolute`` or ``relative``), ``run``,
``root`` and ``comms`` (null: all), ``min_percent``, ``hidden_nodes`` (cut from the tree; their
samples remain in their callers'), ``functions`` and ``tree``.

``functions`` has, for each function, ``name``, ``module``, ``resolution``, ``inclusive_percent``,
``self_percent``, ``samples`` (inclusive, recursion counted once) and ``self_samples``; ``tree`` the
same for each node, and its ``children``. The tree's top is ``[all]``, or the chosen root. A
recording that holds a trace has ``trace`` too, see ``trace_json``; one that was imported has
``imported`` (``file``, ``format``, ``lines``, ``unread_lines``, the first of them in ``unread``,
``captured``, ``perf``, ``event``, ``tables``, and for a call graph where it stood and its
``annotations``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from faultprof.analysis.selection import Selection
from faultprof.analysis.tree import CallTree, FunctionTotal
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import Metadata

ALL = "[all]"
_CHILDREN = ', "children": ['
_DIGITS = 4  # decimals of a percentage; the sample counts beside it are exact


def json_pieces(
    metadata: Metadata, tree: CallTree, selection: Selection, more: Iterable[str] = ()
) -> Iterator[str]:
    """Yield the text of the report, line by line.

    Args:
        metadata: the recording's.
        tree: the chosen tree, not yet cut.
        selection: how it was chosen.
        more: lines of what else the object has, each key with a comma before it.
    """
    shown = selection.cut(tree).largest_first()
    head = metadata.to_json()
    head["resolved"] = head.pop("functions")
    for run in head["runs"]:
        run.pop("contention", None)
    head |= {
        "total_samples": tree.total,
        "percent_of": "relative" if selection.relative else "absolute",
        "run": selection.run,
        "root": selection.root,
        "comms": None if selection.comms is None else list(selection.comms),
        "min_percent": selection.min_percent,
        "hidden_nodes": shown.hidden,
    }
    yield "{"
    for key, value in head.items():
        yield f"{json.dumps(key)}: {json.dumps(value)},"
    yield '"functions": ['
    yield from separated(_functions(tree, tree.functions(), selection.min_percent))
    yield "],"
    yield '"tree":'
    yield from _tree(shown, selection.root)
    yield from more
    yield "}"


def _functions(
    tree: CallTree, totals: Sequence[FunctionTotal], min_percent: float
) -> Iterator[str]:
    for total in totals:
        if tree.percent(total.samples) >= min_percent:
            yield json_name(total.frame) + _figures(tree, total.samples, total.self_samples) + "}"


def separated(texts: Iterator[str]) -> Iterator[str]:
    """Yield ``texts`` with a comma behind all but the last."""
    former = None
    for text in texts:
        if former is not None:
            yield former + ","
        former = text
    if former is not None:
        yield former


def json_name(frame: Frame) -> str:
    """Return the beginning of a node's or function's object."""
    names = {"name": frame.function, "module": frame.module, "resolution": frame.resolution}
    return json.dumps(names).removesuffix("}")


def _figures(tree: CallTree, samples: int, self_samples: int) -> str:
    """Return what follows; numbers need no escaping, and there may be millions of them."""
    inclusive = round(tree.percent(samples), _DIGITS)
    own = round(tree.percent(self_samples), _DIGITS)
    return (
        f', "inclusive_percent": {inclusive}, "self_percent": {own}'
        f', "samples": {samples}, "self_samples": {self_samples}'
    )


def _tree(tree: CallTree, root: str | None) -> Iterator[str]:
    top = None
    if root is None or (tree.depth == 0).sum() != 1:
        top = json_name(Frame(root or ALL, "", "")) + _figures(tree, tree.root_samples, 0)
    names = [json_name(frame) for frame in tree.frames]
    columns = (tree.depth, tree.frame, tree.samples, tree.self_samples)
    yield from json_tree(
        top,
        (
            (depth, names[frame] + _figures(tree, samples, own))
            for depth, frame, samples, own in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ),
    )


def json_tree(top: str | None, nodes: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield nested objects, one per line; written by hand since json's own nesting is limited.

    Args:
        top: what stands above all nodes, without its closing brace; None if there is one root.
        nodes: depth and object, without its closing brace, in preorder.
    """
    if top is not None:
        yield top + _CHILDREN
    open_nodes = 0
    for depth, text in nodes:
        closing = "]}" * (open_nodes - depth)
        yield closing + "," * bool(closing) + text + _CHILDREN
        open_nodes = depth + 1
    yield "]}" * (open_nodes + (top is not None))

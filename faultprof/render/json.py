"""A report as JSON, written piece by piece: a tree of millions of nodes is never held as text.

Knows: the fields of ``faultprof report --json``.
Leaves to others: choosing the tree (``analysis.tree``).

One object. From the recording's metadata: ``command`` (list of words), ``kernel`` (``release``,
``build_id``, ``machine``), ``cpu``, ``host``, ``created``, ``mode``, ``clock``, ``frequency`` (Hz),
``runs`` (see ``RunInfo``), ``options``, ``ledger`` (``verdict``, ``counters``, ``notes``),
``calibration``, ``tool_version``, ``schema_version``, and ``resolved`` (how logical functions were
found). About the report: ``total_samples`` (what is 100 percent), ``percent_of`` (``absolute`` or
``relative``), ``root`` and ``comms`` (null: all), ``min_percent``, ``hidden_nodes`` (cut from the
tree; their samples remain in their callers'), ``functions`` and ``tree``.

``functions`` has, for each function, ``name``, ``module``, ``resolution``, ``inclusive_percent``,
``self_percent``, ``samples`` (inclusive, recursion counted once) and ``self_samples``; ``tree`` the
same for each node, and its ``children``. The tree's top is ``[all]``, or the chosen root.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from faultprof.analysis.selection import Selection
from faultprof.analysis.tree import CallTree, FunctionTotal
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import Metadata

ALL = "[all]"
_CHILDREN = ', "children": ['
_DIGITS = 4  # decimals of a percentage; the sample counts beside it are exact


def json_pieces(metadata: Metadata, tree: CallTree, selection: Selection) -> Iterator[str]:
    """Yield the text of the report, line by line.

    Args:
        metadata: the recording's.
        tree: the chosen tree, not yet cut.
        selection: how it was chosen.
    """
    shown = selection.cut(tree).largest_first()
    head = metadata.to_json()
    head["resolved"] = head.pop("functions")
    head |= {
        "total_samples": tree.total,
        "percent_of": "relative" if selection.relative else "absolute",
        "root": selection.root,
        "comms": None if selection.comms is None else list(selection.comms),
        "min_percent": selection.min_percent,
        "hidden_nodes": shown.hidden,
    }
    yield "{"
    for key, value in head.items():
        yield f"{json.dumps(key)}: {json.dumps(value)},"
    yield '"functions": ['
    yield from _separated(_functions(tree, tree.functions(), selection.min_percent))
    yield "],"
    yield '"tree":'
    yield from _tree(shown, selection.root)
    yield "}"


def _functions(
    tree: CallTree, totals: Sequence[FunctionTotal], min_percent: float
) -> Iterator[str]:
    for total in totals:
        if tree.percent(total.samples) >= min_percent:
            yield _name(total.frame) + _figures(tree, total.samples, total.self_samples) + "}"


def _separated(texts: Iterator[str]) -> Iterator[str]:
    """Yield ``texts`` with a comma behind all but the last."""
    former = None
    for text in texts:
        if former is not None:
            yield former + ","
        former = text
    if former is not None:
        yield former


def _name(frame: Frame) -> str:
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
    """Yield the nodes, one per line; written by hand since json's own nesting is limited."""
    single = root is not None and (tree.depth == 0).sum() == 1
    if not single:
        top = _name(Frame(root or ALL, "", "")) + _figures(tree, tree.root_samples, 0)
        yield top + _CHILDREN
    names = [_name(frame) for frame in tree.frames]
    columns = (tree.depth, tree.frame, tree.samples, tree.self_samples)
    open_nodes = 0
    for depth, frame, samples, own in zip(*(column.tolist() for column in columns), strict=True):
        closing = "]}" * (open_nodes - depth)
        comma = "," if closing else ""
        yield closing + comma + names[frame] + _figures(tree, samples, own) + _CHILDREN
        open_nodes = depth + 1
    yield "]}" * (open_nodes + (not single))

"""Traced calls as JSON: what ``faultprof report --json`` has under ``trace``.

Knows: the fields of that object.
Leaves to others: the object around it, and how trees nest (``json``).

``total_ns`` (what is 100 percent), ``percent_of`` (``absolute`` or ``relative``), ``roots`` (names
of the functions that the total was spent in), ``faults`` (calls of ``handle_mm_fault``; null: not
traced), ``per_fault`` (whether ``calls``, ``unfinished``, ``inclusive_ns``, ``self_ns`` and
``offcpu_ns`` are divided by these), ``unfinished`` (calls that did not return, in the whole tree),
``hidden_nodes`` (cut from the tree; their time remains in their callers'), ``cross_check`` (see
``render.cross_check``), ``functions`` and ``tree``.

``functions`` has, for each function, ``name``, ``module``, ``resolution``, ``inclusive_percent``,
``self_percent``, ``calls``, ``unfinished``, ``inclusive_ns`` (recursion counted once), ``self_ns``,
``avg_ns``, ``min_ns``, ``max_ns``, ``p50_ns``, ``p99_ns``, ``offcpu_ns`` (null: nobody looked) and
``histogram`` (``[[upper_ns, count], ...]``, the upper bounds inclusive, the last possible one
2**63 - 1). Where calls were counted and not timed, percentages, times and histogram are null.
Where the recording holds a calibration, there are ``compensated_ns`` and ``compensated_self_ns``,
inclusive and self time without the probes (``{"value", "low", "high"}``, may be negative), and
``flags`` (``overhead-limited``; ``not compensable: contended``).
``tree`` has the same for each node, ``calls_per_caller`` (calls for one call of the caller, the
mean), ``per_call`` (``[[most, count], ...]``: how many calls of the caller made how many of these
calls, 0, 1, 2, up to 4, 8, ... 64, and more, ``most`` being 2**63 - 1; null: not counted) and
``children``. Its top is the chosen root or the only one, else ``[all]`` with nothing but
percentages and times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from faultprof.analysis.calls import Calls
from faultprof.analysis.compensation import flags
from faultprof.analysis.cross_check import CrossCheck
from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import TraceTree
from faultprof.recording.frames import Frame
from faultprof.render.cross_check import check_json
from faultprof.render.json import ALL, json_name, json_tree, separated

_DIGITS = 4  # decimals of a percentage; the times beside it are exact
_TIMES = ("inclusive_ns", "self_ns", "avg_ns", "min_ns", "max_ns", "p50_ns", "p99_ns", "offcpu_ns")
_COMPENSATED = ("compensated_ns", "compensated_self_ns")
_PER_FAULT = ("calls", "unfinished", "inclusive_ns", "self_ns", "offcpu_ns")


def trace_json_lines(
    tree: TraceTree, selection: Selection, check: CrossCheck | None
) -> Iterator[str]:
    """Yield the lines of the key ``trace``, with a comma before it.

    Args:
        tree: the chosen tree, not yet cut.
        selection: how it was chosen.
        check: the trace against the samples; None where they cannot be compared.
    """
    shown = selection.cut(tree).largest_first()
    head = {
        "total_ns": tree.total_ns,
        "percent_of": "relative" if selection.relative else "absolute",
        "roots": list(tree.roots),
        "faults": tree.faults,
        "per_fault": selection.per_fault,
        "unfinished": tree.unfinished,
        "hidden_nodes": shown.hidden,
        "cross_check": None if check is None else check_json(check),
    }
    yield ',"trace": {'
    for key, value in head.items():
        yield f"{json.dumps(key)}: {json.dumps(value)},"
    yield '"functions": ['
    yield from separated(_functions(tree, selection))
    yield "],"
    yield '"tree":'
    yield from _tree(shown, selection)
    yield "}"


def _functions(tree: TraceTree, selection: Selection) -> Iterator[str]:
    for frame, calls in tree.functions():
        if selection.shows(tree, calls):
            yield json_name(frame) + _members(_figures(calls, tree, selection)) + "}"


def _tree(tree: TraceTree, selection: Selection) -> Iterator[str]:
    top = None
    if sum(node.parent < 0 for node in tree.nodes) != 1:
        figures = {**_percentages(tree, tree.root_ns, 0), "inclusive_ns": tree.root_ns}
        top = json_name(Frame(selection.root or ALL, "", "")) + _members({**figures, "self_ns": 0})
    yield from json_tree(top, _nodes(tree, selection))


def _nodes(tree: TraceTree, selection: Selection) -> Iterator[tuple[int, str]]:
    for place, node in enumerate(tree.nodes):
        figures = _figures(node.calls, tree, selection)
        edge = tree.edge(place)
        figures["calls_per_caller"] = edge.mean if edge else None
        figures["per_call"] = (edge.per_call if edge else None) or None
        yield node.depth, json_name(node.frame) + _members(figures)


def _figures(calls: Calls, tree: TraceTree, selection: Selection) -> dict[str, Any]:
    timed = calls.timed
    figures: dict[str, Any] = _percentages(tree, calls.inclusive_ns, calls.self_ns)
    if not timed:
        figures = dict.fromkeys(figures)
    figures |= {"calls": calls.calls, "unfinished": calls.unfinished}
    figures |= {name: getattr(calls, name) if timed else None for name in _TIMES}
    figures["histogram"] = calls.histogram if timed else None
    if calls.overhead is not None:
        figures |= _compensated(calls)
    if selection.per_fault and tree.faults:
        for name in _PER_FAULT:
            if figures[name] is not None:
                figures[name] /= tree.faults
        for name in _COMPENSATED:
            if figures.get(name) is not None:
                figures[name] = {k: v / tree.faults for k, v in figures[name].items()}
    return figures


def _compensated(calls: Calls) -> dict[str, Any]:
    """Return the times without the probes."""
    found: dict[str, Any] = {}
    for name in _COMPENSATED:
        time = getattr(calls, name)
        found[name] = time and {k: round(v) for k, v in asdict(time).items()}
    return found | {"flags": [str(flag) for flag in flags(calls)]}


def _percentages(tree: TraceTree, inclusive_ns: int, self_ns: int) -> dict[str, Any]:
    return {
        "inclusive_percent": round(tree.percent(inclusive_ns), _DIGITS),
        "self_percent": round(tree.percent(self_ns), _DIGITS),
    }


def _members(figures: dict[str, Any]) -> str:
    """Return what follows the names in an object that is not closed yet."""
    return ", " + json.dumps(figures).removeprefix("{").removesuffix("}")

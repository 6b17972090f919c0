"""A diff as JSON.

Knows: the fields of ``faultprof diff --json``.
Leaves to others: the text (``diff``).

One object with ``tool_version``, ``base`` and ``new`` (``file``, ``title``, ``runs``, ``kernel``,
``clock``, ``frequency``, ``total``: samples or ns that are 100 percent, ``faults``: null where they
were not traced, ``renamed``: logical names by what a function is called there), ``source``
(``sample`` or ``trace``), ``root`` (null: everything), ``unit`` (``percent``, ``ns/fault`` or
``ns/run``), ``remarks`` (what to know first), ``paired`` (whether runs were compared in pairs; null
where a side has one run only), ``whole`` (``base``, ``new``, ``change``; all that is known),
``direction`` (1: it grew, -1: it shrank, 0: it stayed the same), ``functions``, ``nodes`` and
``hidden_nodes``.

``functions``, what explains most first: ``name``, ``module``, ``base``, ``new``, ``change`` (of own
figures, in ``unit``), ``share`` (of the whole's change; null where that stayed the same),
``more_often``, ``slower`` (the parts of the change; null of samples), ``places`` (numbers in
``nodes``; those hidden left out), ``worth``.

``nodes``, in preorder, siblings ranked: ``node`` (its number), ``parent`` (-1 for a root),
``depth``, ``name``, ``module``, ``resolution``, ``names`` (other names: ``base``, ``new``),
``state`` (``both``, ``new``, ``vanished``, ``implied``: one side does not tell it from its caller,
``rare``: fewer than 5 samples were to be expected where there are none, ``below cut``: not in an
imported text, which may have cut it), ``percent``, ``inclusive`` and ``own`` (``base``, ``new``,
``change``; the latter two in ``unit``), ``samples`` or ``ns`` (inclusive, exact: ``base`` and
``new``), and of traced calls ``calls`` (per fault or run: ``base``, ``new``, ``change``),
``ns_per_call`` (``base``, ``new``; null without timed calls), ``more_often``, ``slower``; then
``worth`` of the inclusive figure (of traced calls: of the own one).

``worth``: null where a side has one run only; else ``low`` and ``high`` (null of fewer than 4
runs), ``p``, ``test``, ``verdict`` (``real``, ``noise``, ``too few runs``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from faultprof import __version__
from faultprof.analysis.change import Change
from faultprof.analysis.diff import Diff, DiffNode, FunctionChange, Pair
from faultprof.analysis.diff_sides import DiffSide, SideNode
from faultprof.analysis.measurement import title_of
from faultprof.render.diff import DiffView


def diff_json_text(view: DiffView) -> str:
    """Return everything as one JSON object, indented."""
    diff = view.diff
    shown = diff.shown(view.min_percent, view.max_depth)
    renumbered = {place: number for number, place in enumerate(shown)}
    everything = {
        "tool_version": __version__,
        "base": _side(diff.base, view.files[0]),
        "new": _side(diff.new, view.files[1]),
        "source": view.terms.source,
        "root": view.terms.root,
        "unit": f"ns/{diff.per}" if diff.traced else "percent",
        "remarks": view.terms.remarks,
        "paired": None if view.worth is None else view.worth.paired,
        "whole": _pair(diff.whole),
        "direction": diff.direction,
        "functions": [_function(view, one, renumbered) for one in diff.functions],
        "nodes": [_node(view, diff.nodes[place], renumbered, place) for place in shown],
        "hidden_nodes": len(diff.nodes) - len(shown),
    }
    return json.dumps(everything, indent=1, allow_nan=False)


def _side(side: DiffSide, file: str) -> dict[str, Any]:
    metadata = side.metadata
    return {
        "file": file,
        "title": title_of(metadata),
        "runs": len(side.runs),
        "kernel": metadata.kernel.release,
        "clock": metadata.clock,
        "frequency": metadata.frequency,
        "total": side.total,
        "faults": side.all_faults or None,
        "renamed": dict(side.names.renamed),
    }


def _function(view: DiffView, one: FunctionChange, places: dict[int, int]) -> dict[str, Any]:
    return {
        "name": one.function[0],
        "module": one.function[1],
        **_pair(one.own),
        "share": view.diff.share(one.own.change),
        "more_often": one.more_often,
        "slower": one.slower,
        "places": [places[place] for place in one.nodes if place in places],
        "worth": None if view.worth is None else _worth(view.worth.function(one)),
    }


def _node(view: DiffView, node: DiffNode, places: dict[int, int], place: int) -> dict[str, Any]:
    diff = view.diff
    fields: dict[str, Any] = {
        "node": places[place],
        "parent": places.get(node.parent, -1),
        "depth": node.depth,
        "name": node.function[0],
        "module": node.function[1],
        "resolution": node.frame.resolution,
        "names": dict(zip(("base", "new"), map(list, node.names), strict=True)),
        "state": node.state.value,
        "percent": _pair(node.percent),
        "inclusive": _pair(node.inclusive),
        "own": _pair(node.own),
        "ns" if diff.traced else "samples": _both([_inclusive(node.base), _inclusive(node.new)]),
    }
    if node.calls is not None and node.per_call is not None:
        fields |= {
            "calls": _pair(node.calls),
            "ns_per_call": _both(node.per_call),
            "more_often": node.more_often,
            "slower": node.slower,
        }
    if view.worth is None:
        return {**fields, "worth": None}
    return {**fields, "worth": _worth(_judged(view, diff, node))}


def _judged(view: DiffView, diff: Diff, node: DiffNode) -> Change:
    assert view.worth is not None
    return view.worth.own(node) if diff.traced else view.worth.node(node)


def _inclusive(node: SideNode | None) -> int:
    return 0 if node is None else node.total.inclusive


def _pair(pair: Pair) -> dict[str, float]:
    return {"base": pair.base, "new": pair.new, "change": pair.change}


def _both(figures: Sequence[float | None]) -> dict[str, float | None]:
    return dict(zip(("base", "new"), figures, strict=True))


def _worth(worth: Change) -> dict[str, Any]:
    low, high = worth.difference_interval or (None, None)
    return {
        "low": low,
        "high": high,
        "p": worth.p,
        "test": worth.test,
        "verdict": worth.verdict,
    }

"""Reads flame graphs back: their SVG, the data in them, and their program."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import quickjs

from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure, weigh_all
from faultprof.recording.reader import Recording
from faultprof.render.embed import asset
from faultprof.render.flame import FlameSide, flame_pieces

SVG = "{http://www.w3.org/2000/svg}"


class Drawn(NamedTuple):
    """A frame of a picture: its node and its place in pixels."""

    node: int
    x: float
    y: float
    width: float


def flame(
    recordings: Sequence[Recording],
    selection: Selection | None = None,
    measure: Measure | None = None,
    **options: bool,
) -> str:
    """Return the flame graph of recordings as text."""
    chosen = selection or Selection()
    tree = weigh_all(recordings, chosen, measure)
    sides = [FlameSide(one.metadata, f"side{n}") for n, one in enumerate(recordings)]
    return "".join(flame_pieces(tree, sides, chosen, **options))


def data_of(text: str) -> dict[str, Any]:
    """Return the data of the (first) flame graph in a file, as a browser would read it."""
    found = re.search(r'class="fp-data">([^<]*)</script>', text)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def frames_of(text: str) -> list[Drawn]:
    """Return the frames of an SVG."""
    root = ET.fromstring(text)
    drawn = []
    for group in root.iter(SVG + "g"):
        if group.get("class") == "fp-frame":
            box = group.find(SVG + "rect")
            assert box is not None
            place = [float(box.attrib[name]) for name in ("x", "y", "width")]
            drawn.append(Drawn(int(group.attrib["data-node"]), *place))
    return drawn


def paths_of(data: dict[str, Any]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each node with the names from its root to itself."""
    stack: list[str] = []
    for node, (depth, name) in enumerate(zip(data["depth"], data["name"], strict=True)):
        del stack[depth:]
        stack.append(data["names"][name][0])
        yield node, tuple(stack)


@lru_cache(maxsize=1)
def program() -> quickjs.Context:
    """Return a JavaScript engine with the program in it, without a document."""
    context = quickjs.Context()
    context.eval(asset("flame.js"))
    return context


def run(expression: str, data: dict[str, Any]) -> Any:
    """Evaluate ``expression``, in which ``F`` is the program and ``D`` the prepared data."""
    engine = program()
    engine.set("text", json.dumps(data))
    script = f"(function (F) {{ const D = F.prepare(JSON.parse(text)); return {expression}; }})"
    return json.loads(engine.eval(f"JSON.stringify({script}(faultprofFlame))"))

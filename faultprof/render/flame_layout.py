"""The first picture of a flame graph: where its frames, texts and legend stand, as SVG.

Knows: the geometry, and the elements that ``assets/flame.js`` finds and draws again.
Leaves to others: what is drawn and said (``flame``), all interaction.

A frame is as wide as its weight on the drawn side, to scale, and lies within its caller's width;
siblings stand side by side from the caller's left edge on. Frames narrower than ``NARROWEST`` are
left to the program.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from faultprof.analysis.weights import WeightTree
from faultprof.render.embed import escaped
from faultprof.render.palette import INK_LIGHT
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

WIDTH, PAD, ROW, CHAR = 1200, 10, 18, 7.25  # pixels; CHAR is what a letter of 12 px takes
NARROWEST = 0.3
_LINE = 17  # between lines of text
_TITLE_SCALE = 1.25
_GAP = 0.8  # between neighbours
LIMITED = "overhead-limited"  # what frames are dotted for
_LEAST_ROOM = 3  # letters, below which a frame has no name in it


class Box(NamedTuple):
    """A frame: its node, and where it stands inside the frames' area, in pixels."""

    node: int
    x: float
    width: float


@dataclass(frozen=True)
class Picture:
    """A drawable tree, and the data that the program has of it."""

    graph: WeightTree
    data: dict[str, Any]

    @property
    def side(self) -> dict[str, Any]:
        """The side that widths are of: the last."""
        side: dict[str, Any] = self.data["sides"][-1]
        return side

    @cached_property
    def limited(self) -> frozenset[int]:
        """The nodes whose time is for the most part their probes' own."""
        return frozenset(self.side["limited"])

    @cached_property
    def boxes(self) -> list[Box]:
        """The frames that are wide enough to be seen."""
        depths, weights = self.data["depth"], self.side["weight"]
        scale = (WIDTH - 2 * PAD) / max(1, _roots(depths, weights))
        following = [0] * (max(depths, default=0) + 2)  # by depth: where the next frame starts
        boxes = []
        for node, (depth, weight) in enumerate(zip(depths, weights, strict=True)):
            start = following[depth]
            following[depth + 1] = start
            following[depth] = start + weight
            if weight * scale >= NARROWEST:
                boxes.append(Box(node, start * scale, weight * scale))
        return boxes

    @cached_property
    def rows(self) -> int:
        """How many rows the frames take."""
        return 1 + max((self.data["depth"][box.node] for box in self.boxes), default=0)


def _roots(depths: list[int], weights: list[int]) -> int:
    return sum(weight for depth, weight in zip(depths, weights, strict=True) if depth == 0)


def picture_lines(picture: Picture, style: str) -> Iterator[str]:
    """Yield the SVG element up to its last child, not closed."""
    data = picture.data
    head, top = _texts(data["head"], PAD / 2)
    top += 14
    legend, bottom = _legend(data, top + picture.rows * ROW + 14)
    notes, bottom = _texts([*data["foot"], *picture.side["foot"]], bottom)
    height = bottom + PAD
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fp-flame" width="{WIDTH}" '
        f'height="{height:g}" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="flame graph: {escaped(data["head"][0][1])}">\n'
    )
    if style:
        yield f"<style><![CDATA[\n{style}]]></style>\n"
    yield _patterns(data["id"])
    yield f'<rect class="fp-back" width="{WIDTH}" height="{height:g}" fill="#ffffff"/>\n'
    yield f'<g class="fp-chrome">{head}{notes}</g>\n<g class="fp-frames">\n'
    for box in picture.boxes:
        yield _frame(picture, box, top)
    yield f'</g>\n<g class="fp-legend">{legend}</g>\n'


def _texts(said: list[tuple[str, str]], y: float) -> tuple[str, float]:
    """Return text elements from below ``y`` on, and where they end."""
    elements = []
    for kind, text in said:
        letter = CHAR * _TITLE_SCALE if kind == "title" else CHAR
        for line in textwrap.wrap(text, int((WIDTH - 2 * PAD) / letter)) or [""]:
            y += _LINE + 3 if kind == "title" else _LINE
            elements.append(f'<text x="{PAD}" y="{y:g}" class="fp-{kind}">{escaped(line)}</text>')
    return "".join(elements), y


def _legend(data: dict[str, Any], y: float) -> tuple[str, float]:
    """Return the legend of what is drawn, in lines from ``y`` on, and where it ends."""
    looks = data["looks"]
    seen = set(data["steps"] or (data["names"][name][2] for name in data["name"]))
    swatches = [
        (f'data-look="{number}"', f'fill="{fill}"', text)
        for number, (text, fill, _) in enumerate(looks)
        if number in seen
    ]
    marks = sorted({data["names"][name][4] for name in data["name"]} - {""})
    marks += [LIMITED] if any(side["limited"] for side in data["sides"]) else []
    swatches += [("", f'fill="url(#{data["id"]}-{mark}-dark)"', mark) for mark in marks]
    elements, x = [], float(PAD)
    for attribute, fill, text in swatches:
        width = 30 + len(text) * CHAR
        if x > PAD and x + width > WIDTH - PAD:
            x, y = PAD, y + _LINE
        elements.append(
            f'<g {attribute} data-width="{width:g}" transform="translate({x:g} {y:g})">'
            '<rect width="13" height="13" rx="2" fill="#dddddd"/>'
            f'<rect width="13" height="13" rx="2" stroke="#808080" stroke-width="0.5" {fill}/>'
            f'<text x="18" y="11">{escaped(text)}</text></g>'
        )
        x += width
    return "".join(elements), y + _LINE + 4


def _patterns(name: str) -> str:
    """Return hatching and dots of marked frames, each for dark and for light ones."""
    lines = "".join(
        f'<pattern id="{name}-inferred-{which}" width="6" height="6" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0 0V6" stroke="{colour}" stroke-width="2" stroke-opacity="0.25"/></pattern>'
        f'<pattern id="{name}-{LIMITED}-{which}" width="5" height="5" '
        'patternUnits="userSpaceOnUse">'
        f'<circle cx="1.5" cy="1.5" r="1.1" fill="{colour}" fill-opacity="0.4"/></pattern>'
        for which, colour in (("dark", "#000000"), ("light", "#ffffff"))
    )
    return f"<defs>{lines}</defs>\n"


def _frame(picture: Picture, box: Box, top: float) -> str:
    data = picture.data
    depth, name = data["depth"][box.node], data["names"][data["name"][box.node]]
    place = depth if data["icicle"] else picture.rows - 1 - depth
    x, y = PAD + box.x, top + place * ROW
    width = max(NARROWEST, box.width - (_GAP if box.width > 3 else 0))
    shape = f'x="{x:.2f}" y="{y:g}" width="{width:.2f}" height="{ROW - 1}"'
    _, fill, ink = data["looks"][data["steps"][box.node] if data["steps"] else name[2]]
    drawn = f'<rect class="fp-fill" {shape} rx="{2 if width > 6 else 0}" fill="{fill}"/>'
    which = "light" if ink == INK_LIGHT else "dark"
    for mark in (name[4], LIMITED if box.node in picture.limited else ""):
        if mark:
            drawn += f'<rect class="fp-pattern" {shape} fill="url(#{data["id"]}-{mark}-{which})"/>'
    room = int((width - 7) / CHAR)
    if room >= _LEAST_ROOM:
        text = name[5] if len(name[5]) <= room else name[5][: room - 1] + "…"
        drawn += f'<text x="{x + 4:.2f}" y="{y + ROW - 6:g}" fill="{ink}">{escaped(text)}</text>'
    return f'<g class="fp-frame" data-node="{box.node}">{_title(picture, box.node)}{drawn}</g>\n'


def _title(picture: Picture, node: int) -> str:
    """Return the tooltip of browsers that run no scripts."""
    data, side = picture.data, picture.side
    weight = side["weight"][node]
    amount = prose(weight, UNICODE) if data["is_time"] else f"{weight:,} {data['unit']}"
    percent = 100 * weight / side["total"] if side["total"] else 0.0
    name = data["names"][data["name"][node]][5]
    return f"<title>{escaped(name)}: {percent:.2f}%, {amount}</title>"

"""The colours of pictures and pages, in one place.

Knows: which colour stands for what, and whether black or white can be read on it.
Leaves to others: what is drawn (``flame``, ``plots``, ``html``).

Areas have Paul Tol's "muted" scheme, which was made to be told apart by colour-blind readers
(SRON/EPS/TN/09-002); changes have ColorBrewer's diverging RdBu, which is safe for them too. Colour
is never the only sign: legends name it, and names stand in or beside what is coloured.
"""

from __future__ import annotations

from faultprof.analysis.areas import Area
from faultprof.analysis.shift import Step

AREA_COLOURS: dict[Area, str] = {
    Area.ENTRY: "#88ccee",
    Area.FILEMAP: "#ddcc77",
    Area.SHMEM: "#44aa99",
    Area.ANON: "#117733",
    Area.HUGE: "#aa4499",
    Area.LOCKING: "#882255",
    Area.ALLOCATION: "#999933",
    Area.CLEAR: "#332288",
    Area.MEMCG: "#cc6677",
    Area.OTHER: "#dddddd",
    Area.USER: "#bbbbbb",
}

# Of each step of a change: what a legend calls it, and its colour.
CHANGE_COLOURS: dict[Step, tuple[str, str]] = {
    Step.GONE: ("gone", "#2166ac"),
    Step.HALF: ("half or less", "#67a9cf"),
    Step.LESS: ("less", "#bcd9ea"),
    Step.SAME: ("same, or noise", "#dddddd"),
    Step.MORE: ("more", "#fdd3b9"),
    Step.DOUBLE: ("twice or more", "#ef8a62"),
    Step.NEW: ("new", "#b2182b"),
}

# For one line after another in a plot: Tol's "bright", without its grey.
SERIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")

INK_DARK, INK_LIGHT = "#111111", "#ffffff"


def ink(colour: str) -> str:
    """Return black or white, whichever is easier to read on ``#rrggbb`` (WCAG 2, contrast)."""
    light = _luminance(colour)
    on_white = 1.05 / (light + 0.05)
    on_black = (light + 0.05) / (_luminance(INK_DARK) + 0.05)
    return INK_LIGHT if on_white > on_black else INK_DARK


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

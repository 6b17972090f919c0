"""How the live view is set, and what each key does.

Knows: the keys.
Leaves to others: reading them from a terminal (``cli``), what they show (``screen``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from faultprof.analysis.live import Sort


class Action(Enum):
    """What a key asks for besides another picture."""

    NOTHING = "nothing"
    WRITE = "write"
    QUIT = "quit"


@dataclass(frozen=True, slots=True)
class State:
    """How the view is set.

    Attributes:
        sort: what the rows are sorted by.
        functions: a row for each function, not for each node of the call tree.
        paused: the picture stands still; recording goes on.
        help: the keys are shown in place of the rows.
        first: the number of the first row that is shown, from 0.
        message: what was said last.
    """

    sort: Sort = Sort.OWN
    functions: bool = False
    paused: bool = False
    help: bool = False
    first: int = 0
    message: str = ""


_SORTS = {
    "s": Sort.OWN,
    "i": Sort.INCLUSIVE,
    "c": Sort.CALLS,
    "t": Sort.CHANGE,
    "n": Sort.NAME,
}
_QUIT = ("q", "Q")
_PAGE = 10

KEYS = (
    ("s i c t n", "sort by self, inclusive, calls, trend (the largest change), name"),
    ("f", "functions, or nodes of the call tree with their callers"),
    ("space, p", "pause the picture, not the recording; again to go on"),
    ("up, down, PgUp, PgDn, Home", "move through the list (also k, j)"),
    ("w", "write a recording of all up to now, and go on"),
    ("h, ?", "this help"),
    ("q", "end; a command that was started here is ended too"),
)


def press(state: State, key: str) -> tuple[State, Action]:
    """Return the view after a key, and what else the key asks for.

    Args:
        state: the view before.
        key: a character, or ``up``, ``down``, ``page-up``, ``page-down``, ``home``, ``escape``.
    """
    state = replace(state, message="")
    if key in _QUIT:
        return state, Action.QUIT
    if state.help:  # any other key ends the help
        return replace(state, help=False), Action.NOTHING
    if key == "w":
        return state, Action.WRITE
    return _set(state, key), Action.NOTHING


def _set(state: State, key: str) -> State:
    if key in _SORTS:
        return replace(state, sort=_SORTS[key], first=0)
    if key == "f":
        return replace(state, functions=not state.functions, first=0)
    if key in (" ", "p"):
        return replace(state, paused=not state.paused)
    if key in ("h", "?"):
        return replace(state, help=True)
    if key == "home":
        return replace(state, first=0)
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -_PAGE, "page-down": _PAGE}
    return replace(state, first=max(0, state.first + steps.get(key, 0)))

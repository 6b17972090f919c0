"""How a command gets its place and its help.

Knows: what of a docstring is help, and what are examples.
Leaves to others: which commands there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

_AS_IT_IS = "\b"  # tells click to leave a paragraph's line breaks alone
_TITLE = "Examples:"


def mount(
    app: typer.Typer, function: Callable[..., None], name: str | None = None, **settings: Any
) -> None:
    """Mount a command; its docstring is its help, and the part from "Examples:" on stays as is."""
    text, _, rest = inspect.cleandoc(function.__doc__ or "").partition(_TITLE)
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    epilog = "\n".join([_AS_IT_IS, _TITLE, *(f"  {line}" for line in lines)]) if lines else None
    short = text.partition("\n\n")[0].replace("\n", " ")
    app.command(name, help=text, short_help=short, epilog=epilog, **settings)(function)


def examples_of(epilog: str | None) -> list[str]:
    """Return the examples in a command's epilog, a command line each."""
    return [line.strip() for line in (epilog or "").splitlines()[2:]]

"""The manual's pages, one per command, from what ``--help`` says.

Knows: where Typer keeps a command's texts.
Leaves to others: the pages' form (``render.manual``), installing them (``hatch_build.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from faultprof import __version__
from faultprof.cli.mounting import examples_of
from faultprof.render.manual import Page, page_lines


def manual() -> dict[str, str]:
    """Return the pages by their files' names, such as ``faultprof-flame.1``."""
    from faultprof.cli import mount_all

    command = typer.main.get_command(mount_all())
    pages = list(_pages(command, "faultprof", None))
    names = [page.name for page in pages]
    return {f"{page.name}.1": _text(page, names) for page in pages}


def _text(page: Page, names: list[str]) -> str:
    related = [one for one in names if one != page.name and _near(one, page.name)]
    lines = page_lines(Page(**{**_fields(page), "see_also": related}), __version__)
    return "\n".join(lines) + "\n"


def _fields(page: Page) -> dict[str, Any]:
    return {name: getattr(page, name) for name in Page.__slots__}


def _near(one: str, other: str) -> bool:
    """Whether pages belong to one another: one is above the other."""
    return one == "faultprof" or other == "faultprof" or one.startswith(f"{other}-")


def _pages(command: Any, name: str, parent: Any) -> Iterator[Page]:
    context = command.make_context(name.split("-")[-1], [], parent=parent, resilient_parsing=True)
    below = getattr(command, "commands", {})
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            records[parameter.param_type_name].append(record)
    yield Page(
        name=name,
        short=command.get_short_help_str(1000).rstrip("."),
        usage=" ".join(command.collect_usage_pieces(context)),
        paragraphs=(command.help or "").split("\n\n"),
        arguments=records["argument"],
        options=records["option"],
        commands=[(one, sub.get_short_help_str(1000)) for one, sub in below.items()],
        examples=examples_of(command.epilog),
    )
    for one, sub in below.items():
        yield from _pages(sub, f"{name}-{one}", context)

"""``faultprof compare``: read the sides, compare, print in the form that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.analysis.comparison import Comparison
    from faultprof.analysis.sides import Comparands

_SHOWN = 12  # names that an error lists


class Sort(StrEnum):
    """How rows are sorted."""

    GIVEN = "given"
    NAME = "name"
    CHANGE = "change"
    P = "p"


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="BASE [NEW]...",
            help="Recordings, or texts with tables; FILE:SIDE names one side of a text, by number "
            "or by the beginning of its label.",
        ),
    ],
    lkp: Annotated[
        bool, typer.Option("--lkp", help="Print lkp's table and nothing else, as for a 0-day mail.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, a line per metric and side.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Show only matching metrics (may be repeated)."),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only metrics whose change is real.")
    ] = False,
    sort: Annotated[
        Sort, typer.Option(help="given: as recorded; change: largest first; p: smallest first.")
    ] = Sort.GIVEN,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired", help="The n-th runs of both sides ran next to each other: compare pairs."
        ),
    ] = False,
    alpha: Annotated[
        float, typer.Option(metavar="A", help="How often equal sides may be called different.")
    ] = 0.05,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed of the intervals' resampling.")
    ] = 1,
) -> None:
    """Compare recordings, or tables from mails, metric by metric.

    The first side is the base. Each row is one of lkp's, and behind it stand the interval of the
    change, p, and whether the change is real.

    Examples:
      faultprof compare before.fprof after.fprof

      faultprof compare before.fprof after.fprof --changed --sort change

      faultprof compare 0-day-mail.txt --lkp

      faultprof compare mail.txt:578d7699e5 after.fprof
    """
    from faultprof.analysis.sides import read_comparands

    _check(lkp + as_json + as_csv + markdown, alpha)
    comparands = read_comparands(sides)
    _tell_unread(comparands)
    tables = _compared(comparands, paired, alpha, seed)
    chosen = _chosen(tables, metric or (), changed, sort)
    view = _lkp if lkp else _csv if as_csv else _markdown if markdown else _text
    _print(_json(chosen, comparands) if as_json else view(chosen))


def _check(views: int, alpha: float) -> None:
    if views > 1:
        raise FaultprofError(
            "--lkp, --json, --csv and --markdown exclude each other",
            "give one of them, or none for lkp's table with verdicts",
        )
    if not 0 < alpha < 1:
        raise FaultprofError(f"--alpha {alpha:g} is no probability", "give a number such as 0.05")


def _compared(comparands: Comparands, paired: bool, alpha: float, seed: int) -> list[Comparison]:
    from faultprof.analysis.comparison import compare_sides

    return [
        compare_sides(table.sides, caption=table.caption, paired=paired, alpha=alpha, seed=seed)
        for table in comparands.tables
    ]


def _chosen(
    tables: Sequence[Comparison], globs: Sequence[str], changed: bool, sort: Sort
) -> list[Comparison]:
    from faultprof.analysis.comparison import Order, choose

    names = list(dict.fromkeys(row.name for table in tables for row in table.rows))
    if not names:
        raise FaultprofError("the sides have no metric", "record a command, or name other sides")
    matching = [choose(table, globs=globs) for table in tables]
    if not any(table.rows for table in matching):
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        raise FaultprofError(f"no metric matches {' or '.join(globs)}", f"there are: {shown}")
    order = Order(sort.value)
    return [choose(table, changed=changed, order=order) for table in matching]


def _text(tables: Sequence[Comparison]) -> Iterator[str]:
    from faultprof.render.compare import comparison_lines
    from faultprof.render.terminal import Terminal

    yield from comparison_lines(tables, Terminal.of(sys.stdout))


def _lkp(tables: Sequence[Comparison]) -> Iterator[str]:
    from faultprof.render.lkp import lkp_lines
    from faultprof.render.terminal import Terminal

    for number, table in enumerate(tables):
        if number:
            yield ""
        yield from lkp_lines(table, Terminal.of(sys.stdout))


def _csv(tables: Sequence[Comparison]) -> Iterator[str]:
    from faultprof.render.compare_exports import csv_lines

    yield from csv_lines(tables)


def _markdown(tables: Sequence[Comparison]) -> Iterator[str]:
    from faultprof.render.compare_exports import markdown_lines

    for number, table in enumerate(tables):
        if number:
            yield ""
        yield from markdown_lines(table)


def _json(tables: Sequence[Comparison], comparands: Comparands) -> Iterator[str]:
    from faultprof.render.compare_exports import json_text

    yield json_text(tables, comparands.texts)


def _print(lines: Iterator[str]) -> None:
    from faultprof.render.terminal import write_lines

    write_lines(sys.stdout, lines)


def _tell_unread(comparands: Comparands) -> None:
    """Say on standard error what became of the lines of texts."""
    from faultprof.render.imported import account_lines
    from faultprof.render.terminal import write_lines

    for name, text in comparands.texts.items():
        write_lines(sys.stderr, account_lines(name, text))

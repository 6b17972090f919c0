"""Traced calls as text: the call tree, or the functions as a list.

Knows: the columns of a report of traced calls.
Leaves to others: the header (``trace_header``), the branches and names beside the columns
(``branches``), how times are written (``units``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from faultprof.analysis.calls import Calls
from faultprof.analysis.compensation import Flag, flags
from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import Edge, TracedFunction, TraceTree
from faultprof.recording.per_call import NO_END, fewest
from faultprof.render.branches import fitted, indents
from faultprof.render.terminal import Glyphs, Terminal
from faultprof.render.units import NOTHING, duration, three_digits

_GAP = "  "
# Behind a compensated time that is not to be relied on.
_MARKS = {Flag.OVERHEAD_LIMITED: "!", Flag.CONTENDED: "~"}
_PERCENT = 7  # columns of the first percentage and its title


class Row(NamedTuple):
    """What the columns of a line are made from.

    Args:
        calls: the figures.
        per_caller: calls for one call of the caller; None where that is not known.
        inclusive_percent: of the total; None without times.
        self_percent: likewise.
    """

    calls: Calls
    per_caller: float | None
    inclusive_percent: float | None
    self_percent: float | None


class Column(NamedTuple):
    """A title, and the text of a row's cell below it."""

    title: str
    cell: Callable[[Row], str]


def trace_tree_lines(
    tree: TraceTree, selection: Selection, terminal: Terminal, *, top: str | None
) -> Iterator[str]:
    """Yield the nodes of a tree in its order, below a line of titles.

    Args:
        tree: what to draw, already cut and ordered.
        selection: how it was chosen.
        terminal: what the output can show.
        top: what to call the first line, which stands for all roots together; None leaves it out.
    """
    rows = [_row(node.calls, tree, tree.per_caller(n)) for n, node in enumerate(tree.nodes)]
    heats = [row.inclusive_percent for row in rows]
    compensated = is_compensated(row.calls for row in rows)
    columns = _tree_columns(selection, tree.faults, terminal, compensated=compensated)
    titles, *lines = _aligned(columns, rows, heats, terminal)
    yield f"{titles}{_GAP}call tree, caller first"
    used = len(titles) + len(_GAP)
    if top is not None:
        percent = tree.percent(tree.root_ns)
        figures = terminal.heat(_percent(percent).rjust(_PERCENT), percent)
        yield figures + " " * (used - _PERCENT) + terminal.shorten(top, _room(used, terminal))
    depths, parents = [node.depth for node in tree.nodes], [node.parent for node in tree.nodes]
    branches = indents(depths, parents, used, terminal)
    for place, (line, indent) in enumerate(zip(lines, branches, strict=True)):
        often = _often(tree.edge(place), terminal.glyphs)
        room = _room(used + len(indent) + len(often), terminal)
        name = fitted(tree.nodes[place].frame, room, terminal)
        yield f"{line}{_GAP}{terminal.dim(indent)}{name}{terminal.dim(often)}"


def trace_flat_lines(
    functions: Sequence[TracedFunction], tree: TraceTree, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    """Yield functions of ``tree``, those first that most time was spent in themselves."""
    functions = sorted(
        functions, key=lambda one: (-one.calls.self_ns, -one.calls.inclusive_ns, -one.calls.begun)
    )
    rows = [_row(one.calls, tree, None) for one in functions]
    heats = [row.self_percent for row in rows]
    compensated = is_compensated(row.calls for row in rows)
    columns = _flat_columns(selection, tree.faults, terminal, compensated=compensated)
    titles, *lines = _aligned(columns, rows, heats, terminal)
    yield f"{titles}{_GAP}function, sorted by self"
    room = _room(len(titles) + len(_GAP), terminal)
    for line, one in zip(lines, functions, strict=True):
        yield line + _GAP + fitted(one.frame, room, terminal)


def is_compensated(calls: Iterable[Calls]) -> bool:
    """Whether the time without the probes is known of any calls."""
    return any(one.compensated_ns is not None for one in calls)


def unfinished_line(unfinished: int) -> str:
    """Say that calls did not return, and what that means for the figures."""
    calls = "1 call" if unfinished == 1 else f"{unfinished:,} calls"
    return f"# {calls} did not return: not among the calls, and only the time below is known"


def _often(edge: Edge | None, glyphs: Glyphs) -> str:
    """Say how often the caller calls a function in one call, where that is ever more than once."""
    if edge is None or edge.mean is None:
        return ""
    most = edge.per_call[-1][0] if edge.per_call else 1
    if most == 1 and edge.mean <= 1:
        return ""
    mean = f" {glyphs.times}{three_digits(edge.mean)}"
    if most == 1:
        return mean
    return f"{mean} >{fewest(most) - 1}" if most == NO_END else f"{mean} {glyphs.most}{most}"


def _row(calls: Calls, tree: TraceTree, per_caller: float | None) -> Row:
    if not calls.timed:
        return Row(calls, per_caller, None, None)
    return Row(calls, per_caller, tree.percent(calls.inclusive_ns), tree.percent(calls.self_ns))


def _tree_columns(
    selection: Selection, faults: int | None, terminal: Terminal, *, compensated: bool
) -> list[Column]:
    inclusive = Column("# incl.", lambda row: _percent(row.inclusive_percent))
    calls, *rest = _figures(selection, faults, terminal, compensated=compensated)
    if not selection.wide:
        return [inclusive, calls, *rest]
    return [inclusive, calls, Column("/caller", _per_caller), *rest]


def _flat_columns(
    selection: Selection, faults: int | None, terminal: Terminal, *, compensated: bool
) -> list[Column]:
    return [
        Column("#  self", lambda row: _percent(row.self_percent)),
        Column("incl.", lambda row: _percent(row.inclusive_percent)),
        *_figures(selection, faults, terminal, compensated=compensated),
    ]


def _figures(
    selection: Selection, faults: int | None, terminal: Terminal, *, compensated: bool
) -> list[Column]:
    """Return the columns from the calls on."""
    per = faults if selection.per_fault else None
    calls = Column("calls/fault" if per else "calls", lambda row: _count(row.calls.calls, per))
    total = _time("total", lambda calls: calls.inclusive_ns, per, terminal)
    own = _time("self", lambda calls: calls.self_ns, per, terminal)
    avg = _time("avg", lambda calls: calls.avg_ns, None, terminal)
    p50 = _time("p50", lambda calls: calls.p50_ns, None, terminal)
    p99 = _time("p99", lambda calls: calls.p99_ns, None, terminal)
    longest = _time("max", lambda calls: calls.max_ns, None, terminal)
    off_cpu = Column("off-CPU", lambda row: _share(row.calls.offcpu_share))
    without = _without_probes(terminal) if compensated else []
    if selection.wide:
        return [calls, total, own, avg, *without, p50, p99, longest, off_cpu]
    return [calls, total if per else avg, *without[:1], p99, off_cpu]


def _without_probes(terminal: Terminal) -> list[Column]:
    """Return the mean duration of a call without the probes, and its interval."""

    def of_call(ns: float, row: Row) -> str:
        per_call = ns / row.calls.timed_calls
        return "-" * (per_call < 0) + duration(abs(per_call), terminal.glyphs)

    def value(row: Row) -> str:
        time = row.calls.compensated_ns
        if time is None or not row.calls.timed_calls:
            return NOTHING
        return of_call(time.value, row) + (_MARKS[found[0]] if (found := flags(row.calls)) else " ")

    def interval(row: Row) -> str:
        time = row.calls.compensated_ns
        if time is None or not row.calls.timed_calls:
            return NOTHING
        return f"{of_call(time.low, row)} to {of_call(time.high, row)}"

    return [Column("comp. ", value), Column("interval", interval)]


def _time(
    title: str, figure: Callable[[Calls], float | None], per: int | None, terminal: Terminal
) -> Column:
    """Return a column of times, divided by ``per`` faults; calls that were not timed have none."""

    def cell(row: Row) -> str:
        ns = figure(row.calls) if row.calls.timed else None
        return duration(ns / per if per and ns is not None else ns, terminal.glyphs)

    return Column(f"{title}/fault" if per else title, cell)


def _count(calls: int, per: int | None) -> str:
    return three_digits(calls / per) if per else f"{calls:,}"


def _percent(percent: float | None) -> str:
    return NOTHING if percent is None else f"{percent:.2f}%"


def _share(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f}%"


def _per_caller(row: Row) -> str:
    return NOTHING if row.per_caller is None else three_digits(row.per_caller)


def _aligned(
    columns: Sequence[Column],
    rows: Sequence[Row],
    heats: Sequence[float | None],
    terminal: Terminal,
) -> list[str]:
    """Return the line of titles and one for each row, all of one width.

    ``heats`` are the percentages that the first column is coloured by.
    """
    cells = [[column.title, *(column.cell(row) for row in rows)] for column in columns]
    for column in cells:
        width = max(map(len, column))
        column[:] = [cell.rjust(width) for cell in column]
    coloured = [
        terminal.heat(cell, heat or 0.0) for cell, heat in zip(cells[0][1:], heats, strict=True)
    ]
    cells[0][1:] = coloured
    return [_GAP.join(line) for line in zip(*cells, strict=True)]


def _room(used: int, terminal: Terminal) -> int:
    return terminal.layout_width - used

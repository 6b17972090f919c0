"""A diff as text: what explains the change, function by function, and both trees as one.

Knows: the columns, and the words for what became of a node.
Leaves to others: the figures (``analysis.diff``), branches and names (``branches``), JSON
(``diff_json``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faultprof.analysis.bootstrap import RESAMPLES, SEED
from faultprof.analysis.change import Change, Verdict
from faultprof.analysis.diff import Diff, DiffNode, FunctionChange, State, rank
from faultprof.analysis.diff_sides import DiffSide
from faultprof.analysis.diff_terms import Terms
from faultprof.analysis.diff_worth import Worth
from faultprof.analysis.measurement import title_of
from faultprof.render.branches import fitted, indents
from faultprof.render.header import entry
from faultprof.render.names import label
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.text import cut_line
from faultprof.render.units import NOTHING, duration, three_digits

_GAP = "  "
_TREE_ROOM = 100  # columns for branches and names
_PLACES = 4  # of a function, that are listed
_LEAST = 0.005  # percent: what is less is 0.00


@dataclass(frozen=True, slots=True)
class DiffView:
    """What is printed of a diff.

    Attributes:
        diff: the diff.
        terms: on what terms it was made.
        worth: what judges changes; None where a side has one run only.
        files: what the sides were read from.
        min_percent: least inclusive percentage, on either side, of a node that is shown.
        max_depth: how many levels of the tree; None for all.
        top: how many functions that explain the change are listed.
    """

    diff: Diff
    terms: Terms
    worth: Worth | None
    files: tuple[str, str]
    min_percent: float = 0.5
    max_depth: int | None = None
    top: int = 10


def diff_lines(view: DiffView, terminal: Terminal) -> Iterator[str]:
    """Yield header, what explains the change, the tree, and how to read it."""
    yield from _header(view, terminal)
    yield "#"
    yield from _explanation(view, terminal)
    yield "#"
    yield from _tree(view, terminal)
    yield from _footer(view, terminal)


def _header(view: DiffView, terminal: Terminal) -> Iterator[str]:
    diff = view.diff
    sides = (("base", diff.base), ("new", diff.new))
    for (key, side), file in zip(sides, view.files, strict=True):
        yield from entry(key, f"{title_of(side.metadata)} ({file})", terminal)
    yield from entry("compared", _compared(view), terminal)
    for remark in view.terms.remarks:
        yield from entry("note", remark, terminal)
    for key, side in sides:
        renamed = _renamed(diff, side)
        if renamed:
            yield from entry("renamed", f"in {key}: {renamed}", terminal)


def _compared(view: DiffView) -> str:
    diff = view.diff
    below = f" below {view.terms.root}" if view.terms.root else ""
    counts = f"{diff.base.total:,} and {diff.new.total:,}"
    if not diff.traced:
        return f"percentages of all {counts} samples{below}"
    if diff.per == "run":
        runs = f"{len(diff.base.runs)} and {len(diff.new.runs)} runs"
        return f"traced calls{below}, per run ({runs}); faults were not traced on both sides"
    faults = f"{diff.base.all_faults:,} and {diff.new.all_faults:,}"
    return f"traced calls{below}, per fault ({faults} faults)"


def _renamed(diff: Diff, side: DiffSide) -> str:
    nodes = (one for node in diff.nodes for one in (node.base, node.new) if one is not None)
    there = {name for node in nodes for name in node.names}
    pairs = [f"{new} is {old}" for old, new in sorted(side.names.renamed.items()) if old in there]
    return ", ".join(pairs)


# What explains the change.


def _explanation(view: DiffView, terminal: Terminal) -> Iterator[str]:
    diff = view.diff
    total = _change_text(diff, diff.whole.change, terminal).strip()
    what = f"all in all {total}" if diff.direction else "all in all about the same"
    yield f"# what explains the change, by functions' own figures ({what})"
    for_it = [one for one in diff.functions if rank(one.own.change, diff.direction) > 0]
    against = [one for one in reversed(diff.functions) if rank(one.own.change, diff.direction) < 0]
    listed = [one for one in for_it if _is_seen(diff, one.own.change)][: view.top]
    rows = [_function_cells(view, one, terminal) for one in listed]
    other = [one for one in against if _is_seen(diff, one.own.change)][: max(1, view.top // 2)]
    rows += [_function_cells(view, one, terminal) for one in other]
    titles, *lines = _aligned([_function_titles(view), *rows])
    yield f"# {titles[2:]}{_GAP}function"
    for number, (line, one) in enumerate(zip(lines, [*listed, *other], strict=True)):
        if number == len(listed):
            yield "# the other way:"
        yield f"{line}{_GAP}{label(diff.nodes[one.nodes[0]].frame)}{_where(diff, one)}"
        if len(one.nodes) > 1:
            yield from _places(diff, one, len(line), terminal)
    if not rows:
        yield "# nothing: no function has changed by as much as can be shown"


def _is_seen(diff: Diff, change: float) -> bool:
    """Whether a change is large enough to be seen in the column."""
    return abs(change) >= (_LEAST if not diff.traced else 0.5)


def _function_titles(view: DiffView) -> list[str]:
    titles = ["  base", "new", "change"]
    if view.diff.direction:
        titles.append("of all")
    if view.diff.traced:
        titles += ["more often", "slower"]
    return titles + ["interval", "verdict"] * (view.worth is not None)


def _function_cells(view: DiffView, one: FunctionChange, terminal: Terminal) -> list[str]:
    diff = view.diff
    cells = [_figure(diff, one.own.base, terminal), _figure(diff, one.own.new, terminal)]
    cells.append(_change_text(diff, one.own.change, terminal))
    share = diff.share(one.own.change)
    if diff.direction:
        cells.append(NOTHING if share is None else f"{100 * share:.0f}%")
    if diff.traced:
        cells += [_part(diff, one.more_often, terminal), _part(diff, one.slower, terminal)]
    if view.worth is not None:
        cells += _worth_cells(diff, view.worth.function(one), terminal)
    return cells


def _where(diff: Diff, one: FunctionChange) -> str:
    if len(one.nodes) > 1:
        return f", in {len(one.nodes)} places"
    return _below(diff, diff.nodes[one.nodes[0]])


def _below(diff: Diff, node: DiffNode) -> str:
    if node.parent < 0:
        return ""
    return f"{_GAP}below {sanitise(diff.nodes[node.parent].function[0])}"


def _places(diff: Diff, one: FunctionChange, width: int, terminal: Terminal) -> Iterator[str]:
    """Yield the places where a function has changed most."""
    seen = [place for place in one.nodes if _is_seen(diff, diff.nodes[place].own.change)]
    margin = " " * (width + 2 * len(_GAP))
    for place in seen[:_PLACES]:
        node = diff.nodes[place]
        before, after = (_figure(diff, one, terminal) for one in (node.own.base, node.own.new))
        change = _change_text(diff, node.own.change, terminal)
        text = " ".join(f"{change} ({before} to {after})".split())
        yield margin + text + _below(diff, node)
    if len(seen) > _PLACES:
        yield f"{margin}and less in {len(seen) - _PLACES} more"


# The tree.


def _tree(view: DiffView, terminal: Terminal) -> Iterator[str]:
    diff = view.diff
    places = diff.shown(view.min_percent, view.max_depth)
    nodes = [diff.nodes[place] for place in places]
    titles, *lines = _aligned(
        [_tree_titles(view), *(_tree_cells(view, node, terminal) for node in nodes)]
    )
    yield f"# {titles[2:]}{_GAP}call tree, what explains most first"
    renumbered = {place: number for number, place in enumerate(places)}
    parents = [renumbered.get(node.parent, -1) for node in nodes]
    # Names are worth more than columns: what is cut off nobody can look up.
    wide = Terminal(len(titles) + _TREE_ROOM, terminal.colour, terminal.glyphs)
    branches = indents([node.depth for node in nodes], parents, len(titles), wide)
    for line, indent, node in zip(lines, branches, nodes, strict=True):
        name = fitted(node.frame, _TREE_ROOM, wide) + terminal.dim(_remark(diff, node))
        yield f"{line}{_GAP}{terminal.dim(indent)}{name}"
    hidden = len(diff.nodes) - len(nodes)
    if hidden:
        yield cut_line(hidden, "node", view.min_percent, view.max_depth) + " (on either side)"


def _tree_titles(view: DiffView) -> list[str]:
    titles = ["  base", "new"]
    if view.diff.traced:
        per = view.diff.per
        titles += [f"calls/{per}", "new", "time/call", "new", f"self/{per}", "new", "change"]
        titles += ["more often", "slower"]
    else:
        titles += ["change", "of self"]
    return titles + ["interval", "verdict"] * (view.worth is not None)


def _tree_cells(view: DiffView, node: DiffNode, terminal: Terminal) -> list[str]:
    diff = view.diff
    cells = [
        _percent(node, node.percent.base, new=False),
        _percent(node, node.percent.new, new=True),
    ]
    if node.calls is None or node.per_call is None:
        cells += [_points(node.inclusive.change), _points(node.own.change)]
    else:
        cells += [three_digits(node.calls.base), three_digits(node.calls.new)]
        cells += [duration(one, terminal.glyphs) for one in node.per_call]
        cells += [_figure(diff, node.own.base, terminal), _figure(diff, node.own.new, terminal)]
        cells.append(_change_text(diff, node.own.change, terminal))
        cells += [_part(diff, node.more_often, terminal), _part(diff, node.slower, terminal)]
    if view.worth is not None:
        judge = view.worth.own if diff.traced else view.worth.node
        cells += _worth_cells(diff, judge(node), terminal)
    return cells


def _percent(node: DiffNode, percent: float, *, new: bool) -> str:
    side = node.new if new else node.base
    return NOTHING if side is None else f"{percent:.2f}%"


def _remark(diff: Diff, node: DiffNode) -> str:
    """Say what became of a node, and what it is called where it has another name."""
    said = []
    lacking = "base" if node.base is None or node.base.implied else "new"
    side = diff.base if lacking == "base" else diff.new
    if node.state in (State.NEW, State.VANISHED):
        said.append(node.state.value)
    elif node.state is State.IMPLIED:
        said.append(f"not seen in {lacking}, what it calls is")
    elif node.state is State.RARE:
        said.append(f"too rare to be missed in {lacking}")
    elif node.state is State.BELOW_CUT and side.total:
        least = 100 * (side.least or 0) / side.total
        said.append(f"not in the text of {lacking}: gone, or below {least:.2f}%")
    for name, names in zip(("base", "new"), node.names, strict=True):
        if names and not node.unknown:
            said.append(f"{name}: {', '.join(map(sanitise, names))}")
    return f"  [{'; '.join(said)}]" if said else ""


# Figures.


def _figure(diff: Diff, figure: float, terminal: Terminal) -> str:
    return duration(figure, terminal.glyphs) if diff.traced else f"{figure:.2f}%"


def _change_text(diff: Diff, change: float, terminal: Terminal) -> str:
    if not diff.traced:
        return _points(change)
    return ("-" if change < 0 else "+") + duration(abs(change), terminal.glyphs)


def _points(change: float) -> str:
    return f"{change:+.2f}"


def _part(diff: Diff, change: float | None, terminal: Terminal) -> str:
    return NOTHING if change is None else _change_text(diff, change, terminal)


def _worth_cells(diff: Diff, worth: Change, terminal: Terminal) -> list[str]:
    interval = worth.difference_interval
    if interval is None:
        return [NOTHING, worth.verdict]
    low, high = (_change_text(diff, bound, terminal) for bound in interval)
    return [f"[{' '.join(low.split())}, {' '.join(high.split())}]", worth.verdict]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


# How to read it.


def _footer(view: DiffView, terminal: Terminal) -> Iterator[str]:
    diff = view.diff
    states = {diff.nodes[place].state for place in diff.shown(view.min_percent, view.max_depth)}
    if not diff.traced:
        text = (
            "change: of the inclusive percentage, of self: of what was sampled in the node itself"
        )
        yield from entry("columns", text + ", both in points", terminal)
    else:
        text = (
            "more often and slower: the two parts of the change of self time, by how often the "
            "function was called and by how long a call took itself"
        )
        yield from entry("columns", text, terminal)
    for side, name, state in (
        (diff.new, "new", State.VANISHED),
        (diff.base, "base", State.NEW),
    ):
        if state in states and not diff.traced and not side.expanded:
            text = f"not seen in {name}; without debuginfo there, it may be inlined into its caller"
            yield from entry(state.value, text, terminal)
    if State.RARE in states:
        text = "fewer than 5 samples were to be expected: that there is none means nothing"
        yield from entry("too rare", text, terminal)
    if view.worth is not None:
        drawn = "pairs of runs" if view.worth.paired else "runs"
        text = f"95% of the change of the mean: bootstrap, {RESAMPLES:,} resamples of {drawn}"
        yield from entry("interval", f"{text}, seed {SEED}", terminal)
        yield from entry(
            str(Verdict.REAL),
            "p at most 0.05 (exact rank test) and an interval without 0",
            terminal,
        )

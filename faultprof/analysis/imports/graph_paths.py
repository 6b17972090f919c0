"""From the call graphs of ``perf report`` to counted paths.

Knows: which way round a graph stands, what its percentages leave open, which entries repeat others.
Leaves to others: the lines (``perf_report``), what names mean (``foreign_names``).

perf prints percentages with two decimals, so a hundredth of a percent is what is counted here, and
10,000 are all of the original's samples. A node keeps the percentage it was printed with. What it
has beyond the callees that are printed counts as its own: that is self time, and callees below
perf's limit or folded away. Only an entry's own share is printed, so there the rest is told apart.
What the text has no entry for is a path of its own, so that percentages remain of all samples.

Where perf adds callees to each entry ("Children"), every function has an entry, and most repeat
what is in the graph of one before. Only those that do not are taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from faultprof.analysis.imports.foreign_names import frame_of
from faultprof.analysis.imports.perf_report import GraphEntry, GraphNode, walk
from faultprof.recording.frames import UNRESOLVED, Frame
from faultprof.recording.paths import PathCount

ALL = 10_000  # hundredths of a percent
REST = Frame("[not in the text]", resolution=UNRESOLVED)
CALLEES = Frame("[callees not in the text]", resolution=UNRESOLVED)
CALLERS = Frame("[callers not in the text]", resolution=UNRESOLVED)

# Where the kernel is entered; what calls these is user code.
_ENTRIES = re.compile(
    r"(?:asm_(?:exc|sysvec|common|fred)\w*|entry_(?:SYSCALL|SYSENTER|INT80)\w*|page_fault"
    r"|async_page_fault|system_call\w*|ret_from_fork\w*|ret_to_user|vectors|el[01]t?_?\w*_\w+"
    r"|error_entry|common_interrupt\w*|secondary_startup_64\w*|start_kernel)"
)


@dataclass(slots=True)
class GraphPaths:
    """One report's paths, in hundredths of a percent, and how they were arrived at.

    Attributes:
        paths: with all that is not in the text, 10,000 in total.
        first_line, last_line: where the report stands.
        title: its first entry.
        repeated: entries that repeat parts of others and were left out.
        raised: nodes whose callees come to more than they do, by rounding; raised to their sum.
        inverted: whether its graphs lead from callee to caller.
        relative: whether its percentages were of the node above, and were multiplied out.
        annotations: (line, text) of what people wrote behind lines.
    """

    paths: list[PathCount]
    first_line: int
    last_line: int
    title: str
    repeated: int = 0
    raised: int = 0
    inverted: bool = False
    relative: bool = False
    annotations: list[tuple[int, str]] = field(default_factory=list)


def reports(
    entries: Sequence[GraphEntry], remarks: Mapping[int, str], others: Collection[int]
) -> list[list[GraphEntry]]:
    """Put the entries of one report together.

    A new one begins where an entry comes a second time, where perf says which event's samples
    follow, or where other lines stand in between.

    Args:
        entries: all entries of a text, in order.
        remarks: perf's remarks by line.
        others: the numbers of all other lines that say something.
    """
    found: list[list[GraphEntry]] = []
    seen: set[tuple[str, str, str]] = set()
    for entry in entries:
        key = entry.comm, entry.dso, entry.symbol
        last = found[-1][-1].last_line if found else 0
        between = range(last + 1, entry.first_line)
        ends = any(line in others or " of event" in remarks.get(line, "") for line in between)
        if not found or key in seen or ends:
            found.append([])
            seen = set()
        found[-1].append(entry)
        seen.add(key)
    return found


def graph_paths(entries: Sequence[GraphEntry]) -> GraphPaths:
    """Return the paths of one report."""
    stated = {entry.symbol: entry for entry in entries}
    first, last = entries[0], entries[-1]
    title = f"{first.percent / 100:.2f}% {first.symbol}" + f" of {first.comm}" * bool(first.comm)
    result = GraphPaths([], first.first_line, last.last_line, title)
    known: dict[str, set[str]] = {}
    total = 0
    for entry in entries:
        result.annotations += entry.annotations
        if entry.own is not None and entry.symbol in known.get(entry.comm, ()):
            result.repeated += 1
            continue
        names = [node.name for node in walk(entry.roots)]
        known.setdefault(entry.comm, set()).update(names, (entry.symbol,))
        paths = list(_entry_paths(entry, stated, result))
        total += sum(path.samples for path in paths)
        result.paths += paths
    if total < ALL:
        result.paths.append(PathCount("[unknown]", (REST,), ALL - total))
    return result


def _entry_paths(
    entry: GraphEntry, stated: Mapping[str, GraphEntry], result: GraphPaths
) -> Iterator[PathCount]:
    comm = entry.comm or "[unknown]"
    frame = frame_of(entry.symbol, entry.dso, in_kernel=entry.in_kernel)
    if not entry.roots:
        own = entry.percent if entry.own is None else entry.own
        if own:
            yield PathCount(comm, (frame,), own)
        return
    _make_absolute(entry, result)
    _raise(entry.roots, result)
    inverted = entry.own is None and entry.roots[0].name == entry.symbol
    result.inverted = result.inverted or inverted
    for names, weight in _weights(entry, inverted):
        frames = _frames(names, entry, stated)
        yield PathCount(comm, frames, weight)


def _make_absolute(entry: GraphEntry, result: GraphPaths) -> None:
    """Turn relative percentages (``-g fractal``) into those of all samples, as far as can be.

    They are of all *callees* of the node above: 100% of a function's callees may be half of it.
    """
    if not _exceeds(entry.percent, entry.roots) and not any(
        _exceeds(node.hundredths, node.below) for node in walk(entry.roots)
    ):
        return
    result.relative = True
    todo = [(node, entry.percent) for node in entry.roots]
    while todo:
        node, above = todo.pop()
        node.hundredths = above if node.chained else round(above * node.hundredths / ALL)
        todo += [(child, node.hundredths) for child in node.below]


def _exceeds(hundredths: int, below: list[GraphNode]) -> bool:
    """Return whether nodes come to more than the one above, by more than rounding makes."""
    return sum(node.hundredths for node in below) > hundredths + len(below) + 1


def _raise(roots: list[GraphNode], result: GraphPaths) -> None:
    """Make nodes no smaller than their callees together."""
    for node in reversed(list(_preorder(roots))):
        below = sum(child.hundredths for child in node.below)
        if below > node.hundredths:
            node.hundredths = below
            result.raised += 1


def _preorder(roots: list[GraphNode]) -> Iterator[GraphNode]:
    todo = list(reversed(roots))
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.below))


def _weights(entry: GraphEntry, inverted: bool) -> Iterator[tuple[tuple[str | Frame, ...], int]]:
    """Yield paths, root first, and what belongs to their last function."""
    is_own_graph = entry.own is not None and entry.roots[0].name == entry.symbol
    todo: list[tuple[GraphNode, tuple[str | Frame, ...]]] = [(node, ()) for node in entry.roots]
    while todo:
        node, above = todo.pop()
        path = (*above, node.name)
        rest = node.hundredths - sum(child.hundredths for child in node.below)
        todo += [(child, path) for child in node.below]
        if inverted:
            # The graph leads up; where it ends before a root, the callers are not known.
            ends = (CALLERS,) if node.below or node.folded else ()
            if rest:
                yield (*ends, *reversed(path)), rest
        elif is_own_graph and not above and node.below:
            own = min(rest, entry.own or 0)
            if own:
                yield path, own
            if rest > own:
                yield (*path, CALLEES), rest - own
        elif rest:
            yield path, rest


def _frames(
    names: Sequence[str | Frame], entry: GraphEntry, stated: Mapping[str, GraphEntry]
) -> tuple[Frame, ...]:
    """Name a path: what calls the kernel's entry is user code, what comes after it is not."""
    boundary = next(
        (
            place
            for place, name in enumerate(names)
            if isinstance(name, str) and _ENTRIES.fullmatch(name)
        ),
        None,
    )
    frames = []
    for place, name in enumerate(names):
        if isinstance(name, Frame):
            frames.append(name)
            continue
        in_kernel = entry.in_kernel if boundary is None else place >= boundary
        # An entry of its own says where a function lives.
        own = entry if name == entry.symbol else stated.get(name)
        dso, in_kernel = (own.dso, own.in_kernel) if own else ("", in_kernel)
        frames.append(frame_of(name, dso, in_kernel=in_kernel))
    return tuple(frames)

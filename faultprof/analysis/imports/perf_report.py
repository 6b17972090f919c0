r"""Call graphs as ``perf report`` prints them and people paste them into mails.

Knows: the lines of ``--stdio`` and those that are copied from perf's browser; both orders::

    -   48.58%     0.04%  usemem  [kernel.vmlinux]  [k] do_read_fault     (an entry)
       - 48.54% do_read_fault                                             (its graph)
          - 44.34% filemap_map_pages
               3.22% next_uptodate_folio    <--- an annotation

        |--44.34%--filemap_map_pages                                      (with --stdio)
        |          next_uptodate_folio

Leaves to others: quoting (``mail_text``), and making paths of a graph (``graph_paths``).

Depth is told by the column in which a node begins: where its percentage, or with ``--stdio`` its
branch, stands. A line without a percentage is called by the line above it, and by nothing else.
Mail programs wrap lines: an entry without its symbol, or a percentage without its name, goes on in
the next line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from faultprof.analysis.mail_text import Line, Page

_PERCENT = r"(\d{1,3}\.\d{1,4})%"
_ENTRY = re.compile(rf"\s*(?:[-+]\s*)?{_PERCENT}(?:\s+{_PERCENT})?\s+(\S.*)")
_KIND = re.compile(r"(?:^|\s)\[([a-zA-Z.])\]\s+(?=\S)")  # [k] and the like, before the symbol
_COLUMNS = re.compile(r"\s{2,}|\t")
# A node of the browser's, and one of --stdio's, with its percentage.
_NODE = re.compile(rf"(\s*(?:[-+]\s+)?)({_PERCENT})\s+(\S.*)")
_BRANCH = re.compile(rf"([\s|]*?)[\s|]--{_PERCENT}--\s*(\S.*)")
_ROOT = re.compile(r"([\s|]*)---\s*(\S.*)")
# A node without percentage: one word, unless the lines of --stdio's tree lead to it.
_CHAIN = re.compile(
    r"(\s+(?:[-+]\s+)?)([\w.$\[\]~:<>]*[\w\])>])(?:\s+\(inlined\))?(\s{2,}.*|\s+<-.*)?"
)
_STDIO_CHAIN = re.compile(r"([\s|]+)([^\s|-].*)")
_UNFINISHED = re.compile(rf"\s*(?:[-+]\s*)?(?:--)?{_PERCENT}(?:--|\s+{_PERCENT})?(?:\s+\S.*)?\s*")
_REMARK = re.compile(r"\s*#|\s*Samples: \S+\s+of events? ")
_PERFS_OWN = re.compile(
    r"\s*(?:#\s*$|#?\s*(?:Samples: |Event count|Total Lost|Overhead |Children |To display |\.{3}))"
)
_C_NAME = re.compile(r"[\w.$]+|\[[\w.]+\]|\[\.\.\.\]")
_ANNOTATION = re.compile(r"\s{2,}|\t|\s+(?=<-|<=|<<|->|=>|#|//|/\*)")
_LONGEST_NAME = 512
_MOST_LINES_WRAPPED = 3
_DEEPEST = 1000  # perf itself keeps 127 frames of a stack


@dataclass(slots=True)
class GraphNode:
    """A node of a graph.

    Attributes:
        name: as printed.
        hundredths: its percentage of all samples, in hundredths.
        chained: whether the percentage was not printed, being that of the node above.
        folded: whether its callees were folded away (``+``).
        below: the nodes that the graph leads on to.
    """

    name: str
    hundredths: int
    chained: bool = False
    folded: bool = False
    below: list[GraphNode] = field(default_factory=list)


@dataclass(slots=True)
class GraphEntry:
    """An entry of a report, and its graph.

    Attributes:
        percent: of all samples, in hundredths; with callees where ``own`` is known.
        own: the entry's Self column in hundredths; None in a report without callees' share.
        comm, dso, symbol: what it is.
        first_line, last_line: where it stands.
        roots: the top nodes of its graph.
        annotations: (line, text) of what people wrote behind lines.
    """

    percent: int
    own: int | None
    comm: str
    dso: str
    symbol: str
    in_kernel: bool
    first_line: int
    last_line: int
    roots: list[GraphNode] = field(default_factory=list)
    annotations: list[tuple[int, str]] = field(default_factory=list)


class _Parsed(NamedTuple):
    column: int
    hundredths: int | None  # None: that of the node above
    name: str
    annotation: str
    folded: bool


def read_graphs(page: Page) -> tuple[list[GraphEntry], dict[int, str]]:
    """Read every entry of a page with its graph; return them, and perf's remarks by line.

    Lines that belong to them are claimed. Those that look so and cannot be read are refused.
    """
    entries: list[GraphEntry] = []
    remarks: dict[int, str] = {}
    place = 0
    while place < len(page.lines):
        line = page.lines[place]
        if _REMARK.match(line.text) and (entries or _is_perfs(line.text)):
            remarks[line.number] = line.text
            page.claim(line)
            place += 1
            continue
        text, used = _unwrapped(page, place)
        entry = _entry(text, line)
        if entry is None:
            place += 1
            continue
        page.claim(*page.lines[place : place + used])
        place = _read_graph(page, place + used, entry)
        entries.append(entry)
    return entries, remarks


def _is_perfs(text: str) -> bool:
    """Return whether a line above the first entry is perf's; other people write remarks, too."""
    return _PERFS_OWN.match(text) is not None


def _unwrapped(page: Page, place: int) -> tuple[str, int]:
    """Return the line at ``place`` with what was wrapped off it, and how many lines that are."""
    line = page.lines[place]
    text = line.text
    if not _UNFINISHED.fullmatch(text):
        return text, 1
    for used in range(1, _MOST_LINES_WRAPPED):
        if _is_whole(text) or place + used >= len(page.lines):
            return text, used
        below = page.lines[place + used]
        if below.depth != line.depth or below.blank or "%" in below.text:
            return line.text, 1
        text = f"{text.rstrip()}  {below.text.strip()}"
    return (text, _MOST_LINES_WRAPPED) if _is_whole(text) else (line.text, 1)


def _is_whole(text: str) -> bool:
    entry = _ENTRY.fullmatch(text)
    if entry is not None and _KIND.search(entry[3]):
        return True
    columns = len(_COLUMNS.split(entry[3])) if entry else 0
    starts_entry = entry is not None and (entry[2] or re.search(r"\[[k.]\]$|\s\[\S+\]$", text))
    if starts_entry:
        return columns > 3
    return bool(_NODE.fullmatch(text) or _BRANCH.fullmatch(text))


def _entry(text: str, line: Line) -> GraphEntry | None:
    found = _ENTRY.fullmatch(text)
    kind = _KIND.search(found[3]) if found else None
    if found is None or kind is None:
        return None
    words = [word for word in _COLUMNS.split(found[3][: kind.start()].strip()) if word]
    if len(words) == 1 and " " in words[0]:  # a mail program made single blanks of many
        words = words[0].rsplit(None, 1)
    symbol = found[3][kind.end() :].strip()
    while symbol.endswith(" -"):  # empty columns of newer versions
        symbol = symbol[:-2].rstrip()
    name, annotation = _split_name(symbol)
    entry = GraphEntry(
        percent=_hundredths(found[1]),
        own=None if found[2] is None else _hundredths(found[2]),
        comm=words[0] if words else "",
        dso=words[1] if len(words) > 1 else "",
        symbol=name,
        in_kernel=kind[1] == "k",
        first_line=line.number,
        last_line=line.number,
    )
    if annotation:
        entry.annotations.append((line.number, annotation))
    return entry


def _read_graph(page: Page, place: int, entry: GraphEntry) -> int:
    """Read the lines below an entry; return the place of the first that is not its graph's."""
    depth = page.lines[place - 1].depth
    open_nodes: list[tuple[int, GraphNode]] = []
    gap = False
    while place < len(page.lines):
        line = page.lines[place]
        if line.depth != depth:
            break
        if line.blank or not line.text.strip("| \t"):
            gap = gap or line.blank
            page.claim(line)
            place += 1
            continue
        text, used = _unwrapped(page, place)
        if _entry(text, line) is not None:
            break
        parsed = _parse_node(text, bool(open_nodes) and not gap, indented=_indent(page, place))
        if parsed is None:
            if not _refused(page, line, text):
                break
            place += 1
            continue
        gap = False
        _add(entry, open_nodes, parsed, line)
        page.claim(*page.lines[place : place + used])
        place += used
        entry.last_line = page.lines[place - 1].number
    return place


def _indent(page: Page, place: int) -> bool:
    return page.lines[place].text[:1] in (" ", "\t", "|")


def _refused(page: Page, line: Line, text: str) -> bool:
    """Refuse a line that must be part of a graph; return whether it was one."""
    if re.match(rf"\s+(?:[-+]\s*)?{_PERCENT}|[\s|]*\|", text):
        page.refuse(line, "not a node of the call graph above")
        return True
    return False


def _parse_node(text: str, within: bool, *, indented: bool) -> _Parsed | None:
    """Take a graph's line apart; ``within`` a graph it may lack a percentage."""
    text = text.expandtabs()
    if found := _BRANCH.fullmatch(text):
        column = len(found[1]) + 1
        return _Parsed(column, _hundredths(found[2]), *_split_name(found[3]), False)
    if found := _ROOT.fullmatch(text):
        return _Parsed(len(found[1]), None, *_split_name(found[2]), False)
    if found := _NODE.fullmatch(text):
        folded = "+" in found[1]
        return _Parsed(len(found[1]), _hundredths(found[3]), *_split_name(found[4]), folded)
    if not within or not indented:
        return None
    if "|" in text and (found := _STDIO_CHAIN.fullmatch(text)):
        return _Parsed(-1, None, *_split_name(found[2]), False)
    if found := _CHAIN.fullmatch(text):
        return _Parsed(-1, None, found[2], (found[3] or "").strip(), "+" in found[1])
    return None


def _add(
    entry: GraphEntry, open_nodes: list[tuple[int, GraphNode]], parsed: _Parsed, line: Line
) -> None:
    column, hundredths, name, annotation, folded = parsed
    if annotation:
        entry.annotations.append((line.number, annotation))
    if column >= 0:
        while open_nodes and open_nodes[-1][0] >= column:
            open_nodes.pop()
    above = open_nodes[-1] if open_nodes else None
    chained = hundredths is None
    if hundredths is None:
        hundredths = above[1].hundredths if above else _only_root(entry, name)
    node = GraphNode(name, hundredths, chained, folded)
    siblings = above[1].below if above else entry.roots
    siblings.append(node)
    # A node without percentage ends where the one above it ends: it bears the same column.
    if len(open_nodes) < _DEEPEST:
        open_nodes.append((column if column >= 0 or above is None else above[0], node))


def _only_root(entry: GraphEntry, name: str) -> int:
    """Return the percentage of a graph's only root, which perf does not print.

    With callees' shares ("Children") a graph has two kinds of samples. Those in the entry's
    function itself stand with their callers, root first; all others begin with the function.
    """
    if entry.own is None:
        return entry.percent
    own, below = entry.own, entry.percent - entry.own
    return (below or own) if name == entry.symbol else (own or below)


def _split_name(text: str) -> tuple[str, str]:
    """Return a symbol and what somebody wrote behind it."""
    text = text.strip()[:_LONGEST_NAME]
    name, *rest = _ANNOTATION.split(text, maxsplit=1)
    first, _, more = name.partition(" ")
    if more and _C_NAME.fullmatch(first) and not more.startswith("(inlined)"):
        return first, text[len(first) :].strip()
    return name.removesuffix(" (inlined)").rstrip(), text[len(name) :].strip() if rest else ""


def _hundredths(text: str) -> int:
    return round(float(text) * 100)


def walk(nodes: list[GraphNode]) -> Iterator[GraphNode]:
    """Yield all nodes of some trees."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.below)

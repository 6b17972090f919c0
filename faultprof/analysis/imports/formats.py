"""From a text to what a recording holds: which format it is, its paths, tables and metadata.

Knows: how formats are told apart, and what a recording says of a text that it was made of.
Leaves to others: reading each format (the other modules of this package), and the file (``cli``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from faultprof.analysis.imports.account import Account
from faultprof.analysis.imports.folded import read_folded
from faultprof.analysis.imports.graph_paths import GraphPaths, graph_paths, reports
from faultprof.analysis.imports.perf_header import PerfHeader, plain_event, read_header
from faultprof.analysis.imports.perf_lines import (
    FIRST_HEAD,
    is_comment,
    is_frame,
    read_head,
    read_name,
)
from faultprof.analysis.imports.perf_report import read_graphs
from faultprof.analysis.imports.perf_script import read_perf_script
from faultprof.analysis.imports.tables import tables_to_json
from faultprof.analysis.lkp_table import read_page
from faultprof.analysis.mail_text import Page, Table
from faultprof.errors import ExitCode, FaultprofError, bad_recording
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import IMPORT, Metadata, RunInfo
from faultprof.recording.paths import PathCount

SCRIPT, FOLDED, MAIL = "perf-script", "folded", "mail"
FORMATS = (SCRIPT, FOLDED, MAIL)
_KNOWN = "perf script, folded stacks, perf report's call graphs, 0-day tables and value arrays"

_LOOKED_AT = 1 << 16  # bytes by which formats are told apart
_LARGEST_MAIL = 64 << 20
_MOST = 2**53  # what the samples of a recording can add up to
_FOLDED = re.compile(rb"[^\s>#|+-][^;]*(?:;[^;]+)+ \d+\s*")
_PERCENT_SIGN = re.compile(rb"\d%")


@dataclass(slots=True)
class Choice:
    """What is to be taken from a text.

    Attributes:
        format: one of ``FORMATS``; None to tell by the text.
        event: which event of ``perf script``; None for that with the most samples.
        periods: count events (the sum of periods), as ``perf report`` does, in place of samples.
        part: which of a mail's call graphs, from 1; None for the only one.
    """

    format: str | None = None
    event: str | None = None
    periods: bool = False
    part: int | None = None


@dataclass(slots=True)
class Imported:
    """A recording's content, and what became of the text's lines."""

    metadata: Metadata
    paths: list[PathCount]
    account: Account


@dataclass(slots=True)
class _Found:
    """What a format's reader makes of a text."""

    kind: str
    header: PerfHeader
    paths: list[PathCount]
    ledger: Ledger
    event: str = ""
    wall_s: float = 0.0
    tables: Sequence[Table] = ()
    more: dict[str, Any] = field(default_factory=dict)


def import_text(stream: IO[bytes], name: str, choice: Choice) -> Imported:
    """Read a text to its end.

    Args:
        stream: the text; need not be seekable.
        name: of the file, as the recording is to say it.
        choice: what to take from it.

    Raises:
        FaultprofError: exit code 4, when nothing in the text can be read; exit code 2, when it
            holds several things and ``choice`` does not say which.
    """
    head = stream.read(_LOOKED_AT)
    rejoined = _Rejoined(head, stream)
    if head.startswith((b"PERFILE2", b"PAR1", b"\x1f\x8b")) or b"\0" in head[:4096]:
        raise bad_recording(f"{name} is no text", f"what can be imported: {_KNOWN}")
    account = Account()
    reader = _READERS[choice.format or tell_format(head)]
    found = reader(rejoined, name, choice, account)
    if not found.paths and not found.tables:
        raise _nothing(name, account)
    return Imported(_metadata(found, name, account), found.paths, account)


def tell_format(head: bytes) -> str:
    """Return which format a text that begins like this has: one of ``FORMATS``."""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    said = [line for line in lines if line.strip() and not is_comment(line)][:400]
    folded = sum(_FOLDED.fullmatch(line) is not None for line in said)
    if 2 * folded > len(said):
        return FOLDED
    for line, below in zip(said, [*said[1:], b""], strict=False):
        is_chain = below[:1] == b"\t" and is_frame(below)
        if is_chain and line[:1] != b"\t" and (read_head(line) or read_name(line)):
            return SCRIPT
    heads = sum(FIRST_HEAD.match(line) is not None for line in said)
    if 2 * heads > len(said):
        return SCRIPT
    return MAIL


class _Rejoined:
    """A stream with what was read of it already put back."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes, or everything."""
        if size < 0:
            head, self._head = self._head, b""
            return head + self._stream.read()
        if not self._head:
            return self._stream.read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head

    def readline(self, size: int) -> bytes:
        """Read up to and with the next line break, at most ``size`` bytes."""
        end = self._head.find(b"\n") + 1
        if end or len(self._head) >= size:
            return self.read(min(end or size, size))
        head, self._head = self._head, b""
        return head + self._stream.readline(size - len(head))


def _nothing(name: str, account: Account) -> FaultprofError:
    first = account.unread[0] if account.unread else None
    found = f" (line {first.line}: {first.reason})" if first else ""
    return bad_recording(
        f"nothing in {name} can be imported{found}", f"what can be imported: {_KNOWN}"
    )


def _metadata(found: _Found, name: str, account: Account) -> Metadata:
    _account_for(found.ledger, account)
    samples = sum(path.samples for path in found.paths)
    if samples > _MOST:
        raise FaultprofError(
            "the periods add up to more than a recording can hold", "import without --periods"
        )
    header = found.header
    imported = {
        "file": name,
        "format": found.kind,
        "lines": account.lines,
        "unread_lines": account.unread_lines,
        "unread": [{"line": u.line, "text": u.text, "reason": u.reason} for u in account.unread],
        "captured": header.captured,
        "perf": header.perf,
        "event": found.event,
        **found.more,
        "tables": tables_to_json(found.tables),
    }
    runs = (RunInfo(0, wall_s=found.wall_s, samples=samples),) if found.paths else ()
    return Metadata(
        command=header.command,
        kernel=header.kernel,
        mode=IMPORT,
        clock=plain_event(found.event),
        frequency=header.frequency,
        runs=runs,
        ledger=found.ledger,
        host=header.host,
        cpu=header.cpu,
        imported=imported,
    )


def _account_for(ledger: Ledger, account: Account) -> None:
    ledger.count("lines", account.lines)
    ledger.count("lines_not_read", account.unread_lines)
    if account.unread_lines:
        first = account.unread[0]
        ledger.degrade(
            f"{account.unread_lines} of {account.lines} lines could not be read, "
            f"the first is line {first.line}"
        )


def _read_script(stream: Any, name: str, choice: Choice, account: Account) -> _Found:
    counts = read_perf_script(stream, account)
    header = read_header(counts.comments)
    ledger = Ledger()
    events = counts.events
    event = _chosen_event(events, choice, name)
    found = _Found("perf script", header, [], ledger, event)
    if events:
        found.paths = list(counts.paths(event, periods=choice.periods))
    for other, samples in events.items():
        if other != event:
            ledger.count("samples_of_other_events", samples)
            ledger.info(f"{samples} samples of event {other} are not in here: --event {other}")
    ledger.count("samples_without_stack", counts.without_stack)
    ledger.count("lines_of_other_kinds", counts.passed_over)
    if choice.periods:
        ledger.info("counted are events (the sum of the samples' periods), not samples")
    elif counts.varies(event):
        ledger.info(
            "the samples' periods differ: perf report weighs by them, here each sample counts as "
            "one (--periods weighs too)"
        )
    if counts.first_s is not None and counts.last_s is not None:
        found.wall_s = max(0.0, counts.last_s - counts.first_s)
    return found


def _chosen_event(events: dict[str, int], choice: Choice, name: str) -> str:
    if choice.event is None or not events:
        return max(events, key=events.__getitem__, default="")
    matching = [one for one in events if choice.event in (one, plain_event(one))]
    if not matching:
        raise FaultprofError(
            f"{name} has no samples of event {choice.event}",
            f"it has: {', '.join(one or 'samples without an event' for one in events)}",
            ExitCode.USAGE,
        )
    return matching[0]


def _read_folded(stream: Any, _: str, __: Choice, account: Account) -> _Found:
    paths = read_folded(stream, account)
    return _Found("folded stacks", PerfHeader(), paths, Ledger())


def _read_mail(stream: Any, name: str, choice: Choice, account: Account) -> _Found:
    data = stream.read(_LARGEST_MAIL + 1)
    if len(data) > _LARGEST_MAIL:
        raise bad_recording(f"{name} is too large for a mail", "cut out what is to be imported")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # has the plus-minus sign, and never fails
    page = Page.of(text.replace("\r\n", "\n"))
    entries, remarks = read_graphs(page)
    others = {one.number for one in page.lines if not one.blank and not page.is_claimed(one)}
    graphs = [graph_paths(one) for one in reports(entries, remarks, others)]
    read = read_page(page)
    account.lines = len(page.lines) - (not page.lines[-1].text)
    for one in read.unread:
        account.refuse(one.line, one.text, one.reason)
    account.prose = read.prose
    found = _Found("mail", read_header(()), [], Ledger(), tables=read.tables)
    if graphs:
        graph = _chosen_graph(graphs, choice, name)
        # What stands last above a report is said of it.
        above = [text for line, text in remarks.items() if line < graph.first_line]
        found.header = read_header(reversed(above))
        found.event = found.header.event
        _take_graph(found, graph, graphs)
    return found


def _chosen_graph(graphs: Sequence[GraphPaths], choice: Choice, name: str) -> GraphPaths:
    part = choice.part
    if part is None and len(graphs) == 1:
        return graphs[0]
    if part is not None and 1 <= part <= len(graphs):
        return graphs[part - 1]
    known = "; ".join(
        f"{number}: lines {graph.first_line}-{graph.last_line}, {graph.title}"
        for number, graph in enumerate(graphs, 1)
    )
    raise FaultprofError(
        f"{name} holds {len(graphs)} call graphs", f"name one with --part: {known}", ExitCode.USAGE
    )


def _take_graph(found: _Found, graph: GraphPaths, graphs: Sequence[GraphPaths]) -> None:
    found.kind, found.paths = "perf report", graph.paths
    ledger = found.ledger
    ledger.info("counted are hundredths of a percent of the original's samples, as printed")
    ledger.info(
        "a node's own share is what its printed callees leave over: itself, and callees that are "
        "not in the text"
    )
    if graph.inverted:
        ledger.info("the text leads from callee to caller; here it stands the other way round")
    if graph.relative:
        ledger.degrade(
            "the percentages are of all callees of the node above (-g fractal), multiplied out "
            "here: what a function with callees has for itself is lost, and its callees have it"
        )
    for counter, amount in (
        ("other_call_graphs", len(graphs) - 1),
        ("entries_that_repeat_others", graph.repeated),
        ("nodes_raised_to_their_callees", graph.raised),
        ("annotations", len(graph.annotations)),
    ):
        ledger.count(counter, amount)
    found.more = {
        "call_graph_lines": [graph.first_line, graph.last_line],
        "annotations": [{"line": line, "text": text} for line, text in graph.annotations],
    }


_READERS: dict[str, Callable[[Any, str, Choice, Account], _Found]] = {
    SCRIPT: _read_script,
    FOLDED: _read_folded,
    MAIL: _read_mail,
}

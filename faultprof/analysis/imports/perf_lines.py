"""One line of ``perf script``: a sample's first line, a frame, or something to pass over.

Knows: how perf lays out fields, and where a name that may hold blanks begins and ends.
Leaves to others: how lines make a sample (``perf_script``), what names mean (``foreign_names``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

_MOST_LOOKED_AT = 200
_KERNEL_ADDRESS = 1 << 63

# A task's name may hold blanks and digits ("CPU 0/KVM"), so what follows it has to fit as a whole.
# A pattern gives name, time, period and event.
# Gaps are bounded: a line of nothing but blanks must not be tried from each of its blanks on.
_ID = rb"\s{1,40}-?\d{1,20}(?:/-?\d{1,20})?\s{1,40}"  # process, thread, or both
_CPU = rb"(?:\[\d+\]\s+)?"
_TIME = rb"(\d+\.\d{6,9}):\s+"
_EVENT = rb"([A-Za-z_]\S*):(?=\s|\Z)"
# Ten columns wide, so that it cannot be taken for a process behind a name that ends in a number.
_PERIOD = rb"(?:((?<=\s\s)\d{1,9}|\d{10,18})\s+)?"
_NAME = rb"\s*(\S.{0,63}?)"  # the kernel's names have up to 15 bytes, its own threads' up to 63
FIRST_HEAD = re.compile(_NAME + _ID + _CPU + rb"(?:" + _TIME + rb")?" + _PERIOD + _EVENT)
_OTHER_HEADS = (
    # Letters of -F +misc or a latency format may stand before the time.
    re.compile(_NAME + _ID + rb"[A-Za-z.0-9]{1,16}\s+" + _CPU + _TIME + _PERIOD + _EVENT),
    # No event: time, and maybe a period.
    re.compile(_NAME + _ID + _CPU + rb"(\d+\.\d{6,9}):(?:\s+(\d{1,18})(?=\s*\Z))?()(?=\s|\Z)"),
    # Neither event nor time.
    re.compile(_NAME + rb"\s{1,40}-?\d{1,20}(?:/-?\d{1,20})?(?:\s{1,40}\[\d{1,9}\])?\s*()()()\Z"),
    # An event only: -F comm,event or -F event.
    re.compile(rb"(?![#>])(?:(\S.{0,30}?)\s{1,40})??()" + _PERIOD + _EVENT + rb"\s*\Z"),
)
# With nothing but a name, only the frames below tell that it is one.
_NAME_ONLY = re.compile(rb"(?![#>])(\S.{0,30}?)\s{0,40}()()()\Z")

_ADDRESS = re.compile(rb"\s+([0-9a-f]{1,16})(?:\s(.*))?\Z")
_INLINE_FRAME = re.compile(rb"\s+([0-9a-f]{1,16}) (\S.*)\Z")
_OFFSET = re.compile(rb"\+0x[0-9a-f]+\Z")
_SOURCE = re.compile(rb"\s{2}(?:\S.*:\d+(?:\s.*)?|\?\?:0|\S+[+\[][0-9a-fx]+\]?)\s*\Z")
_RECORD = re.compile(rb".{0,80}?\bPERF_RECORD_[A-Z0-9_]+\b")
_INLINED = b" (inlined)"


class RawFrame(NamedTuple):
    """A frame as it is printed; what an inlined one is called depends on its caller."""

    symbol: str
    dso: str
    in_kernel: bool
    inlined: bool


class Head(NamedTuple):
    """A sample's first line: (name, time, period, event), and where they end."""

    fields: tuple[bytes | None, ...]
    end: int


def read_head(line: bytes) -> Head | None:
    """Return what a sample's first line says; None when it is none, or has nothing but a name."""
    if line[:1] == b"\t" or _RECORD.match(line):
        return None
    found = FIRST_HEAD.match(line)
    for pattern in () if found else _OTHER_HEADS:
        found = found or pattern.match(line)
    return Head(found.groups(), found.end()) if found else None


def read_name(line: bytes) -> Head | None:
    """Return what a sample's first line says that has nothing but a task's name."""
    found = _NAME_ONLY.match(line)
    return Head(found.groups(), found.end()) if found else None


def has_only_names(paragraphs: Sequence[bytes]) -> bool:
    """Return whether these samples' first lines are nothing but names (``-F comm,ip,sym``).

    One line does not tell: "my task 7" may be a name, or that of process 7.
    """
    heads = []
    for paragraph in paragraphs[:_MOST_LOOKED_AT]:
        lines = [line for line in paragraph.split(b"\n")[:_MOST_LOOKED_AT] if not is_comment(line)]
        heads += [top for top, below in itertools.pairwise(lines) if is_frame(below)]
    heads = [line for line in heads if not is_frame(line)]
    read = [read_head(line) for line in heads]
    has_more = any(head is not None and any(head.fields[1:]) for head in read)
    return not has_more and None in read


def is_frame(line: bytes) -> bool:
    """Return whether a line is a frame of a call chain."""
    return line[:1] in (b"\t", b" ") and read_frame(line) is not None


def read_inline_frame(line: bytes, head: Head) -> RawFrame | None:
    """Return the frame that stands behind the first line's fields, for want of a call chain."""
    found = _INLINE_FRAME.match(line, head.end)
    if found is None:
        return None
    return _frame(int(found[1], 16), found[2])


def read_frame(line: bytes) -> RawFrame | None:
    """Return the frame of a call chain's line; None when it is none.

    With an address the line begins with a tab, without one (``-F comm,sym``) with one blank.
    """
    found = _ADDRESS.match(line)
    if found is not None and (line[:1] == b"\t" or len(found[1]) > 8):
        return _frame(int(found[1], 16), found[2] or b"")
    if line[:1] == b" " and line[1:2] not in (b" ", b""):
        return _frame(0, line[1:])
    return None


def _frame(address: int, text: bytes) -> RawFrame | None:
    """Take ``symbol+0x10 (dso)`` apart; both may be missing, and both may hold blanks."""
    text = text.strip()
    inlined = text.endswith(_INLINED)
    dso = b""
    if inlined:
        text = text.removesuffix(_INLINED)
    elif (start := _last_group(text)) >= 0:
        text, dso = text[:start].rstrip(), text[start + 1 : -1]
    symbol = _OFFSET.sub(b"", text)
    in_kernel = bool(address & _KERNEL_ADDRESS)
    names = symbol.decode(errors="replace"), _plain(dso.decode(errors="replace"))
    return RawFrame(*names, in_kernel, inlined)


def _last_group(text: bytes) -> int:
    """Return where the last word in parentheses begins, -1 when no such word ends the text.

    A C++ symbol and a file's name may hold parentheses themselves, and blanks before them.
    """
    if text.count(b"(") < 2 and text.endswith(b")"):  # as nearly all are
        return text.rfind(b" (") + 1 or (0 if text.startswith(b"(") else -1)
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        byte = text[place]
        depth += (byte == 0x29) - (byte == 0x28)
        if depth <= 0:
            begins = byte == 0x28 and (place == 0 or text[place - 1] == 0x20)
            return place if begins and place < len(text) - 1 else -1
    return -1


def _plain(dso: str) -> str:
    """Return a file's name without the offset that ``-F dsoff`` puts behind it."""
    name, plus, offset = dso.rpartition("+0x")
    return name if plus and all(digit in "0123456789abcdef" for digit in offset) else dso


def is_comment(line: bytes) -> bool:
    """Return whether a line is one of perf's own remarks, as ``--header`` prints them."""
    return line[:1] == b"#"


def is_passed_over(line: bytes) -> bool:
    """Return whether a line is known to hold nothing that is imported.

    That is the source line below a frame (``-F srcline``) and the records of other kinds that
    ``--show-mmap-events`` and its like print.
    """
    return _SOURCE.match(line) is not None or _RECORD.match(line) is not None

r"""The text of ``perf script``: samples as paragraphs, or as single lines without call chains.

Knows: the text as perf 4.x to 7.x print it, with whatever fields ``-F`` chose of comm, pid, tid,
cpu, time, period, event, ip, sym, symoff, dso, srcline; inlined frames; several events::

    usemem  1234/1235  [001] 12688.650885:    1001001 cpu-clock:pppH:
        ffffffff8161f362 __alloc_frozen_pages_noprof+0x1a2 ([kernel.kallsyms])
                        12d8 touch+0x38 (/usr/bin/usemem)

Leaves to others: one line's parts (``perf_lines``), adding up and naming (``script_counts``).

Speed is a matter of not looking. A sample's first line differs from others in its time and period;
what stands before and behind them repeats. So do the lines below its first frame, return addresses
all, which are looked up as one piece of text. Only what is new is taken apart, with some ten times
the effort. Memory does not grow with the text: it is read in chunks, and the tables of known
pieces are emptied when they hold too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from faultprof.analysis.imports.account import Account
from faultprof.analysis.imports.perf_lines import (
    FIRST_HEAD,
    Head,
    has_only_names,
    is_comment,
    is_frame,
    is_passed_over,
    read_frame,
    read_head,
    read_inline_frame,
    read_name,
)
from faultprof.analysis.imports.script_counts import FRAME_BITS, Group, ScriptCounts

_CHUNK = 1 << 20  # fits into a processor's cache
_LONGEST_PARAGRAPH = 8 << 20  # a longer one is cut between lines: samples without call chains
_MOST_TEXT = 12 << 20  # bytes of known callers
_MOST_LINES = 1 << 17  # known lines of each kind
_ADDRESS_END = 17
_USER_CALLER = b"\n\t    "  # addresses are right-aligned, and the user's are the shorter ones
_GAP = b"\n\n"


def read_perf_script(stream: IO[bytes], account: Account) -> ScriptCounts:
    """Read the text of ``perf script`` to its end.

    Args:
        stream: where it comes from; need not be seekable.
        account: where lines that cannot be read are noted.
    """
    reader = _Reader(account)
    for text in _pieces(stream):
        reader.read(text)
    account.lines = reader.line
    return reader.counts


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the text in pieces that end between samples."""
    rest: list[bytes] = []  # the beginning of a paragraph; joined once, when its end has come
    size = 0
    while chunk := stream.read(_CHUNK):
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r", b"")
        # The gap may begin with the last byte of the chunk before.
        last = rest[-1][-1:] if rest else b""
        end = (last + chunk).rfind(_GAP) + 1 - len(last)
        if end <= 0 and size > _LONGEST_PARAGRAPH:
            end = chunk.rfind(b"\n") + 1 or len(chunk)
        if end <= 0:
            rest.append(chunk)
            size += len(chunk)
            continue
        yield b"".join((*rest, chunk[:end]))
        rest = [chunk[end:]] if end < len(chunk) else []
        size = len(chunk) - end
    if rest:
        yield b"".join(rest)


class _Reader:
    """Counts the samples of one piece of text after the other.

    Attributes:
        line: how many lines there were before the current piece.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.counts = ScriptCounts()
        self.line = 0
        self._heads: dict[tuple[bytes, bytes], Group] = {}
        self._leaves: dict[bytes, int] = {}
        self._in_kernel: dict[bytes, int] = {}  # by function, see _new_leaf
        self._in_user: dict[bytes, int] = {}
        self._tails: dict[bytes, int] = {b"": 0}
        self._callers: dict[bytes, tuple[int, ...]] = {}
        self._tail_bytes = 0
        self._open: tuple[Head, list[int]] | None = None  # the sample whose frames come next
        self._only_names: bool | None = None  # whether first lines are nothing but tasks' names

    def read(self, text: bytes) -> None:
        """Count the samples in ``text``, which begins and ends between samples."""
        heads, leaves, tails = self._heads, self._leaves, self._tails
        paragraphs = text.split(_GAP)
        if self._only_names is None:
            self._only_names = has_only_names(paragraphs)
        for number, paragraph in enumerate(paragraphs):
            # This is all that is done for nearly all samples, so it is done without calls.
            parts = paragraph.split(b"\n", 2)
            words = parts[0].rsplit(None, 2)
            if len(words) == 3 and len(parts) > 1:
                before, period, event = words
                group = heads.get((before[: before.rfind(b".")], event))
                leaf = parts[1]
                frame = leaves.get(leaf)
                tail = parts[2] if len(parts) == 3 else b""
                stack = tails.get(tail)
                if group is None:
                    group = self._new_head(parts[0], words)
                if frame is None:
                    frame = self._new_leaf(leaf)
                if stack is None:
                    stack = self._new_tail(tail)
                if group is not None and frame >= 0 and stack >= 0:
                    key = stack << FRAME_BITS | frame
                    group.counts[key] = group.counts.get(key, 0) + 1
                    if period != group.first_period:
                        group.note_period(key, period)
                    continue
            self._read_lines(paragraph, _line_counter(paragraphs, number, self.line))
        self.line += _line_breaks(text) + (not text.endswith(b"\n"))
        self.counts.note_times(paragraphs)
        self._shed()

    def _new_head(self, line: bytes, words: list[bytes]) -> Group | None:
        """Return whose samples such lines are of, None when they are not of the usual form."""
        head = FIRST_HEAD.match(line)
        if head is None or None in head.groups():
            return None
        name, time, period, event = head.groups()
        before = words[0]
        if [period, event + b":"] != words[1:] or not before.endswith(time + b":"):
            return None
        group = self.counts.group(name, event, period)
        self._heads[before[: before.rfind(b".")], words[2]] = group
        return group

    def _new_leaf(self, line: bytes) -> int:
        """Return the number of a frame's line, -1 when it is something else."""
        # A function has many addresses, and others in each process: the rest of the line repeats.
        # Addresses are 16 columns wide, and those of the kernel begin with a digit from 8 on.
        known = self._in_kernel if line[1:2] >= b"8" else self._in_user
        function = _without_offset(line[_ADDRESS_END:])
        number = known.get(function)
        if number is None:
            frame = read_frame(line) if line[:1] == b"\t" else None
            number = -1 if frame is None else self.counts.frame_number(frame)
            known[function] = number
        self._leaves[line] = number
        return number

    def _new_tail(self, text: bytes) -> int:
        """Return the number of the stack that these lines are, -1 when not all are frames."""
        # Kernel and user callers repeat apart from each other, in every process the kernel's.
        text = text.rstrip(b"\n")
        cut = text.find(_USER_CALLER) + 1
        pieces = (text[: cut - 1], text[cut:]) if cut else (text,)
        stack: tuple[int, ...] = ()
        for piece in pieces:
            stack += self._callers.get(piece) or self._new_callers(piece)
        number = -1 if -1 in stack else self.counts.stack_number(stack)
        self._tails[text] = number
        self._tail_bytes += len(text)
        return number

    def _new_callers(self, text: bytes) -> tuple[int, ...]:
        """Return the numbers of these lines' frames, -1 for a line that is none."""
        lines = text.split(b"\n")
        known = map(self._leaves.get, lines)
        stack = tuple(
            self._new_leaf(line) if number is None else number
            for line, number in zip(lines, known, strict=True)
        )
        self._callers[text] = stack
        self._tail_bytes += len(text)
        return stack

    def _shed(self) -> None:
        """Forget pieces of text before they take too much memory."""
        if self._tail_bytes > _MOST_TEXT:
            self._tails = {b"": 0}
            self._callers = {}
            self._tail_bytes = 0
        if len(self._leaves) > _MOST_LINES:
            self._leaves = {}
            self._in_kernel = {}
            self._in_user = {}
        if len(self._heads) > _MOST_LINES:
            self._heads = {}

    def _read_lines(self, text: bytes, line_number: Callable[[int], int]) -> None:
        """Read samples line by line, whatever they look like."""
        lines = text.split(b"\n")
        for place, line in enumerate(lines):
            if not line or line.isspace() or self._read_frame_line(line):
                continue
            below = lines[place + 1] if place + 1 < len(lines) else b""
            if is_comment(line):
                self.counts.comment(line)
            elif head := self._head(line, below):
                self._close()
                self._begin(head, line)
            elif is_passed_over(line):
                self.counts.passed_over += 1
            else:
                self._refuse(line, place, line_number)
        self._close()

    def _read_frame_line(self, line: bytes) -> bool:
        """Add a line's frame to the open sample, if it is one."""
        if self._open is None or line[:1] not in (b"\t", b" "):
            return False
        if line[:1] == b" " and (is_passed_over(line) or FIRST_HEAD.match(line)):
            return False
        frame = read_frame(line)
        if frame is not None:
            self._open[1].append(self.counts.frame_number(frame))
        return frame is not None

    def _head(self, line: bytes, below: bytes) -> Head | None:
        if not self._only_names:
            return read_head(line)
        return read_name(line) if is_frame(below) else None

    def _begin(self, head: Head, line: bytes) -> None:
        frame = read_inline_frame(line, head)
        self._open = (head, [] if frame is None else [self.counts.frame_number(frame)])
        if frame is not None:  # the line is a whole sample
            self._close()

    def _close(self) -> None:
        if self._open is not None:
            head, numbers = self._open
            self.counts.add(head.fields, tuple(numbers))
            self._open = None

    def _refuse(self, line: bytes, place: int, line_number: Callable[[int], int]) -> None:
        number = 0 if self.account.is_full else line_number(place)
        reason = "neither a sample's first line nor a frame of one"
        self.account.refuse(number, line.decode(errors="replace"), reason)


def _without_offset(text: bytes) -> bytes:
    """Return `` symbol+0x1f (dso)`` without the offset."""
    start = text.find(b"+0x")
    if start < 0:
        return text
    end = text.find(b" ", start)
    return text[:start] + text[end:] if end >= 0 else text[:start]


def _line_breaks(text: bytes) -> int:
    """Count line breaks; bytes.count() takes a sixth of the whole time where they are frequent."""
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def _line_counter(paragraphs: list[bytes], number: int, before: int) -> Callable[[int], int]:
    """Return what gives the number of a line of a paragraph; counting is for the few that ask."""

    def count(place: int) -> int:
        above = sum(paragraph.count(b"\n") + 2 for paragraph in paragraphs[:number])
        return before + above + place + 1

    return count

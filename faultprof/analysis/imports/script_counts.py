"""Samples of ``perf script``, added up by path while they are read.

Knows: numbers for frames and stacks, counts by event, and how raw frames become a path.
Leaves to others: reading the text (``perf_script``), what perf's names mean (``foreign_names``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from faultprof.analysis.imports.foreign_names import NO_STACK, frame_of, is_kernel_dso
from faultprof.analysis.imports.perf_lines import RawFrame
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.schema import MAX_DEPTH

_MOST_COMMENTS = 500
FRAME_BITS = 32  # a sample's key: the number of its callers' stack, then that of its own frame
_NO_FRAME = (1 << FRAME_BITS) - 1
_TIME = re.compile(rb"(?:\s|\A)(\d+\.\d{6,9}):(?=\s|\Z)")

Fields = tuple[bytes | None, ...]  # name, time, period, event


@dataclass(slots=True)
class Group:
    """The samples of one task name and event: by path, and what periods add to the first one."""

    comm: str
    event: str
    first_period: bytes | None
    counts: dict[int, int] = field(default_factory=dict)
    excess: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def note_period(self, key: int, period: bytes | None) -> None:
        """Note that a sample has another period than the first one."""
        self.excess[key] += int(period or 1) - int(self.first_period or 1)


@dataclass(slots=True)
class ScriptCounts:
    """What was read so far.

    Attributes:
        comments: lines that begin with ``#``.
        first_s, last_s: times of the first and the last sample, in seconds; None without times.
        without_stack: samples that have neither address nor call chain.
        passed_over: lines of other kinds: source lines, records of memory maps and tasks.
    """

    comments: list[str] = field(default_factory=list)
    first_s: float | None = None
    last_s: float | None = None
    without_stack: int = 0
    passed_over: int = 0
    _frames: dict[RawFrame, int] = field(default_factory=dict)
    _stacks: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    _groups: dict[tuple[bytes | None, bytes | None], Group] = field(default_factory=dict)

    def frame_number(self, frame: RawFrame) -> int:
        """Return the number of a frame."""
        return self._frames.setdefault(frame, len(self._frames))

    def stack_number(self, stack: tuple[int, ...]) -> int:
        """Return the number of a stack of callers' frames, the innermost first."""
        return self._stacks.setdefault(stack, len(self._stacks))

    def group(self, name: bytes | None, event: bytes | None, period: bytes | None) -> Group:
        """Return the group of a task's name and an event; a new one begins with this period."""
        group = self._groups.get((name, event))
        if group is None:
            group = self._groups[name, event] = Group(_text(name), _text(event), period)
        return group

    def add(self, fields: Fields, stack: tuple[int, ...]) -> None:
        """Count a sample whose frames have these numbers, its own first; maybe none."""
        name, _, period, event = fields
        group = self.group(name, event, period)
        frame = stack[0] if stack else _NO_FRAME
        self.without_stack += not stack
        key = self.stack_number(stack[1:]) << FRAME_BITS | frame
        group.counts[key] = group.counts.get(key, 0) + 1
        if period != group.first_period:
            group.note_period(key, period)

    def comment(self, line: bytes) -> None:
        """Keep a remark of perf's."""
        if len(self.comments) < _MOST_COMMENTS:
            self.comments.append(line.decode(errors="replace"))

    def note_times(self, paragraphs: Sequence[bytes]) -> None:
        """Note the times of the first and the last of these samples; perf sorts them by time."""
        if self.first_s is None:
            found = next((one for one in paragraphs[:64] if _TIME.search(one)), b"")
            self.first_s = _time(found.lstrip(b"\n").partition(b"\n")[0])
        for one in reversed(paragraphs[-3:]):
            last = _time(one.strip(b"\n").partition(b"\n")[0])
            if last is not None:
                self.last_s = last
                return

    @property
    def events(self) -> dict[str, int]:
        """How many samples each event has, in the order of the text; "" is one without name."""
        found: dict[str, int] = {}
        for group in self._groups.values():
            if samples := sum(group.counts.values()):
                found[group.event] = found.get(group.event, 0) + samples
        return found

    def varies(self, event: str) -> bool:
        """Return whether an event's samples have different periods."""
        groups = [group for group in self._groups.values() if group.event == event]
        return any(g.excess for g in groups) or len({g.first_period for g in groups}) > 1

    def paths(self, event: str, *, periods: bool) -> Iterator[PathCount]:
        """Yield the paths of an event, root first, with their samples or the sum of periods."""
        frames, stacks = list(self._frames), list(self._stacks)
        known: dict[int, tuple[Frame, ...]] = {}
        for group in self._groups.values():
            if group.event != event:
                continue
            for key, count in group.counts.items():
                if key not in known:
                    known[key] = _path(key, frames, stacks)
                weight = count
                if periods:
                    weight = count * int(group.first_period or 1) + group.excess.get(key, 0)
                yield PathCount(group.comm, known[key], weight)


def _text(name: bytes | None) -> str:
    return (name or b"").decode(errors="replace")


def _time(line: bytes) -> float | None:
    found = _TIME.search(line)
    return float(found[1]) if found else None


def _path(key: int, frames: list[RawFrame], stacks: list[tuple[int, ...]]) -> tuple[Frame, ...]:
    if key & _NO_FRAME == _NO_FRAME:
        return (NO_STACK,)
    raw = [frames[number] for number in (key & _NO_FRAME, *stacks[key >> FRAME_BITS])]
    named: list[Frame] = []
    host = raw[-1]  # the frame that inlined ones are part of: the next one that is not inlined
    for one in reversed(raw):
        if not one.inlined:
            host = one
        in_kernel = one.in_kernel or is_kernel_dso(host.dso)
        named.append(frame_of(one.symbol, host.dso, in_kernel=in_kernel, inlined=one.inlined))
    return tuple(named[:MAX_DEPTH])

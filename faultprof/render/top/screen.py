"""The picture of the live view: lines for a terminal of a given size.

Knows: what stands where, what is left out when there is little room, how a course is drawn.
Leaves to others: the figures (``analysis.live``), getting lines onto a terminal (``cli``).

Every line fits: names are made harmless and cut, and characters of two columns count as two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faultprof.analysis.live import COURSE, Course, Row, Sort, View
from faultprof.render.names import label
from faultprof.render.terminal import UNICODE, Terminal, sanitise
from faultprof.render.top.state import KEYS, State
from faultprof.render.units import NOTHING, duration, three_digits

LEAST = (40, 8)  # columns and rows, below which there is no room for a picture
_HANDLED = 3  # lines that the functions that handle faults may take
_WAITS = 3
_WIDE = 100  # columns, from which on courses are drawn in full
_TITLES = {
    Sort.OWN: "self",
    Sort.INCLUSIVE: "inclusive",
    Sort.CALLS: "calls/s",
    Sort.CHANGE: "trend",
    Sort.NAME: "function",
}
# Bits of an error code, in words; "kernel" is a part of the others.
_KINDS = (
    ("read", "read"),
    ("write", "write"),
    ("protection", "write-protected"),
    ("exec", "exec"),
)
_COURSES = "▁▂▃▄▅▆▇█"
_COURSES_ASCII = "_.-=+*%#"


@dataclass(frozen=True, slots=True)
class About:
    """What does not change from tick to tick: what is recorded, and how.

    Attributes:
        title: the command, or what else is watched.
        how: in short: ``sampling at 999 Hz``.
        elapsed_s: seconds since the beginning.
    """

    title: str
    how: str
    elapsed_s: float = 0.0


def screen_lines(
    view: View, state: State, about: About, size: tuple[int, int], terminal: Terminal
) -> list[str]:
    """Return as many lines as there are rows, none wider than the columns.

    Args:
        view: the figures.
        state: how the view is set.
        about: what is recorded.
        size: columns and rows.
        terminal: what can be shown.
    """
    columns, rows = size
    if columns < LEAST[0] or rows < LEAST[1]:
        return [fitted("too small for a picture: q ends", columns), *[""] * rows][:rows]
    screen = _Screen(terminal, columns)
    head = list(screen.head(view, about))
    foot = [screen.foot(view, state)]
    room = rows - len(head) - len(foot)
    if room < 4:  # the rows are what one looks for first
        head, room = head[:2], rows - 3
    body = screen.help() if state.help else screen.table(view, state, room)
    lines = [*head, *list(body)[:room]]
    lines += [""] * (rows - len(foot) - len(lines))
    return [*lines, *foot]


def rows_room(size: tuple[int, int]) -> int:
    """Return how many rows can ever be on a screen of this size."""
    return max(size[1], 1)


class _Screen:
    """Draws the parts of one picture."""

    def __init__(self, terminal: Terminal, columns: int) -> None:
        self._terminal = terminal
        self._glyphs = terminal.glyphs
        self._columns = columns
        self._seconds = COURSE if columns >= _WIDE else COURSE // 2
        self._bars = _COURSES if terminal.glyphs is UNICODE else _COURSES_ASCII

    def head(self, view: View, about: About) -> Iterator[str]:
        """Yield the lines above the table."""
        elapsed = f"{about.elapsed_s:,.0f} s"
        room = self._columns - len(elapsed) - 1
        title = fitted(f"faultprof top  {sanitise(about.title)}", room, self._glyphs.cut)
        yield title + " " * (room - width_of(title) + 1) + elapsed
        yield self._line("faults", self._faults(view))
        yield self._line("", self._kinds(view))
        for number, text in enumerate(self._handled(view)):
            yield self._line("" if number else "handled", text)
        yield from self._waits(view)
        yield self._line("cost", self._cost(view, about))
        lost = ", ".join(f"{count:,} {sanitise(text)}" for text, count in view.lost.items())
        if lost:
            yield self._line("lost", lost)

    def table(self, view: View, state: State, room: int) -> Iterator[str]:
        """Yield the title of the columns and the rows that there is room for."""
        has_calls = any(row.calls_per_s is not None for row in view.rows)
        times = f" {'calls/s':>9} {'avg':>8}" if has_calls else ""
        name = "function" if state.functions else "function < caller"
        marked = f"{'self':>7} {'incl.':>7}{times}  {'trend':<{self._seconds + 7}}  {name}"
        yield self._terminal.dim(fitted(marked, self._columns))
        if not view.rows:
            yield fitted("nothing yet", self._columns)
        first = min(state.first, max(0, len(view.rows) - 1))
        for row in view.rows[first : first + room - 1]:
            yield self._row(row, has_calls)

    def help(self) -> Iterator[str]:
        """Yield what the keys do."""
        yield ""
        for keys, text in KEYS:
            yield fitted(f"  {keys:<28}{text}", self._columns, self._glyphs.cut)
        yield ""
        notes = (
            "self, incl.: percent of all samples (or of all time traced) of the last 5 s;",
            "trend: self, second by second, and its change in percentage points",
        )
        for text in notes:
            yield fitted(f"  {text}", self._columns, self._glyphs.cut)

    def foot(self, view: View, state: State) -> str:
        """Return the last line."""
        if state.message:
            return fitted(sanitise(state.message), self._columns, self._glyphs.cut)
        what = "functions" if state.functions else "nodes"
        pause = "PAUSED, space goes on" if state.paused else "space pause"
        text = (
            f"q end  {pause}  w write  h help  sort s i c t n: {_TITLES[state.sort]}  "
            f"f {view.count:,} {what}"
        )
        return self._terminal.dim(fitted(text, self._columns, self._glyphs.cut))

    def _line(self, key: str, text: str) -> str:
        return fitted(f"{key:<8}{text}", self._columns, self._glyphs.cut)

    def _faults(self, view: View) -> str:
        minor, major = view.rate("minor"), view.rate("major")
        if minor is None or major is None:
            return "no second has passed yet"
        course = tuple(a + b for a, b in zip(minor.course, major.course, strict=True))
        return (
            f"{_number(minor.per_s + major.per_s)}/s {self._course(course)}  "
            f"minor {_number(minor.per_s)}  major {_number(major.per_s)}"
        )

    def _kinds(self, view: View) -> str:
        said = [
            f"{word} {_number(rate.per_s)}"
            for kind, word in _KINDS
            if (rate := view.rate(kind)) is not None
        ]
        kernel = view.rate("kernel")
        if kernel is not None:
            said.append(f"(in the kernel {_number(kernel.per_s)})")
        return "  ".join(said) if said or not view.faults else "kinds are not told apart here"

    def _handled(self, view: View) -> Iterator[str]:
        """Yield lines of functions that handle faults, as many to a line as fit."""
        line, lines = "", 0
        for rate in sorted(view.handled, key=lambda one: -one.per_s):
            text = f"{sanitise(rate.name)} {_number(rate.per_s)}"
            if line and width_of(f"{line}  {text}") > self._columns - 8:
                yield line
                lines += 1
                line = ""
            if lines == _HANDLED:
                return
            line = f"{line}  {text}" if line else text
        if line:
            yield line

    def _waits(self, view: View) -> Iterator[str]:
        if view.waits is None:
            return
        if not view.waits:
            yield self._line("locks", "nothing was contended")
        for number, one in enumerate(view.waits[:_WAITS]):
            waited = duration(one.waited * 1e9, self._glyphs)
            text = f"{_number(one.per_s):>7}/s  waited {waited}/s {self._course(one.course)}"
            yield self._line("" if number else "locks", f"{text}  {sanitise(one.name)}")

    def _cost(self, view: View, about: About) -> str:
        probes = NOTHING if view.probes_percent is None else f"{view.probes_percent:.2f}%"
        return (
            f"this view {view.own_percent:.1f}%, its probes {probes} of a CPU; "
            f"{sanitise(about.how)}"
        )

    def _row(self, row: Row, has_calls: bool) -> str:
        calls = NOTHING if row.calls_per_s is None else _number(row.calls_per_s)
        times = f" {calls:>9} {duration(row.avg_ns, self._glyphs):>8}" if has_calls else ""
        name = label(row.frame)
        if row.caller is not None:
            name += f" < {label(row.caller)}"
        change = f"{row.change:+.1f}" if abs(row.change) >= 0.05 else ""
        trend = f"{self._course(row.course)} {change:>6}"
        before = f"{row.own:6.2f}% {row.inclusive:6.2f}%{times}  {trend}  "
        line = fitted(before + name, self._columns, self._glyphs.cut)
        own = f"{row.own:6.2f}%"
        return self._terminal.heat(own, row.own) + line[len(own) :]

    def _course(self, course: Course) -> str:
        """Return a column for each second, the highest one full; nothing draws nothing."""
        course = course[-self._seconds :]
        most = max(course, default=0)
        columns = "".join(
            " " if value <= 0 else self._bars[_step(value, most, len(self._bars))]
            for value in course
        )
        return columns.rjust(self._seconds)


def _step(value: float, most: float, steps: int) -> int:
    return min(steps - 1, int(value / most * steps))


def _number(number: float) -> str:
    """Return a rate: small ones with digits behind the point, large ones with separators."""
    return three_digits(number) if number < 10 else f"{number:,.0f}"


def width_of(text: str) -> int:
    """Return how many columns printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(char) for char in text)


def _columns_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def fitted(text: str, columns: int, cut: str = "") -> str:
    """Return ``text``, or as much of it as fits, with ``cut`` at its end."""
    if width_of(text) <= columns:
        return text
    room, taken = columns - len(cut), []
    for char in text:
        room -= _columns_of(char)
        if room < 0:
            break
        taken.append(char)
    return "".join(taken) + cut if columns > 0 else ""


def plain_lines(lines: Sequence[str]) -> list[str]:
    """Return a picture for a pipe: without the empty lines that fill a screen, and its keys."""
    kept = list(lines[:-1])
    while kept and not kept[-1]:
        kept.pop()
    return [*kept, ""]

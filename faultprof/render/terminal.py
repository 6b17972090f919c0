"""What may go to a terminal: harmless text, colour, glyphs, and how wide a line may be.

Knows: which characters are dangerous to print, and what the output stream can show.
Leaves to others: what is printed (``text``).

Names of functions, tasks, files and commands come from whatever was recorded. Every one of them
passes :func:`sanitise` before it is printed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

PIPE_WIDTH = 80  # what layouts aim at where there is no terminal

_RED, _GREEN, _DIM, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


def sanitise(text: str) -> str:
    r"""Return ``text`` with everything that is not plainly visible as an escape such as ``\x1b``.

    That covers control characters and so terminal escape sequences, line breaks, marks that
    reorder text (bidi) or join it invisibly, and bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """How what is drawn looks; each branch glyph is three columns wide.

    ``cut`` ends shortened text, ``micro`` begins micro-units, ``blocks`` fill a column of a bar by
    rising parts from none to all of it, ``mark`` points at a bar, ``times`` and ``most`` stand
    before how often something happens, in the mean and at most.
    """

    branch: str
    last: str
    rail: str
    blank: str
    cut: str
    micro: str
    blocks: str
    mark: str
    times: str
    most: str


UNICODE = Glyphs("├─ ", "└─ ", "│  ", "   ", "…", "µ", " ▏▎▍▌▋▊▉█", "◀", "×", "≤")
ASCII = Glyphs("|- ", "`- ", "|  ", "   ", "~", "u", " #", "<", "x", "<=")


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the output can show.

    Args:
        width: columns; None where lines may be of any length, as in a pipe.
        colour: whether escape sequences for colour are wanted.
        glyphs: how trees are drawn.
    """

    width: int | None = None
    colour: bool = False
    glyphs: Glyphs = UNICODE

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Terminal:
        """Find out what ``stream`` can show; ``NO_COLOR`` and ``TERM=dumb`` turn colour off."""
        glyphs = UNICODE if _encodes(stream, "├─│└…µ█◀×≤") else ASCII
        if not stream.isatty():
            return cls(glyphs=glyphs)
        colour = not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")
        return cls(shutil.get_terminal_size().columns, colour, glyphs)

    @property
    def layout_width(self) -> int:
        """Columns that layouts aim at."""
        return self.width or PIPE_WIDTH

    def heat(self, text: str, percent: float) -> str:
        """Colour a percentage as perf does: red from 5, green from 0.5 percent."""
        if not self.colour or percent < 0.5:
            return text
        return f"{_RED if percent >= 5 else _GREEN}{text}{_RESET}"

    def dim(self, text: str) -> str:
        """Make ``text`` step back."""
        return f"{_DIM}{text}{_RESET}" if self.colour and text.strip() else text

    def shorten(self, text: str, room: int) -> str:
        """Cut ``text`` to ``room`` columns (at least one), visibly, on a terminal only."""
        if self.width is None or len(text) <= room:
            return text
        return text[: max(0, room - 1)] + self.glyphs.cut


def _encodes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Write ``lines`` and flush, so that a reader's end is noticed here.

    Raises:
        BrokenPipeError: when the reader (``head``, ``less``) has gone.
    """
    for line in lines:
        try:
            stream.write(line + "\n")
        except UnicodeEncodeError as error:
            # A name in letters that the stream's encoding lacks must not end the report.
            plain = line.encode(error.encoding, "backslashreplace").decode(error.encoding)
            stream.write(plain + "\n")
    stream.flush()

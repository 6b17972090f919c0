"""A terminal that a picture is drawn on again and again, and keys that are read from it.

Knows: termios, the few escape sequences that every terminal emulator has, and that a terminal can
go away at any moment.
Leaves to others: what is drawn and what keys mean (``render.top``).

Names never get here unsanitised: the sequences below are the only ones that are written.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

# Another screen, no cursor, no wrapping of long lines, empty; and back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _TO_END = "\x1b[H", "\x1b[K"

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1bOH": "home",
}


class TerminalGoneError(Exception):
    """Nobody looks any more: the terminal was closed, the connection broke, the pipe's reader left.

    No failure, but an end.
    """


class Screen:
    """The terminal behind standard input and output, ours while it is open.

    Ctrl-C still ends; Ctrl-Z and Ctrl-S do nothing, as the picture would stay behind.
    """

    is_terminal = True

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._saved: list[Any] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, as they are now.

        Raises:
            TerminalGoneError: there is no terminal any more.
        """
        with _noticing_the_end():
            size = os.get_terminal_size(self._out)
        # Some serial lines do not know their size.
        return size.columns or 80, size.lines or 24

    def __enter__(self) -> Self:
        sys.stdout.flush()
        with _noticing_the_end():
            self._saved = termios.tcgetattr(self._in)
            changed = termios.tcgetattr(self._in)
            changed[0] &= ~termios.IXON
            changed[3] &= ~(termios.ICANON | termios.ECHO)
            changed[6][termios.VSUSP] = b"\0"
            termios.tcsetattr(self._in, termios.TCSADRAIN, changed)
        self._write(_ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(TerminalGoneError):
            self._write(_LEAVE)
        if self._saved is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._saved)

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines that fit, as many as there are rows.

        Raises:
            TerminalGoneError: there is no terminal any more.
        """
        # Erased first: behind a line that ends in the last column, that one would go.
        self._write(_HOME + "\r\n".join(_TO_END + line for line in lines))

    def keys(self, timeout: float) -> list[str]:
        """Return the keys that were pressed, after ``timeout`` seconds or as soon as there is one.

        Raises:
            TerminalGoneError: there is no terminal any more.
        """
        if not select.select([self._in], [], [], timeout)[0]:
            return []
        with _noticing_the_end():
            data = os.read(self._in, 1024)
        if not data:
            raise TerminalGoneError
        return parsed_keys(data.decode(errors="replace"))

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "ascii", "replace")
        with _noticing_the_end():
            while data:
                data = data[os.write(self._out, data) :]


class Pipe:
    """What takes the place of a screen where the output is no terminal: picture after picture."""

    is_terminal = False
    size = (100, 40)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def draw(self, lines: Sequence[str]) -> None:
        """Print lines.

        Raises:
            TerminalGoneError: the reader has gone.
        """
        with _noticing_the_end():
            print(*lines, sep="\n", flush=True)

    def keys(self, timeout: float) -> list[str]:
        """Wait; there are no keys."""
        select.select([], [], [], timeout)
        return []


def open_screen() -> Screen | Pipe:
    """Return the terminal, or what does where there is none."""
    if (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "") not in ("", "dumb")
    ):
        return Screen()
    return Pipe()


def parsed_keys(text: str) -> list[str]:
    """Return the keys in what a terminal sent; sequences that nobody knows are left out."""
    keys = []
    while text:
        if text[0] != "\x1b":
            keys.append(text[0])
            text = text[1:]
            continue
        known = next((one for one in _SEQUENCES if text.startswith(one)), None)
        keys.append(_SEQUENCES[known] if known else "escape")
        text = text[len(known) :] if known else _after_unknown(text)
    return keys


def _after_unknown(text: str) -> str:
    """Return what follows a sequence: ESC alone, ESC and a letter, or ESC [ parameters letter."""
    if text[1:2] not in ("[", "O"):
        return text[1:]
    for place, char in enumerate(text[2:], 2):
        if "@" <= char <= "~":
            return text[place + 1 :]
    return ""


@contextlib.contextmanager
def _noticing_the_end() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as error:
        raise TerminalGoneError from error

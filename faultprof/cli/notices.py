"""What commands say on standard error besides errors, how far work has come, and ``--quiet``.

Knows: that on a terminal progress is one line which the next replaces, and that in a pipe lines
stay.
Leaves to others: errors, which ``cli`` prints whatever is asked for; what the steps are
(``progress``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from faultprof import progress
from faultprof.progress import Step

_SELDOM = 5.0  # seconds between two lines about steps that are not worth one each
_OFTEN = 0.1  # seconds between two pictures of a terminal's line
_ERASE = "\r\x1b[K"

quiet = False


class Shown:
    """Shows steps on a stream, by its own clock.

    Args:
        stream: where; None for standard error, as it is then.
        verbose: a line for each step that is worth one, also on a terminal.
        clock: gives seconds.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = stream
        self._verbose = verbose
        self._clock = clock
        self._at = float("-inf")
        self._began = clock()
        self._pending = False

    @property
    def _stream(self) -> TextIO:
        return self._given or sys.stderr

    def show(self, step: Step) -> None:
        """Show where some work is."""
        text = f"faultprof: {step_text(step)}"
        if self._stream.isatty() and not step.shares and not self._verbose:
            self._replace("" if step.over else text, hurry=step.over)
        elif step.every or self._clock() - max(self._at, self._began) >= _SELDOM:
            self._at = self._clock()
            print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Take the line of a terminal away, so that another can be written."""
        if self._pending:
            print(_ERASE, end="", file=self._stream, flush=True)
            self._pending = False

    def _replace(self, text: str, *, hurry: bool) -> None:
        if not hurry and self._clock() - self._at < _OFTEN:
            return
        self._at = self._clock()
        self.clear()
        if text:
            from faultprof.render.terminal import Terminal

            terminal = Terminal.of(self._stream)
            room = terminal.layout_width - 1
            print(terminal.shorten(text, room), end="", file=self._stream, flush=True)
            self._pending = True


_shown = Shown()


def listen(*, verbose: bool) -> None:
    """Show progress from now on."""
    global _shown
    _shown = Shown(verbose=verbose)
    progress.listener = _shown.show


def silence() -> None:
    """Show no progress any more."""
    progress.listener = None


def clear() -> None:
    """Take a line of progress away, before anything else is printed."""
    _shown.clear()


def say(line: str) -> None:
    """Print a line for the user."""
    clear()
    print(f"faultprof: {line}", file=sys.stderr)


def tell(text: str) -> None:
    """Say one line, unless nothing is to be said."""
    from faultprof.render.terminal import sanitise

    if not quiet:
        say(sanitise(text))


def step_text(step: Step) -> str:
    """Return a step in words: ``block 3 of 10: 1.2 s, about 8 s left``."""
    detail = f": {step.detail}" if step.detail else ""
    left = "" if step.left_s is None or step.over else f", about {_rough(step.left_s)} left"
    return f"{step.what} {step.done} of {step.total}{detail}{left}"


def _rough(seconds: float) -> str:
    """Return a time as rough as a guess deserves."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 100 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"

"""The loop of the live view: look, draw, wait for a key, a signal or the end.

Knows: when to look and to draw, and what ends it all.
Leaves to others: figures (``capture.live``, ``analysis.live``), pictures and keys
(``render.top``), the terminal (``screen``), the recording itself (``capture.session``).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from faultprof.analysis.live import History, View
from faultprof.capture.live import LiveReader
from faultprof.capture.wait import ENDING, End, pass_on
from faultprof.cli.screen import Pipe, Screen, TerminalGoneError, open_screen
from faultprof.errors import FaultprofError
from faultprof.render.terminal import Terminal
from faultprof.render.top.screen import About, plain_lines, rows_room, screen_lines
from faultprof.render.top.state import Action, State, press

if TYPE_CHECKING:
    from faultprof.capture.engines import Engines
    from faultprof.capture.watch import Watched

# How long a key, a signal, the end of the command or another size of the terminal may wait.
_POLL_SECONDS = 0.1
# How long a message stays where the keys are listed.
_MESSAGE_SECONDS = 5.0


@dataclass
class TopView:
    """Stands by while a session records, and shows what it records.

    Attributes:
        title: what is recorded.
        interval: seconds between two looks.
        keeps: whether the recording is written at its end.
        streams: what the command has in the place of its standard streams.
        terminal: what can be shown.
        output: the file that recordings are written to.
        owner: whose cache of debuginfo is used; None for the caller's.
        quit: whether the user has ended it by a key.
    """

    title: str
    interval: float
    keeps: bool
    streams: Mapping[int, int]
    terminal: Terminal
    output: str
    owner: tuple[int, int] | None = None
    quit: bool = False
    _reader: LiveReader | None = None
    _about: About = field(default_factory=lambda: About("", ""))
    _state: State = field(default_factory=State)
    _history: History = field(default_factory=History)
    _view: View = field(default_factory=View)
    _said_until: float = 0.0

    def attach(self, engines: Engines) -> None:
        """Get ready to look at the engines."""
        self._reader = LiveReader(engines, self.owner)
        self._about = About(self.title, engines.summary)

    def close(self) -> None:
        """Let go of the engines; safe to repeat."""
        if self._reader is not None:
            self._reader.close()

    def wait(self, watched: Watched) -> End:
        """Show the recording until it ends, and return why it did."""
        assert self._reader is not None, "attached"
        self._reader.start()
        try:
            with open_screen() as screen:
                return self._loop(watched, screen)
        except TerminalGoneError:
            # Whoever looked has gone; where that was a terminal a SIGHUP is on its way, too.
            if watched.command is not None:
                watched.command.kill(signal.SIGHUP)
            return End.SIGNAL

    def _loop(self, watched: Watched, screen: Screen | Pipe) -> End:
        began = time.monotonic()
        due, size = began + self.interval, screen.size
        ends_at = began + watched.duration if watched.duration is not None else float("inf")
        self._draw(screen, size, 0.0)
        while True:
            now = time.monotonic()
            end = self._end(watched, now >= ends_at)
            if end is not None:
                if not screen.is_terminal:  # where this stays, what came last is of interest
                    self._look()
                    self._draw(screen, size, now - began)
                return end
            is_due = now >= due
            if is_due:
                self._look()
                if now > self._said_until:
                    self._state = replace(self._state, message="")
                # A machine that stood still is not to be caught up with.
                due = max(due + self.interval, now + self.interval / 2)
            pressed = screen.keys(min(_POLL_SECONDS, max(0.0, due - time.monotonic())))
            for key in pressed:
                self._press(key, watched)
            if self.quit:
                if watched.command is not None:
                    watched.command.kill(signal.SIGTERM)
                return End.SIGNAL
            if pressed or screen.size != size or (is_due and not self._state.paused):
                size = screen.size
                self._draw(screen, size, now - began)

    def _end(self, watched: Watched, is_over: bool) -> End | None:
        if watched.command is not None and watched.command.poll():
            return End.COMMAND
        if watched.target is not None and watched.target.gone():
            return End.TARGET
        while (info := watched.signals.next(0)) is not None:
            if info.si_signo in ENDING:
                pass_on(info, watched.command)
                return End.SIGNAL
        return End.DURATION if is_over else None

    def _look(self) -> None:
        assert self._reader is not None, "attached"
        self._history.add(self._reader.look())

    def _press(self, key: str, watched: Watched) -> None:
        self._state, action = press(self._state, key)
        if action is Action.QUIT:
            self.quit = True
        elif action is Action.WRITE:
            self._write(watched)

    def _write(self, watched: Watched) -> None:
        assert self._reader is not None, "attached"
        began = time.monotonic()
        try:
            ledger = watched.write_so_far(
                "written while it was recorded: each run is the time between two such moments, in "
                "which nothing is recorded"
            )
            took = time.monotonic() - began
            said = f"wrote {self.output}, verdict {ledger.verdict} (not recorded for {took:.2f} s)"
        except FaultprofError as error:
            said = f"not written: {error.message}"
        self._reader.forget()
        self._said_until = time.monotonic() + _MESSAGE_SECONDS
        self._state = replace(self._state, message=said)

    def _draw(self, screen: Screen | Pipe, size: tuple[int, int], elapsed_s: float) -> None:
        state = self._state
        if not state.paused:
            limit = state.first + rows_room(size)
            self._view = self._history.view(state.sort, limit, functions=state.functions)
            self._about = replace(self._about, elapsed_s=elapsed_s)
        lines = screen_lines(self._view, state, self._about, size, self.terminal)
        screen.draw(lines if screen.is_terminal else plain_lines(lines))

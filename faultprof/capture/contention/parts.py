"""The parts of contention that are recorded beside samples or a trace.

Knows: which module has which part, what each needs, and how several run together.
Leaves to others: what a part measures (its module), when to start and stop (``capture.engines``).

A module of a part has ``open_part(setting) -> Part``. It attaches its probes, quiet until started,
or raises ``FaultprofError`` with exit code 3 where this machine cannot do it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from typing import Any, Literal, NamedTuple, Protocol

from faultprof.capture.contention.setting import Setting
from faultprof.capture.scope import Scope
from faultprof.errors import ExitCode, FaultprofError, unsupported
from faultprof.recording.contention import (
    FOLIO,
    LOCKS,
    OCCUPANCY,
    ORDER,
    OUTCOMES,
    YIELD,
)


class Part(Protocol):
    """One part, attached."""

    def start(self) -> None:
        """Begin to count; what is in scope is up to the scope's lender."""

    def stop(self) -> dict[str, Any]:
        """Stop counting and return this run's data, plain JSON.

        What was lost is under ``lost``: ``{name: count}``, with names in snake case that read as
        English words.
        """

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, after :meth:`stop`, and count the tasks of ``scope``."""

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""


class Kind(NamedTuple):
    """A part's module, and what it needs: tracepoints, probes of its own, or a trace beside it."""

    module: str
    needs: Literal["tracepoints", "probes", "trace"]


KINDS: dict[str, Kind] = {
    OCCUPANCY: Kind("occupancy", "trace"),
    LOCKS: Kind("locks", "tracepoints"),
    FOLIO: Kind("folio", "probes"),
    YIELD: Kind("yielding", "probes"),
    OUTCOMES: Kind("outcomes", "probes"),
    ORDER: Kind("order", "probes"),
}


class Parts:
    """Several parts together, attached but quiet until started.

    Args:
        names: the parts that are wanted.
        required: those that somebody asked for by name.
        setting: what they are opened with.
        opener: what opens one.

    Attributes:
        missing: why parts that are wanted but not required cannot be recorded here, by name.

    Raises:
        FaultprofError: a required part cannot be recorded here (exit code 3).
    """

    def __init__(
        self,
        names: Sequence[str],
        required: Collection[str],
        setting: Setting,
        opener: Callable[[str, Setting], Part] | None = None,
    ) -> None:
        self.missing: dict[str, str] = {}
        self._parts: dict[str, Part] = {}
        with ExitStack() as undo:
            for name in names:
                try:
                    part = (opener or open_part)(name, setting)
                except FaultprofError as error:
                    if name in required or error.exit_code != ExitCode.UNSUPPORTED:
                        raise
                    self.missing[name] = error.message
                else:
                    self._parts[name] = undo.enter_context(closing(part))
            self._undo = undo.pop_all()

    @property
    def names(self) -> tuple[str, ...]:
        """The parts that are recorded."""
        return tuple(self._parts)

    def start(self) -> None:
        """Let all parts count."""
        for part in self._parts.values():
            part.start()

    def stop(self) -> dict[str, Any]:
        """Stop all parts and return what each has, by name."""
        return {name: part.stop() for name, part in self._parts.items()}

    def next_run(self, scope: Scope) -> None:
        """Make all parts ready for the next run."""
        for part in self._parts.values():
            part.next_run(scope)

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()


def open_part(name: str, setting: Setting) -> Part:
    """Attach one part.

    Raises:
        FaultprofError: this machine cannot do that (exit code 3).
    """
    kind = KINDS[name]
    if kind.needs == "trace" and setting.tracer is None:
        raise unsupported(
            f"{name} is counted by the probes of a trace, and nothing is traced here",
            "record it where functions can be traced, without --mode sample",
        )
    module = importlib.import_module(f"faultprof.capture.contention.{kind.module}")
    part: Part = module.open_part(setting)
    return part

"""How far long work has come: told by whoever does it, shown by whoever listens.

Knows: steps, and how long the rest will take if it goes on like that.
Leaves to others: showing it. Nobody listens unless the command line does: as a library, faultprof
says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Step:
    """Where some work is.

    Attributes:
        what: the work, such as ``block``, ``run`` or ``reading debuginfo``.
        done: steps that are over.
        total: all steps.
        detail: what is to be said of the last one.
        left_s: seconds that the rest will take; None when nobody can know.
        every: each step is worth a line where lines stay, as in a pipe.
        shares: the work itself writes to the terminal: a line is to be left alone.
    """

    what: str
    done: int
    total: int
    detail: str = ""
    left_s: float | None = None
    every: bool = True
    shares: bool = False

    @property
    def over(self) -> bool:
        """Whether that was the last step."""
        return self.done >= self.total


listener: Callable[[Step], None] | None = None
"""Gets every step; set by the command line."""


class Steps:
    """Some work of so many steps; a context manager.

    Args:
        what: as in :class:`Step`.
        total: how many steps there will be.
        every: as in :class:`Step`.
        shares: likewise.
        clock: gives seconds.
    """

    def __init__(
        self,
        what: str,
        total: int,
        *,
        every: bool = True,
        shares: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._total = what, total
        self._every, self._shares = every, shares
        self._clock = clock
        self._began = clock()
        self._done = 0

    def advance(self, detail: str = "") -> None:
        """Tell that another step is over."""
        self._done += 1
        took = self._clock() - self._began
        left = max(self._total - self._done, 0) * took / self._done
        self._tell(detail, left)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._done < self._total:  # it ended early: nothing of it may stay on a screen
            self._done = self._total
            if not self._every:
                self._tell("", None)

    def _tell(self, detail: str, left_s: float | None) -> None:
        if listener is not None:
            step = Step(
                self._what, self._done, self._total, detail, left_s, self._every, self._shares
            )
            listener(step)

"""What may stand by while a session records, in place of just waiting for the end.

Knows: what a session hands over, and when.
Leaves to others: what is done with it (the live view of ``cli``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from faultprof.capture.command import Command
    from faultprof.capture.engines import Engines
    from faultprof.capture.outcome import Outcome
    from faultprof.capture.wait import End, Signals, Target
    from faultprof.recording.ledger import Ledger


@dataclass(slots=True)
class Watched:
    """A recording under way: its engines have been started, its command runs.

    Attributes:
        duration: seconds after which it ends; None for no such end.
        outcome: what the recording becomes.
        since: when the run began that is being recorded (time.monotonic()).
        parts: how many parts of the recording have been ended before that, as runs of their own.
    """

    engines: Engines
    signals: Signals
    command: Command | None
    target: Target | None
    duration: float | None
    outcome: Outcome
    since: float = field(default_factory=time.monotonic)
    parts: int = 0

    def write_so_far(self, note: str) -> Ledger:
        """Write what has been recorded up to now, and record on.

        What was recorded becomes a run, and a new one begins: a trace cannot be read consistently
        while it grows. What happens in between is not recorded; ``note`` tells the reader.

        Raises:
            FaultprofError: the file cannot be written.
        """
        from faultprof.capture.outcome import Run
        from faultprof.capture.wait import End

        captured = self.engines.stop(detach=False)
        wall_s = time.monotonic() - self.since
        self.outcome.add(Run(captured, wall_s, End.DURATION, None))
        self.outcome.ledger.info(note)
        self.parts += 1
        try:
            return self.outcome.write({})
        finally:
            self.engines.go_on()
            self.since = time.monotonic()


class Watch(Protocol):
    """Stands by while one run is recorded."""

    @property
    def streams(self) -> Mapping[int, int]:
        """What the command is to have in the place of its standard streams, by their numbers."""

    @property
    def keeps(self) -> bool:
        """Whether the recording is written at its end."""

    def attach(self, engines: Engines) -> None:
        """Get ready, as all that happens from here on until :meth:`wait` counts as recording.

        Raises:
            FaultprofError: this machine cannot do that.
        """

    def wait(self, watched: Watched) -> End:
        """Stand by until the recording is to end and return why."""

    def close(self) -> None:
        """Let go of the engines, which are about to be stopped; safe to repeat."""

"""How long a calibration may take.

Knows: when its time is over, and whether one more round fits.
Leaves to others: the rounds (``calibration``), what follows for a recording
(``calibration_store``).
"""

from __future__ import annotations

import time

from faultprof.errors import ExitCode, FaultprofError


class TooSlowError(FaultprofError):
    """A calibration takes longer here than it may."""


class TimeLeft:
    """What is left of the time for a calibration, from now on.

    Args:
        seconds: that it may take.
    """

    def __init__(self, seconds: float = float("inf")) -> None:
        self._seconds = seconds
        self._started = time.monotonic()
        self._rounds_from = self._started

    def check(self) -> None:
        """Do nothing while there is time.

        Raises:
            TooSlowError: it is over.
        """
        if self._passed(self._started) > self._seconds:
            raise TooSlowError(
                f"calibrating takes longer than {self._seconds:g} s here",
                "run 'faultprof calibrate' once",
                ExitCode.UNSUPPORTED,
            )

    def rounds_begin(self) -> None:
        """Take the time of rounds from now on."""
        self._rounds_from = time.monotonic()

    def for_another(self, done: int) -> bool:
        """Whether one more round fits, after so many."""
        each = self._passed(self._rounds_from) / done
        return self._passed(self._started) + each <= self._seconds

    @staticmethod
    def _passed(since: float) -> float:
        return time.monotonic() - since

"""Keeps calibrations in the user's cache, and takes one where nothing fitting is kept.

Knows: what a calibration is good for: one build of a kernel, one model of CPU, one version of
faultprof.
Leaves to others: measuring (``calibration``), where the cache lies (``kernel.cache``).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable

from faultprof import __version__
from faultprof.capture.machine import cpu_info, kernel_info
from faultprof.errors import FaultprofError
from faultprof.kernel.cache import CacheDirectory, Owner, cache_root
from faultprof.recording.calibration import Calibration

UNASKED_SECONDS = 5.0
"""What nobody has asked for may keep a recording waiting for so long, once on a machine."""


def stored(owner: Owner | None) -> Calibration | None:
    """Return the calibration that fits this machine; None when there is none, or it is damaged."""
    text = _directory(owner).read(_name())
    if text is None:
        return None
    try:
        calibration = Calibration.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return calibration if calibration.fits(kernel_info(), cpu_info()) else None


def store(calibration: Calibration, owner: Owner | None) -> bool:
    """Keep a calibration of this machine; return whether that was possible."""
    text = json.dumps(calibration.to_json(), indent=1)
    return _directory(owner).write(_name(), text.encode())


def at_hand(
    owner: Owner | None, say: Callable[[str], None], *, seconds: float = float("inf")
) -> Calibration | None:
    """Return the stored calibration, or take one and store it; None when that cannot be done.

    Where that took longer than ``seconds`` it is not tried again: an emulated machine needs minutes
    for it, and nobody wants to wait for the finding at each recording.

    Args:
        owner: whose cache it is.
        say: told when something is measured, or why it cannot be.
        seconds: that it may take.
    """
    calibration = stored(owner)
    if calibration is not None:
        return calibration
    bounded = seconds < float("inf")
    if bounded and (_is_slow() or _directory(owner).read(_name(_SLOW)) is not None):
        say(f"times stay uncompensated: {_TOO_SLOW}")
        return None
    from faultprof.capture.calibration import calibrate
    from faultprof.capture.calibration_time import TooSlowError

    say("measuring what probes cost here (once for this kernel; --no-calibrate leaves it out)")
    try:
        calibration = calibrate(beside=False, seconds=seconds, owner=owner)
    except TooSlowError:
        _directory(owner).write(_name(_SLOW), b"")
        say(f"times stay uncompensated: {_TOO_SLOW}")
        return None
    except FaultprofError as error:
        say(f"times stay uncompensated: {error.message}")
        return None
    store(calibration, owner)
    return calibration


def _is_slow() -> bool:
    """Whether this is so slow a machine that even compiling the probes takes longer than a moment.

    A loop of 100,000 rounds takes a CPU of today 1 to 3 ms; emulated, ten times that and more.
    """
    return min(_loop_ms() for _ in range(3)) > _SLOW_LOOP_MS


def _loop_ms() -> float:
    started = time.thread_time_ns()
    for _ in range(100_000):
        pass
    return (time.thread_time_ns() - started) / 1e6


_SLOW_LOOP_MS = 8.0

# What is kept for a machine that is too slow for more.
_SLOW = ".slow"
_TOO_SLOW = "calibrating takes long on this machine; do it once: faultprof calibrate"


def _directory(owner: Owner | None) -> CacheDirectory:
    return CacheDirectory(cache_root(owner) / "calibration", owner)


def _name(suffix: str = ".json") -> str:
    facts = "\0".join((kernel_info().build_id, cpu_info().model, __version__))
    return hashlib.sha256(facts.encode()).hexdigest()[:32] + suffix

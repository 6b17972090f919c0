"""Times of many events, as columns and as JSON.

Knows: which figures of them are shown.
Leaves to others: the figures (``analysis.contention.durations``).
"""

from __future__ import annotations

from typing import Any

from faultprof.analysis.contention.durations import Durations
from faultprof.render.terminal import Glyphs
from faultprof.render.units import duration, prose

TITLES = ("total", "avg", "p50", "p99", "max")


def cells(durations: Durations, glyphs: Glyphs) -> tuple[str, ...]:
    """Return what stands below ``TITLES``."""
    return tuple(duration(ns, glyphs) for ns in _figures(durations))


def in_words(durations: Durations, glyphs: Glyphs) -> str:
    """Return the mean and two quantiles for use in a sentence."""
    _, avg, p50, p99, _ = (prose(ns, glyphs) for ns in _figures(durations))
    return f"avg {avg}, p50 {p50}, p99 {p99}"


def as_json(durations: Durations) -> dict[str, Any]:
    """Return ``count``, ``ns``, ``avg_ns``, ``p50_ns``, ``p99_ns``, ``max_ns``, ``histogram``.

    What is not known is null.
    """
    ns, avg, p50, p99, longest = _figures(durations)
    return {
        "count": durations.count,
        "ns": ns,
        "avg_ns": avg,
        "p50_ns": p50,
        "p99_ns": p99,
        "max_ns": longest,
        "histogram": [[upper, count] for upper, count in durations.histogram],
    }


def _figures(durations: Durations) -> tuple[float | None, ...]:
    return (
        durations.ns,
        durations.avg_ns,
        durations.p50_ns,
        durations.p99_ns,
        durations.longest_ns,
    )

"""The line about the worst contended place in the header of a report.

Knows: how it reads.
Leaves to others: which place that is (``analysis.contention.worst``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.contention.worst import Worst, worst
from faultprof.recording.metadata import RunInfo
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

_CALLERS = 2


def contended_entries(runs: Sequence[RunInfo]) -> Iterator[tuple[str, str]]:
    """Yield the header's entry about the worst contended place, if anybody waited."""
    if not any(run.contention for run in runs):
        return
    try:
        found = worst(runs)
    except (KeyError, TypeError, ValueError, AttributeError):
        yield "contended", "not known: what the recording has of it is incomplete"
        return
    if found is not None:
        yield "contended", _text(found)


def _text(found: Worst) -> str:
    """Say where, how long, for what."""
    inner = " < ".join(found.path[: -_CALLERS - 2 : -1]) or "a place without a stack"
    ns, of_ns = prose(found.total_ns, UNICODE), prose(found.of_ns, UNICODE)
    most = f", chiefly {found.most}" if found.most else ""
    return f"{inner}: {ns} of the {of_ns} that {found.what}{most} (see contention)"

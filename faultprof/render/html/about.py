"""The top of the page, and its end: what was measured, how sure that is, and what is missing.

Knows: what a reader must see before the first figure.
Leaves to others: the texts that every report's header has (``render.header``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.cross_check import cross_check
from faultprof.analysis.selection import Selection
from faultprof.recording.contention import PARTS
from faultprof.recording.metadata import Metadata
from faultprof.recording.reader import Recording
from faultprof.recording.schema import SAMPLE
from faultprof.render.cross_check import check_text
from faultprof.render.embed import escaped
from faultprof.render.header import sampled_entries
from faultprof.render.html.elements import long_text
from faultprof.render.trace_header import traced_entries


def about_html(recordings: Sequence[Recording], labels: Sequence[str]) -> str:
    """Return a box for each recording, its verdict first."""
    boxes = [
        _box(recording, label if len(recordings) > 1 else "")
        for recording, label in zip(recordings, labels, strict=True)
    ]
    return f'<div class="about">\n{"".join(boxes)}</div>\n'


def _box(recording: Recording, label: str) -> str:
    said = list(_entries(recording))
    verdict = next(text for key, text in said if key == "verdict")
    kind = "bad" if recording.metadata.ledger.degraded else "good"
    title = f"<h2>{escaped(label)}</h2>\n" if label else ""
    items = "".join(
        f"<dt>{escaped(key)}</dt><dd>{long_text(text)}</dd>\n"
        for key, text in said
        if key != "verdict"
    )
    return (
        f'<div class="box">\n{title}<p class="verdict {kind}">verdict {long_text(verdict)}</p>\n'
        f"<dl>\n{items}</dl>\n</div>\n"
    )


def _entries(recording: Recording) -> Iterator[tuple[str, str]]:
    if not recording.has_trace:
        yield from sampled_entries(recording.metadata, Selection())
        return
    yield from traced_entries(recording, Selection())
    if recording.metadata.frequency:
        yield "check", check_text(cross_check(recording))


def lacks_html(recordings: Sequence[Recording], labels: Sequence[str]) -> str:
    """Return what the recordings do not hold, and how to get it."""
    said: list[str] = []
    for recording, label in zip(recordings, labels, strict=True):
        before = f"{label}: " if len(recordings) > 1 else ""
        said += [before + text for text in _lacks(recording)]
    items = "".join(f"<li>{escaped(text)}</li>\n" for text in said)
    return f"<ul>\n{items}</ul>\n" if said else "<p>Nothing known to be missing.</p>\n"


def _lacks(recording: Recording) -> Iterator[str]:
    metadata = recording.metadata
    if not recording.has_trace:
        yield "no exact calls and times of functions: record with --mode trace"
    elif not metadata.calibration:
        yield "what the probes themselves cost is not subtracted from the times"
    if not any(one.source == SAMPLE for one in recording.rows.segments):
        yield "no samples: functions that were not traced are not seen"
    there = {name for one in metadata.runs for name in one.contention}
    if not there:
        yield "nothing of contention: record with --contention"
    elif missing := [name for name in PARTS if name not in there]:
        yield f"of contention not {', '.join(missing)}: record with --contention"
    yield from _lacking_runs(metadata)


def _lacking_runs(metadata: Metadata) -> Iterator[str]:
    if not metadata.command:
        yield "no metrics of a command: a running process, or all, were recorded"
    elif len(metadata.runs) < 4:
        yield "no intervals of metrics: they need four runs or more"

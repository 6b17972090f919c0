"""The section ``yield``: how much of fault-around's work was of use.

Knows: its sentences, its distribution, and the object ``yield`` of the JSON.
Leaves to others: the figures (``analysis.contention.yielding``).

The object ``yield`` has the counts that a run's data have, summed over runs, and

    useful, useful_percent      calls that mapped something; in percent of all calls
    useful_time_percent         time in these, in percent of the time in all calls
    pages                       pages mapped, those of huge pages included; null where the size of
                                these is not known
    mapped_each                 pages that a useful call mapped, apart from huge ones, in the mean
    asked_per_page              how often a folio was asked for, by pages mapped
    mapped_per_call, found_per_call
                                as in a run's data
    useful_calls, useless_calls, file_unwaited, file_waited
                                durations (``count``, ``ns``, ``avg_ns``, ``p50_ns``, ``p99_ns``,
                                ``max_ns``, ``histogram``)
    window_pages, huge_pages, functions, missing, lost
                                as in a run's data
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultprof.analysis.contention.yielding import COUNTS, Yield, merged
from faultprof.recording.contention import YIELD
from faultprof.recording.histogram import Histogram
from faultprof.recording.metadata import RunInfo
from faultprof.render.bars import bar
from faultprof.render.contention import durations
from faultprof.render.contention.losses import loss_lines
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal
from faultprof.render.units import three_digits

_TITLE = "#   pages"
_SHORTEST_BAR = 10


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section's lines."""
    found = _of(runs)
    yield from entry("useful", _useful(found), terminal)
    for key, text in _about(found, terminal):
        yield from entry(key, text, terminal)
    if found.calls:
        yield "#"
        yield from _distribution(found.mapped_per_call, terminal)
    yield from loss_lines(found.lost)


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the object."""
    found = _of(runs)
    return {
        **{name: getattr(found, name) for name in COUNTS},
        "useful": found.useful_calls,
        "useful_percent": _percent(found.useful_share),
        "useful_time_percent": _percent(found.useful_time_share),
        "pages": found.pages,
        "mapped_each": found.mapped_each,
        "asked_per_page": found.asked_per_page,
        "mapped_per_call": [list(one) for one in found.mapped_per_call],
        "found_per_call": [list(one) for one in found.found_per_call],
        "useful_calls": durations.as_json(found.useful),
        "useless_calls": durations.as_json(found.useless),
        "file_unwaited": durations.as_json(found.file_unwaited),
        "file_waited": durations.as_json(found.file_waited),
        "window_pages": found.window_pages,
        "huge_pages": found.huge_pages,
        "functions": dict(found.functions),
        "missing": dict(found.missing),
        "lost": dict(found.lost),
    }


def _of(runs: Sequence[RunInfo]) -> Yield:
    return merged([Yield.from_json(one.contention[YIELD]) for one in runs])


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _useful(found: Yield) -> str:
    """Return the one line that says how much of the work was of use."""
    if not found.calls:
        return f"there were no calls of filemap_map_pages in {_count(found.faults, 'fault')}"
    share, time = found.useful_share or 0, found.useful_time_share
    text = f"{100 * share:.1f}% of {_count(found.calls, 'call')}"
    text += f" and {100 * time:.1f}% of the time in them" if time is not None else ""
    each = found.mapped_each
    if each is not None:
        window = f" of a window of {found.window_pages}" if found.window_pages else ""
        text += f": they mapped {_count(found.mapped, 'page')}, {three_digits(each)} each{window}"
    if found.pmd_mapped:
        text += f"; {_count(found.pmd_mapped, 'huge page')} mapped whole"
    return text


def _about(found: Yield, terminal: Terminal) -> Iterator[tuple[str, str]]:
    """Yield what there is to say besides, and why."""
    if not found.calls:
        yield from _cautions(found)
        return
    if found.nothing:
        kinds = [f"{found.empty:,} found no folio", f"{_taken(found):,} nothing left to map"]
        if found.pmd_there:
            kinds.append(f"{found.pmd_there:,} a huge page that was mapped already")
        yield "useless", f"{_count(found.nothing, 'call')} mapped nothing: {', '.join(kinds)}"
    yield "left out", _left_out(found)
    text = "not the first in its fault" if found.second == 1 else "not the first in their fault"
    yield "second", f"{_count(found.second, 'call')}, {text}"
    asked = f"for a folio {_count(found.asked, 'time')}; {found.found:,} were found"
    if found.asked_per_page is not None:
        asked += f"; {three_digits(found.asked_per_page)} times for each page that was mapped"
    yield "asked", asked
    for what, one in (
        ("useful calls", found.useful),
        ("useless calls", found.useless),
        ("__do_fault after these", found.file_unwaited),
        ("__do_fault with a wait", found.file_waited),
    ):
        if one.count:
            yield "time", f"{what}: {durations.in_words(one, terminal.glyphs)}"
    yield from _cautions(found)


def _left_out(found: Yield) -> str:
    if not found.left_out:
        return "no call left the faulting page out"
    text = f"{_count(found.left_out, 'call')} left the faulting page out"
    if "__do_fault" in found.missing:
        return f"{text}; {_whither(found)}"
    waited = f"{found.waited:,} of these waited for a folio lock"
    return f"{text}: {found.file:,} were followed by __do_fault, {waited}; {_whither(found)}"


def _whither(found: Yield) -> str:
    """Say how the attempts went on, in either case."""
    return f"{found.retried:,} had to be tried again, {found.major:,} major"


def _taken(found: Yield) -> int:
    """Return how many calls found folios that had no page to map."""
    return found.nothing - found.empty - found.pmd_there


def _cautions(found: Yield) -> Iterator[tuple[str, str]]:
    if found.unfinished:
        yield "note", f"{_count(found.unfinished, 'fault')} under way at the end are not counted"
    for name, why in found.missing.items():
        yield "note", f"{name} is not counted: {why}"


def _distribution(histogram: Histogram, terminal: Terminal) -> Iterator[str]:
    """Draw how many calls mapped how many pages."""
    counts = [f"{count:,}" for _, count in histogram]
    width = max(len("calls"), *map(len, counts)) if counts else len("calls")
    most = max((count for _, count in histogram), default=1)
    room = max(_SHORTEST_BAR, terminal.layout_width - len(_TITLE) - width - 4)
    yield f"{_TITLE}  {'calls':>{width}}"
    for (upper, count), text in zip(histogram, counts, strict=True):
        drawn = bar(count / most, room, terminal.glyphs)
        yield f"{pages_text(upper):>{len(_TITLE)}}  {text:>{width}}  {drawn}".rstrip()


def pages_text(upper: int) -> str:
    """Name the bucket of numbers of pages up to ``upper``."""
    return str(upper) if upper <= 64 else f"{max(65, (upper + 1) // 2)}-{upper}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"

"""Traces for tests: one fixed session for snapshots, and random ones for properties.

A random trace is made of calls as they happen, one inside another; what a recording must hold of
them, and what a report must say, is worked out from the calls one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from faultprof.recording.frames import INFERRED, INLINED, Frame
from faultprof.recording.histogram import BUCKETS, bucket_of
from faultprof.recording.metadata import Metadata
from faultprof.recording.per_call import MOST
from faultprof.recording.reader import Recording, read_recording
from faultprof.recording.traced import TracedPath
from faultprof.recording.writer import write_recording
from tests.unit.recordings import SESSION, Runs, in_memory, session_metadata

Traces = Sequence[Sequence[TracedPath]]
Frames = tuple[Frame, ...]


def histogram(durations: Mapping[int, int]) -> list[int]:
    """Return how many calls are in each bucket, from how many take how many ns."""
    counts = [0] * BUCKETS
    for ns, calls in durations.items():
        counts[bucket_of(ns)] += calls
    return counts


# The fixed session.


class Timed(NamedTuple):
    """Calls on one path: how many take how many ns, ns off the CPU, and calls left open.

    ``per_call``: how many of its caller's calls made 1, 2, up to 4, 8, ... of them.
    """

    frames: Frames
    durations: Mapping[int, int]
    offcpu_ns: int = 0
    unfinished: int = 0
    per_call: Sequence[int] = ()


_MM = (Frame("handle_mm_fault"),)
_INNER = (*_MM, Frame("__handle_mm_fault"))
_ANON = (*_INNER, Frame("do_anonymous_page"))
_READ = (*_INNER, Frame("do_fault", "", "symbol:.isra.0"), Frame("do_read_fault", "", INFERRED))
_MAP = (*_READ, Frame("filemap_map_pages"))
_SET = (*_MAP, Frame("set_pte_range"))

_FIRST = (
    Timed(_MM, {1_900: 900_000, 88_000: 22_000, 2_400_000: 8}, 12_000_000),
    Timed(_INNER, {1_700: 900_000, 86_000: 22_000, 2_390_000: 8}, 12_000_000),
    Timed(_ANON, {1_500: 900_000}),
    Timed((*_ANON, Frame("vma_alloc_folio")), {900: 890_000, 2_000: 10_000}),
    Timed((*_ANON, Frame("vma_alloc_folio"), Frame("clear_page_erms")), {700: 900_000}),
    Timed(_READ[:-1], {84_000: 22_000, 2_380_000: 8}, 12_000_000),
    Timed(_READ, {84_000: 22_000, 2_380_000: 8}, 12_000_000),
    Timed(_MAP, {40_000: 22_000, 60_000: 14_000}, per_call=(8_000, 14_000)),
    Timed(
        (*_MAP, Frame("next_uptodate_folio")),
        {300: 300_000, 9_000: 40_000, 31: 12_000},
        per_call=(0, 500, 0, 20, 21_000, 0, 0, 1),
    ),
    Timed(_SET, {450: 352_000}, per_call=(0, 0, 0, 0, 22_000)),
    Timed((*_READ, Frame("folio_wait_bit_common")), {2_100_000: 6}, 12_000_000, unfinished=2),
    Timed((*_READ, Frame("ext4_filemap_fault", "ext4")), {5_000: 90}),
)
_SECOND = (
    Timed(_MM, {2_000: 1_000}),
    Timed(_INNER, {1_800: 1_000}),
    Timed(_ANON, {1_600: 1_000}),
    Timed((Frame("clear_page_erms"),), {650: 40}),
    Timed((Frame("walk"),), {3: 1, 9: 1, 10_000_000_000: 1}),
    Timed((Frame("walk"), Frame("walk")), {1: 2, 4_000_000_000: 1}),
)
COUNTED = TracedPath("usemem", (*_SET, Frame("<b>rmap\x1b[2J", "", INLINED)), 351_999, timed=False)


def paths_of(timed: Sequence[Timed], comm: str = "usemem") -> list[TracedPath]:
    """Return the paths with their totals; self times are what children leave."""
    inclusive = {one.frames: sum(ns * n for ns, n in one.durations.items()) for one in timed}
    own = dict(inclusive)
    for frames, ns in inclusive.items():
        if len(frames) > 1:
            own[frames[:-1]] -= ns
    return [
        TracedPath(
            comm,
            one.frames,
            calls=one_calls,
            unfinished=one.unfinished,
            inclusive_ns=inclusive[one.frames],
            self_ns=own[one.frames],
            min_ns=min(one.durations),
            max_ns=max(one.durations),
            offcpu_ns=one.offcpu_ns,
            histogram=histogram(one.durations),
            per_call=one.per_call,
        )
        for one in timed
        if (one_calls := sum(one.durations.values()))
    ]


TRACED: Traces = ([*paths_of(_FIRST), COUNTED], paths_of(_SECOND))

_KPROBE = {"how": "symbol", "method": "kprobe", "kprobe": True, "fentry": False}
_FENTRY = {"how": "symbol", "method": "fentry", "kprobe": True, "fentry": True}


def traced_metadata() -> Metadata:
    """Return the metadata of the fixed session."""
    return replace(
        session_metadata(),
        mode="trace",
        frequency=99,
        functions={
            "handle_mm_fault": _FENTRY,
            "__handle_mm_fault": _FENTRY,
            "do_anonymous_page": _FENTRY,
            "do_fault": _KPROBE | {"how": "variant", "symbol": "do_fault.isra.0"},
            "do_read_fault": {"how": "condition", "method": None, "kprobe": True, "fentry": False},
            "rmap": {"how": "inlined", "method": None, "kprobe": True, "fentry": False},
            "clear_page_rep": {"how": "unavailable", "method": None, "reason": "absent"},
        },
    )


def traced(
    path: Path, traces: Traces, runs: Runs = SESSION, metadata: Metadata | None = None
) -> Recording:
    """Write a recording of ``runs`` and ``traces`` to ``path`` and read it."""
    write_recording(path, metadata or traced_metadata(), runs, traces=traces)
    return read_recording(path)


def held_trace(traces: Traces, runs: Runs = ((),)) -> Recording:
    """Return a traced recording that has been read whole; its file is gone again."""
    return in_memory(lambda path: traced(path, traces, runs))


# Random traces.


@dataclass(frozen=True)
class Call:
    """One call: how long it ran itself, how long not at all, and what it called.

    ``returned``: whether its return was seen. ``timed``: False for a call that is only counted.
    """

    frame: Frame
    self_ns: int = 0
    offcpu_ns: int = 0
    callees: tuple[Call, ...] = ()
    returned: bool = True
    timed: bool = True

    @property
    def ns(self) -> int:
        """How long it took, as far as that is known."""
        below = sum(callee.ns for callee in self.callees)
        return below + self.self_ns if self.returned and self.timed else below

    @property
    def all_offcpu_ns(self) -> int:
        """How long it did not run, callees included; not known of an open one."""
        below = sum(callee.all_offcpu_ns for callee in self.callees)
        return below + self.offcpu_ns if self.returned and self.timed else 0


def events(calls: Iterable[Call], above: Frames = ()) -> Iterator[tuple[Frames, Call]]:
    """Yield every call with its path, callers first."""
    for call in calls:
        path = (*above, call.frame)
        yield path, call
        yield from events(call.callees, path)


def totals(comm: str, found: Sequence[Call], frames: Frames) -> TracedPath:
    """Return what calls on one path come to, as the tracer counts them."""
    timed = [call for call in found if call.timed]
    done = [call.ns for call in timed if call.returned]
    return TracedPath(
        comm,
        frames,
        calls=len(done) if timed else len(found),
        unfinished=sum(not call.returned for call in timed),
        inclusive_ns=sum(call.ns for call in timed),
        self_ns=sum(call.self_ns for call in timed if call.returned),
        min_ns=min(done, default=0),
        max_ns=max(done, default=0),
        offcpu_ns=sum(call.all_offcpu_ns for call in timed),
        histogram=histogram(Counter(done)),
        timed=bool(timed),
    )


def traced_paths(tasks: Mapping[str, Sequence[Call]]) -> list[TracedPath]:
    """Return the paths of one run, from the calls of each task."""
    paths: list[TracedPath] = []
    for comm, calls in tasks.items():
        by_path: dict[Frames, list[Call]] = {}
        for path, call in events(calls):
            by_path.setdefault(path, []).append(call)
        per_call = _per_call(calls)
        paths += [
            totals(comm, found, path)._replace(per_call=per_call.get(path, ()))
            for path, found in by_path.items()
        ]
    return paths


def _per_call(calls: Sequence[Call]) -> dict[Frames, list[int]]:
    """Return for each path how many of its caller's calls made 1, 2, up to 4, 8, ... calls."""
    found: dict[Frames, list[int]] = {}
    for path, call in events(calls):
        for frame, count in Counter(callee.frame for callee in call.callees).items():
            buckets = found.setdefault((*path, frame), [0] * len(MOST))
            buckets[next(place for place, most in enumerate(MOST) if count <= most)] += 1
    return found


_MODULES = {"alpha": "", "beta": "", "gamma": "ext4", "zeta;eta": "", "handle_mm_fault": ""}
_timed_frames = st.builds(
    lambda name, resolution: Frame(name, _MODULES[name], resolution),
    st.sampled_from(sorted(_MODULES)),
    st.sampled_from(["symbol", "symbol", "symbol:.isra.0"]),
)
# Times of all sizes, bounds of buckets among them.
_times = st.one_of(
    st.integers(0, 9),
    st.builds(lambda bit, add: max(0, (1 << bit) + add), st.integers(2, 38), st.integers(-1, 1)),
    st.integers(0, 2_000_000),
)
_counted = st.builds(
    Call, st.sampled_from([Frame("count", "", INLINED), Frame("it")]), timed=st.just(False)
)


def _calls(callees: st.SearchStrategy[Call]) -> st.SearchStrategy[Call]:
    return st.builds(
        lambda frame, self_ns, off, below, returned: Call(
            frame, self_ns, self_ns // off, tuple(below), returned
        ),
        _timed_frames,
        _times,
        st.integers(1, 5),
        st.lists(callees | _counted, max_size=3),
        st.sampled_from([True, True, True, True, False]),
    )


_leaves = st.builds(Call, _timed_frames, _times)
_tasks = st.dictionaries(
    st.sampled_from(["usemem", "bash", "a task"]),
    st.lists(st.recursive(_leaves, _calls, max_leaves=6) | _counted, max_size=4),
    max_size=2,
)
Tasks = Sequence[Mapping[str, Sequence[Call]]]


def random_tasks() -> st.SearchStrategy[Tasks]:
    """Return a strategy for the calls of up to three runs, by task."""
    return st.lists(_tasks, min_size=1, max_size=3)


def held_calls(tasks: Tasks, runs: Runs = ((),)) -> Recording:
    """Return a recording of these calls."""
    return held_trace([traced_paths(run) for run in tasks], runs)

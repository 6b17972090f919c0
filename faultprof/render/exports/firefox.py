"""The processed format of the Firefox Profiler (https://profiler.firefox.com).

Knows: its tables, as of version 47 of the format, which newer profilers read too
(docs-developer/CHANGELOG-formats.md and src/types/profile.js in its repository).
Leaves to others: what is exported (``source``).

One thread for each task name; every stack is one sample with its weight. A recording has no times
of single samples: they stand one after another, as far apart as they weigh, so that the time axis
shows shares and no history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from faultprof import __version__
from faultprof.analysis.areas import Area, area_of
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import Metadata
from faultprof.render.exports.source import Source, Task, clean, ended, frame_name
from faultprof.render.names import found_mark

VERSION = 47
_NS_PER_MS = 10**6
_AREAS = tuple(Area)
# The profiler has these colours and no others; grey must be among them.
_COLOURS = {
    Area.ENTRY: "lightblue",
    Area.FILEMAP: "yellow",
    Area.SHMEM: "lightgreen",
    Area.ANON: "green",
    Area.HUGE: "magenta",
    Area.LOCKING: "red",
    Area.ALLOCATION: "brown",
    Area.CLEAR: "purple",
    Area.MEMCG: "orange",
    Area.OTHER: "grey",
    Area.USER: "transparent",
}


def pieces(source: Source) -> Iterator[bytes]:
    """Yield the file."""
    metadata = source.recording.metadata
    profile = {"meta": _meta(source, metadata), "libs": [], "counters": [], "pages": []}
    yield json.dumps(profile).removesuffix("}").encode() + b', "threads": ['
    interval = _interval_ms(metadata)
    for number, task in enumerate(source.tasks):
        yield b",\n" if number else b"\n"
        yield json.dumps(_thread(task, number, source.weights.is_time, interval)).encode()
    yield b"\n]}\n"


def _interval_ms(metadata: Metadata) -> float:
    return 1000 / metadata.frequency if metadata.frequency > 0 else 1.0


def _meta(source: Source, metadata: Metadata) -> dict[str, Any]:
    return {
        "interval": _interval_ms(metadata),
        "startTime": source.created_ms,
        "processType": 0,
        "product": source.title,
        "importedFrom": f"faultprof {__version__}",
        "stackwalk": 1,
        "debug": False,
        "version": 29,
        "preprocessedProfileVersion": VERSION,
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "usesOnlyOneStackType": True,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
        "platform": "Linux",
        "oscpu": clean(f"Linux {metadata.kernel.release} {metadata.kernel.machine}").strip(),
        "CPUName": clean(metadata.cpu.model),
        "logicalCPUs": metadata.cpu.count,
        "markerSchema": [],
        "categories": [
            {"name": area.value, "color": _COLOURS[area], "subcategories": ["Other"]}
            for area in _AREAS
        ],
    }


def _thread(task: Task, number: int, is_time: bool, interval: float) -> dict[str, Any]:
    tree, strings = task.tree, _Strings()
    nodes = list(ended(tree))
    categories = [_AREAS.index(area_of(frame)) for frame in tree.frames]
    stacks = {
        "frame": [node.frame for node in nodes],
        "prefix": [None if node.parent < 0 else node.parent for node in nodes],
        "category": [categories[node.frame] for node in nodes],
        "subcategory": [0] * len(nodes),
        "length": len(nodes),
    }
    samples, end = _samples([(n.row, n.weight) for n in nodes if n.weight], is_time, interval)
    functions = _functions(tree.frames, strings)
    thread = {
        "processType": "default",
        "processName": clean(task.comm),
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": end,
        "pausedRanges": [],
        "name": clean(task.comm) or "[no name]",
        "isMainThread": True,
        # Task names have no ids of processes: they stand for all tasks of the name.
        "pid": str(number),
        "tid": number,
        "samples": samples,
        "markers": _empty("data", "name", "startTime", "endTime", "phase", "category"),
        "stackTable": stacks,
        "frameTable": _frames(categories),
        **functions,
        "nativeSymbols": _empty("libIndex", "address", "name", "functionSize"),
    }
    return thread | {"stringArray": list(strings.numbers)}


def _samples(
    weights: Sequence[tuple[int, int]], is_time: bool, interval: float
) -> tuple[dict[str, Any], float]:
    """Return the table of samples, and when they end."""
    times, now = [], 0.0
    values = [weight / _NS_PER_MS if is_time else weight for _, weight in weights]
    for value in values:
        times.append(now)
        now += value if is_time else value * interval
    table = {
        "stack": [row for row, _ in weights],
        "time": times,
        "weight": values,
        "weightType": "tracing-ms" if is_time else "samples",
        "length": len(values),
    }
    return table, now


class _Strings:
    """A thread's strings."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _frames(categories: list[int]) -> dict[str, Any]:
    count = len(categories)
    nothing: list[None] = [None] * count
    return {
        "address": [-1] * count,
        "inlineDepth": [0] * count,
        "category": categories,
        "subcategory": [0] * count,
        "func": list(range(count)),
        "nativeSymbol": nothing,
        "innerWindowID": [0] * count,
        "implementation": nothing,
        "line": nothing,
        "column": nothing,
        "length": count,
    }


def _functions(frames: Sequence[Frame], strings: _Strings) -> dict[str, Any]:
    """Return the tables of functions and of the modules that they are in."""
    modules: dict[str, int] = {}
    names, resources = [], []
    for frame in frames:
        mark = found_mark(frame)
        names.append(strings(frame_name(frame) + (f" ({mark})" if mark else "")))
        resources.append(modules.setdefault(clean(frame.module) or "kernel", len(modules)))
    count = len(frames)
    nothing: list[None] = [None] * count
    return {
        "funcTable": {
            "name": names,
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": resources,
            "fileName": nothing,
            "lineNumber": nothing,
            "columnNumber": nothing,
            "length": count,
        },
        "resourceTable": {
            "lib": [None] * len(modules),
            "name": [strings(module) for module in modules],
            "host": [None] * len(modules),
            "type": [1] * len(modules),  # 1: a library
            "length": len(modules),
        },
    }


def _empty(*columns: str) -> dict[str, Any]:
    return {**{column: [] for column in columns}, "length": 0}

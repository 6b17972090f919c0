"""The format of speedscope (https://www.speedscope.app/file-format-schema.json).

Knows: its fields.
Leaves to others: what is exported (``source``).

One profile of the type ``sampled`` for each task name: every stack once, with its weight.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from faultprof import __version__
from faultprof.recording.frames import Frame
from faultprof.render.exports.source import Source, Task, clean, ended, frame_name
from faultprof.render.names import found_mark

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def pieces(source: Source) -> Iterator[bytes]:
    """Yield the file."""
    tasks = source.tasks
    codes: dict[Frame, int] = {}
    for _, tree in tasks:
        for frame in tree.frames:
            codes.setdefault(frame, len(codes))
    head = {
        "$schema": _SCHEMA,
        "exporter": f"faultprof {__version__}",
        "name": source.title,
        "activeProfileIndex": _heaviest(tasks),
        "shared": {"frames": [_frame(frame) for frame in codes]},
    }
    yield json.dumps(head).removesuffix("}").encode() + b', "profiles": ['
    unit = "nanoseconds" if source.weights.is_time else "none"
    for number, task in enumerate(tasks):
        yield b",\n" if number else b"\n"
        yield from _profile(task, unit, codes)
    yield b"\n]}\n"


def _heaviest(tasks: list[Task]) -> int:
    return max(range(len(tasks)), key=lambda n: tasks[n].tree.sides[0].root, default=0)


def _frame(frame: Frame) -> dict[str, str]:
    mark = found_mark(frame)
    named = {"name": frame_name(frame) + (f" ({mark})" if mark else "")}
    return named | ({"file": clean(frame.module)} if frame.module else {})


def _profile(task: Task, unit: str, codes: dict[Frame, int]) -> Iterator[bytes]:
    code = [codes[frame] for frame in task.tree.frames]
    depths = task.tree.depth.tolist()
    stack: list[str] = []
    samples: list[str] = []
    weights: list[int] = []
    for row, _, frame, weight in ended(task.tree):
        del stack[depths[row] :]
        stack.append(str(code[frame]))
        if weight:
            samples.append(f"[{','.join(stack)}]")
            weights.append(weight)
    head: dict[str, Any] = {"type": "sampled", "name": clean(task.comm) or "[no name]"}
    head |= {"unit": unit, "startValue": 0, "endValue": sum(weights)}
    yield json.dumps(head).removesuffix("}").encode() + b', "samples": ['
    yield ",".join(samples).encode()
    yield f'], "weights": {json.dumps(weights)}}}'.encode()

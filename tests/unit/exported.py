"""Reads exports back, each by a reader of its own: what ended on each path of each task."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure
from faultprof.recording.reader import Recording
from faultprof.render.exports import FORMATS
from faultprof.render.exports.source import Source

Weights = Counter[tuple[str, ...]]  # (task, root, ..., leaf): weight


def exported(
    recording: Recording,
    name: str,
    selection: Selection | None = None,
    measure: Measure | None = None,
) -> bytes:
    """Return a recording in a format."""
    return b"".join(FORMATS[name].pieces(Source(recording, selection or Selection(), measure)))


def folded(content: bytes) -> Weights:
    weights: Weights = Counter()
    for line in content.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        weights[tuple(stack.split(";"))] += int(count)
    return weights


def speedscope(content: bytes) -> Weights:
    file = json.loads(content)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    weights: Weights = Counter()
    for profile in file["profiles"]:
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            weights[profile["name"], *(names[frame] for frame in stack)] += weight
    return weights


def firefox(content: bytes) -> Weights:
    weights: Weights = Counter()
    for thread in json.loads(content)["threads"]:
        strings, stacks = thread["stringArray"], thread["stackTable"]
        samples = thread["samples"]
        names = [strings[name] for name in thread["funcTable"]["name"]]
        factor = 10**6 if samples["weightType"] == "tracing-ms" else 1
        for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
            path: list[str] = []
            while stack is not None:
                path.append(names[thread["frameTable"]["func"][stacks["frame"][stack]]])
                stack = stacks["prefix"][stack]
            weights[thread["name"], *reversed(path)] += round(weight * factor)
    return weights


# Protocol buffers.


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an int, or bytes."""
    place = 0

    def varint() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = message[place]
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while place < len(message):
        key = varint()
        assert key & 7 in (0, 2)
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = varint()
            assert place + length <= len(message)
            yield key >> 3, message[place : place + length]
            place += length


def numbers(packed: bytes) -> list[int]:
    """Return the numbers of a packed field."""
    found, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number = shift = 0
    return found


def pprof(content: bytes) -> dict[str, Weights]:
    """Return the weights of each type of values."""
    profile: dict[int, list[Any]] = {}
    for number, value in fields(gzip.decompress(content)):
        profile.setdefault(number, []).append(value)
    strings = [text.decode() for text in profile[6]]
    assert strings[0] == ""
    types = [strings[dict(fields(one))[1]] for one in profile[1]]
    functions = {dict(fields(one))[1]: strings[dict(fields(one))[2]] for one in profile.get(5, [])}
    names, mappings = {}, {dict(fields(one))[1] for one in profile.get(3, [])}
    for location in profile.get(4, []):
        one = dict(fields(location))
        assert one[2] in mappings
        assert 3 not in one  # the address
        names[one[1]] = functions[dict(fields(one[4]))[1]]
    weights: dict[str, Weights] = {one: Counter() for one in types}
    for sample in profile.get(2, []):
        one = dict(fields(sample))
        path = [names[number] for number in reversed(numbers(one[1]))]
        label = dict(fields(one[3]))
        assert strings[label[1]] == "task"
        task = strings[label.get(2, 0)]
        for kind, value in zip(types, numbers(one[2]), strict=True):
            weights[kind][task, *path] += value
    return weights


def table(content: bytes, own: str) -> Weights:
    """Return the weights of a CSV, from its column ``own``."""
    weights: Weights = Counter()
    stack: list[str] = []
    for line in csv.DictReader(io.StringIO(content.decode(), newline="")):
        del stack[int(line["depth"]) :]
        stack.append(line["function"])
        weights[line["task"], *stack] += int(line[own] or 0)
    return weights

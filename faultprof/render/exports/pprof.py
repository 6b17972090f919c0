"""The format of pprof: a gzipped protocol buffer.

Knows: its messages (https://github.com/google/pprof/blob/main/proto/profile.proto).
Leaves to others: the encoding (``protobuf``), what is exported (``source``).

Values of a sampled recording: samples. Of a traced one: calls (flat: of the function; cum: with
those of all that it called), time, and time off the CPU where that is known. Each sample has the
label ``task``. Locations have no addresses: every function on its module is one location.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from faultprof.analysis.weights import Measure
from faultprof.errors import FaultprofError
from faultprof.recording.frames import Frame
from faultprof.render.exports.protobuf import integer, message, packed, string
from faultprof.render.exports.source import Source, Task, clean, ended, frame_name
from faultprof.render.names import found_mark

_TYPES = {
    Measure.SAMPLES: ("samples", "count"),
    Measure.CALLS: ("calls", "count"),
    Measure.TIME: ("time", "nanoseconds"),
    Measure.OFFCPU: ("offcpu", "nanoseconds"),
}
# Fields of the messages, by number.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14


class _Strings:
    """The table of all strings; the first must be empty."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def pieces(source: Source) -> Iterator[bytes]:
    """Yield the file."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # 31: as gzip, without a time
    for part in _messages(source):
        yield packer.compress(part)
    yield packer.flush()


def _messages(source: Source) -> Iterator[bytes]:
    strings = _Strings()
    measures = _measures(source)
    for measure in measures:
        yield message(_SAMPLE_TYPE, _value_type(measure, strings))
    codes: dict[Frame, int] = {}
    by_measure = [source.tasks_by(measure) for measure in measures]
    for tasks in zip(*by_measure, strict=True):
        for sample in _samples(tasks, codes, strings):
            yield message(_SAMPLE, sample)
    yield from _functions(codes, strings)
    yield from _about(source, measures, strings)
    for text in strings.numbers:
        yield string(_STRING, text)


def _measures(source: Source) -> list[Measure]:
    if source.weights is Measure.SAMPLES:
        return [Measure.SAMPLES]
    known = [Measure.CALLS, Measure.TIME]
    try:
        source.tasks_by(Measure.OFFCPU)
    except FaultprofError:
        return known  # nobody looked
    return [*known, Measure.OFFCPU]


def _value_type(measure: Measure, strings: Callable[[str], int]) -> bytes:
    kind, unit = _TYPES[measure]
    return integer(1, strings(kind)) + integer(2, strings(unit))


def _samples(
    tasks: tuple[Task, ...], codes: dict[Frame, int], strings: Callable[[str], int]
) -> Iterator[bytes]:
    """Yield the samples of one task name, whose tree is the same by every measure."""
    tree = tasks[0].tree
    # Locations count from 1.
    location = [codes.setdefault(frame, len(codes) + 1) for frame in tree.frames]
    label = message(3, integer(1, strings("task")) + integer(2, strings(clean(tasks[0].comm))))
    depths = tree.depth.tolist()
    stack: list[int] = []
    for nodes in zip(*(ended(task.tree) for task in tasks), strict=True):
        row, _, frame, _ = nodes[0]
        del stack[depths[row] :]
        stack.append(location[frame])
        values = [node.weight for node in nodes]
        if any(values):
            yield packed(1, reversed(stack)) + packed(2, values) + label


def _functions(codes: dict[Frame, int], strings: Callable[[str], int]) -> Iterator[bytes]:
    mappings: dict[str, int] = {}
    for frame, code in codes.items():
        module = mappings.setdefault(clean(frame.module) or "[kernel]", len(mappings) + 1)
        mark = found_mark(frame)
        name = strings(frame_name(frame) + (f" ({mark})" if mark else ""))
        system_name = strings(frame_name(frame))
        yield message(_FUNCTION, integer(1, code) + integer(2, name) + integer(3, system_name))
        line = message(4, integer(1, code))
        yield message(_LOCATION, integer(1, code) + integer(2, module) + line)
    for module_name, number in mappings.items():
        # 7: it has function names, so that pprof does not look for a binary.
        content = integer(1, number) + integer(5, strings(module_name)) + integer(7, 1)
        yield message(_MAPPING, content)


def _about(
    source: Source, measures: list[Measure], strings: Callable[[str], int]
) -> Iterator[bytes]:
    metadata = source.recording.metadata
    yield integer(_TIME, source.created_ms * 10**6)
    yield integer(_DURATION, round(sum(run.wall_s for run in metadata.runs) * 10**9))
    if measures == [Measure.SAMPLES] and metadata.frequency > 0:
        kind = integer(1, strings("cpu")) + integer(2, strings("nanoseconds"))
        yield message(_PERIOD_TYPE, kind)
        yield integer(_PERIOD, 10**9 // metadata.frequency)
    about = [source.title, f"Linux {metadata.kernel.release}", f"verdict {metadata.ledger.verdict}"]
    yield packed(_COMMENT, (strings(clean(text)) for text in about))
    default = Measure.TIME if Measure.TIME in measures else measures[0]
    yield integer(_DEFAULT_TYPE, strings(_TYPES[default][0]))

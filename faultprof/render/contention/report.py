"""The report of contention: a header, and a section for each part.

Knows: the order of the sections, what stands in the place of one that was not recorded, and the
object that ``faultprof contention --json`` prints.
Leaves to others: what a section says (its module).

The object has, from the recording's metadata, ``command`` (list of words), ``kernel``
(``release``, ``build_id``, ``machine``), ``created``, ``mode``, ``options``, ``ledger``
(``verdict``, ``counters``, and ``notes``, each with ``severity`` and ``text``) and
``schema_version``; ``run`` (null: all together) and
``runs`` (of those shown, ``index``, ``wall_s`` and ``on_cpu_s``); then ``occupancy``, ``locks``,
``folio``, ``yield``, ``outcomes`` and ``order``, each null where it was not recorded. What these
hold is said in the modules of their names. Times are in nanoseconds unless a name ends otherwise; a
histogram is a list of [upper bound in ns, count], buckets as in ``recording.histogram``.

The module of a section has ``lines(runs, terminal)`` and ``as_json(runs)``, both of the runs that
have the part (``RunInfo.contention``).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any

from faultprof.analysis.selection import Selection
from faultprof.recording.contention import (
    FOLIO,
    LOCKS,
    OCCUPANCY,
    ORDER,
    OUTCOMES,
    PARTS,
    YIELD,
)
from faultprof.recording.metadata import RunInfo
from faultprof.recording.opening import damaged
from faultprof.recording.reader import Recording
from faultprof.render.header import entries, entry, runs_text
from faultprof.render.terminal import Terminal

_TITLES = {
    OCCUPANCY: "CPUs inside a function at the same moment",
    LOCKS: "waits for kernel locks",
    FOLIO: "waits for folio locks, and wake-ups",
    YIELD: "what fault-around is good for",
    OUTCOMES: "faults by outcome",
    ORDER: "clears and copies of huge pages",
}
_MODULES = {YIELD: "yielding"}
_BAD = (KeyError, TypeError, ValueError, AttributeError)


def contention_lines(
    recording: Recording, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    """Yield the report as text.

    Raises:
        FaultprofError: exit code 4, when what a part has left is not what it writes.
    """
    metadata = recording.metadata
    shown = f"of {runs_text(metadata, selection)}"
    for key, text in entries(metadata, (("mode", metadata.mode), ("shown", shown))):
        yield from entry(key, text, terminal)
    for name in PARTS:
        yield ""
        runs = runs_with(name, recording, selection)
        if not runs:
            yield f"{name}: not recorded (record --{name})"
            continue
        yield f"{name}: {_TITLES[name]}"
        try:
            yield from _section(name).lines(runs, terminal)
        except _BAD as error:
            raise damaged(recording.path, f"what it has of {name} is incomplete") from error


def contention_json(recording: Recording, selection: Selection) -> Iterator[str]:
    """Yield the lines of the object.

    Raises:
        FaultprofError: exit code 4, when what a part has left is not what it writes.
    """
    metadata = recording.metadata
    data: dict[str, Any] = {
        "command": list(metadata.command),
        "kernel": asdict(metadata.kernel),
        "created": metadata.created,
        "mode": metadata.mode,
        "options": dict(metadata.options),
        "ledger": metadata.ledger.to_json(),
        "schema_version": metadata.schema_version,
        "run": selection.run,
        "runs": [
            {"index": one.index, "wall_s": one.wall_s, "on_cpu_s": one.on_cpu_s}
            for one in selection.chosen_runs(metadata)
        ],
    }
    for name in PARTS:
        runs = runs_with(name, recording, selection)
        try:
            data[name] = _section(name).as_json(runs) if runs else None
        except _BAD as error:
            raise damaged(recording.path, f"what it has of {name} is incomplete") from error
    yield from json.dumps(data, indent=2).split("\n")


def runs_with(name: str, recording: Recording, selection: Selection) -> Sequence[RunInfo]:
    """Return the chosen runs that have a part."""
    return [one for one in selection.chosen_runs(recording.metadata) if name in one.contention]


def section_module(name: str) -> str:
    """Return the name of the module that shows a part."""
    return f"faultprof.render.contention.{_MODULES.get(name, name)}"


def _section(name: str) -> ModuleType:
    return importlib.import_module(section_module(name))

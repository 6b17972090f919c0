"""What a run's own output said: numbers by name, and usemem's report line by line.

Knows: how it is kept in a recording.
Leaves to others: reading the output (``analysis.metrics``) and catching it (``capture.output``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class UsememTask(NamedTuple):
    """A line "N bytes / N usecs = N KB/s" of one of usemem's processes or threads."""

    bytes: int
    usecs: int
    kb_per_s: int


@dataclass(frozen=True, slots=True)
class UsememReport:
    """usemem's report, in the order in which its tasks printed it.

    Attributes:
        tasks: a line for each task.
        freed_usecs: how long each mapping took to be freed, in microseconds.
    """

    tasks: tuple[UsememTask, ...] = ()
    freed_usecs: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Whether there was any line."""
        return bool(self.tasks or self.freed_usecs)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "tasks": [task._asdict() for task in self.tasks],
            "freed_usecs": list(self.freed_usecs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> UsememReport:
        """Rebuild from :meth:`to_json`."""
        tasks = (
            UsememTask(int(one["bytes"]), int(one["usecs"]), int(one["kb_per_s"]))
            for one in data.get("tasks", ())
        )
        return cls(tuple(tasks), tuple(map(int, data.get("freed_usecs", ()))))


@dataclass(frozen=True, slots=True)
class Said:
    """What was found in a run's output.

    Attributes:
        metrics: numbers by name.
        usemem: usemem's report; empty where there was none.
        lacking: what was looked for and could not be found, in sentences.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    usemem: UsememReport = UsememReport()
    lacking: tuple[str, ...] = ()

"""The quality ledger: what a recording lost, and how far its numbers can be trusted.

Knows: the counters and notes of a recording and the words of its verdict.
Leaves to others: counting (capture) and printing (render).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "degraded"]

GOOD = "good"
DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about the data; ``degraded`` ones make the verdict."""

    severity: Severity
    text: str


@dataclass(slots=True)
class Ledger:
    """Counters by name (events, unless the name ends in a unit) and notes in order of finding."""

    counters: dict[str, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def count(self, name: str, amount: int) -> None:
        """Add ``amount`` to counter ``name``; a zero makes the counter visible."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def info(self, text: str) -> None:
        """Add what a reader must know though nothing was lost."""
        self._add(Note("info", text))

    def degrade(self, text: str) -> None:
        """Add a loss; it makes the verdict ``degraded``."""
        self._add(Note("degraded", text))

    def _add(self, note: Note) -> None:
        if note not in self.notes:
            self.notes.append(note)

    @property
    def degraded(self) -> bool:
        """Whether any note says that data were lost."""
        return any(note.severity == "degraded" for note in self.notes)

    @property
    def verdict(self) -> str:
        """``good``, or ``degraded: `` with the losses in words."""
        losses = [note.text for note in self.notes if note.severity == "degraded"]
        return f"{DEGRADED}: " + "; ".join(losses) if losses else GOOD

    def to_json(self) -> dict[str, Any]:
        """Return plain data with the keys ``verdict``, ``counters`` and ``notes``."""
        return {
            "verdict": self.verdict,
            "counters": dict(self.counters),
            "notes": [{"severity": note.severity, "text": note.text} for note in self.notes],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ledger:
        """Rebuild a ledger from :meth:`to_json`; the verdict follows from the notes."""
        return cls(
            counters={str(name): int(value) for name, value in data["counters"].items()},
            notes=[Note(note["severity"], str(note["text"])) for note in data["notes"]],
        )

"""An account of an imported text's lines: how many, and which could not be read.

Knows: how much of a line is kept, and how many such lines are kept in full.
Leaves to others: reading (the formats) and printing (``render.imported``).

Texts may be larger than memory, and all of it may be unreadable. So every unread line is counted,
and the first ``MOST_NAMED`` are kept by number and text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from faultprof.analysis.mail_text import Unread

MOST_NAMED = 1000
_LONGEST = 200  # characters of an unread line that are kept


@dataclass(slots=True)
class Account:
    """What became of the lines of one text.

    Attributes:
        lines: how many there are.
        unread_lines: how many of them could not be read.
        unread: the first of these.
        prose: (first, last) lines of passages in which nothing was looked for, such as a mail's.
    """

    lines: int = 0
    unread_lines: int = 0
    unread: list[Unread] = field(default_factory=list)
    prose: tuple[tuple[int, int], ...] = ()

    def refuse(self, line: int, text: str, reason: str) -> None:
        """Note that this line could not be read, and why."""
        self.unread_lines += 1
        if len(self.unread) < MOST_NAMED:
            self.unread.append(Unread(line, text.strip()[:_LONGEST], reason))

    @property
    def is_full(self) -> bool:
        """Whether further unread lines are only counted; their numbers need not be found out."""
        return len(self.unread) >= MOST_NAMED

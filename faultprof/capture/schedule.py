"""Which command runs when: once, again and again, or two taking turns.

Knows: the order of a session's runs, and which of them belong together.
Leaves to others: running them (session), and comparing what belongs together (analysis).

Two commands that are compared run in blocks, each once a block and in random order there: what
the machine does meanwhile (it warms up, its memory fragments) then disturbs both alike, and the
difference within a block is free of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from faultprof.capture.options import RecordOptions

MOST_RUNS = 1000  # each is a process of a few hundred KB that waits for its turn


@dataclass(frozen=True, slots=True)
class Schedule:
    """The runs of a session.

    Attributes:
        recordings: what is recorded, and how; all but command and output are the same in all.
        order: for each run, in the order in which they run, the recording that it belongs to.
        seed: what the order came from; None where nothing is interleaved.
        session: a name that no other session has.
    """

    recordings: tuple[RecordOptions, ...]
    order: tuple[int, ...] = (0,)
    seed: int | None = None
    session: str = ""

    @property
    def repeat(self) -> int:
        """How many runs each recording is to have."""
        return len(self.order) // len(self.recordings)

    def metadata(self, runs: int) -> dict[str, Any]:
        """Return what a recording says of the schedule when it has ``runs`` runs."""
        if self.seed is None:
            return {"repeat": self.repeat}
        interleaved = {"session": self.session, "blocks": list(range(runs)), "seed": self.seed}
        return {"repeat": self.repeat, "interleaved": interleaved}


def fresh_seed() -> int:
    """Return a seed that nobody has chosen, below 2^32."""
    return int.from_bytes(os.urandom(4), "little")


def repeated(options: RecordOptions, count: int) -> Schedule:
    """Return ``count`` runs of one command, for one recording."""
    return Schedule((options,), (0,) * count)


def interleaved(recordings: tuple[RecordOptions, ...], blocks: int, seed: int) -> Schedule:
    """Return ``blocks`` blocks, in each of which every recording gets one run."""
    import random

    draw = random.Random(seed)
    order: list[int] = []
    for _ in range(blocks):
        block = list(range(len(recordings)))
        draw.shuffle(block)
        order += block
    return Schedule(recordings, tuple(order), seed, os.urandom(16).hex())

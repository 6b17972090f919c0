"""The order of a session's runs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from faultprof.capture.options import RecordOptions
from faultprof.capture.schedule import interleaved, repeated

BOTH = (RecordOptions(Path("a"), command=("a",)), RecordOptions(Path("b"), command=("b",)))


def test_one_command_again_and_again() -> None:
    schedule = repeated(BOTH[0], 3)
    assert schedule.order == (0, 0, 0)
    assert schedule.repeat == 3
    assert schedule.metadata(2) == {"repeat": 3}


@given(st.integers(1, 50), st.integers(0, 1 << 32))
def test_each_block_has_both_once(blocks: int, seed: int) -> None:
    schedule = interleaved(BOTH, blocks, seed)
    assert schedule.repeat == blocks
    pairs = [schedule.order[start : start + 2] for start in range(0, 2 * blocks, 2)]
    assert all(sorted(pair) == [0, 1] for pair in pairs)
    assert schedule.order == interleaved(BOTH, blocks, seed).order


def test_the_order_is_drawn_and_no_side_is_always_first() -> None:
    first = [interleaved(BOTH, 1, seed).order[0] for seed in range(200)]
    assert 60 < sum(first) < 140  # 1 in 10^8 by chance


def test_what_the_recordings_say_of_it() -> None:
    schedule = interleaved(BOTH, 3, 7)
    stated = schedule.metadata(2)["interleaved"]
    assert (stated["blocks"], stated["seed"]) == ([0, 1], 7)
    assert stated["session"] != interleaved(BOTH, 3, 7).session

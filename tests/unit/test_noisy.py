"""A test that is marked as noisy: tried again, and with new fixtures."""

from __future__ import annotations

import pytest

made: list[int] = []


@pytest.fixture
def number() -> int:
    made.append(len(made))
    return made[-1]


@pytest.mark.noisy("itself")
def test_what_fails_twice_has_a_third_chance(number: int) -> None:
    assert number == 2


def test_each_attempt_had_its_own_fixtures() -> None:
    assert made == [0, 1, 2]

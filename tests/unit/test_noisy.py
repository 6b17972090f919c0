"""A test that is marked as noisy: tried again, and with new fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

made: list[int] = []


@pytest.fixture
def number() -> Iterator[int]:
    made.append(len(made))
    yield made[-1]


@pytest.mark.noisy("itself")
def test_what_fails_twice_has_a_third_chance(number: int) -> None:
    assert number == 2


def test_each_attempt_had_its_own_fixtures() -> None:
    assert made == [0, 1, 2]

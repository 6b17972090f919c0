"""A test that is marked as noisy: tried again, and with new fixtures."""

from __future__ import annotations

from itertools import count

import pytest

numbers, of_modules, of_sessions = count(), count(), count()


@pytest.fixture
def number() -> int:
    return next(numbers)


@pytest.fixture(scope="module")
def of_module() -> int:
    return next(of_modules)


@pytest.fixture(scope="session")
def of_session() -> int:
    return next(of_sessions)


@pytest.mark.noisy("itself")
def test_what_fails_twice_has_a_third_chance(number: int, of_module: int, of_session: int) -> None:
    assert (number, of_module, of_session) == (2, 2, 0)


def test_the_last_attempt_left_its_fixtures_to_the_next_test(of_module: int) -> None:
    assert of_module == 2

"""Lists of CPUs as the kernel writes them."""

from __future__ import annotations

import pytest

from faultprof.kernel.cpus import parse_cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", [0]), ("0-3\n", [0, 1, 2, 3]), ("0,2-3,8", [0, 2, 3, 8]), ("5-5", [5])],
)
def test_lists(text: str, cpus: list[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["", "x", "0,,1"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpu_list(text)

"""What a delay of known length does: on a machine whose time is the number of instructions.

On such a machine (vm/machine.py) a piece of code takes as long as it has instructions. What is
compared is then the method, and not what an emulator's spells make of it.
"""

from __future__ import annotations

import pytest

from .perturbing import perturb

pytestmark = pytest.mark.noisy("an interrupt")


@pytest.mark.usefixtures("small_pages")
def test_a_delay_on_the_critical_path_has_an_index_of_one(pages: str) -> None:
    found = perturb("do_anonymous_page", "0,5us,10us", 4, command=(pages, "2000"))
    assert found["calls"] == pytest.approx(2_000, rel=0.1)
    assert found["index"]["value"] == pytest.approx(1.0, abs=0.15)
    assert found["index"]["low"] > 0
    assert found["verdict"] == "on the critical path"

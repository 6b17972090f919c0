"""What a delay of known length does: on a machine whose time is the number of instructions.

On such a machine (vm/machine.py) a piece of code takes as long as it has instructions. What is
compared is then the method, and not what an emulator's spells make of it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.noisy("an interrupt")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Compile the program that writes to pages."""
    program = tmp_path_factory.mktemp("pages") / "pages"
    source = Path(__file__).with_name("pages.c")
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    return str(program)


@pytest.fixture
def small_pages() -> Iterator[None]:
    """Fault in pages of the base size, whatever the distribution's default is."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    before = setting.read_text().partition("[")[2].partition("]")[0]
    setting.write_text("never")
    yield
    setting.write_text(before)


@pytest.mark.usefixtures("small_pages")
def test_a_delay_on_the_critical_path_has_an_index_of_one(pages: str) -> None:
    found = perturb("do_anonymous_page", "0,5us,10us", 4, command=(pages, "2000"))
    assert found["calls"] == pytest.approx(2_000, rel=0.1)
    assert found["index"]["value"] == pytest.approx(1.0, abs=0.15)
    assert found["index"]["low"] > 0
    assert found["verdict"] == "on the critical path"


def perturb(
    function: str, delays: str, repeat: int, *options: str, command: tuple[str, ...]
) -> dict[str, Any]:
    from tests.running import run

    common = ["--delay", delays, "--repeat", str(repeat), "--seed", "1", "--no-cost", "--json"]
    done = run("perturb", "--at", function, *common, *options, "--", *command, timeout=600)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    found = json.loads(done.stdout)
    print({name: found[name] for name in ("slope", "expected_slope", "index", "verdict")})
    assert isinstance(found, dict)
    return found

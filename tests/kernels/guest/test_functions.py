"""What the catalogue says of a kernel, against what that kernel does when asked to attach."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from faultprof.kernel.resolved import Resolved

TRACING = Path("/sys/kernel/tracing")
GROUP = "fptest"
PAGES = 211


@pytest.fixture(scope="module")
def resolved() -> list[Resolved]:
    from faultprof.kernel.catalogue import CATALOGUE
    from faultprof.kernel.resolve import resolve
    from faultprof.kernel.view import KernelView

    return resolve(CATALOGUE, KernelView.read())


def define(line: str) -> bool:
    """Add a probe to tracefs, or remove one; whether the kernel accepts it."""
    # Not Path.open("a"), which would seek to the end: tracefs refuses that.
    events = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(events, f"{line}\n".encode())
    except OSError:
        return False
    finally:
        os.close(events)
    return True


@contextlib.contextmanager
def counted(places: dict[str, str]) -> Iterator[dict[str, int]]:
    """Count hits of probes (``p`` or ``r``, then a place) by name, while the block runs."""
    hits: dict[str, int] = {}
    for name, place in places.items():
        kind, _, target = place.partition(" ")
        assert define(f"{kind}:{GROUP}/{name} {target}"), place
    try:
        (TRACING / "events" / GROUP / "enable").write_text("1")
        yield hits
        (TRACING / "events" / GROUP / "enable").write_text("0")
        for line in (TRACING / "kprobe_profile").read_text().splitlines():
            name, count, _ = line.split()
            hits[name] = int(count)
    finally:
        (TRACING / "events" / GROUP / "enable").write_text("0")
        for name in places:
            define(f"-:{GROUP}/{name}")


def test_every_place_takes_a_probe_and_a_return_probe(resolved: list[Resolved]) -> None:
    from faultprof.kernel.resolved import How

    refused, number = [], 0
    for one in resolved:
        for place in one.places:
            for kind in "p" if one.how is How.INLINED else "pr":
                number += 1
                event = f"{GROUP}/e{number}"
                if define(f"{kind}:{event} {place}"):
                    assert define(f"-:{event}")
                else:
                    refused.append((one.name, kind, str(place)))
    assert number > 90
    assert refused == []


def test_what_is_said_to_be_closed_is_refused(resolved: list[Resolved]) -> None:
    closed = [one for one in resolved if not one.traceable and one.visible]
    accepted = [one.name for one in closed if define(f"p:{GROUP}/closed {one.visible}")]
    assert {"exc_page_fault", "folio_wait_bit_common", "copy_page"} <= {one.name for one in closed}
    assert accepted == []


def test_fentry_attaches_where_it_is_said_to(resolved: list[Resolved]) -> None:
    from faultprof.bpf import syscall
    from faultprof.kernel.btf_types import BtfTypes

    nothing = syscall.instruction(0xB7) + syscall.instruction(0x95)  # r0 = 0; exit
    types = BtfTypes.read()
    assert types is not None
    targets = [one for one in resolved if one.fentry]
    assert len(targets) > 40
    for one in targets:
        target = types.function_id(one.places[0].symbol)
        assert target is not None
        with (
            syscall.loaded(
                syscall.ProgramType.TRACING,
                nothing,
                attach_type=syscall.ATTACH_FENTRY,
                attach_btf_id=target,
            ) as program,
            syscall.attached_raw_tracepoint(program, None),
        ):
            pass


def test_the_fault_paths_own_do_fault_is_probed(resolved: list[Resolved]) -> None:
    """Linux 6.1 has two functions of this name, and BTF describes the other one."""
    (place,) = next(one for one in resolved if one.name == "do_fault").places
    with (
        Path("/dev/shm/faultprof-test").open("wb+") as file,
        counted({"enter": f"p {place}", "leave": f"r {place}"}) as hits,
    ):
        Path(file.name).unlink()
        file.truncate(PAGES * mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), 0) as memory:
            for page in range(PAGES):  # each a hole: one read fault, nothing to map around
                assert memory[page * mmap.PAGESIZE] == 0
    # Other processes may fault too, though hardly so often.
    assert PAGES <= hits["enter"] < 2 * PAGES
    assert abs(hits["leave"] - hits["enter"]) <= 2


def test_conditions_look_at_the_right_argument(resolved: list[Resolved]) -> None:
    from faultprof.kernel.conditions import Kind

    conditions = {one.condition.kind: one.condition for one in resolved if one.condition}
    read = conditions[Kind.READ_FAULT]
    assert (read.host, read.argument) == ("do_fault", 0)
    assert read.offsets["vm_fault.vma"] == 0
    assert read.knobs["OFFSET_VM_FAULT_FLAGS"] == read.offsets["vm_fault.flags"] > 0


def test_the_command_lists_them(resolved: list[Resolved]) -> None:
    command = ["faultprof", "functions"]
    listing = subprocess.run([*command, "--json"], capture_output=True, check=True, text=True)
    content = json.loads(listing.stdout)
    assert content["kernel"] == os.uname().release
    assert content["obstacles"] == []
    assert content["traceable"] == sum(one.traceable for one in resolved) > 50
    text = subprocess.run(
        [*command, "--preset", "read"], capture_output=True, check=True, text=True
    )
    lines = text.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:2] == ["do_read_fault", "condition"] for line in lines)


def test_unmounted_tracefs_is_named_with_its_remedy() -> None:
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-ec"),
            "umount /sys/kernel/tracing; umount /sys/kernel/debug/tracing 2>/dev/null || true;"
            "umount /sys/kernel/debug; faultprof functions -f do_fault",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "tracefs is not mounted" in done.stdout
    assert "mount -t tracefs" in done.stdout
    assert "do_fault  symbol" in done.stdout

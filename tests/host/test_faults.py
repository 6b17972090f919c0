"""Page faults by kind, against faults whose number and kind are known."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from faultprof.bpf.syscall import enable_run_stats
from faultprof.capture.fault_kinds import FaultCounter
from faultprof.capture.sampling import Sampler, SamplingOptions
from faultprof.capture.scope import Scope

PAGES = 2000
SIZE = PAGES * mmap.PAGESIZE
# What Python takes beside: its own memory, now and then.
OTHERS = 200

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="error codes of other architectures are not known"
)


def memory() -> mmap.mmap:
    fresh = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    fresh.madvise(mmap.MADV_NOHUGEPAGE)
    return fresh


def read(pages: mmap.mmap) -> None:
    for place in range(0, SIZE, mmap.PAGESIZE):
        _ = pages[place]


def write(pages: mmap.mmap) -> None:
    for place in range(0, SIZE, mmap.PAGESIZE):
        pages[place] = 1


def read_and_write(pages: mmap.mmap) -> None:
    read(pages)
    write(pages)


def copy_in(pages: mmap.mmap) -> None:
    with Path("/dev/zero").open("rb", buffering=0) as zeros:
        zeros.readinto(pages)


@pytest.mark.parametrize(
    ("touch", "kinds"),
    [
        (read, {"read": PAGES}),
        (write, {"write": PAGES}),
        (read_and_write, {"read": PAGES, "protection": PAGES}),
        (copy_in, {"write": PAGES, "kernel": PAGES}),
    ],
)
@pytest.mark.parametrize("everything", [False, True])
def test_known_faults(
    touch: Callable[[mmap.mmap], None], kinds: dict[str, int], everything: bool
) -> None:
    scope = Scope(None if everything else os.getpid())
    options = SamplingOptions(99, "cpu-clock", 64, False, False)
    with (
        closing(Sampler(scope, options)) as sampler,
        closing(FaultCounter(sampler.lend_scope())) as faults,
        memory() as pages,
    ):
        sampler.start()
        before = faults.read()
        touch(pages)
        found = {kind: count - before[kind] for kind, count in faults.read().items()}
    assert list(found) == ["read", "write", "protection", "exec", "kernel", "minor", "major"]
    for kind in ("read", "write", "protection", "exec", "kernel"):
        assert found[kind] >= kinds.get(kind, 0)
        if not everything:
            assert found[kind] <= kinds.get(kind, 0) + OTHERS
    if not everything:
        every = sum(found[kind] for kind in ("read", "write", "protection", "exec"))
        # The kernel counts a fault when it has been handled, and some bad addresses not at all.
        assert abs(every - found["minor"] - found["major"]) <= OTHERS / 10


def test_the_cost_is_counted_while_it_is_asked_for() -> None:
    options = SamplingOptions(99, "cpu-clock", 64, False, False)
    with (
        closing(Sampler(Scope(os.getpid()), options)) as sampler,
        closing(FaultCounter(sampler.lend_scope())) as faults,
    ):
        sampler.start()
        before = faults.costs()
        switch = enable_run_stats()
        with memory() as pages:
            write(pages)
        os.close(switch)
        runs, ns = (now - then for now, then in zip(faults.costs(), before, strict=True))
        assert runs >= PAGES
        assert 0 < ns < runs * 10_000

"""Counts do_read_fault by a condition in do_fault and by its inlined bodies' addresses, at once.

Run in a guest with debuginfo: prints both counts, of the same faults.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from faultprof.capture.scope import Scope
from faultprof.capture.trace_plan import make_plan, missing_hosts
from faultprof.capture.tracing import Tracer
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How
from faultprof.kernel.selection import choose
from faultprof.kernel.view import KernelView

if TYPE_CHECKING:
    from faultprof.kernel.resolved import Resolved

NAME = "do_read_fault"


def _resolved(view: KernelView, *names: str) -> list[Resolved]:
    return resolve(choose((), names, view), view)


def main() -> None:
    """Trace the command given, and print what each way has counted."""
    with_debuginfo, without = KernelView.read(), KernelView.read(debuginfo=False)
    (by_address,) = _resolved(with_debuginfo, NAME)
    (by_condition,) = _resolved(without, NAME)
    assert by_address.how is How.INLINED, by_address
    assert by_condition.how is How.CONDITION, by_condition
    hosts = _resolved(without, *missing_hosts([by_condition]))
    plan = make_plan([by_condition, *hosts, replace(by_address, name="by address")], "kprobe")
    assert without.types is not None
    with closing(Tracer(Scope(os.getpid()), plan, without.types)) as tracer:
        assert not tracer.failed, tracer.failed
        tracer.start()
        subprocess.run(sys.argv[1:], check=True)
        counts = tracer.calls()
    print(f"{NAME}: {counts[NAME]} by condition, {counts['by address']} by address")


main()

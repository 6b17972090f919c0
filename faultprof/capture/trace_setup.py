"""From what is asked for to a tracer on this kernel.

Knows: that functions are chosen, resolved on this kernel, and refused by name where they cannot
be traced.
Leaves to others: each of these steps (``kernel``, ``trace_plan``), tracing (``tracing``).
"""

from __future__ import annotations

from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.capture.options import RecordOptions
from faultprof.capture.scope import Scope
from faultprof.capture.trace_plan import TracePlan, make_plan, missing_hosts
from faultprof.capture.tracing import Tracer
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.catalogue import USUAL
from faultprof.kernel.conditions import Types
from faultprof.kernel.cpus import online_cpus
from faultprof.kernel.resolve import resolve
from faultprof.kernel.selection import choose, require_traceable
from faultprof.kernel.view import KernelView
from faultprof.recording.contention import OCCUPANCY


def open_tracer(options: RecordOptions, scope: Scope, view: KernelView) -> Tracer:
    """Attach what ``options`` ask for; quiet until started.

    Args:
        options: presets, functions, how to attach.
        scope: whose calls are traced.
        view: the running kernel.

    Raises:
        FaultprofError: nothing of this can be traced here (exit code 3), or a name is unknown.
    """
    plan = trace_plan(options, view)
    occupancy = None
    if OCCUPANCY in options.contention_parts:
        occupancy = OccupancyKnobs(len(plan.functions), max(online_cpus()) + 1)
    return Tracer(
        scope,
        plan,
        _types(view),
        off_cpu=options.off_cpu,
        occupancy=occupancy,
        pausable=options.pausable,
    )


def trace_plan(options: RecordOptions, view: KernelView) -> TracePlan:
    """Return which functions are traced on the kernel of ``view``, and how."""
    presets = options.presets or (() if options.functions else USUAL)
    wanted = resolve(choose(presets, options.functions, view), view)
    traceable = require_traceable(wanted, view, named=options.functions)
    hosts = resolve(choose((), missing_hosts(traceable.traced), view), view)
    plan = make_plan([*traceable.traced, *hosts], options.attach, preempts=view.preempts)
    plan.refused += traceable.left_out
    if not plan.functions:
        raise FaultprofError(
            f"nothing of this can be traced with --attach {options.attach}",
            "see 'faultprof functions' for what can be traced here, and how",
        )
    return plan


def _types(view: KernelView) -> Types:
    if view.types is None:
        raise unsupported(
            "tracing needs the kernel's BTF (/sys/kernel/btf/vmlinux)", "record with --mode sample"
        )
    return view.types

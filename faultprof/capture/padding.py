"""Runs a command without probes and under probes that cost more than they do, in turn.

Knows: the order of the runs, how long each function's probes are to wait, and what is taken down.
Leaves to others: the waiting (``probes/pad.h``), what a probe costs and what it all means
(``analysis.padding``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from faultprof.bpf.janitor import Janitor
from faultprof.capture.bundled import with_usemem
from faultprof.capture.command import check_directory
from faultprof.capture.dosing import Runner, TimedRun, blocks
from faultprof.capture.identity import Identity
from faultprof.capture.options import RecordOptions
from faultprof.capture.outcome import functions_json
from faultprof.capture.scope import Scope
from faultprof.capture.trace_plan import TracePlan
from faultprof.capture.trace_setup import trace_plan
from faultprof.capture.tracing import Tracer
from faultprof.capture.wait import Signals
from faultprof.errors import unsupported
from faultprof.kernel.privileges import require_privileges
from faultprof.kernel.view import KernelView

_AHEAD = -1  # the block of the run before all blocks

CostsOf = Callable[[Mapping[str, Any]], Mapping[str, float]]
"""From a recording's ``metadata.functions`` to the ns that a hit of each costs, where known."""


@dataclass(frozen=True, slots=True)
class PaddingRun:
    """One run.

    Attributes:
        times: of their cost that its probes were to cost; 0 without probes.
        timed: how it went.
        calls: of each traced function.
        padded_ns: how long its probes waited.
    """

    times: int
    timed: TimedRun
    calls: Mapping[str, int] = field(default_factory=dict)
    padded_ns: int = 0


def run_padded(
    options: RecordOptions,
    identity: Identity | None,
    costs: CostsOf,
    times: Sequence[int],
    *,
    repeat: int,
    seed: int,
    say: Callable[[str], None],
    check: Callable[[PaddingRun], object],
) -> tuple[list[PaddingRun], Mapping[str, Any]]:
    """Run the command of ``options`` so many times in each way; nothing is recorded.

    Args:
        options: what would be traced, and how.
        identity: who called; None for ourselves.
        costs: of the probes.
        times: the multiples of that.
        repeat: how often, each way.
        seed: of the order within a block.
        say: told how it goes.
        check: called with each run; may raise.

    Returns:
        The runs, and how each function was traced, as a recording's metadata has it.

    Raises:
        FaultprofError: it cannot be done here, or the command failed.
    """
    check_directory()
    require_privileges()
    who = None if options.as_root else identity
    runs: list[PaddingRun] = []
    with ExitStack() as undo:
        signals = undo.enter_context(Signals())
        undo.callback(Janitor().dismiss)
        view = KernelView.read(owner=identity.owner if identity is not None else None)
        plan = trace_plan(options, view)
        functions = functions_json(plan)
        known = costs(functions)
        costs_ns = [known.get(one.name, 0.0) for one in plan.functions]
        runner = Runner(with_usemem(options.command, identity, say), who, signals)
        for block, factor in [(_AHEAD, times[0]), *blocks((0, *times), repeat, seed)]:
            waits = [round((factor - 1) * ns) for ns in costs_ns]
            run = _under_probes(runner, plan, view, factor, waits) if factor else _without(runner)
            check(run)
            runs += [run] * (block != _AHEAD)
            way = f"probes at {factor}x their cost" if factor else "no probes"
            say(f"block {block + 1} of {repeat}: {way}, {run.timed.wall_s:.3f} s")
    return runs, functions


def _without(runner: Runner) -> PaddingRun:
    return PaddingRun(0, runner.run(lambda _: None))


def _under_probes(
    runner: Runner, plan: TracePlan, view: KernelView, times: int, waits_ns: Sequence[int]
) -> PaddingRun:
    types = view.types
    if types is None:
        raise unsupported("tracing needs the kernel's BTF", "there are no probes to verify")
    with ExitStack() as undo:
        attached: list[Tracer] = []

        def attach(pid: int) -> None:
            tracer = Tracer(Scope(pid, held=True), plan, types, padded=True)
            attached.append(undo.enter_context(closing(tracer)))
            tracer.pad(waits_ns)
            tracer.start()

        timed = runner.run(attach)
        traced, waited = attached[0].stop(), attached[0].padded_ns()
    calls: Counter[str] = Counter()
    for path, totals in traced.nodes.items():
        calls[plan.functions[path[-1]].name] += totals.calls
    return PaddingRun(times, timed, dict(calls), waited)

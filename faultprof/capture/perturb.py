"""A perturbation from start to end: attach, run the blocks, detach, see what a call takes.

Knows: the order of these steps, and that whatever fails, nothing stays attached.
Leaves to others: each step, and what it all means (``analysis.perturbation``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from faultprof.bpf.janitor import Janitor
from faultprof.bpf.probes import Side
from faultprof.capture.bundled import with_usemem
from faultprof.capture.calibration_store import UNASKED_SECONDS, at_hand, stored
from faultprof.capture.command import check_directory
from faultprof.capture.dosing import DosedRun, DoseSession, Runner, blocks
from faultprof.capture.identity import Identity
from faultprof.capture.options import Attach, RecordOptions
from faultprof.capture.perturbing import Delayer, Dose, check_cpus, check_delays
from faultprof.capture.schedule import repeated
from faultprof.capture.scope import Scope
from faultprof.capture.session import Session
from faultprof.capture.trace_setup import trace_plan
from faultprof.capture.tracing import Tracer
from faultprof.capture.wait import Signals
from faultprof.errors import ExitCode, FaultprofError
from faultprof.kernel.privileges import require_privileges
from faultprof.kernel.view import KernelView
from faultprof.progress import Steps
from faultprof.recording.calibration import Calibration

_AHEAD = -1  # the block of the run that goes ahead: it warms up, and tells the watchdog how long


@dataclass(frozen=True, slots=True)
class PerturbOptions:
    """What to delay, by how much, and how often to look.

    ``delays_ns`` in rising order, the first 0; ``timeout``: how many times longer than undelayed a
    run may take; ``keep``: where a recording of each dose goes; ``cost``: whether one more run is
    traced to see what a call takes.
    """

    command: tuple[str, ...]
    at: tuple[str, ...]
    delays_ns: tuple[int, ...]
    where: Side = "entry"
    attach: Attach = "auto"
    repeat: int = 5
    seed: int = 1
    every: int = 1
    jitter: bool = False
    cpus: tuple[int, ...] | None = None
    timeout: float = 10.0
    force: bool = False
    keep: Path | None = None
    cost: bool = True
    as_root: bool = False


@dataclass(frozen=True, slots=True)
class Traced:
    """What calls of the delayed functions took in a run without delays, traced by ``kind``."""

    calls: int
    inclusive_ns: int
    kind: str
    calibration: Calibration | None


@dataclass(slots=True)
class Perturbed:
    """All that was measured; ``method``: how the delays were attached."""

    method: str
    runs: list[DosedRun] = field(default_factory=list)
    traced: Traced | None = None


def run_perturbation(
    options: PerturbOptions,
    identity: Identity | None,
    say: Callable[[str], None],
    check: Callable[[DosedRun], object],
) -> Perturbed:
    """Run a command with delays and return what was measured.

    Args:
        options: what to do.
        identity: who runs the command; None for ourselves.
        say: told how it goes.
        check: called with each run; may raise, as for a metric that is not there.

    Raises:
        FaultprofError: it cannot be done here, or the command failed.
    """
    _check(options)
    owner = identity.owner if identity is not None else None
    who = None if options.as_root else identity
    with ExitStack() as undo:
        signals = undo.enter_context(Signals())
        undo.callback(Janitor().dismiss)
        if options.keep is not None:
            at_hand(owner, say, seconds=UNASKED_SECONDS)  # while nothing is delayed yet
        view = KernelView.read(owner=owner)
        longest = max(options.delays_ns) * (2 if options.jitter else 1)
        delayer = undo.enter_context(
            closing(Delayer(options.at, options.where, options.attach, longest, view))
        )
        runner = Runner(with_usemem(options.command, identity, say), who, signals)
        found = Perturbed(delayer.method)
        steps = undo.enter_context(Steps("run", 1 + options.repeat * len(options.delays_ns)))
        for run in _doses(options, runner, delayer):
            check(run)
            found.runs.append(run)
            steps.advance(f"delay {run.delay_ns} ns, {run.timed.wall_s:.3f} s")
        _refuse_without_interrupts(found.runs)
        if options.keep is not None:
            _keep(options, options.keep, delayer, identity, say)
        delayer.close()
        if options.cost and any(one.hits for one in found.runs[0].counts.values()):
            say("tracing one run, to see what a call takes")
            found.traced = _trace(options.at, runner, view, owner)
    del found.runs[0]
    return found


def _check(options: PerturbOptions) -> None:
    check_directory()
    check_delays(options.delays_ns, force=options.force)
    check_cpus(options.cpus or ())
    require_privileges()


def _doses(options: PerturbOptions, runner: Runner, delayer: Delayer) -> Iterator[DosedRun]:
    """Return the runs, one ahead and then the blocks, each as it is asked for."""
    session = DoseSession(
        runner,
        delayer,
        every=options.every,
        jitter=options.jitter,
        cpus=options.cpus,
        timeout=options.timeout,
    )
    order = [(_AHEAD, 0), *blocks(options.delays_ns, options.repeat, options.seed)]
    return (session.run(delay_ns, block) for block, delay_ns in order)


def _refuse_without_interrupts(runs: Sequence[DosedRun]) -> None:
    """Refuse a function of which every call came with interrupts off: nothing was delayed."""
    for name in runs[0].counts:
        hits = sum(run.counts[name].hits for run in runs)
        if hits and hits == sum(run.counts[name].interrupts_off for run in runs):
            raise FaultprofError(
                f"{name} runs with interrupts off: it was not held up",
                "delay its caller",
                ExitCode.UNSUPPORTED,
            )


def _trace(
    names: Sequence[str], runner: Runner, view: KernelView, owner: tuple[int, int] | None
) -> Traced | None:
    """Run the command under a tracer of these functions alone."""
    options = RecordOptions(Path(), functions=tuple(names))
    plan = trace_plan(options, view)
    assert view.types is not None  # the delays needed them
    with ExitStack() as undo:
        tracers: list[Tracer] = []

        def prepare(pid: int) -> None:
            assert view.types is not None
            tracer = Tracer(Scope(pid, held=True), plan, view.types)
            tracers.append(undo.enter_context(closing(tracer)))
            tracer.start()

        runner.run(prepare)
        nodes = tracers[0].stop().nodes
    own = {one.number for one in plan.functions if one.name in names and one.timed}
    found = [one for path, one in nodes.items() if path[-1] in own and not own & {*path[:-1]}]
    calls = sum(one.calls for one in found)
    if not calls:
        return None
    kind = next(one.method or "kprobe" for one in plan.functions if one.number in own)
    return Traced(calls, sum(one.inclusive_ns for one in found), kind, stored(owner))


def _keep(
    options: PerturbOptions,
    folder: Path,
    delayer: Delayer,
    identity: Identity | None,
    say: Callable[[str], None],
) -> None:
    """Record one more run with each dose.

    The tracer attaches after the delays, and in the same way: then its clock is read before a
    function is held up, and the delay is a part of that function's time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for delay_ns in options.delays_ns:
        recording = RecordOptions(
            output=folder / f"delay-{delay_ns}ns.fprof",
            command=options.command,
            mode="trace",
            presets=("all",),
            functions=options.at,
            attach=delayer.method,
            as_root=options.as_root,
        )
        # The session forks the command itself: we and all that we fork are delayed.
        cpus = None if options.cpus is None else frozenset(options.cpus)
        dose = Dose(delay_ns, 1 << 62, 3600.0, options.every, options.jitter, cpus)
        delayer.aim(Scope(os.getpid()), dose)
        status = Session(repeated(recording, 1), say, identity=identity).run()
        delayer.done()
        if status:
            raise FaultprofError(f"the command failed with status {status}", "", status)

"""Runs a command without and with a session's probes, in turn, to see what they do to it.

Knows: the order of the runs, and what is taken down of each.
Leaves to others: attaching (``engines``), running (``dosing``), what it means
(``analysis.observer``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

from faultprof.bpf.janitor import Janitor
from faultprof.capture.bundled import with_usemem
from faultprof.capture.calibration_beside import measured_sample
from faultprof.capture.calibration_store import at_hand, stored
from faultprof.capture.choice import choose_mode
from faultprof.capture.command import check_directory
from faultprof.capture.dosing import Runner, TimedRun, blocks
from faultprof.capture.engines import Captured, Engines
from faultprof.capture.identity import Identity
from faultprof.capture.machine import cpu_info, kernel_info
from faultprof.capture.options import RecordOptions
from faultprof.capture.outcome import functions_json
from faultprof.capture.sampling import allow_many_events
from faultprof.capture.scope import Scope
from faultprof.capture.wait import Signals
from faultprof.kernel.privileges import require_privileges
from faultprof.progress import Steps
from faultprof.recording.calibration import SAMPLE, Calibration

_AHEAD = -1  # the block of the run before all blocks


@dataclass(frozen=True, slots=True)
class ProbedRun:
    """One run.

    Attributes:
        block: the number of its block.
        probed: whether probes were in place.
        timed: how it went.
        samples: that were taken.
        calls: of each traced function.
        functions: how each was traced, as a recording's metadata has it.
    """

    block: int
    probed: bool
    timed: TimedRun
    samples: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, Any] = field(default_factory=dict)


def run_overhead(
    options: RecordOptions,
    identity: Identity | None,
    repeat: int,
    seed: int,
    say: Callable[[str], None],
    check: Callable[[ProbedRun], object],
) -> tuple[list[ProbedRun], Calibration | None]:
    """Run the command of ``options`` so many times each way; nothing is recorded.

    Args:
        options: what would be recorded, and how.
        identity: who called; None for ourselves.
        repeat: runs without and with probes each.
        seed: of their order within a block.
        say: told how it goes.
        check: called with each run; may raise.

    Raises:
        FaultprofError: it cannot be done here, or the command failed.
    """
    check_directory()
    require_privileges()
    owner = identity.owner if identity is not None else None
    who = None if options.as_root else identity
    runs: list[ProbedRun] = []
    with ExitStack() as undo:
        signals = undo.enter_context(Signals())
        undo.callback(Janitor().dismiss)
        allow_many_events()
        choice = choose_mode(options)
        calibration = _costs(owner, say, calibrate=choice.trace and options.calibrate)
        runner = Runner(with_usemem(options.command, identity, say), who, signals)
        # Warms up what both ways find warm, and fails at once where probes cannot be had.
        _probed(runner, options, _AHEAD, owner, trace=choice.trace)
        steps = undo.enter_context(Steps("run", 2 * repeat))
        for block, probed in blocks((False, True), repeat, seed):
            if probed:
                run = _probed(runner, options, block, owner, trace=choice.trace)
            else:
                run = ProbedRun(block, False, runner.run(lambda _: None))
            check(run)
            runs.append(run)
            way = "with" if probed else "without"
            steps.advance(f"{way} probes, {run.timed.wall_s:.3f} s")
    return runs, calibration


def _probed(
    runner: Runner,
    options: RecordOptions,
    block: int,
    owner: tuple[int, int] | None,
    *,
    trace: bool,
) -> ProbedRun:
    with ExitStack() as undo:
        attached: list[Engines] = []

        def attach(pid: int) -> None:
            engines = Engines(options, Scope(pid, held=True), owner, trace=trace)
            attached.append(undo.enter_context(closing(engines)))
            engines.start()

        timed = runner.run(attach)
        captured = attached[0].stop()
    return ProbedRun(
        block,
        True,
        timed,
        int(captured.samples.counts.sum()),
        _calls(captured),
        functions_json(captured.plan),
    )


def _calls(captured: Captured) -> dict[str, int]:
    """Return the calls of each function over all paths."""
    calls: Counter[str] = Counter()
    if captured.traced is not None and captured.plan is not None:
        for path, totals in captured.traced.nodes.items():
            calls[captured.plan.functions[path[-1]].name] += totals.calls
    return dict(calls)


def _costs(
    owner: tuple[int, int] | None, say: Callable[[str], None], *, calibrate: bool
) -> Calibration | None:
    """Return what a hit of these probes costs; samples are measured anew if they never were."""
    calibration = at_hand(owner, say) if calibrate else stored(owner)
    if calibration is not None and calibration.has([SAMPLE]):
        return calibration
    say("measuring what a sample costs here")
    sample = measured_sample()
    if calibration is None:
        return Calibration(kernel=kernel_info(), cpu=cpu_info(), measured=(sample,))
    return replace(calibration, measured=(*calibration.measured, sample))

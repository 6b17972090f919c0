"""``faultprof perturb``: parse the doses, run them, judge, print."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultprof.cli.record_options import Attach, speaker
from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.analysis.perturbation import Metric, Observation
    from faultprof.capture.dosing import DosedRun
    from faultprof.capture.perturb import Perturbed, PerturbOptions

_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms)")
_CPUS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_MOST_RUNS = 100_000


class Where(StrEnum):
    """Where in a function the delay is."""

    ENTRY = "entry"
    EXIT = "exit"


def perturb(
    command: Annotated[
        list[str], typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run.")
    ],
    at: Annotated[
        list[str],
        typer.Option("--at", metavar="FN", help="Delay calls of this function (repeatable)."),
    ],
    delay: Annotated[
        str, typer.Option(metavar="LIST", help="The delays, 0 among them.")
    ] = "0,500ns,1us,2us,4us",
    repeat: Annotated[int, typer.Option(metavar="N", min=1, help="Runs with each delay.")] = 5,
    metric: Annotated[
        str,
        typer.Option(
            metavar="M",
            help="wall, user, sys, usemem (its throughput), or a REGEX whose first group is a "
            "number in the command's output.",
        ),
    ] = "wall",
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="The REGEX finds a time and not a rate.")
    ] = False,
    where: Annotated[Where, typer.Option(help="Where in the function.")] = Where.ENTRY,
    every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Delay one of N calls on each CPU.")
    ] = 1,
    jitter: Annotated[
        bool, typer.Option("--jitter", help="Random delays, the given one in the mean.")
    ] = False,
    on_cpu: Annotated[
        str | None, typer.Option(metavar="LIST", help="Delay on these CPUs only, such as 0-3,8.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="Seed of the runs' order; printed.")
    ] = None,
    attach: Annotated[
        Attach, typer.Option(help="How; auto: kprobe, which sees whether interrupts are on.")
    ] = Attach.AUTO,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="X", min=1.5, help="Let go of a run that takes X times the undelayed median."
        ),
    ] = 10.0,
    force: Annotated[
        bool, typer.Option("--force", help="Allow delays above 100us, up to 10ms.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record one more run with each delay, into this folder."),
    ] = None,
    cost: Annotated[
        bool, typer.Option(help="Trace one more run to see what a call takes, and extrapolate.")
    ] = True,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as .png or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_root: Annotated[
        bool, typer.Option("--as-root", help="Under sudo, run the command as root all the same.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing meanwhile.")] = False,
) -> None:
    """Delay a kernel function on purpose and see what that does to a command.

    Each call of the function in the command waits, busily, for as long as the dose says; the
    command runs with each dose, in blocks of random order. What comes out is a line: how much the
    metric changes with the delay, against what is expected of a function on the critical path.

    Examples:
      faultprof perturb --at do_anonymous_page -- usemem -t 4 1g

      faultprof perturb --at set_pte_range --delay 0,1us,2us --metric usemem -- usemem -t 4 1g
    """
    from faultprof.analysis.perturbation import Metric
    from faultprof.capture.identity import invoking_user
    from faultprof.capture.perturb import PerturbOptions, run_perturbation
    from faultprof.capture.schedule import fresh_seed
    from faultprof.render.plots.style import format_of

    options = PerturbOptions(
        command=tuple(command),
        at=tuple(dict.fromkeys(at)),
        delays_ns=_delays(delay),
        where=where.value,
        attach=attach.value,
        repeat=repeat,
        seed=fresh_seed() if seed is None else seed,
        every=every,
        jitter=jitter,
        cpus=None if on_cpu is None else _cpus(on_cpu),
        timeout=timeout,
        force=force,
        keep=keep,
        cost=cost,
        as_root=as_root,
    )
    if repeat * len(options.delays_ns) > _MOST_RUNS:
        raise FaultprofError(f"--repeat {repeat} would never end", "give less")
    if plot is not None:
        format_of(plot)  # refused now, not after all the runs
    chosen = Metric.parse(metric, lower_is_better=lower_is_better)
    say = speaker(quiet)
    say(f"seed {options.seed}")
    found = run_perturbation(
        options, invoking_user(os.environ), say, lambda run: _observation(run, chosen)
    )
    _print(options, chosen, found, plot, as_json)


def _print(
    options: PerturbOptions, metric: Metric, found: Perturbed, plot: Path | None, as_json: bool
) -> None:
    from faultprof.analysis.perturbation import cost_of_call, perturbation
    from faultprof.render.perturbation import perturbation_lines, write_plot
    from faultprof.render.terminal import Terminal, write_lines

    result = perturbation(metric, [_observation(run, metric) for run in found.runs])
    traced = found.traced
    cost = None
    if traced is not None:
        cost = cost_of_call(traced.calls, traced.inclusive_ns, traced.kind, traced.calibration)
    head = {
        "command": shlex.join(options.command),
        "delayed": f"{', '.join(options.at)}, at its {options.where}, by {found.method}",
        "order": f"blocks of random order, seed {options.seed}",
    }
    if plot is not None:
        write_plot(result, f"{', '.join(options.at)}: {shlex.join(options.command)}", plot)
    if as_json:
        data: dict[str, Any] = {"seed": options.seed, **head, **result.to_json()}
        if cost is not None:
            data["cost_ns"] = {"value": cost.value, "low": cost.low, "high": cost.high}
            free = result.without(cost)
            data["if_free"] = {"value": free.value, "low": free.low, "high": free.high}
        print(json.dumps(data, indent=1))
    else:
        write_lines(sys.stdout, perturbation_lines(result, head, cost, Terminal.of(sys.stdout)))


def _observation(run: DosedRun, metric: Metric) -> Observation:
    from faultprof.analysis.perturbation import Observation

    timed, counts = run.timed, run.counts.values()
    times = {"wall": timed.wall_s, "user": timed.user_s, "sys": timed.sys_s}
    return Observation(
        run.delay_ns,
        metric.value(times, timed.output),
        wall_s=timed.wall_s,
        due=sum(one.due for one in counts),
        delayed=sum(one.delayed for one in counts),
        delayed_ns=sum(one.delayed_ns for one in counts),
        parallel=run.parallel,
        missed=sum(one.over_budget + one.too_late + one.cut_short for one in counts),
    )


def _delays(text: str) -> tuple[int, ...]:
    """Read ``0,500ns,1us``; return ns in rising order."""
    delays = {_delay(part.strip()) for part in text.split(",")}
    if 0 not in delays or len(delays) < 2:
        raise FaultprofError(
            f"--delay {text} does not compare with and without", "give 0 and one delay or more"
        )
    return tuple(sorted(delays))


def _delay(text: str) -> int:
    if text == "0":
        return 0
    match = _DELAY.fullmatch(text)
    if match is None:
        raise FaultprofError(f"--delay {text} is no time", "for example: --delay 0,500ns,1.5us")
    return round(float(match[1]) * _UNITS[match[2]])


def _cpus(text: str) -> tuple[int, ...]:
    """Read ``0-3,8``."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = _CPUS.fullmatch(part.strip())
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not found:
            raise FaultprofError(f"--on-cpu {text} is no list of CPUs", "give numbers: 0-3,8")
        cpus |= set(found)
    return tuple(sorted(cpus))

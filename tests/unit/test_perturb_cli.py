"""perturb's command line and report: what it takes, refuses, and prints."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faultprof.analysis.perturbation import Metric, Observation, perturbation
from faultprof.analysis.statistics import Estimate
from faultprof.capture.perturbing import check_delays
from faultprof.cli.perturb import _cpus, _delays
from faultprof.errors import FaultprofError
from faultprof.render.perturbation import perturbation_lines, write_plot
from faultprof.render.terminal import Terminal


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("0,500ns,1us", (0, 500, 1_000)),
        ("2us, 0 ,1.5us", (0, 1_500, 2_000)),
        ("0ns,1ms,1ms", (0, 1_000_000)),
    ],
)
def test_delays(text: str, delays: tuple[int, ...]) -> None:
    assert _delays(text) == delays


@pytest.mark.parametrize("text", ["", "0", "1us,2us", "0,1", "0,-1us", "0,1s", "0,1us,", "0,١us"])
def test_delays_that_are_refused(text: str) -> None:
    with pytest.raises(FaultprofError) as caught:
        _delays(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("delay_ns", "force", "refused"),
    [
        (100_000, False, False),
        (100_001, False, True),
        (10_000_000, True, False),
        (10_000_001, True, True),
    ],
)
def test_long_delays_need_force_and_have_an_end(delay_ns: int, force: bool, refused: bool) -> None:
    if refused:
        with pytest.raises(FaultprofError):
            check_delays((0, delay_ns), force=force)
    else:
        check_delays((0, delay_ns), force=force)


def test_cpus() -> None:
    assert _cpus("3,0-1") == (0, 1, 3)
    for text in ("", "x", "1-", "-1", "3-1", "0-99999999"):
        with pytest.raises(FaultprofError):
            _cpus(text)


def _observations(slope: float, calls: int = 100_000) -> list[Observation]:
    draw = random.Random(1)
    return [
        Observation(
            ns,
            1 + slope * ns / 1e3 + draw.gauss(0, 0.002),
            1.0,
            calls,
            calls if ns else 0,
            calls * ns,
        )
        for _ in range(5)
        for ns in (0, 1_000, 2_000)
    ]


def _text(slope: float, calls: int = 100_000, cost: Estimate | None = None) -> str:
    found = perturbation(Metric.parse("wall"), _observations(slope, calls))
    return "\n".join(perturbation_lines(found, {"command": "x\x1b"}, cost, Terminal()))


def test_the_report_says_what_it_means() -> None:
    text = _text(0.1, cost=Estimate(1_000, 900, 1_100))
    assert "verdict  on the critical path" in text
    assert "if free  a call takes 1.00 µs" in text
    assert "(-10.0%" in text or "(-9.9%" in text or "(-10.1%" in text
    assert "\x1b" not in text
    assert "verdict  anomaly: slower is faster" in _text(-0.1)
    assert "verdict  no effect: a delay in it does not" in _text(0)
    assert "the function was never called" in _text(0, calls=0)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_plot_is_written(tmp_path: Path, suffix: str) -> None:
    found = perturbation(Metric.parse("wall"), _observations(0.1))
    path = tmp_path / f"plot.{suffix}"
    write_plot(found, "a $title$ of \x1b", path)
    assert path.stat().st_size > 1_000
    with pytest.raises(FaultprofError, match="cannot write the plot"):
        write_plot(found, "x", tmp_path / "plot.xyz")

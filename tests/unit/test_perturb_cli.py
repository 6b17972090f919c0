"""perturb's command line and report: what it takes, refuses, and prints."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path

import pytest

from faultprof.analysis.perturbation import (
    Metric,
    Observation,
    Perturbation,
    perturbation,
    perturbation_from_json,
)
from faultprof.analysis.statistics import Estimate
from faultprof.capture.perturbing import check_delays
from faultprof.cli.perturb import _cpus, _delays
from faultprof.errors import FaultprofError
from faultprof.render.perturbation import perturbation_lines, write_plot
from faultprof.render.terminal import Terminal
from tests.running import run
from tests.unit.recordings import SESSION, recorded


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
    with pytest.raises(FaultprofError, match="is neither"):
        write_plot(found, "x", tmp_path / "plot.xyz")
    with pytest.raises(FaultprofError, match="No such file or directory"):
        write_plot(found, "x", tmp_path / "none" / f"plot.{suffix}")


# What --json printed, read back.


def doses(slope: float) -> Perturbation:
    """Return a perturbation that makes a command slower by ``slope`` seconds per us."""
    return perturbation(Metric.parse("wall"), _observations(slope))


def _saved(path: Path, slope: float = 0.1, delayed: str = "set_pte_range, at its entry") -> Path:
    found = doses(slope)
    head = {"seed": 1, "command": "usemem 1g", "delayed": delayed}
    path.write_text(json.dumps({**head, **found.to_json()}))
    return path


@pytest.mark.parametrize("metric", ["wall", "user", "sys", "rate=([0-9]+)"])
def test_a_saved_perturbation_is_the_same(tmp_path: Path, metric: str) -> None:
    found = perturbation(Metric.parse(metric), _observations(0.1))
    again = perturbation_from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    head = {"command": "x"}
    lines = [list(perturbation_lines(one, head, None, Terminal())) for one in (found, again)]
    assert lines[0] == lines[1]


def test_a_dose_of_a_single_run_is_read_back(tmp_path: Path) -> None:
    found = perturbation(Metric.parse("wall"), _observations(0.1)[:4])  # bounds are infinite
    again = perturbation_from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    write_plot(again, "x", tmp_path / "x.svg")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 100_000, '{"delayed": "x", "command": "y", "doses": []}', "1e999"],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    done = run("plot", "doses", "x.json", "-o", "x.svg", cwd=tmp_path)
    assert done.returncode == 4
    assert "x.json is not what perturb --json prints" in done.stderr
    assert "Traceback" not in done.stderr


def test_doses_are_plotted(tmp_path: Path) -> None:
    _saved(tmp_path / "a.json")
    _saved(tmp_path / "b.json", -0.1, "<script>alert(1)</script>\x1b $x$")
    done = run("plot", "doses", "a.json", "b.json", "-o", "x.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    svg = (tmp_path / "x.svg").read_text()
    assert "<script" not in svg
    for text in (
        "set_pte_range, at its entry",
        "on the critical path",
        "anomaly: slower is faster",
    ):
        assert text in svg
    done = run("plot", "doses", "-o", "x.svg", cwd=tmp_path)
    assert (done.returncode, "doses needs a file" in done.stderr) == (2, True)


def test_doses_on_a_page(tmp_path: Path) -> None:
    recorded(tmp_path / "r.fprof", SESSION)
    _saved(tmp_path / "a.json", 0.1, "<script>alert(1)</script>")
    done = run("html", "r.fprof", "--perturbation", "a.json", "-o", "x.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "x.html").read_text()
    section = page.partition('<section id="perturbation">')[2].partition("</section>")[0]
    assert "verdict  on the critical path" in section
    assert "&lt;script&gt;" in section
    assert "<script" not in section
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', section)
    assert b"delay of a call" in base64.b64decode(data)

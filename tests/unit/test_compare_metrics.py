"""Numbers that commands print."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.analysis.metrics import (
    UserMetric,
    prints_usemem_report,
    read_output,
    usemem_metrics,
    usemem_report,
)
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.metadata import RunInfo
from faultprof.recording.said import UsememReport, UsememTask

OUTPUT = """\
1073741824 bytes / 1800000 usecs = 582542 KB/s
1073741824 bytes / 2000000 usecs = 524288 KB/s
1073741824 bytes / 1600000 usecs = 655360 KB/s
1000000 usecs to free memory
1073741824 bytes / 1900000 usecs = 551882 KB/s
3000000 usecs to free memory
"""


def test_usemem_with_four_tasks() -> None:
    metrics = usemem_metrics(usemem_report(OUTPUT))
    assert list(metrics) == [
        "usemem.throughput",
        "usemem.median",
        "usemem.stddev%",
        "usemem.free_time",
    ]
    assert metrics["usemem.throughput"] == 582542 + 524288 + 655360 + 551882
    assert metrics["usemem.median"] == 582542  # the third of four in ascending order
    assert metrics["usemem.stddev%"] == pytest.approx(8.4555, abs=1e-4)
    assert metrics["usemem.free_time"] == 2


def test_usemems_lines_are_kept_task_by_task() -> None:
    report = usemem_report(OUTPUT)
    assert report.tasks == tuple(
        UsememTask(1 << 30, usecs, speed)
        for usecs, speed in (
            (1800000, 582542),
            (2000000, 524288),
            (1600000, 655360),
            (1900000, 551882),
        )
    )
    assert report.freed_usecs == (1000000, 3000000)
    run = RunInfo(0, usemem=report)
    assert RunInfo.from_json(json.loads(json.dumps(run.to_json()))) == run
    assert "usemem" not in RunInfo(0).to_json()


def test_usemem_with_one_task() -> None:
    metrics = usemem_metrics(usemem_report("8192 bytes / 4 usecs = 2000 KB/s\n"))
    assert metrics == {"usemem.throughput": 2000, "usemem.median": 2000, "usemem.stddev%": 0}


def test_a_speed_of_zero_has_no_relative_spread() -> None:
    metrics = usemem_metrics(usemem_report("1 bytes / 2000000 usecs = 0 KB/s\n"))
    assert metrics == {"usemem.throughput": 0, "usemem.median": 0}


def test_other_output_has_no_metrics() -> None:
    assert usemem_metrics(
        usemem_report("copied 12 bytes / s\n5 usecs to free memory leaks\n" * 2)
    ) == {"usemem.free_time": pytest.approx(5e-6)}
    assert usemem_metrics(usemem_report("")) == {}


@given(st.text(alphabet="0123456789 bytes/usec=KB.\n٣"))
def test_any_output_is_taken(output: str) -> None:
    said = read_output(output, [UserMetric.parse(r"x=(\d{1,9})")])
    assert all(isinstance(value, float) for value in said.metrics.values())
    assert UsememReport.from_json(said.usemem.to_json()) == said.usemem


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (r"last=latency: ([0-9.]+) us", 7.5),
        (r"line=^rate ([0-9.e+]+)$", 1.2e6),
        (r"whole=\d+(?= us)", 5.0),
        (r"equals=a=(\d)", 3.0),
        (r"absent=nothing (\d+)", None),
    ],
)
def test_user_metrics(definition: str, expected: float | None) -> None:
    output = "latency: 9.5 us\nrate 1.2e+6\na=3\nlatency: 7.5 us\n"
    metric = UserMetric.parse(definition)
    assert metric.value(output) == expected
    name = definition.partition("=")[0]
    said = read_output(output, [metric])
    assert said.metrics == ({} if expected is None else {name: expected})
    assert len(said.lacking) == (expected is None)


@pytest.mark.parametrize("text", ["", "x", "=y", "x=", " =(1)", "x=(", "x=*"])
def test_definitions_that_cannot_be_used(text: str) -> None:
    with pytest.raises(FaultprofError) as caught:
        UserMetric.parse(text)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


@pytest.mark.parametrize("regex", [r"time: (\S+)", r"(x)?time", r"(nan)", r"(9{400})"])
def test_matches_that_are_no_numbers(regex: str) -> None:
    with pytest.raises(FaultprofError, match="is no number"):
        UserMetric.parse(f"m={regex}").value("time: 5ms nan " + "9" * 400)


def test_one_metric_that_is_no_number_costs_no_other() -> None:
    wanted = [UserMetric.parse(text) for text in (r"bad=time: (\S+)", r"good=rate (\d+)")]
    said = read_output("time: 5ms\nrate 7\n" + OUTPUT, wanted)
    assert said.metrics["good"] == 7
    assert said.metrics["usemem.free_time"] == 2
    (lacking,) = said.lacking
    assert "bad" in lacking
    assert "5ms" in lacking


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("usemem 1g", True),
        ("/opt/bin/usemem 1g", True),
        ("faultprof workload run anon-w-seq", True),
        ("make workload", False),
        ("ls", False),
    ],
)
def test_commands_that_are_listened_to(command: str, expected: bool) -> None:
    assert prints_usemem_report(command.split()) is expected
    assert prints_usemem_report(["sh", "-c", command]) is (expected and "usemem" in command)

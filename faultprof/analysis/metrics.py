"""Named numbers that a command prints: usemem's report, and what a user's pattern finds.

Knows: usemem's lines and the form ``NAME=REGEX``.
Leaves to others: catching the output (``capture``) and storing what was found (``RunInfo``).

Of usemem's report, per run (several commands that print such lines count as one), beside the lines
themselves:

``usemem.throughput``
    sum over the tasks of their KB/s.
``usemem.median``
    KB/s of the middle task; of an even number of tasks, the faster of the two, as lkp has it.
``usemem.stddev%``
    population standard deviation of the tasks' KB/s, in percent of their mean.
``usemem.free_time``
    mean over the reports of the time to free memory, in seconds.

A user's metric is what the first group of its pattern matched (everything, in a pattern without
groups), in the last place where it matches: programs print their result last. It must be a number
as Python's ``float`` reads it, without unit; a unit belongs outside the group. ``^`` and ``$``
match at line ends. A run whose output has no match does not have the metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultprof.analysis.measurement import usable
from faultprof.analysis.statistics import deviation, mean
from faultprof.errors import FaultprofError
from faultprof.recording.said import Said, UsememReport, UsememTask

_SPEED = re.compile(
    r"^\.*(\d{1,20}) bytes / (\d{1,20}) usecs = (\d{1,18}) KB/s", re.MULTILINE | re.ASCII
)
_FREE = re.compile(r"^\.*(\d{1,18}) usecs to free memory", re.MULTILINE | re.ASCII)
_USECS = 1_000_000


def usemem_report(output: str) -> UsememReport:
    """Return the lines of usemem's report in ``output``; empty where there is none."""
    tasks = (UsememTask(*map(int, numbers)) for numbers in _SPEED.findall(output))
    return UsememReport(tuple(tasks), tuple(map(int, _FREE.findall(output))))


def usemem_metrics(report: UsememReport) -> dict[str, float]:
    """Return the metrics of usemem's report; none of an empty one."""
    speeds = sorted(float(task.kb_per_s) for task in report.tasks)
    freeing = [usecs / _USECS for usecs in report.freed_usecs]
    metrics = {}
    if speeds:
        metrics["usemem.throughput"] = sum(speeds)
        metrics["usemem.median"] = speeds[len(speeds) // 2]
    if any(speeds):
        metrics["usemem.stddev%"] = 100 * deviation(speeds) / mean(speeds)
    if freeing:
        metrics["usemem.free_time"] = mean(freeing)
    return metrics


@dataclass(frozen=True, slots=True)
class UserMetric:
    """A metric that the user defines: its name, and the pattern that finds its number."""

    name: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> UserMetric:
        """Read ``NAME=REGEX``.

        Raises:
            FaultprofError: exit code 2, with what is wrong.
        """
        name, equals, regex = text.partition("=")
        if not equals or not name.strip() or not regex:
            raise FaultprofError(
                f"--metric {text} is not of the form NAME=REGEX",
                r"for example: --metric 'latency_us=latency: ([0-9.]+) us'",
            )
        try:
            return cls(name.strip(), re.compile(regex, re.MULTILINE))
        except re.error as error:
            raise FaultprofError(
                f"--metric {name}: the pattern cannot be used: {error}",
                "it is a regular expression of Python's",
            ) from error

    def value(self, output: str) -> float | None:
        """Return the last match in ``output`` as a number; None where nothing matches.

        Raises:
            FaultprofError: exit code 2, when what matched is no number.
        """
        last: re.Match[str] | None = None
        for found in self.pattern.finditer(output):
            last = found
        if last is None:
            return None
        text = last[1] if self.pattern.groups else last[0]
        try:
            number = float(text)
        except (TypeError, ValueError):  # TypeError: a group that took no part in the match
            number = float("nan")
        if not usable(number):
            raise FaultprofError(
                f"--metric {self.name}: what the pattern found is no number: {text}",
                "put the number, without its unit, into the pattern's first group",
            )
        return number


def read_output(output: str, user: Iterable[UserMetric] = ()) -> Said:
    """Return what one run's output says, for ``RunInfo``, and what it lacks.

    What a user's pattern does not find, or finds and is no number, is told in a sentence: by then
    the run is over, and worth keeping without it.
    """
    report = usemem_report(output)
    metrics, lacking = usemem_metrics(report), []
    for one in user:
        try:
            value = one.value(output)
        except FaultprofError as error:
            lacking.append(error.message)
            continue
        if value is None:
            lacking.append(f"--metric {one.name}: nothing in the output matches")
        else:
            metrics[one.name] = value
    return Said(metrics, report, tuple(lacking))


def prints_usemem_report(command: Sequence[str]) -> bool:
    """Whether a command is expected to print usemem's report: it, or something in it, is usemem.

    That covers ``sh -c 'usemem ...'``, ``numactl ... usemem`` and ``faultprof workload run``.
    """
    has_workload = "workload" in command and "faultprof" in " ".join(command)
    return has_workload or any("usemem" in word for word in command)

"""What perf says above its figures: ``perf script --header``, and the head of ``perf report``.

Knows: the lines that name the machine, the command, the event and its frequency.
Leaves to others: the figures (``perf_script``, ``perf_report``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from faultprof.recording.metadata import CpuInfo, KernelInfo

NOT_STATED = "unknown"

_ENTRY = re.compile(r"#\s*([a-z ]+?)\s*:\s(.*)")
_EVENT = re.compile(r"#?\s*Samples: \S+\s+of events? '([^']+)'")
_FREQUENCY = re.compile(r"\bsample_freq \} = (\d+).*\bfreq = 1\b")
# What is appended to an event's name to say when it counts, as in cycles:ukH.
_MODIFIERS = re.compile(r":[ukhHGpPSDIWeb]{1,8}$")


@dataclass(frozen=True, slots=True)
class PerfHeader:
    """What was stated, and nothing made up for what was not.

    Attributes:
        host: the machine's name, "" when not stated.
        kernel: its kernel; release ``unknown`` when not stated.
        cpu: its processors.
        command: perf's own command line.
        captured: when, as perf prints it, in the machine's own time zone; "" when not stated.
        perf: perf's version; "" when not stated.
        event: the event of a ``perf report``; "" when not stated.
        frequency: samples per second that were asked for; 0 when not stated or different.
    """

    host: str = ""
    kernel: KernelInfo = field(default_factory=lambda: KernelInfo(NOT_STATED))
    cpu: CpuInfo = field(default_factory=CpuInfo)
    command: tuple[str, ...] = ()
    captured: str = ""
    perf: str = ""
    event: str = ""
    frequency: int = 0


def read_header(lines: Iterable[str]) -> PerfHeader:
    """Read what perf's remarks say; unknown ones are passed over."""
    lines = list(lines)
    found = [one for line in lines if (one := _ENTRY.match(line))]
    # The first of a kind: a text may hold several headers.
    said = {one[1]: one[2].strip() for one in reversed(found)}
    events = [one[1] for line in lines if (one := _EVENT.match(line.strip()))]
    rates = {int(one[1]) for line in lines if (one := _FREQUENCY.search(line))}
    count = said.get("nrcpus online", "")
    return PerfHeader(
        host=said.get("hostname", ""),
        kernel=KernelInfo(said.get("os release") or NOT_STATED, "", said.get("arch", "")),
        cpu=CpuInfo(said.get("cpudesc", ""), int(count) if count.isdecimal() else 0),
        command=_words(said.get("cmdline", "")),
        captured=said.get("captured on", ""),
        perf=said.get("perf version", ""),
        event=events[0] if events else "",
        frequency=rates.pop() if len(rates) == 1 else 0,
    )


def plain_event(name: str) -> str:
    """Return an event's name without the modifiers behind it: ``cycles`` of ``cycles:P``."""
    return _MODIFIERS.sub("", name.rstrip(":"))


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:  # perf does not quote what it prints
        return tuple(command.split())

"""The modes of faultprof: what each needs of a machine.

Knows: which checks a mode stands on.
Leaves to others: the checks (``doctor``), and choosing a mode for a recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from faultprof.kernel.checks import SAMPLE, Check, Mode


class _Needs(NamedTuple):
    """A mode, the checks that must not fail for it, and what is said where it works."""

    mode: str
    checks: tuple[str, ...]
    why: str


_RECORDING = ("privileges", "BPF", "bcc", "kernel symbols", "task tracepoints")

_MODES = (
    _Needs(SAMPLE, (*_RECORDING, "perf events"), "{perf events}"),
    _Needs("trace by kprobe", (*_RECORDING, "kprobes", "lockdown"), "{kprobes}"),
    _Needs("trace by fentry", (*_RECORDING, "BTF", "fentry", "lockdown"), "{fentry}"),
    _Needs("contention by tracepoints", (*_RECORDING, "lock tracepoints"), "{lock tracepoints}"),
    _Needs("inline expansion", ("debuginfo",), "{debuginfo}"),
)

# Of these a part is of no use.
_NEEDED_WHOLE = {"task tracepoints", "lock tracepoints", "lockdown"}


def judge_modes(checks: Mapping[str, Check]) -> tuple[Mode, ...]:
    """Return for each mode whether it works, given the checks by name."""
    return tuple(_judge(needs, checks) for needs in _MODES)


def _judge(needs: _Needs, checks: Mapping[str, Check]) -> Mode:
    for name in needs.checks:
        check = checks[name]
        if _fails(needs.mode, check):
            return Mode(needs.mode, False, f"{name}: {check.found}", check.remedy)
    return Mode(needs.mode, True, needs.why.format_map({n: c.found for n, c in checks.items()}))


def _fails(mode: str, check: Check) -> bool:
    if check.state == "limited":
        return check.name in _NEEDED_WHOLE or (mode, check.name) == ("trace by fentry", "bcc")
    return check.state != "ok"

"""What ``record`` does here: trace, or sample only.

Knows: what ``--mode auto`` takes on which machine, and how to find out at next to no cost where
the answer is no: a recording that samples must start within half a second.
Leaves to others: trying (``bpf.probing``), which functions are traced (``kernel.catalogue``).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from faultprof.capture.options import RecordOptions
from faultprof.kernel.files import ROOT


class Choice(NamedTuple):
    """Whether to trace; ``why_not`` says why ``auto`` does not, "" otherwise."""

    trace: bool
    why_not: str = ""


def choose_mode(options: RecordOptions, sysroot: Path = ROOT) -> Choice:
    """Return how to record.

    Whoever names functions, a preset or a way to attach wants a trace: then ``auto`` does not
    fall back, and the tracer's own error tells what is in the way.
    """
    if options.mode == "sample":
        return Choice(False)
    if options.mode == "trace" or options.wants_trace:
        return Choice(True)
    why_not = _obstacle(sysroot)
    return Choice(not why_not, why_not)


def _obstacle(sysroot: Path) -> str:
    """Return why functions cannot be traced; "" if they can. Cheap questions first."""
    from faultprof.kernel.attachable import kprobe_obstacle, list_obstacle

    # Without kprobes there is no fentry either: both need CONFIG_BPF_EVENTS and ftrace, and the
    # list of functions that they can attach to.
    found = kprobe_obstacle(sysroot) or list_obstacle(sysroot)
    if found is not None:
        return found.why
    if not (sysroot / "sys/kernel/btf/vmlinux").exists():
        return "this kernel has no BTF"
    from faultprof.bpf.probing import try_fentry, try_kprobe

    kprobe = try_kprobe(sysroot)
    if kprobe.works or try_fentry(sysroot).works:
        return ""
    return f"kprobes do not work: {kprobe.reason}"

"""tracefs and the tracepoints that faultprof uses.

Knows: where tracefs is mounted, which tracepoints are wanted and what for.
Leaves to others: attaching. Nothing here mounts anything: the user's mount table is the user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from faultprof.kernel.btf import has_tracepoint
from faultprof.kernel.checks import Check
from faultprof.kernel.files import ROOT, read_text
from faultprof.kernel.host import as_root, stock_kernel
from faultprof.kernel.privileges import LESS_LOCKDOWN, read_privileges


@dataclass(frozen=True, slots=True)
class TracepointGroup:
    """Tracepoints that serve one purpose; they stand below one folder of tracefs' events.

    ``cost`` is what goes missing without them.
    """

    check: str
    folder: str
    names: tuple[str, ...]
    cost: str


TRACEPOINT_GROUPS = (
    TracepointGroup(
        "fault tracepoints",
        "exceptions",
        ("page_fault_user", "page_fault_kernel"),
        "without debuginfo, read faults are not told from write faults",
    ),
    TracepointGroup(
        "task tracepoints",
        "sched",
        ("sched_process_exec", "sched_process_fork", "sched_process_free"),
        "a command and its descendants cannot be followed; only record -a is left",
    ),
    TracepointGroup(
        "switch tracepoint",
        "sched",
        ("sched_switch",),
        "traces do not tell waiting from working",
    ),
    TracepointGroup(
        "lock tracepoints",
        "lock",
        ("contention_begin", "contention_end"),
        "no lock contention",
    ),
)

_MOUNT_POINTS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")


def tracefs_mount(sysroot: Path = ROOT) -> Path | None:
    """Return where tracefs is mounted and readable, or None."""
    for place in _MOUNT_POINTS:
        try:
            if (sysroot / place / "events").is_dir():
                return sysroot / place
        except PermissionError:
            continue
    return None


def is_listed(group: TracepointGroup, name: str, sysroot: Path = ROOT) -> bool | None:
    """Return whether this kernel lists a tracepoint, without attaching to it.

    tracefs is asked where it is readable, else BTF, which any user may read; None: neither told.
    """
    mount = tracefs_mount(sysroot)
    if mount is not None:
        return (mount / "events" / group.folder / name).is_dir()
    return has_tracepoint(name, sysroot)


def tracefs_check(sysroot: Path = ROOT) -> Check:
    """Return whether tracefs can be read."""
    mount = tracefs_mount(sysroot)
    if mount is not None:
        return Check("tracefs", "ok", f"/{mount.relative_to(sysroot)}")
    cost = "which functions can be probed, and how many probe hits were missed, is not known"
    if "tracefs" not in (read_text(sysroot / "proc/filesystems") or "tracefs").split():
        remedy = stock_kernel("CONFIG_FTRACE")
        return Check("tracefs", "missing", "not in this kernel", cost, remedy)
    if " tracefs " in (read_text(sysroot / "proc/mounts") or ""):
        return _mounted_but_empty(read_privileges(sysroot).user_id, cost)
    remedy = "sudo mount -t tracefs tracefs /sys/kernel/tracing"
    return Check("tracefs", "limited", "not mounted", cost, remedy)


def _mounted_but_empty(user_id: int, cost: str) -> Check:
    if user_id != 0:
        found = "mounted, but closed to this user"
        return Check("tracefs", "unknown", found, cost, as_root(["doctor"]))
    found = "mounted, but empty: the kernel was locked down when it booted"
    return Check("tracefs", "missing", found, cost, LESS_LOCKDOWN)

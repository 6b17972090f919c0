"""What this process may do to the kernel: capabilities, namespaces, sysctl settings, lockdown.

Knows: /proc/self/status, the inode numbers of the initial namespaces, kptr_restrict,
perf_event_paranoid, the lockdown levels.
Leaves to others: trying (``bpf.probing``), which alone tells whether the kernel agrees.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultprof.errors import unsupported
from faultprof.kernel.checks import Check
from faultprof.kernel.files import (
    ROOT,
    read_boot_parameter,
    read_chosen,
    read_config,
    read_int,
    read_text,
)
from faultprof.kernel.host import as_root

# Bits of linux/capability.h.
_CAPABILITY_BITS = {"CAP_SYS_ADMIN": 21, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39}

# The kernel gives its initial namespaces fixed inode numbers (include/linux/proc_ns.h).
_INITIAL_NAMESPACE = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}

LESS_LOCKDOWN = "boot with lockdown=integrity, or with secure boot off"
_LOCKDOWN_LEVELS = ("none", "integrity", "confidentiality")

_SYMBOL_LINES_READ = 5000


@dataclass(frozen=True, slots=True)
class Privileges:
    """Who we are to the kernel.

    ``initial_user_namespace`` and ``initial_pid_namespace`` are None when /proc does not tell.
    """

    user_id: int
    capabilities: frozenset[str]
    initial_user_namespace: bool | None
    initial_pid_namespace: bool | None

    @property
    def suffice(self) -> bool:
        """Whether BPF programs may be loaded and the kernel sampled."""
        own = self.capabilities
        allowed = "CAP_SYS_ADMIN" in own or {"CAP_BPF", "CAP_PERFMON"} <= own
        return allowed and self.initial_user_namespace is not False


def read_privileges(sysroot: Path = ROOT) -> Privileges:
    """Return this process's privileges, as /proc of ``sysroot`` tells them."""
    user_id, mask = _user_and_mask(sysroot)
    return Privileges(
        user_id=user_id,
        capabilities=frozenset(n for n, bit in _CAPABILITY_BITS.items() if mask >> bit & 1),
        initial_user_namespace=_in_initial_namespace("user", sysroot),
        initial_pid_namespace=_in_initial_namespace("pid", sysroot),
    )


def require_privileges(arguments: Sequence[str] | None = None, sysroot: Path = ROOT) -> None:
    """Do nothing where recording is permitted, else fail with the command that would be.

    Args:
        arguments: what follows ``faultprof`` in the remedy; default: this call's own.
        sysroot: the folder that stands for ``/``.

    Raises:
        FaultprofError: exit code 3.
    """
    privileges = read_privileges(sysroot)
    if privileges.suffice:
        return
    if privileges.user_id != 0:
        raise unsupported(
            "recording needs root (or CAP_BPF and CAP_PERFMON)",
            f"run: {as_root(arguments)}",
        )
    raise unsupported(
        f"recording needs more than this root has: {_shortfall(privileges)}",
        "run it outside the container, or give the container CAP_BPF and CAP_PERFMON",
    )


def privileges_check(sysroot: Path = ROOT) -> Check:
    """Return whether this process may record."""
    privileges = read_privileges(sysroot)
    who = "root" if privileges.user_id == 0 else f"user {privileges.user_id}"
    own = ", ".join(sorted(privileges.capabilities)) or "no capabilities"
    settings = ", ".join(
        f"{name} {_or_unknown(read_int(sysroot / 'proc/sys/kernel' / name))}"
        for name in ("perf_event_paranoid", "unprivileged_bpf_disabled")
    )
    if privileges.suffice:
        return Check("privileges", "ok", f"{who}, {own}; {settings}")
    found = f"{who}, {own}"
    cost = f"nothing can be recorded ({settings}); reports of existing recordings work"
    if privileges.user_id != 0:
        return Check("privileges", "missing", found, cost, as_root(["doctor"]))
    found = f"{found}; {_shortfall(privileges)}"
    remedy = "run outside the container, or give it CAP_BPF and CAP_PERFMON"
    return Check("privileges", "missing", found, cost, remedy)


def pid_namespace_check(sysroot: Path = ROOT) -> Check:
    """Return whether our process numbers are those that BPF programs see."""
    name = "pid namespace"
    initial = _in_initial_namespace("pid", sysroot)
    if initial is None:
        return Check(name, "unknown", "/proc/self/ns/pid does not tell", remedy="mount /proc")
    if initial:
        return Check(name, "ok", "the initial one")
    return Check(
        name,
        "limited",
        "not the initial one (a container)",
        "BPF programs see other process numbers than those known here",
        "run on the host, or start the container with --pid=host",
    )


def kernel_symbols_check(sysroot: Path = ROOT) -> Check:
    """Return whether addresses of kernel functions can be read."""
    name = "kernel symbols"
    shown = _symbols_shown(sysroot)
    if shown:
        return Check(name, "ok", "/proc/kallsyms shows addresses")
    cost = "kernel addresses get no function names"
    if shown is None:
        found, remedy = (
            "/proc/kallsyms cannot be read",
            "a kernel with CONFIG_KALLSYMS; mount /proc",
        )
        return Check(name, "missing", found, cost, remedy)
    restrict = read_int(sysroot / "proc/sys/kernel/kptr_restrict")
    found = f"/proc/kallsyms shows zeros (kptr_restrict {_or_unknown(restrict)})"
    if restrict is not None and restrict >= 2:
        return Check(name, "missing", found, cost, "sudo sysctl kernel.kptr_restrict=1")
    return Check(name, "missing", found, cost, as_root(["doctor"]))


def lockdown_level(release: str, sysroot: Path = ROOT) -> tuple[str, str] | None:
    """Return the lockdown level and where it was read, or None when nothing tells it.

    Without securityfs, what the build and the command line ask for is a floor, not the level.
    """
    level = read_chosen(sysroot / "sys/kernel/security/lockdown")
    if level is not None:
        return level, "securityfs"
    config = read_config(release, sysroot)
    if config is None:
        return None
    if config.get("CONFIG_SECURITY_LOCKDOWN_LSM", "n") == "n":
        return "none", "not built in"
    built_in = [
        level
        for level in _LOCKDOWN_LEVELS
        if config.get(f"CONFIG_LOCK_DOWN_KERNEL_FORCE_{level.upper()}") == "y"
    ]
    asked = read_boot_parameter("lockdown", sysroot)
    floor = max([*built_in, asked or "none"], key=_lockdown_rank)
    return floor, "at least, from the build and the command line"


def _lockdown_rank(level: str) -> int:
    return _LOCKDOWN_LEVELS.index(level) if level in _LOCKDOWN_LEVELS else 0


def _user_and_mask(sysroot: Path) -> tuple[int, int]:
    fields = {}
    for line in (read_text(sysroot / "proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    # Uid: real, effective, saved, file system.
    user_id = int(fields["Uid"][1]) if "Uid" in fields else os.geteuid()
    if "CapEff" in fields:
        return user_id, int(fields["CapEff"][0], 16)
    # Without /proc only the old rule is left to go by: root may do everything.
    return user_id, -1 if user_id == 0 else 0


def _in_initial_namespace(kind: str, sysroot: Path) -> bool | None:
    try:
        # The link reads "pid:[4026531836]".
        link = str((sysroot / f"proc/self/ns/{kind}").readlink())
    except OSError:
        return None
    return link == f"{kind}:[{_INITIAL_NAMESPACE[kind]}]"


def _symbols_shown(sysroot: Path) -> bool | None:
    """Tell whether any of the first symbols has an address; hidden ones read as zero, all."""
    try:
        with (sysroot / "proc/kallsyms").open() as lines:
            firsts = [line for line, _ in zip(lines, range(_SYMBOL_LINES_READ), strict=False)]
    except OSError:
        return None
    if not firsts:
        return None
    return any(int(line.split(maxsplit=1)[0], 16) for line in firsts)


def _shortfall(privileges: Privileges) -> str:
    if privileges.initial_user_namespace is False:
        return "a user namespace, whose root is not the kernel's"
    return "CAP_BPF and CAP_PERFMON are dropped"


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)

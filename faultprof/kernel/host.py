"""Which kernel and which distribution this is, and the commands that get things there.

Knows: os-release, the names of packages, the command that repeats a call as root.
Leaves to others: what is missing.
"""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from faultprof.kernel.files import ROOT, read_text

Family = Literal["debian", "ubuntu", "fedora", "other"]

# sudo replaces PATH by its secure_path; these are the folders that it keeps everywhere.
_SUDO_PATH = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

# How the distributions name the kernels that they build: only those have debuginfo packages.
_OWN_KERNEL = {
    "debian": r"-(?:\w+-)*(?:amd64|arm64|686|686-pae|armmp|powerpc64le|s390x|riscv64)$",
    "ubuntu": r"-\d+-(?:generic|lowlatency|aws|azure|gcp|oracle|kvm|oem|raspi)",
    "fedora": r"\.(?:fc|el)\d+",
}


@dataclass(frozen=True, slots=True)
class Host:
    """A kernel and the distribution around it."""

    release: str
    machine: str
    distribution: str
    family: Family

    @property
    def install_bcc(self) -> str:
        """The command that installs bcc for the distribution's own python3."""
        commands = {
            "debian": "sudo apt install python3-bpfcc",
            "ubuntu": "sudo apt install python3-bpfcc",
            "fedora": "sudo dnf install python3-bcc",
        }
        return commands.get(self.family, "install bcc's Python package (python3-bcc)")

    @property
    def install_debuginfo(self) -> str:
        """The command that installs the debuginfo of the running kernel."""
        pattern = _OWN_KERNEL.get(self.family)
        if pattern is None or not re.search(pattern, self.release):
            return "point FAULTPROF_VMLINUX at the vmlinux of this kernel's build"
        commands = {
            "debian": f"sudo apt install linux-image-{self.release}-dbg",
            "ubuntu": f"sudo apt install linux-image-{self.release}-dbgsym "
            "(from Ubuntu's archive of debug symbols)",
            "fedora": f"sudo dnf debuginfo-install kernel-{self.release}",
        }
        return commands[self.family]


def read_host(sysroot: Path = ROOT) -> Host:
    """Return the running kernel and the distribution found below ``sysroot``."""
    fields = _os_release(sysroot)
    return Host(
        release=read_text(sysroot / "proc/sys/kernel/osrelease") or platform.release(),
        machine=read_text(sysroot / "proc/sys/kernel/arch") or platform.machine(),
        distribution=fields.get("PRETTY_NAME", "an unnamed distribution"),
        family=_family(fields),
    )


def stock_kernel(option: str) -> str:
    """Return the remedy for what every distribution's kernel has; ``option``: its build's."""
    return f"boot a stock Debian or Fedora kernel ({option}=y)"


def as_root(arguments: Sequence[str] | None = None) -> str:
    """Return the command that runs faultprof as root with ``arguments`` (default: this call's).

    Where sudo would not find it by name, as in a venv, faultprof is named by its path.
    """
    program = Path(sys.argv[0])
    named = program.name == "faultprof" and str(program.parent) not in _SUDO_PATH | {"", "."}
    words = ["sudo", str(program.absolute()) if named else "faultprof"]
    return shlex.join([*words, *(sys.argv[1:] if arguments is None else arguments)])


def _os_release(sysroot: Path) -> dict[str, str]:
    for place in ("etc/os-release", "usr/lib/os-release"):
        text = read_text(sysroot / place)
        if text is not None:
            lines = (line.partition("=") for line in text.splitlines() if "=" in line)
            return {name.strip(): value.strip().strip("\"'") for name, _, value in lines}
    return {}


def _family(fields: dict[str, str]) -> Family:
    kin = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    if "ubuntu" in kin:
        return "ubuntu"
    if "debian" in kin:
        return "debian"
    return "fedora" if {"fedora", "rhel", "centos"} & set(kin) else "other"

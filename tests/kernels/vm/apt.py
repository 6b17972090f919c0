"""Debian packages from the machine's own mirror, through an apt configuration of their own.

The machine's sources say only where its mirror is; its package lists and its choice of suites
stay untouched. apt verifies every list and package against Debian's archive keyring.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .errors import VmError, tool

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

REQUIRED: Mapping[str, str] = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-system-aarch64": "qemu-system-arm",
    "mmdebstrap": "mmdebstrap",
    "busybox": "busybox-static",
    "mke2fs": "e2fsprogs",
    "depmod": "kmod",
    "zstd": "zstd",
    "xz": "xz-utils",
    "cpio": "cpio",
    "git": "git",
}
"""The programs that the harness calls, each with the package that brings it."""


def requirements() -> None:
    """Install the programs that the harness calls, if some are missing and we are root.

    Raises:
        VmError: some are missing and cannot be installed; the message gives the command.
    """
    packages = [package for program, package in REQUIRED.items() if not shutil.which(program)]
    if not packages:
        return
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y"]
    install += ["--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise VmError(f"programs are missing; as root: {' '.join(install)}")
    tool(["apt-get", "update"])
    tool(install, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def sources(suites: Iterable[str]) -> str:
    """Return apt's deb822 source entries for Debian's `suites` on this machine's mirror."""
    mirrors = _mirrors()
    entries = []
    for suite in suites:
        uri = mirrors["security" if suite.endswith("-security") else "main"]
        fields = {"Types": "deb", "URIs": uri, "Suites": suite, "Components": "main"}
        fields["Signed-By"] = str(KEYRING)
        entries.append("".join(f"{name}: {value}\n" for name, value in fields.items()))
    return "\n".join(entries)


def _mirrors() -> dict[str, str]:
    """Return the base URIs of the archive ("main") and of its security updates ("security").

    They are taken from the two kinds of suite that only Debian itself has: other publishers'
    sources may well have a suite called "bookworm" too.
    """
    mirrors: dict[str, str] = {}
    for line in tool(["apt-get", "update", "--print-uris"]).splitlines():
        if match := re.match(r"'([^']+)/dists/[a-z]+-(updates|security)/", line):
            mirrors.setdefault("main" if match[2] == "updates" else "security", match[1])
    if mirrors.keys() != {"main", "security"}:
        raise VmError("apt's sources must have Debian's -updates and -security suites")
    return mirrors


class Archive:
    """Some suites of Debian's archive, with package lists in a directory of their own."""

    def __init__(self, directory: Path, suites: Sequence[str], architecture: str) -> None:
        """Fetch the package lists of `suites` into `directory`."""
        lists = directory / "lists"
        (lists / "partial").mkdir(parents=True)
        sourcelist = directory / "debian.sources"
        sourcelist.write_text(sources(suites))
        self._options = [
            *("-o", f"Dir::State::lists={lists}"),
            *("-o", f"Dir::Etc::sourcelist={sourcelist}"),
            *("-o", "Dir::Etc::sourceparts=/dev/null"),
            *("-o", f"APT::Architecture={architecture}"),
            *("-o", f"APT::Architectures={architecture}"),
            *("-o", "APT::Sandbox::User=root"),
        ]
        tool(["apt-get", *self._options, "--error-on=any", "update"])

    def newest(self, pattern: str) -> str:
        """Return the package of the highest version among those whose name matches `pattern`."""
        found = tool(["apt-cache", *self._options, "search", "--names-only", pattern])
        names = [line.split()[0] for line in found.splitlines()]
        if not names:
            raise VmError(f"no package of the archive matches {pattern}")
        return max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])

    def dependencies(self, package: str) -> list[str]:
        """Return the names of the packages that `package` directly depends on."""
        words = ["apt-cache", *self._options, "depends", "--important", package]
        return re.findall(r"Depends: ([^<\s]+)$", tool(words), re.MULTILINE)

    def download(self, package: str, directory: Path) -> Path:
        """Download `package` into `directory` and return the file; apt checks its hash."""
        tool(["apt-get", *self._options, "download", package], cwd=directory)
        (file,) = directory.glob(f"{package}_*.deb")
        return file

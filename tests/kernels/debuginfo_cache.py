"""The debuginfo of a kernel in the tests: Debian's -dbg package of the very same version.

Only its vmlinux is kept: 350 MB out of a package of 1 GB (7 GB unpacked), which takes a minute
or two once a month. The cache is the virtual machines'.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .vm import apt, cache
from .vm.errors import UnavailableError, VmError, tool
from .vm.kernels import Kernel, install

_VMLINUX = "./usr/lib/debug/boot/vmlinux-{release}"
# What takes room and is of no use for names: where variables live, line numbers, unwinding.
_UNUSED_SECTIONS = (".debug_loclists", ".debug_line", ".debug_frame", ".rela*")


@dataclass(frozen=True)
class KernelDebuginfo:
    """The debuginfo of one release, in the cache."""

    release: str
    directory: Path

    @property
    def vmlinux(self) -> Path:
        """The file as Debian has it."""
        return self.directory / "vmlinux"

    @property
    def small_vmlinux(self) -> Path:
        """The same without code and without sections that faultprof does not read, for a guest."""
        return self.directory / "vmlinux.small"


def debuginfo(kernel: Kernel) -> KernelDebuginfo:
    """Return the debuginfo of `kernel`, downloaded if it is not in the cache.

    Raises:
        UnavailableError: this machine cannot get it; the message says why.
    """
    try:
        apt.requirements()
        release = install(kernel).release
        directory = cache.entry(
            f"debuginfo-{kernel.name}",
            (kernel, release, _UNUSED_SECTIONS),
            lambda staging: _fetch(kernel, release, staging),
        )
    except VmError as error:
        raise UnavailableError(f"no debuginfo of Linux {kernel.name}: {error}") from error
    return KernelDebuginfo(release, directory)


def _fetch(kernel: Kernel, release: str, directory: Path) -> None:
    state = directory / "apt"
    archive = apt.Archive(state, kernel.suites, kernel.architecture)
    package = archive.download(f"linux-image-{release}-dbg", state)
    _extract(package, _VMLINUX.format(release=release), directory / "vmlinux")
    shutil.rmtree(state)
    removals = [f"--remove-section={name}" for name in _UNUSED_SECTIONS]
    files = [directory / "vmlinux", directory / "vmlinux.small"]
    tool(["objcopy", "--only-keep-debug", *removals, *files])


def _extract(package: Path, member: str, target: Path) -> None:
    """Write one file of a package to `target`, without unpacking the other 7 GB."""
    unpack = ["dpkg-deb", "--fsys-tarfile", package]
    with (
        target.open("wb") as file,
        subprocess.Popen(unpack, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as source,
    ):
        # The first one is the file; tar need not read on to the package's end.
        select = ["tar", "-x", "--to-stdout", "--occurrence=1", member]
        status = subprocess.run(select, stdin=source.stdout, stdout=file, check=False).returncode
        source.kill()
    if status or not target.stat().st_size:
        raise VmError(f"{package.name} has no {member}")

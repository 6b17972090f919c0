"""The catalogue of kernels in the tests, and how each is had: stock packages, unpacked.

A kernel is named by its series. The newest package of the series in its suites is taken, so
that a new Debian release never changes what is tested: a new series is a new line below.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import cache
from .apt import Archive
from .errors import VmError, tool

NATIVE = "amd64"
"""The architecture whose programs run on this machine."""


@dataclass(frozen=True)
class Kernel:
    """One line of the catalogue."""

    series: str
    """First numbers of the version; the tests call the kernel by it."""
    suites: tuple[str, ...]
    """Debian suites in which to look for the newest package of the series."""
    userland: str
    """Name of the root file system (images.py) that the kernel is tested with."""
    architecture: str = NATIVE
    """Debian's name of the machine architecture."""
    kaslr: bool = False
    """Whether the tests boot it with a randomised address."""
    modules: tuple[str, ...] = ()
    """Modules of guest tests that run on it; none given: all but those of exact machines."""
    exact: bool = False
    """Whether its machine counts instructions for time (machine.py)."""
    by_hand: bool = False
    """Whether it is tested only where FAULTPROF_KERNELS names it."""

    @property
    def name(self) -> str:
        """The kernel's name in the catalogue: the series, and behind it what is special."""
        return self.package + ("-exact" if self.exact else "")

    @property
    def package(self) -> str:
        """What its files are called in the cache."""
        suffix = "" if self.architecture == NATIVE else f"-{self.architecture}"
        return self.series + suffix

    def runs(self, module: str) -> bool:
        """Whether the guest tests of a module are for it."""
        if self.modules:
            return module in self.modules
        return module not in EXACT and self.series in SOME.get(module, (self.series,))

    @property
    def package_pattern(self) -> str:
        """Regular expression of the series' plain packages: no cloud, rt, unsigned or dbg."""
        version = rf"{re.escape(self.series)}\.[0-9.]+(-[0-9]+|\+deb[0-9.]+)"
        return f"^linux-image-{version}-{self.architecture}$"


EXACT = ("test_truth",)
"""Modules of guest tests whose answers are exact only where time is counted."""

SOME = {
    "test_two_kernels": ("6.1", "7.3"),
    "test_top": ("6.12",),
}
"""Modules of guest tests that run on some kernels only."""

_BOOKWORM = ("bookworm", "bookworm-updates", "bookworm-security")

KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("6.1", _BOOKWORM, userland="bookworm"),
        # Addresses move at each boot of this one: nothing may depend on where the kernel lies.
        Kernel("6.12", _BOOKWORM, userland="bookworm", kaslr=True),
        Kernel("7.3", ("trixie-backports",), userland="trixie"),
        # Emulated all the slower: only what an architecture may have of its own.
        Kernel(
            "6.12",
            _BOOKWORM,
            userland="bookworm-arm64",
            architecture="arm64",
            modules=("test_trace_answers",),
        ),
        Kernel("6.12", _BOOKWORM, userland="bookworm", modules=EXACT, exact=True),
        Kernel(
            "7.3",
            ("trixie-backports",),
            userland="trixie",
            modules=EXACT,
            exact=True,
            by_hand=True,
        ),
    )
}


def selected() -> list[Kernel]:
    """Return the kernels to be tested: those that FAULTPROF_KERNELS names ("6.1,7.3"), or else all.

    All but those for runs by hand, that is: such a one is tested only by name.

    Raises:
        VmError: it names one that the catalogue does not have.
    """
    names = [name for name in os.environ.get("FAULTPROF_KERNELS", "").split(",") if name]
    if unknown := [name for name in names if name not in KERNELS]:
        raise VmError(f"FAULTPROF_KERNELS: {unknown[0]} is none of {', '.join(KERNELS)}")
    if not names:
        return [kernel for kernel in KERNELS.values() if not kernel.by_hand]
    return [kernel for name, kernel in KERNELS.items() if name in names]


@dataclass(frozen=True)
class InstalledKernel:
    """A kernel package, unpacked in the cache."""

    kernel: Kernel
    root: Path
    """The directory that the package was unpacked to."""

    @property
    def release(self) -> str:
        """What `uname -r` says under this kernel."""
        (modules,) = (self.root / "lib/modules").iterdir()
        return modules.name

    @property
    def modules(self) -> Path:
        """The directory of the modules and of depmod's files."""
        return self.root / "lib/modules" / self.release

    @property
    def image(self) -> Path:
        """The bootable kernel image."""
        return self._file("vmlinuz")

    @property
    def config(self) -> Path:
        """The kernel's build configuration."""
        return self._file("config")

    def _file(self, name: str) -> Path:
        """Return where `name` is: in /boot, or for newer packages beside the modules."""
        in_boot = self.root / "boot" / f"{name}-{self.release}"
        return in_boot if in_boot.exists() else self.modules / name


def install(kernel: Kernel) -> InstalledKernel:
    """Return `kernel` from the cache, downloaded and unpacked if it is not there."""
    recipe = (kernel.package_pattern, kernel.suites)

    def build(directory: Path) -> None:
        apt_state = directory / "apt"
        archive = Archive(apt_state, kernel.suites, kernel.architecture)
        for package in _packages(archive, kernel):
            tool(["dpkg-deb", "-x", archive.download(package, apt_state), directory])
        shutil.rmtree(apt_state)
        if not (directory / "lib").exists():
            (directory / "lib").symlink_to("usr/lib")
        installed = InstalledKernel(kernel, directory)
        tool(["depmod", "-b", directory, installed.release])

    return InstalledKernel(kernel, cache.entry(f"kernel-{kernel.package}", recipe, build))


def _packages(archive: Archive, kernel: Kernel) -> list[str]:
    """Return the image package and those of the same release that newer kernels are split into."""
    image = archive.newest(kernel.package_pattern)
    release = image.removeprefix("linux-image-")
    parts = [name for name in archive.dependencies(image) if name.endswith(f"-{release}")]
    return [image, *parts]

"""Root file systems for the kernels: Debian userlands in ext4 files, made without a kernel.

A userland has what a user of faultprof has on a bare machine, bcc and perf included, and no
kernel headers. The package's Python dependencies stand in `/opt/venv`; the package itself comes
in with each job (machine.py) and is found at `/job/src`.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import apt, cache
from .errors import VmError, tool
from .kernels import NATIVE

REPOSITORY = Path(__file__).parents[3]
CUSTOMIZE = Path(__file__).with_name("customize.sh")
UNPACKED = Path(__file__).with_name("unpacked.sh")

PACKAGES = (
    *("python3", "python3-bpfcc", "python3-venv", "python3-pip"),
    *("bpftool", "bpftrace", "linux-perf", "gcc", "libc6-dev"),
    *("kmod", "procps", "util-linux", "iproute2", "sudo", "e2fsprogs"),
)
TEST_TOOLS = ("pytest", "hypothesis")

# What a guest test needs where no program of a userland can be run while it is built.
FOREIGN_PACKAGES = (
    *("python3", "python3-bpfcc", "python3-numpy", "python3-pytest", "gcc", "libc6-dev"),
    *("base-files", "bash", "coreutils", "dash", "grep", "kmod", "sed", "tar", "util-linux"),
)


@dataclass(frozen=True)
class Userland:
    """A Debian release as a root file system."""

    release: str
    """Debian's code name."""
    architecture: str = NATIVE
    """Debian's name of the machine architecture."""

    @property
    def name(self) -> str:
        """The userland's name: the release, with a foreign architecture behind."""
        suffix = "" if self.architecture == NATIVE else f"-{self.architecture}"
        return self.release + suffix

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites that an up-to-date machine of this release installs from."""
        return (self.release, f"{self.release}-updates", f"{self.release}-security")


USERLANDS = {
    userland.name: userland
    for userland in (Userland("bookworm"), Userland("trixie"), Userland("bookworm", "arm64"))
}


def image(userland: Userland) -> Path:
    """Return the ext4 image of `userland` from the cache, built if it is not there."""
    modules = python_modules()
    recipe: object = (userland, PACKAGES, modules, CUSTOMIZE.read_text())
    if userland.architecture != NATIVE:
        recipe = (userland, FOREIGN_PACKAGES, UNPACKED.read_text())

    def build(directory: Path) -> None:
        tree = directory / "tree"
        if userland.architecture == NATIVE:
            _bootstrap(userland, tree, modules)
        else:
            _unpack(userland, tree)
        _make_ext4(tree, directory / "root.ext4")
        shutil.rmtree(tree)

    return cache.entry(f"image-{userland.name}", recipe, build) / "root.ext4"


def python_modules() -> tuple[str, ...]:
    """Return what pip installs in a userland: the package's dependencies and the test tools."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return (*project["dependencies"], *TEST_TOOLS)


def _bootstrap(userland: Userland, tree: Path, modules: Sequence[str]) -> None:
    options = ("--variant=minbase", f"--include={','.join(PACKAGES)}")
    environment = {**os.environ, "PYTHON_MODULES": "\n".join(modules)}
    _debootstrap(userland, tree, (*options, f"--customize-hook={CUSTOMIZE}"), environment)


def _unpack(userland: Userland, tree: Path) -> None:
    """Fill `tree` with unpacked packages: to install them, their own scripts would have to run."""
    options = ("--variant=extract", f"--include={','.join(FOREIGN_PACKAGES)}")
    _debootstrap(userland, tree, options, os.environ)
    tool([UNPACKED, tree])


def _debootstrap(
    userland: Userland, tree: Path, options: Sequence[str], environment: Mapping[str, str]
) -> None:
    if os.geteuid() != 0:
        raise VmError(f"root is needed to build the {userland.name} root file system")
    sources = tree.with_name("debian.sources")
    sources.write_text(apt.sources(userland.suites))
    unneeded = ("doc", "man", "info", "locale")
    tool(
        [
            *("mmdebstrap", "--mode=root", f"--architectures={userland.architecture}"),
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in unneeded),
            *(*options, userland.release, tree, sources),
        ],
        env=environment,
    )


def _make_ext4(tree: Path, file: Path) -> None:
    used_kib = int(tool(["du", "-sk", tree]).split()[0])
    with file.open("wb") as image_file:
        image_file.truncate((used_kib * 5 // 4 + 65536) * 1024)
    # Mounted read-only for ever (changes go to a tmpfs above it), so a journal is of no use.
    tool(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", tree, file])

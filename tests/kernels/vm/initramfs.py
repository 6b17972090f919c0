"""The first user space of a boot: a static busybox, a few modules and `init.sh`.

It is left uncompressed: reading a few MiB is cheaper under emulation than decompressing them.
"""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path

from . import cache
from .apt import Archive
from .errors import VmError, tool
from .kernels import NATIVE, InstalledKernel, Kernel

MODULES = (
    *("virtio_pci", "virtio_blk", "virtio_console", "crc32c_generic", "ext4", "overlay"),
    "fuse",
)
"""What `init.sh` and the tests need; a kernel that does not list one has it built in.

crc32c_generic is what ext4 asks for by name at mount time on kernels up to 6.12.
"""
INIT = Path(__file__).with_name("init.sh")


def initramfs(installed: InstalledKernel) -> Path:
    """Return the initramfs for `installed` from the cache, built if it is not there."""

    def build(directory: Path) -> None:
        tree = directory / "tree"
        _fill(tree, installed)
        names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
        archive = directory / "initramfs.cpio"
        listing = directory / "names"
        listing.write_text(names + "\n")
        tool(["sh", "-c", f"cd '{tree}' && cpio -o -H newc <'{listing}' >'{archive}'"])
        shutil.rmtree(tree)

    recipe = (installed.root, installed.root.stat().st_mtime_ns, MODULES, INIT.read_text())
    return cache.entry(f"initramfs-{installed.kernel.package}", recipe, build) / "initramfs.cpio"


def _fill(tree: Path, installed: InstalledKernel) -> None:
    for name in ("bin", "modules", "boot"):
        (tree / name).mkdir(parents=True)
    shutil.copy2(_busybox(installed.kernel), tree / "bin/busybox")
    shutil.copy2(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    # A Debian machine has its kernel's configuration in /boot, where programs look for it.
    shutil.copy2(installed.config, tree / "boot" / f"config-{installed.release}")
    order = []
    for path in _load_order(installed.modules):
        name = path.name.split(".")[0] + ".ko"
        (tree / "modules" / name).write_bytes(_decompressed(path))
        order.append(name)
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in order))


def _busybox(kernel: Kernel) -> Path:
    """Return a static busybox for the kernel's architecture: this machine's own, or Debian's."""
    if kernel.architecture == NATIVE:
        return Path(shutil.which("busybox") or "busybox")

    def build(directory: Path) -> None:
        state = directory / "apt"
        archive = Archive(state, kernel.suites, kernel.architecture)
        tool(["dpkg-deb", "-x", archive.download("busybox-static", state), directory / "tree"])
        (directory / "tree/bin/busybox").rename(directory / "busybox")
        shutil.rmtree(state)

    recipe = (kernel.suites, kernel.architecture)
    return cache.entry(f"busybox-{kernel.architecture}", recipe, build) / "busybox"


def _load_order(modules: Path) -> Iterator[Path]:
    """Yield the files of MODULES, each after the modules that it needs."""
    needs: dict[str, list[str]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        needs[file] = rest.split()
    by_name = {Path(file).name.split(".")[0]: file for file in needs}
    done: set[str] = set()

    def visit(file: str) -> Iterator[Path]:
        if file not in done:
            done.add(file)
            for needed in needs[file]:
                yield from visit(needed)
            yield modules / file

    for name in MODULES:
        if name in by_name:
            yield from visit(by_name[name])


def _decompressed(path: Path) -> bytes:
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case _:
            raise VmError(f"{path.name}: this compression of modules is not known to the harness")

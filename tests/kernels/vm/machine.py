"""One boot: a script and its files go in; its status, its output and its files come out.

The job goes in as a tar on a raw disk and its results come back as a tar on another, so both are
safe for any bytes; the script's output comes live over a virtio port. The kernel's console goes
to a log that is quoted when a boot ends without a status.
"""

from __future__ import annotations

import io
import os
import selectors
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import EmulationRaceError, VmError
from .initramfs import initramfs
from .kernels import InstalledKernel

STAGE2 = Path(__file__).with_name("stage2.sh")
RESULTS_MIB = 1024
"""Size of the disk for results: a hole in a file until something is written."""
TAIL = 6000
"""Characters of the console and of the output that an error quotes."""

# What a kernel does at boot for safety or to be sure of itself is slow under emulation.
_KERNEL_ARGUMENTS = ("panic=-1", "quiet", "mitigations=off", "cryptomgr.notests")


@dataclass(frozen=True)
class Platform:
    """How QEMU emulates a machine architecture."""

    qemu: str
    options: Sequence[str]
    console: str
    """The kernel's name for the first serial port."""


# An exact machine has no clock but the number of instructions: each takes 1 ns, on its one CPU.
# What a piece of code takes is then a property of its path, and neither of the machine that
# emulates it nor of what else that does: two runs differ by interrupts alone.
_EXACT = ("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off")
_FREE = ("-accel", "tcg,thread=multi")

# Without AVX2, which QEMU 7.2 emulates wrongly: numpy's argsort, and with it np.unique, returned
# wrong places for most random arrays in a guest. faultprof's tests are not to depend on that.
PLATFORMS = {
    "amd64": Platform("qemu-system-x86_64", ("-M", "q35", "-cpu", "max,avx2=off"), console="ttyS0"),
    # The standard way of signing pointers takes QEMU half of the time.
    "arm64": Platform(
        "qemu-system-aarch64", ("-M", "virt", "-cpu", "max,pauth-impdef=on"), console="ttyAMA0"
    ),
}


@dataclass(frozen=True)
class Result:
    """What a job left."""

    status: int
    """Exit status of the script."""
    output: str
    """Standard output and error of the script, in order."""
    files: Mapping[str, bytes]
    """The files that the script left in /results, by their path below it."""
    console: str
    """What the kernel said."""
    boot_s: float
    """Seconds from the start of QEMU to the first output of the script (or to the end)."""
    total_s: float
    """Seconds from the start of QEMU to its end."""


@dataclass(frozen=True)
class Machine:
    """A virtual machine with a stock kernel and a root file system, to be booted for each job."""

    installed: InstalledKernel
    image: Path
    """Root file system, ext4; it is never written to."""
    cpus: int = 2
    memory_mib: int = 2048
    append: Sequence[str] = ()
    """Further arguments of the kernel's command line."""

    def run(
        self,
        script: str,
        files: Mapping[str, Path] | None = None,
        *,
        timeout: float = 600,
        on_output: Callable[[bytes], object] = lambda _: None,
    ) -> Result:
        """Boot, run the bash `script` in /job beside `files`, and power off.

        Args:
            script: run by bash as root; its output is handed out as it comes.
            files: what lies below /job, by path there.
            timeout: seconds until the machine is ended.
            on_output: called with each piece of the output.

        Raises:
            VmError: the time is over or the machine stopped without giving a status.
        """
        with tempfile.TemporaryDirectory(prefix="vm-") as name:
            directory = Path(name)
            _pack(directory / "job.tar", script, files or {})
            (directory / "console.log").touch()
            with (directory / "results.tar").open("wb") as disk:
                disk.truncate(RESULTS_MIB << 20)
            started = time.monotonic()
            with _process(self._command(directory)) as qemu:
                output = _read_all(qemu.stdout, started + timeout, on_output)
            ended = time.monotonic()
            console = (directory / "console.log").read_text(errors="replace")
            left = _unpack(directory / "results.tar")
        if "status" not in left:
            what = f"was ended after {timeout:g} s" if output.timed_out else "stopped by itself"
            error = EmulationRaceError if "Oops: int3" in console else VmError
            raise error(
                f"the machine {what} without a status\n---- console ----\n{console[-TAIL:]}\n"
                f"---- output ----\n{output.text[-TAIL:]}"
            )
        return Result(
            status=int(left.pop("status")),
            output=output.text,
            files={path.removeprefix("results/"): data for path, data in left.items()},
            console=console,
            boot_s=(output.first or ended) - started,
            total_s=ended - started,
        )

    def _command(self, directory: Path) -> list[str]:
        def disk(file: Path, options: str) -> tuple[str, ...]:
            return ("-drive", f"file={file},format=raw,if=virtio,{options}")

        kernel = self.installed.kernel
        platform = PLATFORMS[kernel.architecture]
        kaslr = () if kernel.kaslr else ("nokaslr",)
        arguments = (f"console={platform.console}", *_KERNEL_ARGUMENTS, *kaslr, *self.append)
        return [
            # QEMU dies with us, however we end.
            *("setpriv", "--pdeathsig", "KILL", platform.qemu, *platform.options),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *(_EXACT if kernel.exact else _FREE),
            *("-smp", "1" if kernel.exact else str(self.cpus), "-m", f"{self.memory_mib}M"),
            *("-kernel", str(self.installed.image), "-initrd", str(initramfs(self.installed))),
            *("-append", " ".join(arguments)),
            *("-serial", f"file:{directory / 'console.log'}"),
            *disk(self.image, "readonly=on"),
            *disk(directory / "job.tar", "readonly=on"),
            *disk(directory / "results.tar", "cache=unsafe"),
            *("-device", "virtio-serial", "-chardev", "file,id=output,path=/dev/stdout"),
            *("-device", "virtserialport,chardev=output,name=output"),
        ]


def _pack(file: Path, script: str, files: Mapping[str, Path]) -> None:
    """Write the tar that is unpacked over the root file system before the second stage."""
    with tarfile.open(file, "w") as tar:
        data = script.encode()
        run = tarfile.TarInfo("job/run")
        run.size = len(data)
        tar.addfile(run, io.BytesIO(data))
        for path, source in {"stage2.sh": STAGE2, **files}.items():
            tar.add(source, f"job/{path}", filter=_owned_by_root)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _unpack(file: Path) -> dict[str, bytes]:
    """Return the regular files of a tar that may be followed by anything, or be empty."""
    with file.open("rb") as disk:
        if not any(disk.read(tarfile.BLOCKSIZE)):
            return {}
    try:
        with tarfile.open(file, "r:") as tar:
            members = ((member, tar.extractfile(member)) for member in tar)
            return {member.name: data.read() for member, data in members if data is not None}
    except tarfile.ReadError as error:
        raise VmError(f"the results are not whole ({RESULTS_MIB} MiB at most): {error}") from error


@contextmanager
def _process(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` with a pipe for its output; it is gone when the block is left."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@dataclass(frozen=True)
class _Output:
    text: str
    first: float | None
    """When the first of it came, on the monotonic clock."""
    timed_out: bool


def _read_all(
    pipe: IO[bytes] | None, deadline: float, on_output: Callable[[bytes], object]
) -> _Output:
    """Read `pipe` to its end, or until the `deadline` on the monotonic clock."""
    assert pipe is not None
    data = bytearray()
    first = None
    ended = False
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not ended and (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                chunk = os.read(pipe.fileno(), 65536)
                ended = not chunk
                first = first or time.monotonic()
                data += chunk
                on_output(chunk)
    return _Output(data.decode(errors="replace"), first, timed_out=not ended)

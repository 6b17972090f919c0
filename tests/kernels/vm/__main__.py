"""For developers: `python -m tests.kernels.vm build` and `… run KERNEL -- 'command'`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import apt
from .errors import VmError
from .images import REPOSITORY, USERLANDS, image
from .initramfs import initramfs
from .kernels import KERNELS, install
from .machine import Machine
from .source import source_tree


def main() -> int:
    """Parse the command line and do what it says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.vm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="fill the cache: kernels and root file systems")
    build.add_argument("kernels", nargs="*", metavar="KERNEL", help=" ".join(KERNELS))
    run = commands.add_parser("run", help="boot a kernel and run a command in /job/src")
    run.add_argument("kernel", choices=KERNELS)
    run.add_argument("--memory", type=int, default=2048, metavar="MIB")
    run.add_argument("--cpus", type=int, default=2)
    run.add_argument("--append", default="", metavar="ARGS", help="kernel command line")
    run.add_argument("--timeout", type=float, default=600, metavar="SECONDS")
    run.add_argument("--results", type=Path, metavar="DIR", help="where files of /results go")
    run.add_argument("words", nargs="+", metavar="COMMAND", help="given to the guest's bash")
    options = parser.parse_args()
    try:
        apt.requirements()
        return _build(options) if options.command == "build" else _run(options)
    except VmError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 125


def _build(options: argparse.Namespace) -> int:
    for name in options.kernels or KERNELS:
        started = time.monotonic()
        installed = install(KERNELS[name])
        root = image(USERLANDS[installed.kernel.userland])
        initramfs(installed)
        print(f"{name}: {installed.release}, {root} ({time.monotonic() - started:.1f} s)")
    return 0


def _run(options: argparse.Namespace) -> int:
    def show(chunk: bytes) -> None:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    installed = install(KERNELS[options.kernel])
    machine = Machine(
        installed,
        image(USERLANDS[installed.kernel.userland]),
        cpus=options.cpus,
        memory_mib=options.memory,
        append=options.append.split(),
    )
    script = "cd /job/src\n" + " ".join(options.words)
    files = source_tree(REPOSITORY)
    result = machine.run(script, files, timeout=options.timeout, on_output=show)
    for name, data in result.files.items() if options.results else ():
        target = options.results / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return result.status


sys.exit(main())

"""``faultprof inlines``: read the debuginfo of one kernel or two, print what is inlined where."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.errors import ExitCode, FaultprofError

if TYPE_CHECKING:
    from faultprof.kernel.cache import Owner
    from faultprof.kernel.inline_index import InlineIndex
    from faultprof.render.inlines import Kernel

_MOST_NAMES = 3


def inlines(
    vmlinux: Annotated[
        list[str],
        typer.Argument(metavar="VMLINUX_A [VMLINUX_B]", help="Kernels with debuginfo."),
    ],
    function: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--function",
            metavar="GLOB",
            help="Which functions; * and ? match (may be repeated).  [default: the fault path's]",
        ),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only what the two kernels inline differently.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show where functions are out of line or inlined, into whom, at how many sites.

    Of two kernels: whether the code is inlined in the same way. A function that was renamed between
    them is one function.

    Examples:
      faultprof inlines /usr/lib/debug/boot/vmlinux-6.12.0-amd64 -f process_huge_page

      faultprof inlines before/vmlinux after/vmlinux --changed
    """
    from faultprof.analysis.inlining import compare_inlining
    from faultprof.capture.identity import invoking_user
    from faultprof.kernel.build_id import elf_build_id
    from faultprof.kernel.catalogue import function_named
    from faultprof.render.inlines import Kernel, inlines_json, inlines_lines
    from faultprof.render.terminal import Terminal, write_lines

    _check(vmlinux, changed)
    user = invoking_user(os.environ)
    owner = user.owner if user else None
    globs = _globs(function or ())
    kernels = [Kernel(path, elf_build_id(Path(path))) for path in vmlinux]
    copies = [_index(kernel, owner).copies(globs) for kernel in kernels]

    def logical(name: str) -> str:
        known = function_named(name)
        return known.name if known else name

    found = compare_inlining(copies, logical)
    if not found:
        raise _nothing(function or ())
    if changed:
        found = [one for one in found if not one.same]
    if as_json:
        import json

        lines = json.dumps(inlines_json(kernels, found), indent=2).split("\n")
    else:
        lines = list(inlines_lines(kernels, found, Terminal.of(sys.stdout)))
    write_lines(sys.stdout, lines)


def _check(files: Sequence[str], changed: bool) -> None:
    if len(files) > 2:
        raise FaultprofError(f"{len(files)} kernels are too many", "name one or two")
    if changed and len(files) < 2:
        raise FaultprofError("--changed needs two kernels", "name the other one, too")


def _globs(given: Sequence[str]) -> list[str]:
    """Return what to look for: a renamed function by all its names, or the whole catalogue."""
    from faultprof.kernel.catalogue import CATALOGUE, function_named

    if not given:
        return [name for function in CATALOGUE for name in function.names]
    globs: list[str] = []
    for name in given:
        known = function_named(name)
        globs += known.names if known else (name,)
    return list(dict.fromkeys(globs))


def _index(kernel: Kernel, owner: Owner | None) -> InlineIndex:
    import hashlib

    from faultprof.kernel.inline_index import InlineIndex

    path, name = Path(kernel.path), kernel.build_id
    if name is None and path.is_file():
        # What is kept of a file goes by its build id, or by its contents where it has none.
        with path.open("rb") as file:
            name = f"content-{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return InlineIndex(path, name or "none", owner)


def _nothing(names: Sequence[str]) -> FaultprofError:
    wanted = ", ".join(names[:_MOST_NAMES]) or "of the fault path"
    return FaultprofError(
        f"no function {wanted} has code in these files",
        "look for others with --function, as in: --function '*huge*'",
        ExitCode.USAGE,
    )

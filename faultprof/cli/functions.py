"""``faultprof functions``: what the fault path's functions are on this kernel."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer


def functions(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="Show only: read, anon, cow, clear, hugetlb, shmem, swap, lock, or all "
            "(may be repeated).",
        ),
    ] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--function",
            metavar="NAME",
            help="Show any function of the kernel; * and ? match (may be repeated).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what the fault path's functions are on this kernel, and which can be traced.

    A function may be a symbol, have another name here, be changed by the compiler, or be inlined:
    then debuginfo tells where, or a condition tells its calls. Else the reason is given.

    Examples:
      faultprof functions --preset read

      faultprof functions -f do_set_pte -f 'filemap_*fault'
    """
    from faultprof.capture.identity import invoking_user
    from faultprof.kernel.catalogue import ALL
    from faultprof.kernel.resolve import resolve
    from faultprof.kernel.selection import choose
    from faultprof.kernel.view import KernelView
    from faultprof.render.functions import Listing, functions_json, functions_lines
    from faultprof.render.terminal import Terminal, write_lines

    presets, names = preset or [], function or []
    user = invoking_user(os.environ)
    view = KernelView.read(owner=user.owner if user else None)
    chosen = choose(presets or ([] if names else [ALL]), names, view)
    listing = Listing(
        view.release,
        len(view.attachable) if view.attachable else None,
        view.bodies is not None,
        tuple((one.why, one.remedy) for one in view.obstacles),
        tuple(zip(chosen, resolve(chosen, view), strict=True)),
        tuple(name for name in presets if name != ALL),
    )
    if as_json:
        import json

        lines = json.dumps(functions_json(listing), indent=2).split("\n")
    else:
        lines = list(functions_lines(listing, Terminal.of(sys.stdout)))
    write_lines(sys.stdout, lines)

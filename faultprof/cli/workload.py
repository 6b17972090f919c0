"""``faultprof workload``: list and run the named cases, put back what a killed run left.

``workload list --json`` is one object with ``cases``: for each ``name``, ``summary``, ``exercises``
(functions), ``command`` (as vm-scalability's scripts have it) and ``needs`` (what is set up for it,
and ``root``).
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Annotated

import typer

from faultprof.cli.mounting import mount
from faultprof.errors import FaultprofError
from faultprof.workloads.cases import CASES, CLEAR, PAGES, ROUNDS, Case

app = typer.Typer(
    name="workload",
    help="The named cases of vm-scalability, set up and run.",
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


_LISTED = (*CASES, CLEAR)
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def list_cases(as_json: _AsJson = False) -> None:
    """List the cases: what they do, what they exercise, what they need.

    Examples:
      faultprof workload list

      faultprof workload list --json | jq -r '.cases[].name'
    """
    if as_json:
        print(json.dumps({"cases": [_as_json(case) for case in _LISTED]}, indent=2))
        return
    print("u: --size, nt: --tasks. What a case needs is set up for it, and undone, as root.\n")
    for case in _LISTED:
        needs = ", ".join(sorted(case.needs))
        print(f"{case.name}: {case.summary}")
        print(f"    {case.synopsis}")
        print(f"    {case.exercises}")
        print(f"    needs {needs}\n" if needs else "    needs nothing\n")


def _as_json(case: Case) -> dict[str, object]:
    return {
        "name": case.name,
        "summary": case.summary,
        "exercises": case.exercises,
        "command": case.synopsis,
        "needs": sorted(case.needs),
    }


def run_case(
    name: Annotated[str, typer.Argument(metavar="CASE", help="See `faultprof workload list`.")],
    extra: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTIONS]", help="Further options of usemem."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory that the whole case uses; k, m, g, t.  [default: 256m; not of clear]",
        ),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Processes or threads; without it one for each CPU.")
    ] = None,
    pages: Annotated[
        str | None,
        typer.Option(
            metavar="N,...", help="Of clear: huge pages of each table.  [default: 1,100,512]"
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="R", help="Of clear: rounds.  [default: 5]")
    ] = None,
    as_root: Annotated[
        bool, typer.Option("--as-root", help="Under sudo: run the case itself as root, too.")
    ] = False,
) -> None:
    """Run a case. Its exit status is the command's.

    Examples:
      faultprof workload run shm-pread-seq-mt --size 1g

      faultprof record -- faultprof workload run anon-w-seq-mt --tasks 4

      faultprof record --preset clear -- faultprof workload run clear --pages 100
    """
    from faultprof.capture.identity import invoking_user
    from faultprof.workloads.clear import parse_pages, prepared_clear
    from faultprof.workloads.run import prepared, run_command
    from faultprof.workloads.sizes import parse_size

    user = None if as_root else invoking_user(os.environ)
    count = tasks if tasks is not None else len(os.sched_getaffinity(0))
    if name == CLEAR.name:
        _check_unused({"--size": size, "--tasks": tasks, "--": extra}, "--pages and --rounds")
        numbers = parse_pages(pages) if pages is not None else PAGES
        preparing = prepared_clear(numbers, ROUNDS if rounds is None else rounds, user=user)
    else:
        _check_unused({"--pages": pages, "--rounds": rounds}, "--size and --tasks")
        preparing = prepared(name, parse_size(size or "256m"), count, extra=extra or (), user=user)
    with preparing as ready:
        for note in ready.notes:
            typer.echo(f"faultprof: {note}", err=True)
        typer.echo(f"faultprof: running {shlex.join(ready.argv)}", err=True)
        status = run_command(ready.argv, user)
    raise typer.Exit(status)


def _check_unused(given: dict[str, object], instead: str) -> None:
    unused = [name for name, value in given.items() if value]
    if unused:
        raise FaultprofError(f"this case has no {unused[0]}", f"it takes {instead}")


def restore() -> None:
    """Undo what a killed run left: mounts and huge-page settings.

    Examples:
      sudo faultprof workload restore
    """
    from faultprof.workloads.setup import undo_what_dead_processes_left

    undone = undo_what_dead_processes_left()
    for change in undone:
        print(f"undone: {change}")
    if not undone:
        print("nothing to undo")


for _name, _function in (("list", list_cases), ("run", run_case), ("restore", restore)):
    mount(app, _function, _name)

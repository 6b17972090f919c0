"""One module per command, thin: parse, call, print. This one mounts them and reports failures.

``main`` is the only place that prints an error and the only one that turns it into an exit code.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from faultprof import __version__
from faultprof.errors import FaultprofError

app = typer.Typer(
    name="faultprof",
    help="Where the Linux kernel's page-fault path spends its time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_verbose = False


@app.callback(invoke_without_command=True)
def _common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With an error, print what lies behind it.")
    ] = False,
) -> None:
    global _verbose
    _verbose = verbose
    if version:
        print(f"faultprof {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def _mount() -> None:
    from faultprof.cli import doctor, record, report, workload

    app.command(context_settings={"allow_interspersed_args": False})(record.record)
    app.command()(report.report)
    app.command()(doctor.doctor)
    app.add_typer(workload.app, name="workload")


def main() -> None:
    """Run the command line; every way of failing ends here."""
    _mount()
    try:
        app(prog_name="faultprof")
    except FaultprofError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
    except KeyboardInterrupt:
        sys.exit(128 + 2)


def _print_error(error: FaultprofError) -> None:
    from faultprof.render.terminal import sanitise

    print(f"faultprof: {sanitise(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"  {sanitise(error.hint)}", file=sys.stderr)
    if _verbose and error.detail:
        print(error.detail.rstrip(), file=sys.stderr)

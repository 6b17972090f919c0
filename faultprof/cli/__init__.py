"""One module per command, thin: parse, call, print. This one mounts them and reports failures.

``main`` is the only place that prints an error and the only one that turns it into an exit code.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from faultprof import __version__
from faultprof.errors import ExitCode, FaultprofError

app = typer.Typer(
    name="faultprof",
    help="Where the Linux kernel's page-fault path spends its time.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone would take 0.1 s to load
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer brings click's classes along, under a name that has changed; what it exports has not.
_UsageError: Any = typer.BadParameter.__mro__[1]

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
    from faultprof.cli import compare, doctor, functions, record, report, workload

    _add(record.record, context_settings={"allow_interspersed_args": False})
    _add(report.report)
    _add(compare.compare)
    _add(doctor.doctor)
    _add(functions.functions)
    app.add_typer(workload.app, name="workload")


def _add(function: Callable[..., None], **settings: Any) -> None:
    """Mount a command; its docstring is its help, and the part from "Examples:" on stays as is."""
    text, _, examples = inspect.cleandoc(function.__doc__ or "").partition("Examples:")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    # The line "\b" tells click to leave a paragraph's line breaks alone.
    epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None
    short = text.partition("\n\n")[0].replace("\n", " ")
    app.command(help=text, short_help=short, epilog=epilog, **settings)(function)


def main() -> None:
    """Run the command line; every way of failing ends here."""
    _mount()
    try:
        sys.exit(app(prog_name="faultprof", standalone_mode=False))
    except FaultprofError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except _UsageError as error:
        _print_error(_as_ours(error))
        sys.exit(ExitCode.USAGE)
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
    except KeyboardInterrupt:
        sys.exit(128 + 2)


def _as_ours(error: Any) -> FaultprofError:
    command = error.ctx.command_path if error.ctx is not None else "faultprof"
    message = " ".join(error.format_message().split()).rstrip(".")
    return FaultprofError(message[:1].lower() + message[1:], f"see: {command} --help")


def _print_error(error: FaultprofError) -> None:
    from faultprof.render.terminal import sanitise

    print(f"faultprof: {sanitise(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"  {sanitise(error.hint)}", file=sys.stderr)
    if _verbose and error.detail:
        print(error.detail.rstrip(), file=sys.stderr)

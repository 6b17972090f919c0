"""One module per command, thin: parse, call, print. This one mounts them and reports failures.

``main`` is the only place that prints an error and the only one that turns it into an exit code.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from faultprof import __version__
from faultprof.cli import notices
from faultprof.cli.completion import VARIABLE
from faultprof.cli.mounting import mount
from faultprof.errors import ExitCode, FaultprofError, unsupported


class _ReaderGoneError(Exception):
    """The reader of our output (head, less) has seen enough."""


class _Commands(TyperGroup):
    """The commands; takes a broken pipe out of Typer's hands, which would exit with 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGoneError from error


app = typer.Typer(
    name="faultprof",
    cls=_Commands,
    help="Where the Linux kernel's page-fault path spends its time.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone would take 0.1 s to load
    # What completes costs 25 ms to load: only for the scripts in shells/.
    add_completion=VARIABLE in os.environ,
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
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    global _verbose
    _verbose = verbose
    notices.quiet = quiet
    if version:
        print(f"faultprof {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def mount_all() -> typer.Typer:
    """Mount all commands, once, and return what holds them."""
    if app.registered_commands:
        return app
    from faultprof.cli import (
        ab,
        calibrate,
        compare,
        completion,
        contention,
        diff,
        doctor,
        export,
        flame,
        functions,
        html,
        import_text,
        inlines,
        perturb,
        plot,
        record,
        report,
        top,
        workload,
    )

    mount(app, record.record, context_settings={"allow_interspersed_args": False})
    mount(app, top.top, context_settings={"allow_interspersed_args": False})
    mount(app, report.report)
    mount(app, contention.contention)
    mount(app, flame.flame)
    mount(app, html.html)
    mount(app, plot.plot)
    mount(app, export.export)
    mount(app, ab.ab)
    mount(app, compare.compare)
    mount(app, diff.diff)
    mount(app, import_text.import_text, "import")
    mount(app, calibrate.calibrate, context_settings={"allow_interspersed_args": False})
    mount(app, perturb.perturb, context_settings={"allow_interspersed_args": False})
    mount(app, doctor.doctor)
    mount(app, functions.functions)
    mount(app, inlines.inlines)
    mount(app, completion.completion)
    app.add_typer(workload.app, name="workload")
    return app


def main() -> None:
    """Run the command line; every way of failing ends here."""
    _open_missing_streams()
    try:
        status = mount_all()(prog_name="faultprof", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status)
    except FaultprofError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except _UsageError as error:
        _print_error(_as_ours(error))
        sys.exit(ExitCode.USAGE)
    except (_ReaderGoneError, BrokenPipeError):
        _drop_output()
        sys.exit(ExitCode.OK)
    except KeyboardInterrupt:
        sys.exit(128 + 2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _drop_output()
        _print_error(unsupported(f"cannot write the output: {error.strerror}", "free some space"))
        sys.exit(ExitCode.UNSUPPORTED)


def _open_missing_streams() -> None:
    """Open /dev/null for standard streams that are closed, as in some daemons' jobs.

    Else the next file or pipe would take their number, and be written to as output.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


def _drop_output() -> None:
    """Send what is still buffered nowhere: it must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

"""``faultprof import``: have a text read, write a recording, say what became of the lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from faultprof.errors import bad_recording

if TYPE_CHECKING:
    from faultprof.analysis.imports.formats import Imported

_STDIN = "-"


class Format(StrEnum):
    """What a text is."""

    PERF_SCRIPT = "perf-script"
    FOLDED = "folded"
    MAIL = "mail"


def import_text(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; - reads standard input.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the recording goes.")
    ],
    text_format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="What the text is; mail is anything with call graphs of perf report or tables in "
            "it.  [default: what it looks like]",
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which event of perf script.  [default: the one with the most samples]",
        ),
    ] = None,
    periods: Annotated[
        bool,
        typer.Option("--periods", help="Weigh samples by their periods, as perf report does."),
    ] = False,
    part: Annotated[
        int | None,
        typer.Option(metavar="N", help="Which of several call graphs in a mail, from 1."),
    ] = None,
) -> None:
    """Make a recording of another tool's text.

    That is the text of perf script, folded stacks, a call graph of perf report as pasted into a
    mail (quoted, wrapped, annotated), or 0-day tables and value arrays for compare. Lines that
    cannot be read are named, and counted in the recording.

    Examples:
      perf script | faultprof import - -o perf.fprof

      faultprof import stacks.folded -o stacks.fprof

      faultprof import mail.txt --part 2 -o after.fprof
    """
    from faultprof.analysis.imports.formats import Choice
    from faultprof.analysis.imports.formats import import_text as read
    from faultprof.capture.identity import invoking_user
    from faultprof.recording.writer import check_writable, write_recording

    check_writable(output)
    choice = Choice(text_format.value if text_format else None, event, periods, part)
    name = "standard input" if file == _STDIN else file
    with _opened(file) as stream:
        imported = read(stream, name, choice)
    user = invoking_user(os.environ)
    runs = [imported.paths] if imported.paths else []
    write_recording(output, imported.metadata, runs, owner=user.owner if user else None)
    _tell(name, imported)


@contextlib.contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except OSError as error:
        raise bad_recording(
            f"cannot read {file}: {error.strerror}", "name a text, or - for standard input"
        ) from error


def _tell(name: str, imported: Imported) -> None:
    """Say on standard error what was found, and which lines could not be read."""
    from faultprof.render.imported import import_lines
    from faultprof.render.terminal import write_lines

    metadata = imported.metadata
    held = [f"{run.samples:,} samples" for run in metadata.runs]
    tables = len((metadata.imported or {})["tables"])
    if tables:
        held.append(f"{tables} table{'s' * (tables != 1)}")
    write_lines(sys.stderr, import_lines(name, imported.account, held))

"""From the arguments of ``compare`` to the sides of its tables.

Knows: recordings from texts with tables, and how one side of a file is addressed. An imported
recording's tables count like those of the text that it was made of.
Leaves to others: what a file holds (``recording``, ``lkp_table``) and comparing (``comparison``).

An argument is ``FILE``, or ``FILE:SIDE`` where SIDE is a side's number in the file, from 1, or the
beginning of its label, such as a commit. A recording is one side. A text has as many as its tables
have columns, counted through all tables from the top. Without SIDE all sides are meant: of one
argument alone, table by table; among several arguments, of a text that holds one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from faultprof.analysis.imports.tables import tables_from_json
from faultprof.analysis.lkp_table import parse
from faultprof.analysis.mail_text import ImportedText, Table
from faultprof.analysis.measurement import Side, side_of_recording
from faultprof.errors import ExitCode, FaultprofError, bad_recording
from faultprof.recording.metadata import IMPORT, Metadata
from faultprof.recording.opening import damaged
from faultprof.recording.reader import read_recording

SUFFIX = ".fprof"
_MAGIC = b"PAR1"
_LARGEST_TEXT = 64 << 20
_FORMS = "0-day comparison tables, value arrays, tables of rounds, and output of time"


@dataclass(frozen=True, slots=True)
class SideTable:
    """Sides to compare, the base first, and what a text says about them."""

    sides: tuple[Side, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Comparands:
    """What the arguments name.

    Args:
        tables: the tables to show; several only from one text.
        texts: what became of each text's lines, by file.
    """

    tables: tuple[SideTable, ...]
    texts: dict[str, ImportedText] = field(default_factory=dict)


def read_comparands(arguments: Sequence[str]) -> Comparands:
    """Read what is to be compared.

    Raises:
        FaultprofError: exit code 4, when a file cannot be read or holds nothing to compare; exit
            code 2, when the arguments do not name two sides.
    """
    files: dict[str, _File] = {}
    named = [_split(argument) for argument in arguments]
    for name, _ in named:
        if name not in files:
            files[name] = _read(name)
    texts = {name: file.text for name, file in files.items() if file.text is not None}
    if len(arguments) == 1 and not named[0][1]:
        return Comparands(files[named[0][0]].all_tables(), texts)
    sides: list[Side] = []
    for name, which in named:
        sides.extend(files[name].pick(which))
    if len(sides) < 2:
        raise FaultprofError(
            f"{arguments[0]} is one side only", "name what it is to be compared with"
        )
    return Comparands((SideTable(_told_apart(sides)),), texts)


def _split(argument: str) -> tuple[str, str]:
    """Return file and side; a file may have a colon in its name."""
    name, colon, which = argument.rpartition(":")
    if not colon or not name or not which or Path(argument).exists():
        return argument, ""
    return name, which


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    tables: tuple[Table, ...]
    text: ImportedText | None = None

    def all_tables(self) -> tuple[SideTable, ...]:
        """Return every table that has something to compare with."""
        tables = tuple(
            SideTable(table.sides, table.caption) for table in self.tables if len(table.sides) > 1
        )
        if not tables:
            raise FaultprofError(
                f"{self.name} is one side only", "name what it is to be compared with"
            )
        return tables

    def pick(self, which: str) -> tuple[Side, ...]:
        """Return the side that ``which`` names, or all of the only table."""
        sides = [side for table in self.tables for side in table.sides]
        if not which:
            if len(self.tables) == 1:
                return self.tables[0].sides
            raise self._unclear(f"{self.name} holds {len(self.tables)} tables", sides)
        if which.isdecimal() and 1 <= int(which) <= len(sides):
            return (sides[int(which) - 1],)
        found = [side for side in sides if side.label.startswith(which)]
        if len(found) != 1:
            count = "several sides" if found else "no side"
            raise self._unclear(f"{self.name} has {count} {which}", found or sides)
        return (found[0],)

    def _unclear(self, message: str, sides: Iterable[Side]) -> FaultprofError:
        known = ", ".join(f"{side.source} ({side.label})" for side in sides)
        return FaultprofError(message, f"name one side: {known}", ExitCode.USAGE)


def _read(name: str) -> _File:
    path = Path(name)
    content = _text_of(path)
    if content is None:
        metadata = read_recording(path).metadata
        if metadata.mode == IMPORT:
            return _File(name, tuple(_addressed(_imported_tables(path, metadata), name)))
        label = path.name.removesuffix(SUFFIX) or path.name
        side = side_of_recording(metadata, label, name)
        return _File(name, (Table("recording", "", (side,), 0, 0),))
    text = parse(content)
    if not text.tables:
        found = f" (line {text.unread[0].line}: {text.unread[0].reason})" if text.unread else ""
        raise bad_recording(
            f"{name} is no recording, and no table in it can be read{found}",
            f"what can be read: {_FORMS}",
        )
    return _File(name, tuple(_addressed(text.tables, name)), text)


def _imported_tables(path: Path, metadata: Metadata) -> tuple[Table, ...]:
    """Return the tables of a recording that was made of a text.

    Raises:
        FaultprofError: exit code 4, when it has none, or they are damaged.
    """
    try:
        tables = tables_from_json((metadata.imported or {}).get("tables", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, "its tables are incomplete") from error
    if not tables:
        raise bad_recording(
            f"{path} holds imported samples and no metrics", "show them with: faultprof report"
        )
    return tables


def _addressed(tables: Sequence[Table], name: str) -> Iterable[Table]:
    """Yield the tables with sides that know their address."""
    number = 0
    for table in tables:
        sides = []
        for side in table.sides:
            number += 1
            identity = f"{name}:{table.first_line}"
            sides.append(replace(side, source=f"{name}:{number}", table=identity))
        yield replace(table, sides=tuple(sides))


def _text_of(path: Path) -> str | None:
    """Return a text file's contents; None when the recording's reader is to judge the file."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_TEXT + 1)
    except OSError as error:
        raise bad_recording(f"cannot read {path}: {error.strerror}", "") from error
    if not data or data.startswith(_MAGIC) or b"\0" in data[:4096]:
        return None
    if len(data) > _LARGEST_TEXT:
        raise bad_recording(f"{path} is too large for a text with tables", "cut the tables out")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # has the plus-minus sign, and never fails


def _told_apart(sides: Sequence[Side]) -> tuple[Side, ...]:
    """Give sides of one name their files' paths instead."""
    labels = [side.label for side in sides]
    return tuple(
        side
        if labels.count(side.label) == 1
        else replace(side, label=side.source.removesuffix(SUFFIX))
        for side in sides
    )

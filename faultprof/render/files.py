"""Writes a picture, page or export to where the user wants it.

Knows: that a file appears whole or not at all, and what must never be overwritten.
Leaves to others: what is in it.

A recording is not replaced by mistake: ``-o`` naming one is refused. Devices and pipes, such as
/dev/stdout, are written through; ``-`` is the standard output.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from faultprof.errors import FaultprofError

_MAGIC = b"PAR1"  # how a recording begins


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write text as UTF-8; otherwise like :func:`write_bytes`."""
    write_bytes(path, (piece.encode() for piece in pieces))


def write_bytes(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file of ``pieces``; a former one is replaced once the new one is whole.

    Raises:
        FaultprofError: exit code 2, when ``path`` cannot be written or is a recording.
    """
    if str(path) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                file.writelines(pieces)
            return
        _refuse_recording(path)
        _replace(path, pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FaultprofError(
            f"cannot write {path}: {error.strerror or error}",
            "name a file in an existing, writable directory with -o",
        ) from error


def _refuse_recording(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head == _MAGIC:
        raise FaultprofError(f"{path} is a recording, and would be lost", "name another file")


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    if path.is_dir():
        raise IsADirectoryError(21, os.strerror(21))
    # O_EXCL follows no link that somebody may have planted; the name cannot be guessed.
    temporary = path.parent / f".{path.name[:32]}.{os.urandom(8).hex()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.writelines(pieces)
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise

"""Opens the file of a recording, or says why it is none.

Knows: the errors that a bad file leads to, and what Arrow and the operating system call them.
Leaves to others: what a good file holds (``reader``, ``traced_rows``).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faultprof.errors import FaultprofError, bad_recording


@contextlib.contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn what the operating system and Arrow raise into ours."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        hint = "make one with: faultprof record -- COMMAND"
        raise bad_recording(f"there is no recording {path}", hint) from error
    except PermissionError as error:
        hint = "read it as its owner, or with sudo"
        raise bad_recording(f"cannot read {path}: {error.strerror}", hint) from error
    except (OSError, UnicodeDecodeError, MemoryError, pa.ArrowException) as error:
        raise damaged(path, "its contents cannot be decoded") from error


def damaged(path: Path, reason: str) -> FaultprofError:
    """Return the error for a recording that is not what it was when it was written."""
    return bad_recording(
        f"{path} is damaged: {reason}", "record again; this file cannot be repaired"
    )


def foreign(path: Path) -> FaultprofError:
    """Return the error for a file that is something else."""
    return bad_recording(
        f"{path} is not a faultprof recording", "make one with: faultprof record -- COMMAND"
    )


def refuse_irregular(path: Path) -> None:
    """Refuse what is no file, or not even the beginning of a Parquet file."""
    # Opening a pipe would wait for its writer.
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise bad_recording(f"{path} is a directory", "name the recording in it")
    if not stat.S_ISREG(status.st_mode):
        raise foreign(path)
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(max(0, status.st_size - 4), os.SEEK_SET)
        tail = file.read(4)
    if not head:
        raise bad_recording(
            f"{path} is empty", "record again; the recorder did not write this file"
        )
    if head != b"PAR1":
        raise foreign(path)
    if tail != b"PAR1" or status.st_size < 12:
        raise damaged(path, "its end is missing")


@contextlib.contextmanager
def parquet_file(path: Path, dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """Open a ``pyarrow.parquet.ParquetFile``, ``dictionaries`` naming columns to keep encoded."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # No file of Python's: Arrow's threads would hold on to its buffers, and one that lets go of
    # its last while the interpreter ends brings the process down.
    with pa.OSFile(os.fsencode(path)) as source:
        yield pq.ParquetFile(source, read_dictionary=dictionaries, page_checksum_verification=True)

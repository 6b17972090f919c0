"""Writes a recording, so that a reader finds either nothing or a whole file.

Knows: how rows and metadata become Parquet, and how a file appears at its name in one step.
Leaves to others: what the rows are (``paths``, ``traced``, ``table``) and where the file goes
(``cli``).

faultprof runs as root and may write into a directory that others can write to. The file is
therefore made without a name where the file system can do that (a killed run then leaves nothing
at all), else under an unpredictable one with O_EXCL, which follows no symlink planted there; it is
private from the start, and handed to its owner through the open file and not through its name.
``rename`` puts it in place: a symlink at the final name is replaced and never written through.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from faultprof.errors import ExitCode, FaultprofError, unsupported
from faultprof.recording.metadata import Metadata
from faultprof.recording.paths import PathCount, nodes_from_paths
from faultprof.recording.schema import METADATA_KEY
from faultprof.recording.table import nodes_table, with_traces
from faultprof.recording.traced import TracedPath, nodes_from_traced

OLD_SUFFIX = ".old"
_MAGIC = b"PAR1"  # the first bytes of a Parquet file
_TRIAL_BYTES = 64 * 1024  # a usual recording is smaller
_ROWS_PER_GROUP = 256 * 1024  # bounds what a reader holds besides the rows themselves
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


def write_recording(
    path: Path,
    metadata: Metadata,
    runs: Sequence[Iterable[PathCount]],
    *,
    traces: Sequence[Iterable[TracedPath]] = (),
    owner: tuple[int, int] | None = None,
    keep_old: bool = False,
) -> None:
    """Write the paths of ``runs`` (run 0 first) and ``metadata`` to ``path``, mode 0600.

    Args:
        path: where the recording goes; a former file there is replaced.
        metadata: what the recording says about itself.
        runs: for each run its paths with their samples.
        traces: for each run its traced paths; none at all when nothing was traced.
        owner: user and group id that the file is given to; None leaves it to the writer.
        keep_old: move a former file to ``path`` + ``.old`` instead of dropping it.

    Raises:
        FaultprofError: exit code 2 when ``path`` cannot be a file, 3 when the disk is full.
        ValueError: for an impossible path, count or time.
    """
    nodes = nodes_table(nodes_from_paths(run, paths) for run, paths in enumerate(runs))
    if traces:
        nodes = with_traces(nodes, [nodes_from_traced(paths) for paths in traces])
    write_nodes(path, metadata, nodes, owner=owner, keep_old=keep_old)


def write_nodes(
    path: Path,
    metadata: Metadata,
    nodes: Any,
    *,
    owner: tuple[int, int] | None = None,
    keep_old: bool = False,
) -> None:
    """Write the ``pyarrow.Table`` ``nodes``; otherwise like :func:`write_recording`."""
    content = _parquet(metadata, nodes)
    with _failures(path), _directory(path) as directory:
        _replace(directory, path.name, content, owner, keep_old)


def check_writable(path: Path) -> None:
    """Try, before anything is recorded, whether a recording can be written to ``path``.

    Raises:
        FaultprofError: as :func:`write_recording`.
    """
    with _failures(path), _directory(path) as directory:
        _refuse_other_things(directory, path.name)
        file, name = _create(directory, path.name)
        try:
            _write(file, bytes(_TRIAL_BYTES))
        finally:
            os.close(file)
            if name is not None:
                os.unlink(name, dir_fd=directory)


def preload() -> None:
    """Import what writing needs, so that it does not delay the prompt after a command's end."""
    import pyarrow.parquet  # noqa: F401


def _parquet(metadata: Metadata, nodes: Any) -> memoryview:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = json.dumps(metadata.to_json()).encode()
    names = [f.name for f in nodes.schema if pa.types.is_dictionary(f.type)]
    rising = {"node": "DELTA_BINARY_PACKED", "parent": "DELTA_BINARY_PACKED"}
    sink = pa.BufferOutputStream()
    pq.write_table(
        nodes.replace_schema_metadata({METADATA_KEY: text}),
        sink,
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
        use_dictionary=[*names, "run", "depth", "samples", "self_samples"],
        column_encoding=rising,
        write_page_checksum=True,
    )
    return memoryview(sink.getvalue())


@contextlib.contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours, with a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot write the recording {path}: {reason}"
        if error.errno in _FULL:
            raise unsupported(message, "free some space, or name another file with -o") from error
        hint = "name a file in an existing, writable directory with -o"
        raise FaultprofError(message, hint, ExitCode.USAGE) from error


@contextlib.contextmanager
def _directory(path: Path) -> Iterator[int]:
    """Open the directory of ``path`` once, so that every step happens in the same one."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield directory
    finally:
        os.close(directory)


def _refuse_other_things(directory: int, name: str) -> None:
    """Refuse to replace what is there if it is no recording: a device, a pipe, another file.

    An empty file and a symlink may be replaced; the link, and never what it points to.
    """
    try:
        # "" and ".." are what is left of paths such as "/" and "dir/..".
        status = os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "it is no regular file")
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:  # another recording has moved it aside meanwhile
        return
    try:
        head = os.read(file, len(_MAGIC))
    finally:
        os.close(file)
    if head not in (b"", _MAGIC):
        raise FileExistsError(errno.EEXIST, "it is another file, no recording")


def _create(directory: int, final: str) -> tuple[int, str | None]:
    """Open a new private file: without a name (None), or under an unpredictable one."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=directory), None
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    name = _temporary_name(final)
    return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory), name


def _temporary_name(final: str) -> str:
    # The final name may be as long as names can be; the temporary one must still fit.
    return f".{final[:32]}.{os.urandom(8).hex()}"


def _replace(
    directory: int,
    final: str,
    content: memoryview,
    owner: tuple[int, int] | None,
    keep_old: bool,
) -> None:
    """Put a file with ``content`` at ``final`` in one step, or leave everything as it was."""
    _refuse_other_things(directory, final)
    file, name = _create(directory, final)
    try:
        _write(file, content)
        os.fsync(file)
        if owner is not None:
            os.fchown(file, *owner)
        if name is None:
            name = _link(file, directory, final)
        if keep_old:
            _move(directory, final, final + OLD_SUFFIX)
        os.rename(name, final, src_dir_fd=directory, dst_dir_fd=directory)
        name = None
        os.fsync(directory)
    finally:
        os.close(file)
        if name is not None:
            os.unlink(name, dir_fd=directory)


def _write(file: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _link(file: int, directory: int, final: str) -> str:
    """Give an unnamed file a temporary name; it is whole already."""
    name = _temporary_name(final)
    os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=directory, follow_symlinks=True)
    return name


def _move(directory: int, name: str, target: str) -> None:
    # Another recording may have moved it first.
    with contextlib.suppress(FileNotFoundError):
        os.rename(name, target, src_dir_fd=directory, dst_dir_fd=directory)

"""The user's cache: small files that are costly to make and safe to lose.

Knows: where it lies, that under sudo its files belong to the invoking user, how to write so that
two processes never see half a file, and how to tell a damaged file.
Leaves to others: what the files hold.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Owner = tuple[int, int]  # user id, group id

# The last digit counts versions of the files' contents; an older file is made anew.
_MAGIC = b"fpcache1"
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def cache_root(owner: Owner | None = None) -> Path:
    """Return faultprof's folder in the cache of ``owner``, or of the caller when None.

    ``$XDG_CACHE_HOME/faultprof``, else ``~/.cache/faultprof`` in the owner's home.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    if configured.startswith("/"):  # the XDG specification: relative paths are to be ignored
        return Path(configured) / "faultprof"
    home = Path.home()
    if owner is not None and owner[0] != os.geteuid():
        # KeyError: an owner without an account keeps the caller's own cache.
        with contextlib.suppress(KeyError):
            home = Path(pwd.getpwuid(owner[0]).pw_dir)
    return home / ".cache" / "faultprof"


class CacheDirectory:
    """One folder of the cache; made when first written to.

    Reading what is not there, and writing where it cannot be done (read-only home, full disk),
    are no errors: the work is done again next time.
    """

    def __init__(self, path: Path, owner: Owner | None = None) -> None:
        self.path = path
        self.owner = owner

    def read(self, name: str) -> bytes | None:
        """Return a file's contents, or None when it cannot be read."""
        try:
            return (self.path / name).read_bytes()
        except OSError:
            return None

    def read_own(self, name: str) -> bytes | None:
        """Return the contents of a file that nobody but this user and root can have written.

        For what would do harm in a stranger's hand; the folder may be in a home that is not ours
        (``sudo`` can keep ``$HOME``), so the file itself is what is asked.
        """
        try:
            descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
                return None
            return file.read()

    def keep_newest(self, count: int, pattern: str) -> None:
        """Delete all but the ``count`` files that were written or touched last.

        Args:
            count: how many stay.
            pattern: regular expression of the names that are looked at. Only in a folder of our
                own: root must not be led by a link to another place to delete files there.
        """
        with contextlib.suppress(OSError), self._opened() as directory:
            if os.fstat(directory).st_uid != os.geteuid():
                return
            names = os.listdir(directory)  # noqa: PTH208 (the folder is held open)
            used = {
                name: os.stat(name, dir_fd=directory).st_mtime
                for name in names
                if re.fullmatch(pattern, name)
            }
            for name in sorted(used, key=lambda name: used[name], reverse=True)[count:]:
                os.unlink(name, dir_fd=directory)

    def touch(self, name: str) -> None:
        """Mark a file as used now."""
        with contextlib.suppress(OSError):
            os.utime(self.path / name, follow_symlinks=False)

    def write(self, name: str, data: bytes) -> bool:
        """Write a file as a whole or not at all; tell whether it is there now."""
        try:
            self._make(self.path)
            with self._opened() as directory:
                self._write_into(directory, name, data)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder and refuse one that is not the owner's.

        Root writes here on behalf of a user who may have put a link in place of the folder; a
        folder that belongs to that user, held open, is one that he could write to himself.
        """
        directory = os.open(self.path, _DIRECTORY_FLAGS)
        try:
            if self.owner is not None and os.fstat(directory).st_uid != self.owner[0]:
                raise PermissionError(f"{self.path} does not belong to user {self.owner[0]}")
            yield directory
        finally:
            os.close(directory)

    def _write_into(self, directory: int, name: str, data: bytes) -> None:
        temporary = f".{name}.{os.urandom(8).hex()}"
        descriptor = os.open(temporary, _CREATE_FLAGS, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if self.owner is not None:
                    os.fchown(file.fileno(), *self.owner)
                file.write(data)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise

    def _make(self, path: Path) -> None:
        """Make a folder and those above it, each belonging to the owner."""
        if path.is_dir():
            return
        self._make(path.parent)
        with contextlib.suppress(FileExistsError):  # another process was quicker
            path.mkdir(mode=0o700)
            if self.owner is not None:
                descriptor = os.open(path, _DIRECTORY_FLAGS)
                os.fchown(descriptor, *self.owner)
                os.close(descriptor)


def pack(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return arrays of one dimension as bytes, with a checksum; ``unpack`` is the inverse."""
    parts = []
    for array in arrays:
        raw = array.tobytes()
        parts += [len(raw).to_bytes(8, "little"), raw, bytes(-len(raw) % 8)]
    body = b"".join(parts)
    return _MAGIC + zlib.crc32(body).to_bytes(8, "little") + body


def unpack(data: bytes | None, dtypes: Sequence[str]) -> list[NDArray[Any]] | None:
    """Return the arrays of ``pack``, or None when the data are absent, damaged, or of old make.

    Args:
        data: a file's contents, None when it could not be read.
        dtypes: numpy's name of each array's type; their number is part of what is checked.
    """
    import numpy as np

    if data is None or data[:8] != _MAGIC or zlib.crc32(data[16:]) != _word(data, 8):
        return None
    arrays = []
    position = 16
    for dtype in dtypes:
        size = _word(data, position)
        count = size // np.dtype(dtype).itemsize
        if position + 8 + size > len(data):
            return None
        arrays.append(np.frombuffer(data, dtype, count, position + 8))
        position += 8 + size + (-size % 8)
    return arrays if position == len(data) else None


def pack_names(names: Sequence[str]) -> NDArray[Any]:
    """Return names as an array for ``pack``; no name may hold a zero character."""
    import numpy as np

    return np.frombuffer("\0".join(names).encode("utf-8", "surrogateescape"), "u1")


def unpack_names(array: NDArray[Any]) -> tuple[str, ...]:
    """Return the names of ``pack_names``."""
    return tuple(array.tobytes().decode("utf-8", "surrogateescape").split("\0"))


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")

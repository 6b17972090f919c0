"""Finished pieces on disk (kernels, images), named by what they were made from.

An entry is a directory `NAME-DIGEST`, the digest taken over all that went into it; so a changed
recipe is a new entry, and two checkouts with different recipes live side by side. Entries are
made under a temporary name and renamed: what is there is whole. A file lock per name makes a
second user wait instead of building the same thing again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_AGE_S = 30 * 24 * 3600
"""After a month an entry is made anew, so that "Debian's newest kernel" stays true."""


def root() -> Path:
    """Return the cache directory, made if it is not there."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("FAULTPROF_CACHE") or Path(user_cache) / "faultprof") / "vm"
    path.mkdir(parents=True, exist_ok=True)
    return path


def entry(name: str, recipe: object, build: Callable[[Path], None]) -> Path:
    """Return the directory made by `build(directory)`, from the cache if it is there and fresh.

    `recipe` is anything whose `repr` changes whenever the result would.
    """
    digest = hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]
    path = root() / f"{name}-{digest}"
    if _fresh(path):
        return path
    with _lock(root() / f".{name}.lock"):
        if not _fresh(path):
            _build(path, build)
            _drop_stale(name)
    return path


def _fresh(path: Path) -> bool:
    return path.is_dir() and time.time() - path.stat().st_mtime < MAX_AGE_S


def _build(path: Path, build: Callable[[Path], None]) -> None:
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.mkdir()
    try:
        build(staging)
        # A stale entry may still be open in a running QEMU, which keeps what it has opened.
        shutil.rmtree(path, ignore_errors=True)
        os.utime(staging)
        staging.rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _drop_stale(name: str) -> None:
    """Remove entries of the same name that nobody will ask for again, and what a kill left."""
    for path in [*root().glob(f"{name}-*"), *root().glob(f".{name}-*")]:
        if path.is_dir() and not _fresh(path):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

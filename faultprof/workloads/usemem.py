"""Finding usemem: the user's own in PATH, else the bundled one, built on first use.

Knows: where the builds of bundled programs are kept, and how two builds at once stay out of each
other's way.
Leaves to others: what to run it with (``cases``), and telling the user which one it is.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faultprof.errors import unsupported

SOURCE = Path(__file__).with_name("usemem.c")
FLAGS = ("-std=c11", "-O2", "-pthread")
_COMPILERS = ("cc", "gcc", "clang")
_GET_COMPILER = "apt install gcc libc6-dev (Fedora: dnf install gcc glibc-devel)"
_OR_USEMEM = ", or put your own usemem in PATH"

Owner = tuple[int, int]


@dataclass(frozen=True)
class UsememSource:
    """The usemem, or other bundled program, to run.

    Attributes:
        path: the executable.
        bundled: whether it is faultprof's own program.
        built: whether it was compiled just now.
    """

    path: Path
    bundled: bool
    built: bool


def find_usemem(
    *,
    home: Path | None = None,
    owner: Owner | None = None,
    environ: Mapping[str, str] | None = None,
) -> UsememSource:
    """Return the user's own usemem if PATH has one, else the bundled one, built if need be.

    The build is kept in ``$XDG_CACHE_HOME/faultprof`` or ``~/.cache/faultprof``, once for
    each version of source and compiler.

    Args:
        home: the home directory whose cache is used; that of ``environ`` without it.
        owner: (uid, gid) of the invoking user where root acts for him: the build is done,
            and its files are owned, by him. Ignored without root privileges.
        environ: stands for ``os.environ``.

    Raises:
        FaultprofError: exit code 3, when there is no compiler, it fails, or the cache
            cannot be written.
    """
    environ = os.environ if environ is None else environ
    own = shutil.which("usemem", path=environ.get("PATH", os.defpath))
    if own is not None:
        return UsememSource(Path(own), bundled=False, built=False)
    return bundled_program(SOURCE, home=home, owner=owner, environ=environ)


def cache_directory(home: Path, environ: Mapping[str, str]) -> Path:
    """Return faultprof's part of the user's cache (XDG base directories: no relative ones)."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else home / ".cache") / "faultprof"


def bundled_program(
    source: Path,
    *,
    home: Path | None = None,
    owner: Owner | None = None,
    environ: Mapping[str, str] | None = None,
) -> UsememSource:
    """Return the bundled program that is made of one C file, built if need be.

    Args:
        source: the file; the program has its name.
        home: as of :func:`find_usemem`, like the others.
        owner: (uid, gid) of the invoking user where root acts for him.
        environ: stands for ``os.environ``.

    Raises:
        FaultprofError: as :func:`find_usemem`.
    """
    environ = os.environ if environ is None else environ
    if os.geteuid() != 0:
        owner = None
    home = Path(environ.get("HOME") or Path.home()) if home is None else home
    environ = {**environ, "HOME": str(home), "LC_ALL": "C"}
    name, code = source.stem, source.read_bytes()
    build = _Build(name, _compiler(name, environ), environ, owner)
    program = cache_directory(home, environ) / f"{name}-{build.key(code)}" / name
    if _is_executable(program, owner):
        return UsememSource(program, bundled=True, built=False)
    try:
        build.run(code, program)
    except OSError as error:
        raise unsupported(
            f"cannot keep the built {name} in {program.parent}: {error.strerror}",
            "set XDG_CACHE_HOME to a directory that you can write to",
        ) from error
    if not _is_executable(program, owner):
        raise unsupported(
            f"programs in {program.parent} cannot be run (mounted noexec?)",
            "set XDG_CACHE_HOME to a directory on another file system",
        )
    return UsememSource(program, bundled=True, built=True)


def _is_executable(program: Path, owner: Owner | None) -> bool:
    with acting_as(owner):
        return os.access(program, os.X_OK, effective_ids=True)


def _remedy(name: str) -> str:
    return _GET_COMPILER + (_OR_USEMEM if name == SOURCE.stem else "")


def _compiler(program: str, environ: Mapping[str, str]) -> list[str]:
    """Return the command that compiles C: ``$CC``, which may hold options, or the first found."""
    path = environ.get("PATH", os.defpath)
    configured = shlex.split(environ.get("CC", ""))
    for name in configured[:1] or _COMPILERS:
        found = shutil.which(name, path=path)
        if found is not None:
            return [str(Path(found).absolute()), *configured[1:]]
    if configured:
        raise unsupported(
            f"the compiler that $CC names is not there: {configured[0]}",
            "unset CC, or set it to a C compiler",
        )
    raise unsupported(
        f"no {program} in PATH, and no C compiler to build the bundled one"
        if program == SOURCE.stem
        else f"no C compiler to build the bundled {program}",
        _remedy(program),
    )


@dataclass(frozen=True)
class _Build:
    """One compiler, its environment, and the user as whom it runs."""

    name: str
    compiler: list[str]
    environ: Mapping[str, str]
    owner: Owner | None

    def key(self, source: bytes) -> str:
        """Return what names the result; the machine, because machines may share a home."""
        version = self._compile(["--version"], b"", Path("/"))
        parts = (*self.compiler, version, *FLAGS, platform.machine())
        named = b"\0".join([source, *(part.encode() for part in parts)])
        return hashlib.sha256(named).hexdigest()[:16]

    def run(self, source: bytes, program: Path) -> None:
        """Compile under a temporary name and rename: of two at once, either's result is whole."""
        with acting_as(self.owner):
            program.parent.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(prefix=".build-", dir=program.parent))
        try:
            # By standard input: the user may not be able to read root's copy of the source.
            self._compile([*FLAGS, "-x", "c", "-", "-o", self.name], source, directory)
            with acting_as(self.owner):
                (directory / self.name).chmod(0o755)
                (directory / self.name).replace(program)
        finally:
            with acting_as(self.owner):
                shutil.rmtree(directory)

    def _compile(self, arguments: list[str], source: bytes, directory: Path) -> str:
        """Run the compiler as the owner, with nothing left of root's groups."""
        uid, gid = self.owner or (None, None)
        done = subprocess.run(
            [*self.compiler, *arguments],
            input=source,
            capture_output=True,
            cwd=directory,
            env=self.environ,
            user=uid,
            group=gid,
            extra_groups=None if self.owner is None else [],
        )
        if done.returncode != 0:
            raise unsupported(
                f"{self.compiler[0]} could not compile the bundled {self.name}",
                f"{_remedy(self.name)}; --verbose shows what the compiler said",
                detail=done.stderr.decode(errors="replace"),
            )
        return done.stdout.decode(errors="replace")


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Let file operations count as those of ``owner`` (uid, gid); the whole process changes.

    So root neither leaves its files in the user's home, nor follows a link of his to a place
    that he could not write himself.
    """
    if owner is None:
        yield
        return
    uid, gid = os.geteuid(), os.getegid()
    os.setegid(owner[1])
    try:
        os.seteuid(owner[0])
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)

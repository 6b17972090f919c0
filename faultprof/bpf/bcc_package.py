"""bcc as a Python package: which one this interpreter sees, or why it sees none.

Knows: where distributions install bcc, and what hides it from a venv.
Leaves to others: whether it works (``probing``), the command that installs it (``kernel.host``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from faultprof.bpf.compiler import import_bcc
from faultprof.errors import FaultprofError
from faultprof.kernel.files import ROOT, read_text

_DISTRIBUTION_PLACES = (
    "usr/lib/python3/dist-packages/bcc",
    "usr/lib/python3*/site-packages/bcc",
    "usr/lib64/python3*/site-packages/bcc",
)

REMAKE_VENV = "/usr/bin/python3 -m venv --system-site-packages .venv"


@dataclass(frozen=True, slots=True)
class BccPackage:
    """What ``import bcc`` gives here.

    ``version`` is None when it cannot be used; ``reason`` then tells why. ``installed`` is
    whether the distribution's package is on this machine.
    """

    version: str | None
    reason: str = ""
    installed: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter: its own prefix and that of the installation it was made from."""

    prefix: Path
    base_prefix: Path

    @classmethod
    def current(cls) -> Interpreter:
        """Return the interpreter that runs this."""
        return cls(Path(sys.prefix), Path(sys.base_prefix))


def find_bcc(sysroot: Path = ROOT) -> BccPackage:
    """Import bcc and return its version, or why it cannot be imported."""
    try:
        bcc = import_bcc()
    except FaultprofError as error:
        return explain_absence(Interpreter.current(), error.message, sysroot)
    except OSError as error:  # its libbcc.so does not load
        return explain_absence(Interpreter.current(), str(error), sysroot)
    if not hasattr(bcc, "BPF"):
        reason = f"{bcc.__file__} is another package of that name"
        return BccPackage(None, reason, _installed_at(sysroot) is not None)
    return BccPackage(str(getattr(bcc, "__version__", "of unknown version")), installed=True)


def explain_absence(interpreter: Interpreter, error: str, sysroot: Path = ROOT) -> BccPackage:
    """Tell why an interpreter does not see bcc; ``error`` is what its import said."""
    place = _installed_at(sysroot)
    if place is None:
        return BccPackage(None, "not installed")
    where = f"/{place.relative_to(sysroot)}"
    if interpreter.base_prefix != Path("/usr"):
        made_by = f"this Python belongs to {interpreter.base_prefix}, not to the system"
        return BccPackage(None, f"installed in {where}, but {made_by}", installed=True)
    if interpreter.prefix != interpreter.base_prefix and not _sees_system(interpreter.prefix):
        hidden = "this venv was made without --system-site-packages"
        return BccPackage(None, f"installed in {where}, but {hidden}", installed=True)
    return BccPackage(None, f"installed in {where}, but broken: {error}", installed=True)


def _installed_at(sysroot: Path) -> Path | None:
    return next(
        (place for pattern in _DISTRIBUTION_PLACES for place in sysroot.glob(pattern)), None
    )


def _sees_system(prefix: Path) -> bool:
    settings = read_text(prefix / "pyvenv.cfg") or ""
    words = (line.replace(" ", "").lower() for line in settings.splitlines())
    return "include-system-site-packages=true" in words

"""faultprof: where the Linux kernel's page-fault path spends its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from faultprof.api import LoadedRecording

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(path: str | os.PathLike[str]) -> LoadedRecording:
    """Read a recording; see :func:`faultprof.api.load`."""
    # Imported here: the command line needs the version at once and the rest seldom.
    from faultprof.api import load

    return load(path)

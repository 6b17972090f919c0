"""How a frame is called in a report.

Knows: the marks that say where a function lives and how it was found.
Leaves to others: making text harmless (``terminal``) and layout (``text``, ``folded``).

As perf users know it, ``[ext4]`` behind a name is its module; what stands in ``( )`` says how the
function was found, when it was not simply a symbol: ``(inlined)``, ``(inferred)``, ``(.isra.0)``.
"""

from __future__ import annotations

import re

from faultprof.recording.frames import SYMBOL, USER, Frame
from faultprof.render.terminal import sanitise

_SILENT = (SYMBOL, USER)  # what a reader takes for granted
_VARIANT = SYMBOL + ":"

# What a 64-bit kernel's addresses look like. Recordings hold none, but files that come from
# elsewhere may, and with one address in a mail a kernel's randomised layout is known.
_KERNEL_ADDRESS = re.compile(r"(?:0x)?ffff[0-9a-f]{12}", re.IGNORECASE)


def without_addresses(text: str) -> str:
    """Return ``text`` with ``[address]`` for each address of the kernel."""
    return _KERNEL_ADDRESS.sub("[address]", text) if "fff" in text.lower() else text


def marks(frame: Frame) -> str:
    """Return what follows the name: `` [module]`` and `` (how it was found)``, or nothing."""
    module = f" [{sanitise(frame.module)}]" if frame.module else ""
    found = found_mark(frame)
    return module + (f" ({found})" if found else "")


def found_mark(frame: Frame) -> str:
    """Return how a frame was found where that is not simply by its symbol: ``inlined``."""
    resolutions = frame.resolution.split("+")
    said = [sanitise(one.removeprefix(_VARIANT)) for one in resolutions if one not in _SILENT]
    if not said:
        return ""
    partly = "partly " if len(resolutions) > 1 else ""
    return partly + ", ".join(said)


def label(frame: Frame) -> str:
    """Return a frame's name and marks, harmless to print."""
    return sanitise(frame.function) + marks(frame)

"""What a call-tree frame is: a function, where it lives, and how it was found."""

from __future__ import annotations

from typing import NamedTuple

# How a frame's function was found; the report marks everything but SYMBOL.
SYMBOL = "symbol"
INLINED = "inlined"  # expanded from the inline ranges of matching debuginfo
INFERRED = "inferred"  # deduced from a condition, e.g. do_read_fault in do_fault
USER = "user"
UNRESOLVED = "unresolved"
# A compiler-made variant of a function is "symbol:" + its suffix, e.g. "symbol:.isra.0".

VMLINUX = ""  # module name of the kernel proper


class Frame(NamedTuple):
    """One level of a path: function name, module ("" for the kernel proper), resolution."""

    function: str
    module: str = VMLINUX
    resolution: str = SYMBOL

"""From the names in other tools' text to frames.

Knows: how perf calls the kernel, its modules and user files, and what it prints for "unknown".
Leaves to others: taking lines apart (``perf_script``, ``perf_report``, ``folded``).

perf gives a symbol and a file ("dso"). The kernel's may be ``[kernel.kallsyms]``,
``[kernel.vmlinux]``, ``[guest.kernel.kallsyms]`` or a vmlinux file; a module's is ``[ext4]`` or its
``.ko`` file (compressed, too). Frames come out as faultprof's own recordings have them: variants
folded into their function, user files by base name, and no address anywhere.
"""

from __future__ import annotations

import re

from faultprof.kernel.kallsyms import fold
from faultprof.recording.frames import INLINED, SYMBOL, UNRESOLVED, USER, Frame

UNKNOWN = "[unknown]"
NO_STACK = Frame("[no stack]", resolution=UNRESOLVED)

_KERNEL = re.compile(r"\[(?:guest\.)?kernel(?:\.[\w.]+)?\](?:_\w+)?|(?:.*/)?vmlinux(?:[-.][^/]*)?")
_MODULE_FILE = re.compile(r"(?:.*/)?([^/]+)\.ko(?:\.(?:gz|xz|zst))?")
_MODULE = re.compile(r"\[([\w-]+)\]")
# What stands in brackets and yet belongs to user space.
_USER_AREAS = ("[vdso]", "[vdso32]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]", UNKNOWN)
_HEX_NAME = re.compile(r"0x[0-9a-f]+")


def is_kernel_dso(dso: str) -> bool:
    """Return whether a file is the kernel or one of its modules."""
    return kernel_module(dso) is not None


def kernel_module(dso: str) -> str | None:
    """Return the module that a file stands for, "" for the kernel proper, None for a user file."""
    if _KERNEL.fullmatch(dso):
        return ""
    if found := _MODULE_FILE.fullmatch(dso):
        return found[1].replace("-", "_")
    if dso not in _USER_AREAS and (found := _MODULE.fullmatch(dso)):
        return found[1]
    return None


def frame_of(symbol: str, dso: str, *, in_kernel: bool, inlined: bool = False) -> Frame:
    """Return the frame of a symbol.

    Args:
        symbol: its name; "" or ``[unknown]`` where there is none.
        dso: the file as perf names it; "" where it does not.
        in_kernel: whether its address is one of the kernel's; a file of the kernel's also tells.
        inlined: whether it was inlined into its caller; a user frame bears no mark of that.
    """
    module = kernel_module(dso)
    if module is None and not in_kernel:
        return _user_frame(symbol, dso)
    if _is_unknown(symbol):
        return Frame(UNKNOWN, module or "", UNRESOLVED)
    folded = fold(symbol)
    found = f"{SYMBOL}:{folded.suffix}" if folded.suffix else SYMBOL
    return Frame(folded.function, module or "", INLINED if inlined else found)


def _user_frame(symbol: str, dso: str) -> Frame:
    file = dso.removesuffix(" (deleted)").rpartition("/")[2] if dso != UNKNOWN else ""
    if _is_unknown(symbol):
        # As faultprof's own recordings have it: code of a known file without a symbol.
        return Frame(f"[{file.strip('[]')}]" if file else UNKNOWN, file, USER)
    return Frame(symbol, file, USER)


def _is_unknown(symbol: str) -> bool:
    return symbol in ("", UNKNOWN) or _HEX_NAME.fullmatch(symbol) is not None

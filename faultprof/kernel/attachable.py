"""Which functions a probe can attach to: ftrace's list of them, and what stands in its way.

Knows: that a symbol or a type is no proof (``notrace`` functions have both), the list's form,
how to search it.
Leaves to others: what the functions are for (``catalogue``), attaching (``bpf``).
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from faultprof.kernel.files import ROOT
from faultprof.kernel.host import as_root, stock_kernel
from faultprof.kernel.kallsyms import fold
from faultprof.kernel.tracefs import tracefs_check, tracefs_mount

_LIST = "available_filter_functions"
_KPROBES = "sys/bus/event_source/devices/kprobe"
# Where an old kernel's list names a place that turned out to be no function.
_INVALID = "__ftrace_invalid_address__"
_WORD_MIN = 3  # letters of a word that two similar names share


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps probes away, or keeps us from knowing; ``remedy`` is a command where there is one.

    Attributes:
        hides_all: no probe can attach here; False when only the list of functions is missing.
    """

    why: str
    remedy: str
    hides_all: bool = False


@dataclass(frozen=True, slots=True)
class Attachable:
    """Functions that kprobes and fentry can attach to.

    Attributes:
        counts: how often each symbol stands in the list; more than once is more than one function.
        modules: the module of those that are not in the kernel proper.
    """

    counts: Counter[str]
    modules: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Attachable:
        """Return what the text of ``available_filter_functions`` says."""
        lines = [line for line in text.split("\n") if line and not line.startswith(_INVALID)]
        in_module = dict(line.rstrip("]").split(" [", 1) for line in lines if " [" in line)
        return cls(Counter([line.partition(" ")[0] for line in lines]), in_module)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.counts

    def __len__(self) -> int:
        return self.counts.total()

    def matching(self, pattern: str) -> list[str]:
        """Return the functions (without ``.isra.0`` and the like) that a glob matches, sorted."""
        matches = re.compile(fnmatch.translate(pattern)).match
        return sorted({name for name in map(_function, self.counts) if matches(name)})

    def nearest(self, name: str, also: Iterable[str] = (), most: int = 3) -> tuple[str, ...]:
        """Return names like ``name``, the most alike first; ``also`` may be among them.

        Only names that share a word or half of it are compared, as comparing is slow.
        """
        import difflib  # takes milliseconds that nobody but a user's typing error needs

        middle = max(len(name) // 2, _WORD_MIN)
        pieces = {word for word in name.split("_") if len(word) >= _WORD_MIN}
        pieces |= {name[:middle], name[-middle:]}
        alike = re.compile("|".join(map(re.escape, sorted(pieces)))).search
        candidates = {*also, *(known for known in self.counts if alike(known))}
        return tuple(difflib.get_close_matches(name, sorted(candidates), most))


def read_attachable(sysroot: Path = ROOT) -> Attachable | Obstacle:
    """Return what probes can attach to, or why that is not known; about 100 ms."""
    mount = _mount_with_list(sysroot)
    return mount if isinstance(mount, Obstacle) else Attachable.parse((mount / _LIST).read_text())


def list_obstacle(sysroot: Path = ROOT) -> Obstacle | None:
    """Return why what probes can attach to cannot be read; None if it can. Takes no time."""
    mount = _mount_with_list(sysroot)
    return mount if isinstance(mount, Obstacle) else None


def _mount_with_list(sysroot: Path) -> Path | Obstacle:
    mount = tracefs_mount(sysroot)
    if mount is None:
        check = tracefs_check(sysroot)
        remedy = as_root() if check.state == "unknown" else check.remedy
        return Obstacle(f"tracefs is {check.found}, so the functions cannot be listed", remedy)
    try:
        (mount / _LIST).open().close()
    except FileNotFoundError:
        return Obstacle(f"tracefs has no {_LIST}", stock_kernel("CONFIG_DYNAMIC_FTRACE"))
    except OSError as error:
        remedy = as_root() if os.geteuid() else "boot without lockdown=confidentiality"
        return Obstacle(f"{_LIST} cannot be read: {error.strerror}", remedy)
    return mount


def kprobe_obstacle(sysroot: Path = ROOT) -> Obstacle | None:
    """Return what says that this kernel has no kprobes, or None when it has."""
    if (sysroot / _KPROBES).exists():
        return None
    return Obstacle("this kernel has no kprobes", stock_kernel("CONFIG_KPROBE_EVENTS"), True)


def _function(symbol: str) -> str:
    return fold(symbol).function if "." in symbol else symbol

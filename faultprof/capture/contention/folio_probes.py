"""What probes/folio.bpf.c needs of a kernel: functions to probe, offsets of fields, bits.

Knows: the names of all these, in kernels before and since folios.
Leaves to others: attaching and counting (``folio``), what a symbol is (``kernel.resolve``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.conditions import Types
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.selection import choose, require_traceable
from faultprof.kernel.view import KernelView

# By their names in mainline: those before folios.
WAITERS = {
    "__folio_lock": "__lock_page",
    "__folio_lock_killable": "__lock_page_killable",
    "__folio_lock_or_retry": "__lock_page_or_retry",
    "folio_wait_bit": "wait_on_page_bit",
    "folio_wait_bit_killable": "wait_on_page_bit_killable",
    "folio_put_wait_locked": "put_and_wait_on_page_locked",
}
WAKER, WAKE_FUNCTION = "folio_wake_bit", "wake_page_function"
_OLDER_WAKER = {WAKER: "wake_up_page_bit"}
_NEEDED = ("io_schedule", "finish_wait")


class What(IntEnum):
    """``enum what`` of the program."""

    WAITS = 0
    IO_SCHEDULE = 1
    FINISH_WAIT = 2
    WAKES = 3
    WAKES_ONE = 4


# By knob: where the field is, in this kernel or another.
OFFSETS: dict[str, tuple[tuple[str, str], ...]] = {
    "OFFSET_TASK_STRUCT_STACK": (("task_struct", "stack"),),
    "OFFSET_WAIT_QUEUE_ENTRY_FLAGS": (("wait_queue_entry", "flags"),),
    "OFFSET_WAIT_QUEUE_ENTRY_FUNC": (("wait_queue_entry", "func"),),
    "OFFSET_WAIT_PAGE_QUEUE_WAIT": (("wait_page_queue", "wait"),),
    "OFFSET_WAIT_PAGE_QUEUE_FOLIO": (("wait_page_queue", "folio"), ("wait_page_queue", "page")),
    "OFFSET_WAIT_PAGE_QUEUE_BIT_NR": (("wait_page_queue", "bit_nr"),),
    "OFFSET_WAIT_PAGE_KEY_FOLIO": (("wait_page_key", "folio"), ("wait_page_key", "page")),
    "OFFSET_WAIT_PAGE_KEY_BIT_NR": (("wait_page_key", "bit_nr"),),
    "OFFSET_FOLIO_FLAGS": (("folio", "flags"), ("page", "flags")),
    "OFFSET_FOLIO_MAPPING": (("folio", "mapping"), ("page", "mapping")),
    "OFFSET_FOLIO_INDEX": (("folio", "index"), ("page", "index")),
    # The lowest byte of the second page's flags, since 6.6.
    "OFFSET_FOLIO_ORDER": (("folio", "_folio_order"), ("folio", "_flags_1")),
    "OFFSET_ADDRESS_SPACE_HOST": (("address_space", "host"),),
    "OFFSET_INODE_I_INO": (("inode", "i_ino"),),
    "OFFSET_INODE_I_SB": (("inode", "i_sb"),),
    "OFFSET_SUPER_BLOCK_S_DEV": (("super_block", "s_dev"),),
}
NAME_OFFSETS: dict[str, tuple[tuple[str, str], ...]] = {
    "OFFSET_INODE_I_DENTRY": (("inode", "i_dentry"),),
    "OFFSET_DENTRY_D_ALIAS": (("dentry", "d_u.d_alias"), ("dentry", "d_alias")),
    "OFFSET_DENTRY_D_PARENT": (("dentry", "d_parent"),),
    "OFFSET_DENTRY_D_NAME": (("dentry", "d_name.name"),),
}
BITS = {"BIT_LOCKED": "PG_locked", "BIT_WRITEBACK": "PG_writeback", "BIT_HEAD": "PG_head"}


@dataclass(frozen=True, slots=True)
class Probe:
    """A probed function; ``number`` tells those apart that wait."""

    symbol: str
    what: What
    number: int = 0

    @property
    def has_return(self) -> bool:
        """Whether its returns are probed too."""
        return self.what not in (What.IO_SCHEDULE, What.FINISH_WAIT)


@dataclass(frozen=True, slots=True)
class FolioProbes:
    """What is probed on one kernel.

    Attributes:
        probes: all of them.
        functions: those that wait, in the order of their numbers, by mainline's names.
        unseen: why others are not probed, by mainline's names.
        wake_function: the address of ``wake_page_function``.
        knobs: offsets and bits.
    """

    probes: tuple[Probe, ...]
    functions: tuple[str, ...]
    unseen: Mapping[str, str]
    wake_function: int
    knobs: Mapping[str, int]


def folio_probes(view: KernelView) -> FolioProbes:
    """Return what is to be probed on the kernel of ``view``.

    Raises:
        FaultprofError: what all depends on is not to be had (exit code 3).
    """
    if view.types is None:
        raise _impossible("the kernel's BTF is not there (/sys/kernel/btf/vmlinux)")
    symbols, unseen = _symbols(view)
    probes = [
        Probe(symbols["io_schedule"], What.IO_SCHEDULE),
        Probe(symbols["finish_wait"], What.FINISH_WAIT),
    ]
    functions = tuple(name for name in WAITERS if name in symbols)
    probes += [Probe(symbols[name], What.WAITS, at) for at, name in enumerate(functions)]
    if WAKER in symbols:
        probes.append(Probe(symbols[WAKER], What.WAKES))
        if WAKE_FUNCTION in symbols:
            probes.append(Probe(symbols[WAKE_FUNCTION], What.WAKES_ONE))
    return FolioProbes(
        tuple(probes), functions, unseen, _address(view, WAKE_FUNCTION), kernel_knobs(view.types)
    )


def kernel_knobs(types: Types) -> dict[str, int]:
    """Return offsets and bits of a kernel; where those of names are missing, files have none.

    Raises:
        FaultprofError: another one is missing (exit code 3).
    """
    knobs: dict[str, int] = {}
    for knob, places in OFFSETS.items():
        knobs[knob] = _needed(_offset(types, places), ".".join(places[0]))
    for knob, bit in BITS.items():
        knobs[knob] = _needed(types.enumerator("pageflags", bit), bit)
    names = {knob: _offset(types, places) for knob, places in NAME_OFFSETS.items()}
    known = {knob: offset for knob, offset in names.items() if offset is not None}
    return {**knobs, **known, "NAMES": int(known == names)}


def _symbols(view: KernelView) -> tuple[dict[str, str], dict[str, str]]:
    """Return the symbols of functions, and why others have none that can be probed."""
    names = [*WAITERS, *WAITERS.values(), *_OLDER_WAKER, *_OLDER_WAKER.values()]
    names += [*_NEEDED, WAKE_FUNCTION]
    found = {one.name: one for one in resolve(choose((), names, view), view)}
    require_traceable([found[name] for name in _NEEDED], view, named=_NEEDED)
    older = {**WAITERS, **_OLDER_WAKER}
    symbols: dict[str, str] = {}
    unseen: dict[str, str] = {}
    for name in (*_NEEDED, *older, WAKE_FUNCTION):
        candidates = (found[name], found.get(older.get(name, name)))
        symbol = next(filter(None, map(_symbol, candidates)), None)
        if symbol is not None:
            symbols[name] = symbol
        elif name in _NEEDED:
            raise _impossible(f"{name} cannot be probed by kprobe")
        else:
            unseen[name] = found[name].reason or "closed to probes"
    return symbols, unseen


def _symbol(one: Resolved | None) -> str | None:
    """Return the symbol at which a function's entry and returns can be probed."""
    if one is None or not one.kprobe or one.how is How.INLINED or len(one.places) != 1:
        return None
    place = one.places[0]
    return None if place.offset else place.symbol


def _address(view: KernelView, name: str) -> int:
    symbols = view.symbols.find([name]).get(name, [])
    if len(symbols) != 1 or not symbols[0].address:
        raise _impossible(f"the address of {name} is not known")
    return symbols[0].address


def _offset(types: Types, places: Sequence[tuple[str, str]]) -> int | None:
    found = (types.field_offset(structure, field) for structure, field in places)
    return next((offset for offset in found if offset is not None), None)


def _needed(value: int | None, what: str) -> int:
    if value is None:
        raise _impossible(f"this kernel's BTF has no {what}")
    return value


def _impossible(why: str) -> FaultprofError:
    return unsupported(f"waits for folios cannot be told here: {why}", "see 'faultprof doctor'")

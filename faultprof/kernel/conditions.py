"""Inlined functions told from outside: a probed host, and what must hold when it is entered.

Knows: the conditions under which the kernel's source runs the inlined body, and the offsets and
positions that a BPF program needs to test them.
Leaves to others: which functions have one (``catalogue``), testing it (the BPF programs).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol


class Types(Protocol):
    """A kernel's type information, as :class:`faultprof.kernel.btf_types.BtfTypes` has it."""

    def function_id(self, name: str) -> int | None:
        """Return a function's type id, which an fentry program names; None when it has none."""

    def arguments(self, function: str) -> tuple[str, ...] | None:
        """Return the names of a function's arguments in order; None when it is not known."""

    def field_offset(self, structure: str, field: str) -> int | None:
        """Return a field's offset in bytes; None when it is not known."""

    def enumerator(self, enum: str, name: str) -> int | None:
        """Return the value of an enum's member; None when it is not known."""


class Kind(Enum):
    """What is tested; the value is the number by which the BPF programs know it."""

    READ_FAULT = 1
    COW_FAULT = 2
    SHARED_FAULT = 3
    SINGLE_PAGE = 4
    ANONYMOUS = 5


class Argument(NamedTuple):
    """An argument of the host: its name, and its position in all kernels known, from 0.

    BTF's position counts; the one given here is used where BTF has another function of the
    host's name (``do_fault`` of an IOMMU driver in 6.1).
    """

    name: str
    position: int


class Exclusion(NamedTuple):
    """A function within whose host the condition does not hold if it is called.

    Attributes:
        unless_returned: it does hold if the return value has one of these bits.
    """

    function: str
    unless_returned: int = 0


@dataclass(frozen=True, slots=True)
class When:
    """A condition as the catalogue states it, for all kernels.

    Attributes:
        host: the function that the body is inlined into.
        argument: the host's argument that is looked at.
        fields: what is read behind it, as (structure, field).
        says: the condition in words.
        values: enumerators whose values the BPF programs take for granted, as
            (enum, enumerator, value).
        excludes: functions that rule it out if called within the host.
        approximates: how the count may differ from the calls of the inlined body; "" if not.
    """

    kind: Kind
    host: str
    argument: Argument
    fields: tuple[tuple[str, str], ...]
    says: str
    values: tuple[tuple[str, str, int], ...] = ()
    excludes: tuple[Exclusion, ...] = ()
    approximates: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition bound to one kernel.

    Attributes:
        host: the symbol to probe.
        argument: position of the argument that is looked at, from 0.
        offsets: byte offsets by ``structure.field``.
        excludes: functions that can be probed here and rule the condition out if called within.
        says: the condition in words.
        approximates: how the count may differ from the calls of the inlined body; "" if not.
    """

    kind: Kind
    host: str
    argument: int
    offsets: dict[str, int]
    excludes: tuple[Exclusion, ...]
    says: str
    approximates: str

    @property
    def knobs(self) -> dict[str, int]:
        """The offsets by the names that a BPF program's ``-D`` knobs have.

        ``vm_fault.flags`` is ``OFFSET_VM_FAULT_FLAGS``.
        """
        return {
            f"OFFSET_{field.replace('.', '_').upper()}": offset
            for field, offset in self.offsets.items()
        }


def bind(when: When, types: Types | None, host: str, *, is_shared_name: bool) -> Condition | str:
    """Return a condition for one kernel, or why it cannot be had there.

    Args:
        when: the condition.
        types: the kernel's BTF.
        host: the host's symbol; its arguments must be those of the source.
        is_shared_name: whether another function has the host's name, so that BTF may mean that.
    """
    if types is None:
        return "without BTF no condition can be tested"
    position = when.argument.position
    if not is_shared_name:
        names = types.arguments(host)
        if names is None or when.argument.name not in names:
            return f"{host} has no argument {when.argument.name} here"
        position = names.index(when.argument.name)
    for enum, name, value in when.values:
        here = types.enumerator(enum, name)
        if here not in (value, None):
            return f"{name} is {here:#x} here, not {value:#x}"
    offsets = {}
    for structure, field in when.fields:
        offset = types.field_offset(structure, field)
        if offset is None:
            return f"BTF has no {structure}.{field}"
        offsets[f"{structure}.{field}"] = offset
    return Condition(
        when.kind, host, position, offsets, when.excludes, when.says, when.approximates
    )


# mm/memory.c, do_fault(): without vm_ops->fault none of the three; else do_read_fault() if the
# access is no write, else do_cow_fault() if the mapping is private, else do_shared_fault().
_VMF = Argument("vmf", 0)
_FAULT_FIELDS = (
    ("vm_fault", "flags"),
    ("vm_fault", "vma"),
    ("vm_area_struct", "vm_flags"),
    ("vm_area_struct", "vm_ops"),
    ("vm_operations_struct", "fault"),
)
_WRITE = (("fault_flag", "FAULT_FLAG_WRITE", 0x1),)


def _in_do_fault(kind: Kind, says: str) -> When:
    return When(kind, "do_fault", _VMF, _FAULT_FIELDS, says, _WRITE)


READ_FAULT = _in_do_fault(Kind.READ_FAULT, "the access is no write")
COW_FAULT = _in_do_fault(Kind.COW_FAULT, "the access writes to a private mapping")
SHARED_FAULT = _in_do_fault(Kind.SHARED_FAULT, "the access writes to a shared mapping")

# mm/filemap.c, filemap_map_order0_folio(): set_pte_range() for one page, unless it is mapped.
SINGLE_PAGE = When(
    Kind.SINGLE_PAGE,
    "set_pte_range",
    Argument("nr", 3),
    (),
    "nr is 1, within filemap_map_pages",
    approximates="calls that map nothing are not seen, single pages of large folios are",
)

# mm/memory.c, handle_pte_fault(): do_anonymous_page() where an anonymous VMA has no page yet.
# Everything else that can happen to an anonymous VMA is a function of its own.
_VM_FAULT_FALLBACK = 0x800
ANONYMOUS = When(
    Kind.ANONYMOUS,
    "__handle_mm_fault",
    Argument("vma", 0),
    (("vm_area_struct", "vm_ops"),),
    "the VMA is anonymous and nothing else came of it",
    (("vm_fault_reason", "VM_FAULT_FALLBACK", _VM_FAULT_FALLBACK),),
    (
        Exclusion("do_huge_pmd_anonymous_page", _VM_FAULT_FALLBACK),
        Exclusion("do_huge_pmd_wp_page", _VM_FAULT_FALLBACK),
        Exclusion("do_huge_pmd_numa_page"),
        Exclusion("huge_pmd_set_accessed"),
        Exclusion("pmd_migration_entry_wait"),
        Exclusion("do_swap_page"),
        Exclusion("do_wp_page"),
        Exclusion("numa_migrate_prep"),
        Exclusion("numa_migrate_check"),
    ),
    approximates="a fault that finds its page already there counts too",
)

"""Kernels as ``faultprof.kernel.resolve`` sees them, recorded in small files and read back.

A recorded view holds what a real kernel said of the functions that tests ask for, and no more.
To record the running one, as root: ``python -m tests.kernel_views > tests/unit/kernels/NAME.json``.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultprof.kernel.attachable import Attachable, Obstacle
from faultprof.kernel.btf_types import BtfTypes
from faultprof.kernel.catalogue import CATALOGUE
from faultprof.kernel.kallsyms import fold
from faultprof.kernel.named_symbols import NamedSymbols
from faultprof.kernel.view import Body, KernelView

RECORDED = Path(__file__).parent / "unit/kernels"

# Beside the catalogue's: functions that the tests name, and some to match globs.
FURTHER = (
    *(
        "do_fault_around",
        "next_uptodate_page",
        "do_set_pte",
        "clear_huge_page",
        "do_kern_addr_fault",
    ),
    *("copy_user_huge_page", "__alloc_pages", "__alloc_pages_noprof", "lru_gen_add_folio"),
    *("folio_wait_bit", "folio_add_lru_vma", "shmem_get_folio", "should_fault_around"),
)
PATTERNS = ("shmem_*", "filemap_*", "ext4_file_*")
NEIGHBOURS = 20  # lines before a symbol whose name stands twice

FIELDS = (
    *("vm_fault.flags", "vm_fault.vma", "vm_area_struct.vm_flags", "vm_area_struct.vm_ops"),
    "vm_operations_struct.fault",
)
VALUES = ("fault_flag.FAULT_FLAG_WRITE", "vm_fault_reason.VM_FAULT_FALLBACK")


@dataclass
class RecordedTypes:
    """What BTF said, see ``conditions.Types``."""

    functions: dict[str, list[str]]
    fields: dict[str, int]
    enumerators: dict[str, int] = field(default_factory=dict)

    def arguments(self, function: str) -> tuple[str, ...] | None:
        names = self.functions.get(function)
        return None if names is None else tuple(names)

    def field_offset(self, structure: str, field: str) -> int | None:
        return self.fields.get(f"{structure}.{field}")

    def enumerator(self, enum: str, name: str) -> int | None:
        return self.enumerators.get(f"{enum}.{name}")


@dataclass
class RecordedBodies:
    """What debuginfo said, see ``view.Bodies``."""

    found: dict[str, list[list[Any]]]

    def bodies(self, function: str, near: Sequence[int]) -> list[Body]:
        return [Body(host, entry) for host, entry in self.found.get(function, ())] if near else []


def load(name: str, *, debuginfo: bool = False) -> KernelView:
    """Return a recorded view; with ``debuginfo`` as if it were installed."""
    content = json.loads((RECORDED / f"{name}.json").read_text())
    listed = content["available_filter_functions"]
    return KernelView(
        content["release"],
        NamedSymbols("".join(f"{line}\n" for line in content["kallsyms"]).encode()),
        None if listed is None else Attachable.parse("".join(f"{line}\n" for line in listed)),
        RecordedTypes(content["functions"], content["fields"], content["enumerators"]),
        RecordedBodies(content["bodies"]) if debuginfo else None,
        tuple(Obstacle(**one) for one in content["obstacles"]),
    )


def record(
    release: str,
    kallsyms: str,
    listed: str | None,
    types: BtfTypes,
    bodies: dict[str, list[list[Any]]],
    obstacles: Sequence[Obstacle] = (),
) -> dict[str, Any]:
    """Return what a view's file holds, cut out of a kernel's own files."""
    names = _names(bodies)
    lines = [line for line in kallsyms.splitlines() if line.split()[1] in "tTwW"]
    lines.sort()
    return {
        "release": release,
        "kallsyms": _cut(lines, names),
        "available_filter_functions": listed
        and [line for line in listed.splitlines() if _is_wanted(line.split()[0], names)],
        "functions": {
            name: list(types.arguments(name) or ())
            for name in sorted(names)
            if types.has_function(name)
        },
        "fields": {
            one: offset
            for one in FIELDS
            if (offset := types.field_offset(*one.split(".", 1))) is not None
        },
        "enumerators": {
            one: value
            for one in VALUES
            if (value := types.enumerator(*one.split(".", 1))) is not None
        },
        "bodies": bodies,
        "obstacles": [
            {"why": one.why, "remedy": one.remedy, "hides_all": one.hides_all} for one in obstacles
        ],
    }


def _names(bodies: dict[str, list[list[Any]]]) -> set[str]:
    names = {name for function in CATALOGUE for name in function.names}
    names |= {
        one.function for function in CATALOGUE if function.when for one in function.when.excludes
    }
    return names | {host for found in bodies.values() for host, _ in found} | set(FURTHER)


def _is_wanted(symbol: str, names: set[str]) -> bool:
    return fold(symbol).function in names or any(
        fnmatch.fnmatchcase(symbol, pattern) for pattern in PATTERNS
    )


def _cut(lines: list[str], names: set[str]) -> list[str]:
    symbols = [re.split(r"\s", line)[2] for line in lines]
    kept: set[int] = set()
    for at, symbol in enumerate(symbols):
        if fold(symbol).prefix or not _is_wanted(symbol, names):
            continue
        kept.add(at)
        if symbols.count(symbol) > 1:
            kept.update(range(max(0, at - NEIGHBOURS), at))
    return [lines[at] for at in sorted(kept)]


def _main() -> None:
    view = KernelView.read(debuginfo=False)
    listed = Path("/sys/kernel/tracing/available_filter_functions")
    types = BtfTypes.read()
    assert types is not None
    content = record(
        view.release,
        Path("/proc/kallsyms").read_text(),
        None if view.attachable is None else listed.read_text(),
        types,
        {},
        view.obstacles,
    )
    print(json.dumps(content, indent=0))


if __name__ == "__main__":
    _main()

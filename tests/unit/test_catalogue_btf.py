"""BTF blobs made by hand, and what is read from them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from faultprof.kernel.btf_types import BtfTypes
from tests.machine_tree import build_machine

INT, STRUCT, UNION, ENUM, TYPEDEF, CONST = 1, 4, 5, 6, 8, 10
FUNCTION, PROTOTYPE, VARIABLE, SECTION, ENUM64 = 12, 13, 14, 15, 19


class BlobBuilder:
    """Puts a BTF blob together, type by type; ids count from 1."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.strings = b"\0"
        self.types = b""
        self.count = 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = self.strings.find(b"\0" + text.encode() + b"\0")
        if at >= 0:
            return at + 1
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def add(
        self, kind: int, name: str, size_or_type: int, *tail: int, members: int = 0, flag: int = 0
    ) -> int:
        info = flag << 31 | kind << 24 | members
        words = (self.name(name), info, size_or_type, *tail)
        self.types += struct.pack(f"{self.order}{len(words)}I", *words)
        self.count += 1
        return self.count

    def structure(
        self, name: str, size: int, *fields: tuple[str, int, int], kind: int = STRUCT, flag: int = 0
    ) -> int:
        """``fields``: name, type, offset in bits."""
        tail = [
            word for field, type_id, bits in fields for word in (self.name(field), type_id, bits)
        ]
        return self.add(kind, name, size, *tail, members=len(fields), flag=flag)

    def blob(self) -> bytes:
        sizes = (0, len(self.types), len(self.types), len(self.strings))
        header = struct.pack(f"{self.order}HBBI4I", 0xEB9F, 1, 0, 24, *sizes)
        return header + self.types + self.strings


def fault_blob(order: str = "<") -> bytes:
    """Return types as the fault path has them: nested, unnamed, qualified."""
    build = BlobBuilder(order)
    number = build.add(INT, "unsigned int", 4, 32)
    inner = build.structure("", 16, ("vma", number, 0), ("address", number, 64))
    const = build.add(CONST, "", inner)
    either = build.structure("", 8, ("pte", number, 0), ("pmd", number, 0), kind=UNION)
    count = build.structure("counter", 8, ("low", number, 0), ("high", number, 32))
    alias = build.add(TYPEDEF, "counter_t", count)
    build.structure(
        "vm_fault",
        64,
        ("", const, 0),
        ("flags", number, 128),
        ("", either, 192),
        ("users", alias, 256),
    )
    build.structure("packed", 4, ("low", number, 3 << 24 | 0), ("odd", number, 5 << 24 | 3), flag=1)
    build.add(ENUM, "fault_flag", 4, build.name("WRITE"), 1, build.name("TRIED"), 32, members=2)
    build.add(ENUM64, "wide", 8, build.name("FAR"), 5, 1, members=1)
    build.add(VARIABLE, "some_variable", number, 1)
    build.add(SECTION, ".data", 8, 1, 0, 8, members=1)
    prototype = build.add(
        PROTOTYPE, "", number, build.name("vmf"), number, build.name("nr"), number, members=2
    )
    build.add(FUNCTION, "set_pte_range", prototype)
    build.add(FUNCTION, "clear_page_erms", build.add(PROTOTYPE, "", 0))
    return build.blob()


@pytest.fixture(params=["<", ">"], ids=["little", "big"])
def types(request: pytest.FixtureRequest) -> BtfTypes:
    return BtfTypes(fault_blob(request.param))


@pytest.mark.parametrize(
    ("structure", "field", "offset"),
    [
        ("vm_fault", "vma", 0),
        ("vm_fault", "address", 8),
        ("vm_fault", "flags", 16),
        ("vm_fault", "pte", 24),
        ("vm_fault", "pmd", 24),
        ("vm_fault", "users", 32),
        ("vm_fault", "users.high", 36),
        ("vm_fault", "vma.low", None),
        ("vm_fault", "no_such", None),
        ("no_such", "flags", None),
        ("set_pte_range", "vmf", None),
        ("packed", "low", 0),
        ("packed", "odd", None),
    ],
)
def test_field_offsets(types: BtfTypes, structure: str, field: str, offset: int | None) -> None:
    assert types.field_offset(structure, field) == offset


def test_functions_and_their_arguments(types: BtfTypes) -> None:
    assert types.has_function("set_pte_range")
    assert not types.has_function("set_pte")
    assert not types.has_function("vm_fault")
    assert not types.has_function("")
    assert types.arguments("set_pte_range") == ("vmf", "nr")
    assert types.arguments("clear_page_erms") == ()
    assert types.arguments("no_such") is None
    assert types.argument_index("set_pte_range", "nr") == 1
    assert types.argument_index("set_pte_range", "address") is None
    assert types.function_id("set_pte_range") == 14
    assert types.function_id("vm_fault") is None


def test_sizes_and_enumerators(types: BtfTypes) -> None:
    assert types.size("vm_fault") == 64
    assert types.size("no_such") is None
    assert types.enumerator("fault_flag", "TRIED") == 32
    assert types.enumerator("fault_flag", "NO_SUCH") is None
    assert types.enumerator("wide", "FAR") == 1 << 32 | 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda blob: blob[:0],
        lambda blob: blob[:20],
        lambda blob: b"\x7fELF" + blob[4:],
        lambda blob: blob.replace(struct.pack("<I", FUNCTION << 24), struct.pack("<I", 31 << 24)),
        lambda blob: blob[:12] + struct.pack("<I", 80) + blob[16:],
    ],
    ids=["empty", "short", "magic", "kind", "cut"],
)
def test_what_is_no_btf_is_refused(damage, tmp_path: Path) -> None:
    data = damage(fault_blob())
    with pytest.raises(ValueError, match="BTF"):
        BtfTypes(data)
    machine = build_machine(tmp_path, {"sys/kernel/btf/vmlinux": data})
    assert BtfTypes.read(machine) is None


def test_a_kernel_without_btf(tmp_path: Path) -> None:
    assert BtfTypes.read(tmp_path) is None

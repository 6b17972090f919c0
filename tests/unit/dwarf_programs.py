"""Small programs with known inlining, compiled at test time in every form debuginfo comes in.

Also a slow and plain expansion with pyelftools' own entries, to compare with.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

DATA = Path(__file__).parent / "data"
SOURCES = (DATA / "nest.c", DATA / "other.c")
ENTRY_FUNCTIONS = ("first", "second", "third", "fourth")

Chain = tuple[str, ...]


def run(*words: str | Path) -> None:
    """Run a tool; its messages are part of the error when it fails."""
    subprocess.run(words, check=True, capture_output=True)


def compile_program(target: Path, *flags: str) -> Path:
    """Compile the test program to ``target``."""
    run("gcc", "-O2", "-g", *flags, *SOURCES, "-o", target)
    return target


def _without_aranges(path: Path) -> None:
    run("objcopy", "--remove-section=.debug_aranges", path)


def _zstd(path: Path) -> None:
    run("objcopy", "--compress-debug-sections=zstd", path)


def _dwz(path: Path) -> None:
    run("dwz", path)


def _dwz_multifile(path: Path) -> None:
    """Move what two programs share into a supplementary file beside them."""
    twin = compile_program(path.with_name("twin"), "-O3")
    run("dwz", "-m", path.with_name("shared.sup"), "-M", "shared.sup", path, twin)


def _only_debug(path: Path) -> None:
    """Keep what a -dbg package keeps: of the text, only the section headers."""
    run("objcopy", "--only-keep-debug", path)


class Variant(NamedTuple):
    """How a program is compiled, and how its debuginfo is then written.

    ``form`` and ``finish`` change the debuginfo only: the code is that of ``code`` alone.
    """

    code: tuple[str, ...] = ()
    form: tuple[str, ...] = ()
    finish: Callable[[Path], None] | None = None


VARIANTS = {
    "plain": Variant(),
    "dwarf2": Variant(form=("-gdwarf-2",)),
    "dwarf3": Variant(form=("-gdwarf-3",)),
    "dwarf4": Variant(form=("-gdwarf-4",)),
    "dwarf5": Variant(form=("-gdwarf-5",)),
    "dwarf4-64bit": Variant(form=("-gdwarf-4", "-gdwarf64")),
    "dwarf5-64bit": Variant(form=("-gdwarf-5", "-gdwarf64")),
    "zlib": Variant(form=("-gz=zlib",)),
    "zdebug": Variant(form=("-gz=zlib-gnu",)),
    "zstd": Variant(finish=_zstd),
    "no-aranges-4": Variant(form=("-gdwarf-4",), finish=_without_aranges),
    "no-aranges-5": Variant(form=("-gdwarf-5",), finish=_without_aranges),
    "dwz-4": Variant(form=("-gdwarf-4",), finish=_dwz),
    "dwz-5": Variant(form=("-gdwarf-5",), finish=_dwz),
    "dwz-multifile": Variant(form=("-gdwarf-4",), finish=_dwz_multifile),
    "only-debug": Variant(finish=_only_debug),
    "more-inlining": Variant(code=("-O3",)),
    "for-size": Variant(code=("-Os",)),
    "lto": Variant(code=("-flto",)),
    "fixed-address": Variant(code=("-no-pie", "-static")),
    "dropped-code": Variant(code=("-ffunction-sections", "-Wl,--gc-sections")),
}


def build(variant: Variant, directory: Path) -> Path:
    """Compile one variant of the test program into ``directory``."""
    path = compile_program(directory / "program", *variant.code, *variant.form)
    if variant.finish is not None:
        variant.finish(path)
    return path


def build_reference(variant: Variant, directory: Path) -> Path:
    """Compile the same code with the debuginfo in the form that every tool reads."""
    return compile_program(directory / "reference", *variant.code)


def text_of(path: Path) -> tuple[int, bytes]:
    """Return the address and contents of the program's text."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".text")
        return section["sh_addr"], section.data()


def text_addresses(path: Path) -> list[int]:
    """Return every address of the units' own functions, with all that lies between them."""
    start, text = text_of(path)
    return list(range(start, start + min(len(text), 0x2000)))


def plain_chains(path: Path, addresses: list[int]) -> list[Chain]:
    """Expand addresses by walking all entries with pyelftools, the deepest that covers one last."""
    found: dict[int, Chain] = {}
    with path.open("rb") as file:
        elf = ELFFile(file, stream_loader=lambda name: (path.parent / name).open("rb"))
        info = elf.get_dwarf_info(follow_links=True)
        for unit in info.iter_CUs():
            for entry in unit.get_top_DIE().iter_children():
                _paint(entry, (), found)
    return [found.get(address, ()) for address in addresses]


def _paint(entry: DIE, chain: Chain, found: dict[int, Chain]) -> None:
    if entry.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
        outer = chain if entry.tag == "DW_TAG_inlined_subroutine" else ()
        chain = (*outer, _name(entry))
        for low, high in _ranges(entry):
            found.update(dict.fromkeys(range(low, high), chain))
    for child in entry.iter_children():
        _paint(child, chain, found)


def _name(entry: DIE) -> str:
    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if link in entry.attributes:
            return _name(entry.get_DIE_from_attribute(link))
    name = entry.attributes["DW_AT_name"].value
    return name.decode() if isinstance(name, bytes) else str(name)


def _ranges(entry: DIE) -> Iterator[tuple[int, int]]:
    attributes = entry.attributes
    if "DW_AT_ranges" in attributes:
        top = entry.cu.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        lists = entry.dwarfinfo.range_lists()
        for item in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, entry.cu):
            if hasattr(item, "base_address"):
                base = item.base_address
            else:
                shift = 0 if item.is_absolute else base
                yield item.begin_offset + shift, item.end_offset + shift
    elif "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value


@cache
def symbols(path: Path) -> dict[str, int]:
    """Return the addresses of a program's symbols, as nm prints them."""
    printed = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    lines = (line.split() for line in printed.splitlines())
    return {fields[2]: int(fields[0], 16) for fields in lines if len(fields) == 3}

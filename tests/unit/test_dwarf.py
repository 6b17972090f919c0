"""Inline expansion against addr2line and against pyelftools, for every address of a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from faultprof.kernel.inline_index import InlineIndex
from tests.addr2line import addr2line, disagreements
from tests.unit.dwarf_programs import (
    VARIANTS,
    Variant,
    build,
    build_reference,
    plain_chains,
    run,
    symbols,
    text_addresses,
    text_of,
)

Chain = tuple[str, ...]
BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test's cache to itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "faultprof" / "inlines" / BUILD_ID


def index_of(path: Path) -> InlineIndex:
    return InlineIndex(path, BUILD_ID)


def chains_of(index: InlineIndex, addresses: list[int]) -> list[Chain]:
    return index.chains(np.array(addresses, np.uint64))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(VARIANTS["plain"], tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def reference_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Variant], Path]:
    """Return a function that compiles a variant's code once for all variants that share it."""

    @cache
    def compile_code(code: tuple[str, ...]) -> Path:
        return build_reference(Variant(code), tmp_path_factory.mktemp("reference"))

    return lambda variant: compile_code(variant.code)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_address_agrees_with_addr2line_and_pyelftools(
    name: str, tmp_path: Path, reference_of: Callable[[Variant], Path]
) -> None:
    variant = VARIANTS[name]
    path = build(variant, tmp_path)
    # addr2line 2.40 does not read DWARF that dwz, -gdwarf64 or -gz=zlib-gnu made.
    reference = reference_of(variant)
    if variant.finish is None:
        assert text_of(path) == text_of(reference)
    addresses = text_addresses(reference)
    chains = chains_of(index_of(path), addresses)
    assert max(map(len, chains)) >= 5, "the program has five levels of inlining"
    assert disagreements(addresses, chains, addr2line(reference, addresses)) == []
    if name != "zstd":  # pyelftools unpacks zlib only
        assert chains == plain_chains(path, addresses)


def test_addresses_outside_of_all_units_have_no_chain(program: Path) -> None:
    outside = [0, 1, text_of(program)[0] - 1, 1 << 40, (1 << 64) - 1]
    assert chains_of(index_of(program), outside) == [()] * len(outside)
    assert chains_of(index_of(program), []) == []


def test_order_and_repetition_of_addresses_do_not_matter(program: Path) -> None:
    addresses = text_addresses(program)
    known = dict(zip(addresses, chains_of(index_of(program), addresses), strict=True))
    shuffled = [*addresses[::-3], *addresses[::7], *addresses[:5]]
    assert chains_of(index_of(program), shuffled) == [known[address] for address in shuffled]


def test_units_are_found_by_source_and_by_address(program: Path) -> None:
    index = index_of(program)
    (nest,), (other,) = index.units_named("nest.c"), index.units_named("data/other.c")
    assert index.units_named("est.c") == []
    first, fourth = symbols(program)["first"], symbols(program)["fourth"]
    assert index.units_at(np.array([first, first + 1, 0], np.uint64)) == [nest]
    assert index.units_at(np.array([fourth, first], np.uint64)) == sorted([nest, other])


def test_sites_are_all_places_of_a_function_and_no_others(program: Path) -> None:
    index = index_of(program)
    units = [*index.units_named("nest.c"), *index.units_named("other.c")]
    addresses = text_addresses(program)
    chains = dict(zip(addresses, chains_of(index, addresses), strict=True))
    for function in ("leaf", "middle", "wrapper", "outer", "first", "summed"):
        sites = index.sites(function, units)
        covered = [at for site in sites for low, high in site.ranges for at in range(low, high)]
        assert sorted(covered) == [at for at in addresses if function in chains[at]]
        for site in sites:
            assert site.chain[-1] == site.function == function
            assert site.host == site.chain[0]
            assert site.inlined == (len(site.chain) > 1)
            for low, high in site.ranges:
                assert {chains[at][: len(site.chain)] for at in range(low, high)} == {site.chain}
    assert index.sites("nothing", units) == []


def test_sites_out_of_line_are_entered_at_their_symbol(program: Path) -> None:
    index, at = index_of(program), symbols(program)
    (nest,), (other,) = index.units_named("nest.c"), index.units_named("other.c")
    assert [site.entry for site in index.sites("first", [nest])] == [at["first"]]
    assert [site.entry for site in index.sites("summed", [nest])] == [at["summed.isra.0"]]
    (merged,) = index.sites("summed", [other])
    assert (merged.entry, merged.inlined) == (at["summed.constprop.0"], False)


def test_markers_are_the_addresses_of_symbols(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("void my_stext(void) {} void _text(void) {} void _stext(void) {}")
    path = tmp_path / "kernel"
    run("gcc", "-g", "-c", source, "-o", path)
    at = symbols(path)
    assert index_of(path).markers == {"_stext": at["_stext"], "_text": at["_text"]}

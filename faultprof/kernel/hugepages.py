"""Huge pages: what this kernel is set to hand out, and who clears them.

Knows: the settings of transparent huge pages, of hugetlb pools and of ``init_on_alloc``.
Leaves to others: changing them (``workloads``).
"""

from __future__ import annotations

import re
from pathlib import Path

from faultprof.kernel.checks import Check
from faultprof.kernel.files import ROOT, read_boot_parameter, read_chosen, read_config, read_int
from faultprof.kernel.host import stock_kernel

_THP = "sys/kernel/mm/transparent_hugepage"
_POOLS = "sys/kernel/mm/hugepages"


def transparent_hugepage_check(sysroot: Path = ROOT) -> Check:
    """Return the settings of transparent huge pages, multi-size ones included."""
    name, cost = "huge pages (THP)", "no huge-page faults of anonymous memory"
    enabled = read_chosen(sysroot / _THP / "enabled")
    if enabled is None:
        found, remedy = f"no /{_THP}/enabled", stock_kernel("CONFIG_TRANSPARENT_HUGEPAGE")
        return Check(name, "missing", found, cost, remedy)
    others = (f"{s} {read_chosen(sysroot / _THP / s) or '?'}" for s in ("defrag", "shmem_enabled"))
    found = f"enabled {enabled}, {', '.join(others)}; {_multi_size(sysroot)}"
    sizes_rule = bool(_by_size(sysroot / _THP))  # since 6.8 each size has a switch of its own
    if not (_sizes_on(sysroot) if sizes_rule else enabled != "never"):
        remedy = f"echo madvise | sudo tee /{_THP}/enabled"
        return Check(name, "limited", found, cost, remedy)
    return Check(name, "ok", found)


def hugetlb_check(sysroot: Path = ROOT) -> Check:
    """Return the hugetlb pools: pages there, pages free, pages allowed beyond the pool."""
    pools = _by_size(sysroot / _POOLS)
    if not pools:
        found, cost = f"no /{_POOLS}", "no hugetlb faults"
        return Check("hugetlb", "missing", found, cost, stock_kernel("CONFIG_HUGETLBFS"))
    described = []
    available = 0
    for size, pool in pools:
        count, free, over = (
            read_int(pool / f"{kind}_hugepages") or 0 for kind in ("nr", "free", "nr_overcommit")
        )
        available += free + over
        described.append(f"{_readable_kb(size)}: {free} of {count} free, overcommit {over}")
    if available:
        return Check("hugetlb", "ok", "; ".join(described))
    return Check(
        "hugetlb",
        "limited",
        "; ".join(described),
        "programs that map hugetlb pages fail ('faultprof workload' sets and restores this)",
        "sudo sysctl vm.nr_overcommit_hugepages=512",
    )


def init_on_alloc(release: str, sysroot: Path = ROOT) -> tuple[bool, str] | None:
    """Return whether the page allocator clears every page, and what tells so.

    The kernel shows the setting nowhere: the command line overrides the build's default. None
    when neither can be read.
    """
    asked = _kernel_bool(read_boot_parameter("init_on_alloc", sysroot) or "")
    if asked is not None:
        return asked, "kernel command line"
    config = read_config(release, sysroot)
    if config is None or not (sysroot / "proc/cmdline").exists():
        return None
    return config.get("CONFIG_INIT_ON_ALLOC_DEFAULT_ON") == "y", "the build's default"


def init_on_alloc_check(release: str, sysroot: Path = ROOT) -> Check:
    """Return whether pages are cleared inside the allocator instead of by the fault."""
    setting = init_on_alloc(release, sysroot)
    cost = (
        "newer kernels then clear anonymous huge pages inside the page allocator, not in "
        "folio_zero_user; older ones clear them twice"
    )
    if setting is None:
        found = "neither /proc/cmdline nor a copy of the build's configuration tells"
        remedy = f"put the configuration at /boot/config-{release}"
        return Check("init_on_alloc", "unknown", found, f"if on: {cost}", remedy)
    on, source = setting
    if on:
        remedy = "boot with init_on_alloc=0 to see the clearing at the fault"
        return Check("init_on_alloc", "limited", f"on ({source})", cost, remedy)
    return Check("init_on_alloc", "ok", f"off ({source})")


def _kernel_bool(text: str) -> bool | None:
    """Read a truth value as the kernel's kstrtobool() does: by its first letters."""
    word = text.lower()
    if word.startswith(("1", "y", "t", "on")):
        return True
    return False if word.startswith(("0", "n", "f", "of")) else None


def _multi_size(sysroot: Path) -> str:
    sizes = _by_size(sysroot / _THP)
    if not sizes:
        return "no multi-size pages"
    on = _sizes_on(sysroot)
    return f"sizes on: {', '.join(on) if on else 'none'} (of {len(sizes)})"


def _sizes_on(sysroot: Path) -> list[str]:
    on = []
    for size, folder in _by_size(sysroot / _THP):
        setting = read_chosen(folder / "enabled")
        if setting == "inherit":
            setting = read_chosen(sysroot / _THP / "enabled")
        if setting not in (None, "never"):
            on.append(_readable_kb(size))
    return on


def _by_size(folder: Path) -> list[tuple[int, Path]]:
    """Return the subfolders ``hugepages-<size>kB`` with their sizes in kB, smallest first."""
    found = []
    for path in folder.glob("hugepages-*kB"):
        match = re.fullmatch(r"hugepages-(\d+)kB", path.name)
        if match:
            found.append((int(match.group(1)), path))
    return sorted(found)


def _readable_kb(size: int) -> str:
    for unit, factor in (("GB", 1 << 20), ("MB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} kB"

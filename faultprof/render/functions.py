"""The fault path's functions on this kernel, as text and as JSON.

Knows: 80 columns, sections by preset, the legend, and the fields of ``faultprof functions --json``.
Leaves to others: what the functions are (``kernel.resolve``).

JSON: one object. ``kernel`` (its release), ``attachable`` (to how many functions probes can attach;
null: nobody can tell), ``debuginfo`` (whether there is any), ``obstacles`` (what keeps probes from
attaching at all: ``why`` and ``remedy``), ``traceable`` (how many of the listed can be traced) and
``functions``: for each ``name`` (mainline's), ``presets``, ``does``, ``source`` (its file in the
kernel's source; null: not in the catalogue), ``how`` it appears here, ``resolution`` (as in
recordings), ``symbol`` (what it is, or is part of; null: none), ``places`` (``symbol+0xoffset`` of
inlined bodies), ``host`` (the function that it is inlined into), ``condition`` (under which a call
of the host is one of it; null: none) and what that ``approximates``, ``kprobe`` and ``fentry``
(whether such probes can attach), ``module``, ``reason`` (why it cannot be traced), ``beware`` (what
to know of it) and the ``nearest`` names that can.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from faultprof.kernel.catalogue import PRESETS, Function
from faultprof.kernel.resolved import How, Resolved
from faultprof.render.terminal import Terminal, sanitise

_WIDTH = 80
_HOW_WIDTH = max(len(how) for how in How)
_NAMED = "named"
_LEGEND = "f: by fentry or kprobe, k: by kprobe only, -: not to be traced"


@dataclass(frozen=True, slots=True)
class Listing:
    """What is to be shown.

    Attributes:
        release: the kernel's.
        attachable: how many functions probes can attach to; None when that is not known.
        has_debuginfo: whether inlined functions are known from debuginfo.
        obstacles: what keeps probes away, each with its remedy.
        entries: the functions, each with what it is here.
        presets: sections to show; empty for each function in the first of its own.
    """

    release: str
    attachable: int | None
    has_debuginfo: bool
    obstacles: tuple[tuple[str, str], ...]
    entries: tuple[tuple[Function, Resolved], ...]
    presets: tuple[str, ...] = ()

    @property
    def traceable(self) -> int:
        """How many of the functions can be traced."""
        return sum(resolved.traceable for _, resolved in self.entries)

    def section(self, function: Function) -> str:
        """Return the section that shows a function."""
        chosen = [preset for preset in function.presets if preset in (self.presets or PRESETS)]
        return chosen[0] if chosen else _NAMED


def functions_lines(listing: Listing, terminal: Terminal) -> Iterator[str]:
    """Yield the listing, at most 80 columns wide unless a single word is wider."""
    yield from _header(listing, terminal)
    width = max((len(function.name) for function, _ in listing.entries), default=0)
    for name in (*PRESETS, _NAMED):
        entries = [entry for entry in listing.entries if listing.section(entry[0]) == name]
        if entries:
            yield ""
            yield f"{name}: {PRESETS.get(name, 'asked for by name')}"
        for function, resolved in entries:
            yield from _entry(function, resolved, width, terminal)


def functions_json(listing: Listing) -> dict[str, Any]:
    """Return the listing as plain data."""
    return {
        "kernel": listing.release,
        "attachable": listing.attachable,
        "debuginfo": listing.has_debuginfo,
        "obstacles": [{"why": why, "remedy": remedy} for why, remedy in listing.obstacles],
        "traceable": listing.traceable,
        "functions": [
            {
                "name": function.name,
                "presets": list(function.presets),
                "does": function.does,
                "source": function.sources[0] if function.presets and function.sources else None,
                **resolved.to_json(),
            }
            for function, resolved in listing.entries
        ],
    }


def _header(listing: Listing, terminal: Terminal) -> Iterator[str]:
    yield f"Linux {listing.release}: {listing.traceable} of {len(listing.entries)} can be traced"
    if listing.attachable is not None:
        inlined = "by debuginfo" if listing.has_debuginfo else "by condition: no debuginfo"
        yield f"probes can attach to {listing.attachable} functions; inlined ones {inlined}"
    for why, remedy in listing.obstacles:
        yield from textwrap.wrap(why, _WIDTH)
        yield from textwrap.wrap(remedy, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    if listing.traceable:
        yield terminal.dim(_LEGEND)
    else:
        yield "What follows is how samples show them."


def _entry(function: Function, resolved: Resolved, width: int, terminal: Terminal) -> Iterator[str]:
    """Yield one function: how it appears, which probes attach, what it does; then remarks."""
    probe = "f" if resolved.fentry else "k" if resolved.kprobe else "-"
    how = f"{resolved.how:<{_HOW_WIDTH}}"
    left = f"  {sanitise(function.name):<{width}}  {how}  {probe}  "
    remarks = [resolved.reason, f"beware: {resolved.beware}" if resolved.beware else ""]
    if resolved.nearest:
        remarks.append(f"names like it: {', '.join(resolved.nearest)}")
    lines = [line for text in (function.does, *remarks) for line in _wrapped(text, len(left))]
    first, *further = lines or [""]
    is_dimmed = resolved.how is How.UNAVAILABLE
    for line in (left + first, *(" " * len(left) + line for line in further)):
        yield terminal.dim(line.rstrip()) if is_dimmed else line.rstrip()


def _wrapped(text: str, left: int) -> list[str]:
    room = max(_WIDTH - left, 24)
    return textwrap.wrap(sanitise(text), room, break_long_words=False, break_on_hyphens=False)

"""How functions are inlined, as text and as JSON.

Knows: the columns for one kernel or two, and the fields of ``faultprof inlines --json``.
Leaves to others: what is inlined where (``analysis.inlining``).

JSON: one object. ``kernels``: for each file ``path`` and ``build_id`` (null without one).
``functions``: for each ``name`` (mainline's), ``same`` (whether all kernels inline it in the same
way; null for one kernel) and ``kernels``, in the order of the files: ``names`` (there), ``state``
(absent, out of line, inlined, out of line and inlined), ``out_of_line`` and ``inlined`` (each
``copies`` and ``bytes``), and ``into``: for each place ``caller`` (the function that calls it in
the source), ``host`` (the symbol that holds the code), ``copies`` and ``bytes``. Bytes of code
include what is inlined into a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faultprof.analysis.inlining import InlinedFunction, Inlining, Sites
from faultprof.render.terminal import Terminal, sanitise

_COLUMN = 22  # of one kernel: state or sites, and bytes
_LETTERS = "AB"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A file that was read, and its build id."""

    path: str
    build_id: str | None


def inlines_lines(
    kernels: Sequence[Kernel], functions: Sequence[InlinedFunction], terminal: Terminal
) -> Iterator[str]:
    """Yield a table: a line per function, and below it one per place that it is inlined into."""
    for letter, kernel in zip(_LETTERS, kernels, strict=False):
        name = letter if len(kernels) > 1 else "file"
        build_id = f" (build id {kernel.build_id[:12]})" if kernel.build_id else ""
        yield f"# {name:<8} {sanitise(kernel.path)}{build_id}"
    yield "# bytes    of code, with what is inlined into it"
    if len(kernels) > 1:
        yield f"# {_verdict(functions)}"
    yield "#"
    yield "# " + "".join(f"{head:>{_COLUMN}}" for head in _heads(kernels)) + "  where the code is"
    for function in functions:
        yield from _function_lines(function, terminal)


def _verdict(functions: Sequence[InlinedFunction]) -> str:
    different = sum(not function.same for function in functions)
    if not different:
        return f"verdict  all {len(functions)} functions are inlined in the same way"
    return f"verdict  {different} of {len(functions)} functions are not inlined in the same way (*)"


def _heads(kernels: Sequence[Kernel]) -> Iterator[str]:
    for letter, _ in zip(_LETTERS, kernels, strict=False):
        yield f"{letter + ' ' if len(kernels) > 1 else ''}copies, bytes"


def _function_lines(function: InlinedFunction, terminal: Terminal) -> Iterator[str]:
    mark = "" if function.same else " *"
    called = {name for one in function.kernels for name in one.names} - {function.name}
    also = f" ({', '.join(sorted(map(sanitise, called)))})" if called else ""
    states = [one.state for one in function.kernels]
    said = states[0] if len(set(states)) == 1 else " / ".join(states)
    yield f"{sanitise(function.name)}{also}: {said}{mark}"
    if any(one.own.count for one in function.kernels):
        yield _row([one.own for one in function.kernels], "out of line", terminal)
    places = sorted(
        {place for one in function.kernels for place in one.into},
        key=lambda place: (-_most(function.kernels, place), place),
    )
    for place in places:
        sites = [one.into.get(place, Sites()) for one in function.kernels]
        yield _row(sites, f"inlined into {_place(place)}", terminal)


def _most(kernels: Sequence[Inlining], place: tuple[str, str]) -> int:
    return max(one.into.get(place, Sites()).count for one in kernels)


def _place(place: tuple[str, str]) -> str:
    caller, host = map(sanitise, place)
    return caller if caller == host else f"{caller}, in {host}"


def _row(sites: Sequence[Sites], text: str, terminal: Terminal) -> str:
    cells = "".join(
        f"{f'{one.count:,}, {one.size:,}' if one.count else '-':>{_COLUMN}}" for one in sites
    )
    return terminal.shorten(f"  {cells}  {text}", terminal.layout_width)


def inlines_json(kernels: Sequence[Kernel], functions: Sequence[InlinedFunction]) -> dict[str, Any]:
    """Return the same as plain JSON data; the fields are described above."""
    return {
        "kernels": [{"path": one.path, "build_id": one.build_id} for one in kernels],
        "functions": [
            {
                "name": function.name,
                "same": function.same if len(kernels) > 1 else None,
                "kernels": [_inlining_json(one) for one in function.kernels],
            }
            for function in functions
        ],
    }


def _inlining_json(one: Inlining) -> dict[str, Any]:
    return {
        "names": sorted(one.names),
        "state": one.state,
        "out_of_line": _sites_json(one.own),
        "inlined": _sites_json(one.sites),
        "into": [
            {"caller": caller, "host": host, **_sites_json(sites)}
            for (caller, host), sites in sorted(one.into.items())
        ],
    }


def _sites_json(sites: Sites) -> dict[str, int]:
    return {"copies": sites.count, "bytes": sites.size}

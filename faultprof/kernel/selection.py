"""Which functions the user wants: presets, names, globs; and what can be traced of them at once.

Knows: how a wish becomes functions, the tracer's limit, what to say when a wish cannot be met.
Leaves to others: what the functions are on this kernel (``resolve``).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faultprof.errors import ExitCode, FaultprofError, unsupported
from faultprof.kernel.catalogue import (
    ALL,
    CATALOGUE,
    PRESETS,
    Function,
    function_named,
    functions_in,
)
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.view import KernelView

MOST_AT_ONCE = 64
"""Functions that the tracer handles at once."""

_GLOB = frozenset("*?[")
_SHOWN = 4


def choose(presets: Iterable[str], names: Iterable[str], view: KernelView) -> list[Function]:
    """Return the functions of presets and those named, each once, in the order asked for.

    A name may be that of any function of the kernel, or a glob. A name that the function has in
    other kernels is as good as mainline's, unless another function has that name here. Nothing
    is said here of names that no function has: ``resolve`` does.

    Raises ``FaultprofError`` for an unknown preset and for a glob that matches nothing or too much.
    """
    found = [function for preset in presets for function in _preset(preset)]
    for name in names:
        if _GLOB.isdisjoint(name):
            found.append(_named(name, view))
        else:
            found += _matching(name, view)
    return list({function.name: function for function in found}.values())


class Traced(NamedTuple):
    """What of a selection is traced, and what can be but is left out for lack of room."""

    traced: list[Resolved]
    left_out: list[Resolved]


def require_traceable(
    resolved: Sequence[Resolved], view: KernelView, *, named: Iterable[str] = ()
) -> Traced:
    """Return what can be traced, at most ``MOST_AT_ONCE`` functions.

    Where the debuginfo turns up more than that, inlined bodies are left out, those with the most
    sites first, as they cost the most.

    Args:
        resolved: the selection.
        view: the kernel, which may be closed to probes altogether.
        named: functions that the user asked for by name; each must be traceable.

    Raises ``FaultprofError``: nothing can be traced (exit code 3), a named function cannot be (3;
    2 when there is no such function), or there are too many (2).
    """
    if not view.can_probe:
        worst = max(view.obstacles, key=lambda one: one.hides_all)
        raise unsupported(f"functions cannot be traced: {worst.why}", worst.remedy)
    wanted = {_named(name, view).name for name in named if _GLOB.isdisjoint(name)}
    for one in resolved:
        if one.name in wanted and not one.traceable:
            raise _not_traceable(one)
    traced = [one for one in resolved if one.traceable]
    if not traced:
        raise unsupported("none of these functions can be traced here", _hint_functions())
    costly = [one for one in traced if one.how is How.INLINED and one.name not in wanted]
    costly.sort(key=lambda one: len(one.places))
    excess = len(traced) - MOST_AT_ONCE
    if excess > len(costly):
        raise _too_many("the selection has", len(traced))
    left_out = costly[len(costly) - excess :] if excess > 0 else []
    return Traced([one for one in traced if one not in left_out], left_out)


def _preset(name: str) -> tuple[Function, ...]:
    try:
        return functions_in(name)
    except KeyError:
        known = ", ".join([*PRESETS, ALL])
        raise FaultprofError(f"there is no preset {name}", f"presets are: {known}") from None


def _named(name: str, view: KernelView) -> Function:
    function = function_named(name)
    if function is None or (name != function.name and _is_another(name, function, view)):
        return _ad_hoc(name)
    return function


def _is_another(name: str, function: Function, view: KernelView) -> bool:
    """Whether ``name`` is here beside the name before it in the function's list.

    Then the function goes by the other name, and ``name`` is another function (as
    ``__alloc_pages_noprof`` is beside ``__alloc_frozen_pages_noprof``).
    """
    attachable = view.attachable
    preferred = function.names[: function.names.index(name)]
    return (
        attachable is not None
        and name in attachable
        and any(one in attachable for one in preferred)
    )


def _matching(pattern: str, view: KernelView) -> list[Function]:
    """Return what a glob matches: of the catalogue by all names, of the rest what can be probed."""
    names = view.attachable.matching(pattern) if view.attachable else []
    if len(names) > MOST_AT_ONCE:
        raise _too_many(f"{pattern} matches", len(names), names)
    known = [name for function in CATALOGUE for name in function.names]
    matched = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
    found = {name: _named(name, view) for name in dict.fromkeys([*matched, *names])}
    if not found:
        raise FaultprofError(
            f"{pattern} matches no function that can be probed", _hint_glob(pattern, view)
        )
    return list(found.values())


def _ad_hoc(name: str) -> Function:
    """Return a function that the catalogue lacks; it may be inlined where the others are."""
    sources = dict.fromkeys(source for function in CATALOGUE for source in function.sources)
    return Function(name, (), "", sources=tuple(sources))


def _not_traceable(one: Resolved) -> FaultprofError:
    if one.visible is None and one.nearest:
        alike = ", ".join(one.nearest)
        return FaultprofError(f"{one.name}: {one.reason}", f"names like it: {alike}")
    code = ExitCode.UNSUPPORTED if one.visible else ExitCode.USAGE
    return FaultprofError(f"{one.name} cannot be traced: {one.reason}", _hint_functions(), code)


def _too_many(what: str, count: int, names: Sequence[str] = ()) -> FaultprofError:
    examples = f": {', '.join(names[:_SHOWN])}, …" if names else ""
    return FaultprofError(
        f"{what} {count} functions; at most {MOST_AT_ONCE} can be traced at once",
        f"narrow it down{examples}",
    )


def _hint_glob(pattern: str, view: KernelView) -> str:
    stem = pattern.translate({ord(char): None for char in "*?[]"})
    nearest = view.attachable.nearest(stem) if view.attachable else ()
    if nearest:
        return f"names like it: {', '.join(nearest)}"
    return view.obstacles[0].remedy if view.obstacles else _hint_functions()


def _hint_functions() -> str:
    return "faultprof functions lists what can be traced"

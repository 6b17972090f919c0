"""Probes of a part's own: which of the functions that it wants are here, and how each is probed.

Knows: that a function counts only where it has a symbol, that one whose arguments are read must be
as the source has it, and which of two ways a probe takes.
Leaves to others: what the probes do (the parts' programs), attaching one (``bpf.probes``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from faultprof.bpf.bytecode import FUNCTION_WHAT
from faultprof.bpf.probes import Method, ProbePoint, ProbeSet
from faultprof.bpf.program import Program
from faultprof.capture.options import Attach
from faultprof.capture.trace_plan import methods_in_order
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.conditions import Types
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.selection import choose
from faultprof.kernel.view import KernelView

_WHOLE = (How.SYMBOL, How.RENAMED)


class Wanted(NamedTuple):
    """A function that a part wants to probe.

    Attributes:
        name: in mainline.
        what: the number by which the part's program knows it.
        sides: where.
        needed: whether the part is of no use without.
        reads_arguments: whether its program looks at them.
    """

    name: str
    what: int
    sides: Literal["both", "entry", "exit"] = "entry"
    needed: bool = False
    reads_arguments: bool = False


class Found(NamedTuple):
    """A wanted function on this kernel, and how it is probed."""

    wanted: Wanted
    resolved: Resolved
    method: Method


@dataclass(frozen=True, slots=True)
class Probed:
    """What a part probes.

    Attributes:
        found: the functions.
        missing: why the others cannot be probed, by name.
    """

    found: tuple[Found, ...]
    missing: dict[str, str]

    def has(self, name: str) -> bool:
        """Whether a function is probed."""
        return any(one.wanted.name == name for one in self.found)

    def symbol(self, name: str) -> str:
        """Return the symbol of a function that is probed."""
        return next(one.resolved.symbol or name for one in self.found if one.wanted.name == name)

    def knobs(self) -> dict[str, int]:
        """Return the knobs of probes/template.h."""
        methods = {one.method for one in self.found}
        return {"FENTRY": int("fentry" in methods), "KPROBE": int("kprobe" in methods)}

    def functions(self) -> dict[str, Any]:
        """Return by name what is probed and how, as plain JSON."""
        return {
            one.wanted.name: {
                "symbol": one.resolved.symbol,
                "method": one.method,
                "beware": one.resolved.beware,
            }
            for one in self.found
        }

    def attach(self, program: Program, types: Types) -> ProbeSet:
        """Attach all; functions that refuse after all go over to ``missing``.

        Raises:
            FaultprofError: one that is needed cannot be attached (exit code 3); then none is.
        """
        probes = ProbeSet(program, types.function_id)
        for one in self.found:
            try:
                _attach(probes, one)
            except FaultprofError as error:
                if one.wanted.needed:
                    probes.close()
                    raise
                self.missing[one.wanted.name] = error.message
        return probes


def find(wanted: Iterable[Wanted], view: KernelView, attach: Attach) -> Probed:
    """Return what can be probed on the kernel of ``view``.

    Raises:
        FaultprofError: a function that is needed cannot be (exit code 3).
    """
    if not view.can_probe:
        worst = max(view.obstacles, key=lambda one: one.hides_all)
        raise unsupported(f"functions cannot be probed: {worst.why}", worst.remedy)
    methods = methods_in_order(attach, view.preempts)
    by_name = {one.name: one for one in wanted}
    found, missing = [], {}
    for one in resolve(choose((), by_name, view), view):
        asked = by_name[one.name]
        method = _method(asked, one, methods)
        if method is not None:
            found.append(Found(asked, one, method))
            continue
        why = one.reason or "cannot be probed here"
        if asked.needed:
            raise unsupported(f"{one.name} cannot be probed: {why}", "see 'faultprof functions'")
        missing[one.name] = why
    return Probed(tuple(found), missing)


def _method(wanted: Wanted, one: Resolved, methods: Iterable[Method]) -> Method | None:
    """Return how a function is probed, or None if it cannot be."""
    forms = _WHOLE if wanted.reads_arguments else (*_WHOLE, How.VARIANT)
    if one.how not in forms:
        return None
    goes = {"kprobe": one.kprobe, "fentry": one.fentry}
    return next((method for method in methods if goes[method]), None)


def _attach(probes: ProbeSet, one: Found) -> None:
    constants = {FUNCTION_WHAT: one.wanted.what}
    for place in one.resolved.places:
        point = ProbePoint(place.symbol, place.offset)
        if one.wanted.sides == "both":
            probes.attach_pair(point, one.method, constants)
        else:
            probes.attach_side(point, one.method, one.wanted.sides, constants)

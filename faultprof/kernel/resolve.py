"""Which symbol, place or condition each function of the fault path is on one kernel.

Knows: the ways in which a function may appear, tried in order: its symbol; its name in other
kernels; as the compiler changed it; inlined, with debuginfo; inlined into a known host, under a
condition; not to be had, and why not.
Leaves to others: reading the kernel (``view``), which functions are wanted (``selection``).

Pure: the same view gives the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from faultprof.kernel.attachable import Attachable
from faultprof.kernel.catalogue import CATALOGUE, Function, function_named
from faultprof.kernel.conditions import Condition, bind
from faultprof.kernel.named_symbols import FunctionSymbol, Place
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.view import Body, KernelView

# Functions of one source file lie close together; another function of the same name does not.
_NEAR = 1 << 18  # bytes
_FAR = 1 << 20
_LONGEST = 1 << 17  # bytes that a function may have
_NAMES_SHOWN = 3
_ABSENT = "not in this kernel"


def resolve(functions: Iterable[Function], view: KernelView) -> list[Resolved]:
    """Return what each function is on the kernel of ``view``, in the order given."""
    wanted = list(functions)
    resolver = _Resolver(wanted, view)
    return [resolver.resolve(function) for function in wanted]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A symbol that a probe can go to.

    Attributes:
        is_shared_name: whether other functions have the same name, so that BTF may mean those.
        reason: how it was told from them.
    """

    place: Place
    is_shared_name: bool = False
    reason: str = ""


class _Resolver:
    """Resolves functions of one view; everything that takes long is asked for once."""

    def __init__(self, functions: Sequence[Function], view: KernelView) -> None:
        self._view = view
        known = [*functions, *CATALOGUE]  # all of it: hosts, and neighbours in the same file
        names = {name for function in known for name in function.names}
        names |= {
            one.function for function in known if function.when for one in function.when.excludes
        }
        self._symbols = view.symbols.find(names)
        self._bodies = {function.name: self._find_bodies(function) for function in functions}
        hosts = {body.host for bodies in self._bodies.values() for body in bodies} - names
        if hosts:
            self._symbols |= view.symbols.find(hosts)

    def resolve(self, function: Function) -> Resolved:
        """Try each way in turn."""
        objections = []
        for way in (self._by_symbol, self._by_variant, self._by_debuginfo, self._by_condition):
            found = way(function)
            if isinstance(found, Resolved):
                return replace(found, beware=found.beware or self._beware(function, found))
            if found:
                objections.append(found)
        return self._unavailable(function, objections)

    # The ways. Each returns what it found, or why it did not apply; "" for the obvious reason.

    def _by_symbol(self, function: Function) -> Resolved | str:
        """By the plain name, or by the plain name in other kernels."""
        objection = ""
        for name in function.names:
            chosen = self._choose(name, function.sources)
            if isinstance(chosen, str):
                objection = objection or chosen
                continue
            clones = self._variants(name, clones=True)
            reasons = [f"called {name} here"] if name != function.name else []
            reasons += [chosen.reason] if chosen.reason else []
            reasons += [f"with {', '.join(map(str, clones))}"] if clones else []
            return Resolved(
                function.name,
                How.SYMBOL if name == function.name else How.RENAMED,
                (chosen.place, *clones),
                kprobe=self._view.can_probe,
                fentry=not clones and self._has_fentry(name, chosen),
                visible=name,
                reason="; ".join(reasons),
                module=self._module(name),
            )
        return objection

    def _by_variant(self, function: Function) -> Resolved | str:
        """By the symbol of what the compiler made of it."""
        for name in function.names:
            places = self._variants(name)
            if not places:
                continue
            only_parts = all(".part" in place.symbol for place in places)
            return Resolved(
                function.name,
                How.VARIANT,
                places,
                kprobe=self._view.can_probe,
                visible=places[0].symbol,
                reason="changed by the compiler: " + ", ".join(map(str, places)),
                beware="calls that end in its inlined beginning are not seen" if only_parts else "",
                module=self._module(places[0].symbol),
            )
        return ""

    def _by_debuginfo(self, function: Function) -> Resolved | str:
        """At the entries of its inlined bodies."""
        bodies = [body for body in self._bodies[function.name] if body.host not in function.names]
        open_bodies = [body for body in bodies if self._is_open(body.host)]
        placed = [(body, place) for body in open_bodies if (place := self._place_of(body))]
        if not placed:
            return _listed("inlined into {}, which is closed to probes", _hosts(bodies))
        hosts = _hosts(body for body, _ in placed)
        places = tuple(place for _, place in placed)
        missed = [host for host in _hosts(bodies) if host not in hosts]
        if self._symbols.get(function.name):
            missed.insert(0, f"{function.name} itself")
        return Resolved(
            function.name,
            How.INLINED,
            places,
            host=hosts[0] if len(hosts) == 1 else None,
            kprobe=self._view.can_probe,
            reason=f"inlined at {places[0]}"
            if len(places) == 1
            else _listed("inlined into {}", hosts),
            beware=_listed("calls in {} are not seen: closed to probes", missed),
        )

    def _by_condition(self, function: Function) -> Resolved | str:
        """By a probe of its host."""
        when = function.when
        if when is None:
            return ""
        if self._symbols.get(function.name):
            return ""  # it is here, out of line, only closed to probes
        chosen = self._choose(when.host, _sources_of(when.host))
        if isinstance(chosen, str):
            return chosen or f"its host {when.host} has no symbol of its own"
        condition = bind(when, self._view.types, when.host, is_shared_name=chosen.is_shared_name)
        if isinstance(condition, str):
            return condition
        return Resolved(
            function.name,
            How.CONDITION,
            (chosen.place,),
            host=when.host,
            condition=self._within_reach(condition),
            kprobe=self._view.can_probe,
            fentry=self._has_fentry(when.host, chosen),
            reason=f"{when.host}, if {condition.says}",
            beware=condition.approximates,
        )

    def _unavailable(self, function: Function, objections: Sequence[str]) -> Resolved:
        symbols = [one for name in function.names for one in self._plain_or_changed(name)]
        closed = function.never or "closed to probes: notrace or assembler"
        reasons = [*objections] or [closed] if symbols else [self._absence(function), *objections]
        if function.instead and _ABSENT not in reasons:
            reasons.append(f"look at {function.instead}")
        return Resolved(
            function.name,
            How.UNAVAILABLE,
            visible=symbols[0].name if symbols else None,
            reason="; ".join(filter(None, reasons)),
            module=symbols[0].module if symbols else "",
            nearest=() if symbols or function in CATALOGUE else self._nearest(function.name),
        )

    # Symbols.

    def _choose(self, name: str, sources: Sequence[str]) -> _Chosen | str:
        """Return where a probe of the function with this plain name goes, or why nowhere."""
        symbols = [one for one in self._symbols.get(name, ()) if one.name == name]
        if not symbols or not self._is_attachable(name):
            return ""
        if len(symbols) == 1:
            return _Chosen(Place(name))
        listed = self._view.attachable
        if listed is not None and listed.counts[name] < len(symbols):
            return f"{len(symbols)} functions have this name, and not all can be probed"
        near = [one for one in symbols if self._distance(one, sources) < _NEAR]
        far = [one for one in symbols if self._distance(one, sources) > _FAR]
        place = self._view.symbols.place(near[0].address) if len(near) == 1 else None
        if place is None or len(near) + len(far) < len(symbols):
            return f"{len(symbols)} functions have this name: a probe could hit the wrong one"
        return _Chosen(place, True, f"the {name} at {place}, one of {len(symbols)} of this name")

    def _distance(self, symbol: FunctionSymbol, sources: Sequence[str]) -> int:
        """Return how many bytes lie between a symbol and code from the first of some sources."""
        neighbours = self._addresses.get(sources[0], []) if len(sources) == 1 else []
        return min((abs(symbol.address - at) for at in neighbours), default=_NEAR)

    def _has_neighbours(self, function: Function) -> bool:
        return any(file in self._addresses for file in function.sources)

    @cached_property
    def _addresses(self) -> dict[str, list[int]]:
        """Addresses of functions whose names stand only once, by source file."""
        found: dict[str, list[int]] = {}
        for function in CATALOGUE:
            for name in function.names:
                symbols = [one for one in self._symbols.get(name, ()) if one.name == name]
                if len(symbols) == 1 and symbols[0].address and function.sources:
                    found.setdefault(function.sources[0], []).append(symbols[0].address)
        return found

    def _plain_or_changed(self, name: str) -> list[FunctionSymbol]:
        return [one for one in self._symbols.get(name, ()) if ".cold" not in one.name]

    def _variants(self, name: str, *, clones: bool = False) -> tuple[Place, ...]:
        """Return what the compiler made of a function.

        ``clones``: without parts of it, which it calls itself.
        """
        symbols = [one.name for one in self._plain_or_changed(name) if one.name != name]
        return tuple(
            Place(symbol)
            for symbol in symbols
            if symbols.count(symbol) == 1
            and self._is_attachable(symbol)
            and not (clones and ".part" in symbol)
        )

    def _is_attachable(self, symbol: str) -> bool:
        """Return whether a probe can attach or, where that is not known, is not ruled out."""
        attachable = self._view.attachable
        if attachable is not None:
            return symbol in attachable
        function = function_named(symbol)
        return function is None or not function.never

    def _is_open(self, host: str) -> bool:
        """Return whether probes inside a function are allowed; its cold part follows it."""
        return any(self._is_attachable(one.name) for one in self._plain_or_changed(host))

    def _has_fentry(self, name: str, chosen: _Chosen) -> bool:
        types = self._view.types
        if types is None or chosen.is_shared_name or self._module(name):
            return False
        arguments = types.arguments(name)
        has_few = arguments is not None and len(arguments) <= self._view.fentry_arguments
        return self._view.can_probe and has_few

    def _module(self, symbol: str) -> str:
        attachable = self._view.attachable
        return attachable.modules.get(symbol, "") if attachable else ""

    def _within_reach(self, condition: Condition) -> Condition:
        """Leave out exclusions that are no function of this kernel's, or closed to probes."""
        reachable = [
            one for one in condition.excludes if isinstance(self._choose(one.function, ()), _Chosen)
        ]
        return replace(condition, excludes=tuple(reachable))

    # Debuginfo.

    def _find_bodies(self, function: Function) -> list[Body]:
        source = self._view.bodies
        if source is None:
            return []
        near = [at for file in function.sources for at in self._addresses.get(file, ())]
        return [
            body for name in function.names for body in (source.bodies(name, near) if near else ())
        ]

    def _place_of(self, body: Body) -> Place | None:
        """Return a body's entry as a place in its host, or in the host's cold part."""
        symbols = self._symbols.get(body.host, [])
        before = [one for one in symbols if 0 <= body.entry - one.address < _LONGEST]
        if not before:
            return None
        host = max(before, key=lambda one: one.address)
        if sum(one.name == host.name for one in symbols) > 1:
            return self._view.symbols.place(body.entry)
        return Place(host.name, body.entry - host.address)

    # Words.

    def _beware(self, function: Function, found: Resolved) -> str:
        """Return what a probe of the symbol does not see; debuginfo knows better than the table."""
        if self._view.bodies is None or found.how not in (How.SYMBOL, How.RENAMED):
            return function.beware if found.how is not How.CONDITION else ""
        hosts = _hosts(self._bodies[function.name])
        hosts = [host for host in hosts if host not in function.names]
        unseen = _listed("also inlined into {}: calls there are not seen", hosts)
        return unseen or (function.beware if "inlined" not in function.beware else "")

    def _absence(self, function: Function) -> str:
        if function in CATALOGUE and not function.sources:
            return _ABSENT  # assembler is not inlined
        if self._view.bodies is None or not self._has_neighbours(function):
            return "inlined, or not in this kernel"
        if self._bodies[function.name]:
            return ""
        return _ABSENT if function in CATALOGUE else "no symbol, and not inlined in the fault path"

    def _nearest(self, name: str) -> tuple[str, ...]:
        catalogued = [name for function in CATALOGUE for name in function.names]
        return (self._view.attachable or Attachable(Counter())).nearest(name, catalogued)


def _sources_of(name: str) -> tuple[str, ...]:
    function = function_named(name)
    return function.sources if function else ()


def _hosts(bodies: Iterable[Body]) -> list[str]:
    """Return the functions that bodies are part of, those of the fault path first."""
    hosts = dict.fromkeys(body.host for body in bodies)
    return sorted(hosts, key=lambda host: function_named(host) is None)


def _listed(sentence: str, names: Sequence[str]) -> str:
    """Put names into a sentence, the first few by name; "" without names."""
    if not names:
        return ""
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return sentence.format(f"{shown} and {more} more" if more > 0 else shown)

"""The bundled usemem, in the place of one that PATH does not have.

Knows: when it stands in.
Leaves to others: finding and building it (``workloads.usemem``).
"""

from __future__ import annotations

from collections.abc import Callable

from faultprof.capture.identity import Identity


def with_usemem(
    argv: tuple[str, ...], identity: Identity | None, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Return a command line with its ``usemem`` replaced where PATH has none.

    Args:
        argv: the command line.
        identity: who called; None for ourselves.
        say: told that it was replaced.
    """
    if argv[0] != "usemem":
        return argv
    from faultprof.workloads.usemem import find_usemem

    source = find_usemem(
        owner=identity.owner if identity is not None else None,
        home=identity.home if identity is not None else None,
    )
    if source.bundled:
        did = "built" if source.built else "running"
        say(f"PATH has no usemem; {did} the bundled one: {source.path}")
    return (str(source.path), *argv[1:])

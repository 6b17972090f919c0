"""binutils' addr2line, the tool that inline expansion is compared with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

Chain = tuple[str, ...]


def addr2line(path: Path, addresses: Iterable[int]) -> list[Chain]:
    """Return what ``addr2line -i -f`` says of each address, outermost function first.

    Where the debuginfo has no function at an address it gives the nearest symbol, or ``??``.
    """
    printed = subprocess.run(
        ["addr2line", "-a", "-i", "-f", "-e", path],
        input="".join(f"{address:#x}\n" for address in addresses),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    chains: list[list[str]] = []
    lines = iter(printed)
    for line in lines:
        if line.startswith("0x"):
            chains.append([])
        else:
            chains[-1].append(line)
            next(lines)  # file and line number
    return [tuple(reversed(chain)) for chain in chains]


def disagreements(
    addresses: Iterable[int], ours: Iterable[Chain], theirs: Iterable[Chain]
) -> list[tuple[str, Chain, Chain]]:
    """Return where two answers differ: address, ours, addr2line's.

    () from us agrees with one function from addr2line: it then names the nearest symbol, which
    is not the debuginfo's business.
    """
    return [
        (hex(address), our, their)
        for address, our, their in zip(addresses, ours, theirs, strict=True)
        if our != their and not (our == () and len(their) == 1)
    ]

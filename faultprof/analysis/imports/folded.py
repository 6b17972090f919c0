"""Folded stacks: ``task;root;callee;leaf COUNT``, a line for each stack.

Knows: the marks that the makers of such text put behind a name: ``_[k]`` for kernel functions,
``_[i]`` for inlined and ``_[j]`` for compiled ones; ``-`` between user and kernel (bcc's tools).
Leaves to others: what names mean (``foreign_names``).

The first name is the task's, as everybody writes it (perf's and bcc's folders, faultprof itself).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from faultprof.analysis.imports.account import Account
from faultprof.analysis.imports.foreign_names import NO_STACK, frame_of
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.schema import MAX_DEPTH

_KERNEL = "_[k]"
_MARKS = ("_[k]", "_[i]", "_[j]", "_[w]")
_BOUNDARIES = ("-", "--")
_LARGEST = 2**53  # what the samples of a recording can add up to
_LONGEST_TASK = 64
_LONGEST_LINE = 1 << 20


def read_folded(stream: IO[bytes], account: Account) -> list[PathCount]:
    """Read folded stacks to the end of the text; equal stacks are added up.

    Args:
        stream: where the text comes from.
        account: where lines that cannot be read are noted.
    """
    counts: dict[str, int] = {}
    total = 0
    for line in _lines(stream):
        account.lines += 1
        text = line.decode(errors="replace").rstrip()
        stack, _, number = text.rpartition(" ")
        stack = stack.rstrip()
        if not text or text.startswith("#"):
            continue
        if not number.isdecimal() or not number.isascii() or not stack:
            account.refuse(account.lines, text, "no count of samples at its end")
        elif ";" not in stack and len(stack) > _LONGEST_TASK:
            account.refuse(account.lines, text, "no stack")
        elif _is_count(stack.rpartition(" ")[2]) and ";" in stack:
            account.refuse(account.lines, text, "two counts: a difference, not a measurement")
        elif len(number) > 16 or total + int(number) > _LARGEST:
            account.refuse(account.lines, text, "more samples than a recording can hold")
        elif stack.count(";") > MAX_DEPTH:
            account.refuse(account.lines, text, "deeper than a recording can hold")
        else:
            total += int(number)
            counts[stack] = counts.get(stack, 0) + int(number)
    return list(_paths(counts))


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; one of unreasonable length comes in parts."""
    while line := stream.readline(_LONGEST_LINE):
        yield line


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal()


def _paths(counts: dict[str, int]) -> Iterator[PathCount]:
    # Where nothing at all is marked as the kernel's, the maker of the text does not mark.
    is_marked = any(_KERNEL in stack or ";-;" in stack for stack in counts)
    known: dict[tuple[str, bool], Frame] = {}
    for stack, count in counts.items():
        comm, *names = stack.split(";")
        frames: list[Frame] = []
        in_kernel = not is_marked
        for name in names:
            if name in _BOUNDARIES:
                in_kernel = True
                continue
            key = name, in_kernel
            if key not in known:
                known[key] = _frame(name, in_kernel)
            frames.append(known[key])
        yield PathCount(comm, tuple(frames) or (NO_STACK,), count)


def _frame(name: str, in_kernel: bool) -> Frame:
    mark = next((one for one in _MARKS if name.endswith(one) and name != one), "")
    plain = name.removesuffix(mark)
    if mark == _KERNEL or in_kernel:
        return frame_of(plain, "", in_kernel=True, inlined=mark == "_[i]")
    if plain.startswith("[") and plain.endswith("]"):
        return frame_of("", plain[1:-1], in_kernel=False)
    return frame_of(plain, "", in_kernel=False)

"""Protocol buffers, as far as writing a profile needs them.

Knows: the wire format of varints, strings, packed numbers and nested messages
(https://protobuf.dev/programming-guides/encoding/).
Leaves to others: what a message means (``pprof``).
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _BYTES = 0, 2


def varint(number: int) -> bytes:
    """Return a number from 0 to 2**64 - 1; a negative int64 as its two's complement."""
    number &= 2**64 - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def integer(field: int, number: int) -> bytes:
    """Return a field with a number; nothing for 0, which is what a missing one means."""
    return varint(field << 3 | _VARINT) + varint(number) if number else b""


def packed(field: int, numbers: Iterable[int]) -> bytes:
    """Return a repeated field of numbers."""
    return message(field, b"".join(map(varint, numbers)))


def message(field: int, content: bytes) -> bytes:
    """Return a field with a nested message, or with bytes."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def string(field: int, text: str) -> bytes:
    """Return a field with a text."""
    return message(field, text.encode())

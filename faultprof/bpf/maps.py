"""BPF maps: make one, write and read its elements.

Knows: the commands of bpf(2) for maps; batched look-ups (Linux 5.6) and their fallback, one call
a key; how values of per-CPU maps lie in memory.
Leaves to others: which maps a program has (``bytecode``), what keys and values mean (capture).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Self

from faultprof.bpf.syscall import bpf, object_name
from faultprof.kernel.cpus import possible_cpus

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_CREATE, _LOOKUP, _UPDATE, _DELETE, _NEXT_KEY, _LOOKUP_BATCH = 0, 1, 2, 3, 4, 24  # enum bpf_cmd

# enum bpf_map_type; the values of these have a part for each possible CPU.
_PER_CPU = frozenset({5, 6, 10})  # hash, array, LRU hash

# More entries than one bucket will ever hold, and few enough to stay in a cache.
_BATCH = 1024


class _CreateAttr(ctypes.Structure):
    _fields_ = (
        ("map_type", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("inner_map_fd", ctypes.c_uint32),
        ("numa_node", ctypes.c_uint32),
        ("map_name", ctypes.c_char * 16),
    )


class _ElementAttr(ctypes.Structure):
    _fields_ = (
        ("map_fd", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value_or_next_key", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


class _BatchAttr(ctypes.Structure):
    _fields_ = (
        ("in_batch", ctypes.c_uint64),
        ("out_batch", ctypes.c_uint64),
        ("keys", ctypes.c_uint64),
        ("values", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("map_fd", ctypes.c_uint32),
        ("elem_flags", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A map to make; ``type`` and ``flags`` are the kernel's numbers, sizes are in bytes."""

    name: str
    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int

    @property
    def record_size(self) -> int:
        """Bytes of a value as user space reads it."""
        if self.type not in _PER_CPU:
            return self.value_size
        return -(-self.value_size // 8) * 8 * _cpu_count()


class Map:
    """One map in the kernel; it lives as long as this or a program that uses it."""

    def __init__(self, spec: MapSpec, fd: int) -> None:
        self.spec = spec
        self.fd = fd

    @classmethod
    def create(cls, spec: MapSpec) -> Self:
        """Make the map.

        Raises:
            OSError: as bpf(2).
        """
        try:
            return cls(spec, _create(spec))
        except PermissionError:
            # Before Linux 5.11 maps counted as locked memory, of which root too has little.
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)
            return cls(spec, _create(spec))

    def read(self, index: int) -> bytes:
        """Return one element of an array; of a per-CPU array all CPUs', one behind the other."""
        value = ctypes.create_string_buffer(self.spec.record_size)
        self._element(_LOOKUP, ctypes.c_uint32(index), value)
        return value.raw

    def read_per_cpu(self, index: int) -> list[tuple[int, ...]]:
        """Return one element of a per-CPU array for each possible CPU, as 64-bit words."""
        words = struct.Struct(f"={-(-self.spec.value_size // 8)}Q")
        return list(words.iter_unpack(self.read(index)))

    def read_counters(self) -> list[int]:
        """Return the 64-bit values of an array, summed over CPUs in a per-CPU one."""
        return [
            sum(value for (value,) in struct.iter_unpack("=Q", self.read(index)))
            for index in range(self.spec.max_entries)
        ]

    def read_array(self, count: int) -> bytes:
        """Return the first ``count`` elements of an array, one behind the other.

        Batched where the kernel can do that (per-CPU arrays: Linux 5.13): one call for many
        elements, so that they are of nearly the same moment, too.
        """
        count = min(count, self.spec.max_entries)
        if not count:
            return b""
        keys = (ctypes.c_uint32 * count)()
        values = ctypes.create_string_buffer(count * self.spec.record_size)
        position = ctypes.c_uint32(0)
        attr = _BatchAttr(
            0, ctypes.addressof(position), ctypes.addressof(keys), ctypes.addressof(values)
        )
        attr.count, attr.map_fd = count, self.fd
        try:
            bpf(_LOOKUP_BATCH, attr)
        except OSError as error:
            if error.errno != errno.ENOENT:  # which says that these were the last ones
                return b"".join(map(self.read, range(count)))
        if attr.count != count:
            return b"".join(map(self.read, range(count)))
        return values.raw

    def write(self, index: int, value: bytes) -> None:
        """Set one element of an array."""
        self._element(_UPDATE, ctypes.c_uint32(index), ctypes.create_string_buffer(value))

    def push(self, value: int) -> None:
        """Put a number into a queue."""
        raw = value.to_bytes(self.spec.value_size, sys.byteorder)
        self._element(_UPDATE, None, ctypes.create_string_buffer(raw, len(raw)))

    def read_hash(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return all keys and values of a hash map that nobody changes meanwhile, as raw records.

        Raises:
            OSError: the kernel refuses to read the map.
        """
        import numpy as np

        raw = self._read_batched()
        if raw is None:
            raw = self._read_one_by_one()
        keys, values = raw
        return (
            np.frombuffer(keys, dtype=np.dtype((np.void, self.spec.key_size))),
            np.frombuffer(values, dtype=np.dtype((np.void, self.spec.record_size))),
        )

    def zero(self, indices: Iterable[int]) -> None:
        """Set elements of an array to zero; of a per-CPU array on every CPU."""
        nothing = bytes(self.spec.record_size)
        for index in indices:
            self.write(index, nothing)

    def clear(self) -> None:
        """Empty a hash map; that others take keys out of it meanwhile is no error."""
        key = ctypes.create_string_buffer(self.spec.key_size)
        with contextlib.suppress(FileNotFoundError):  # no key is left
            while True:
                self._element(_NEXT_KEY, None, key)
                with contextlib.suppress(FileNotFoundError):
                    self._element(_DELETE, key, None)

    def close(self) -> None:
        """Let go of the map; safe to repeat."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _read_batched(self) -> tuple[bytes, bytes] | None:
        """Return all keys and values; None where the kernel has no batches for this map."""
        keys = ctypes.create_string_buffer(_BATCH * self.spec.key_size)
        values = ctypes.create_string_buffer(_BATCH * self.spec.record_size)
        position = ctypes.c_uint32(0)  # a bucket's number, whatever the key's type
        here = ctypes.addressof(position)
        attr = _BatchAttr(0, here, ctypes.addressof(keys), ctypes.addressof(values))
        attr.map_fd = self.fd
        all_keys, all_values = bytearray(), bytearray()
        while True:
            attr.count = _BATCH
            try:
                bpf(_LOOKUP_BATCH, attr)
                ended = False
            except OSError as error:
                if error.errno != errno.ENOENT and not attr.in_batch:
                    return None  # an old kernel
                if error.errno != errno.ENOENT:
                    raise
                ended = True
            all_keys += memoryview(keys)[: attr.count * self.spec.key_size]
            all_values += memoryview(values)[: attr.count * self.spec.record_size]
            if ended:
                return bytes(all_keys), bytes(all_values)
            attr.in_batch = here

    def _read_one_by_one(self) -> tuple[bytes, bytes]:
        key = ctypes.create_string_buffer(self.spec.key_size)
        value = ctypes.create_string_buffer(self.spec.record_size)
        all_keys, all_values = bytearray(), bytearray()
        before: ctypes.Array[ctypes.c_char] | None = None
        while True:
            try:
                self._element(_NEXT_KEY, before, key)
            except FileNotFoundError:  # that was the last one
                return bytes(all_keys), bytes(all_values)
            self._element(_LOOKUP, key, value)
            all_keys += key.raw
            all_values += value.raw
            before = key

    def _element(
        self,
        command: int,
        key: ctypes.c_uint32 | ctypes.Array[ctypes.c_char] | None,
        value: ctypes.Array[ctypes.c_char] | None,
    ) -> None:
        where, what = (ctypes.addressof(one) if one is not None else 0 for one in (key, value))
        bpf(command, _ElementAttr(self.fd, where, what))


def _create(spec: MapSpec) -> int:
    attr = _CreateAttr(
        map_type=spec.type,
        key_size=spec.key_size,
        value_size=spec.value_size,
        max_entries=spec.max_entries,
        map_flags=spec.flags,
        map_name=object_name(spec.name),
    )
    return bpf(_CREATE, attr)


@cache
def _cpu_count() -> int:
    return len(possible_cpus())

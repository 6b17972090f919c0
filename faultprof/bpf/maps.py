"""Reading hash maps in bulk, and emptying them.

Knows: batched look-ups (Linux 5.6) and their fallback, one call a key.
Leaves to others: what keys and values mean.

bcc's own ``items_lookup_batch`` allocates for a full map, 16 MB and more of zeroed ctypes
objects, however few keys there are; it cost 0.37 s between the command's end and the prompt.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# More entries than one bucket will ever hold, and few enough to stay in a cache.
_BATCH = 1024


def read_hash(
    lib: Any, map_fd: int, key_size: int, value_size: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Return all keys and values of a hash map that nobody changes meanwhile, as raw records.

    Args:
        lib: libbcc, as ``bcc.libbcc.lib``.
        map_fd: the map.
        key_size: bytes of a key.
        value_size: bytes of a value.

    Raises:
        OSError: the kernel refuses to read the map.
    """
    import numpy as np

    raw = _read_batched(lib, map_fd, key_size, value_size)
    if raw is None:
        raw = _read_one_by_one(lib, map_fd, key_size, value_size)
    keys, values = raw
    return (
        np.frombuffer(keys, dtype=np.dtype((np.void, key_size))),
        np.frombuffer(values, dtype=np.dtype((np.void, value_size))),
    )


def clear_hash(lib: Any, map_fd: int, key_size: int) -> None:
    """Delete all keys of a hash map; that others delete some at the same time is no error."""
    key = ctypes.create_string_buffer(key_size)
    while lib.bpf_get_first_key(map_fd, key, key_size) == 0:
        lib.bpf_delete_elem(map_fd, key)


def _read_batched(
    lib: Any, map_fd: int, key_size: int, value_size: int
) -> tuple[bytes, bytes] | None:
    keys = ctypes.create_string_buffer(_BATCH * key_size)
    values = ctypes.create_string_buffer(_BATCH * value_size)
    position = ctypes.c_uint32(0)  # a bucket's number, whatever the key's type
    all_keys, all_values = bytearray(), bytearray()
    first, ended = True, False
    while not ended:
        count = ctypes.c_uint32(_BATCH)
        start = None if first else ctypes.byref(position)
        failed = lib.bpf_lookup_batch(
            map_fd, start, ctypes.byref(position), keys, values, ctypes.byref(count)
        )
        error = ctypes.get_errno() if failed else 0
        if error not in (0, errno.ENOENT):
            if first:
                return None  # an old kernel
            raise OSError(error, os.strerror(error), "BPF_MAP_LOOKUP_BATCH")
        all_keys += memoryview(keys)[: count.value * key_size]
        all_values += memoryview(values)[: count.value * value_size]
        first, ended = False, error == errno.ENOENT
    return bytes(all_keys), bytes(all_values)


def _read_one_by_one(lib: Any, map_fd: int, key_size: int, value_size: int) -> tuple[bytes, bytes]:
    key = ctypes.create_string_buffer(key_size)
    value = ctypes.create_string_buffer(value_size)
    all_keys, all_values = bytearray(), bytearray()
    at_end = lib.bpf_get_first_key(map_fd, key, key_size) != 0
    while not at_end:
        if lib.bpf_lookup_elem(map_fd, key, value) == 0:
            all_keys += key.raw
            all_values += value.raw
        at_end = lib.bpf_get_next_key(map_fd, key, key) != 0
    return bytes(all_keys), bytes(all_values)

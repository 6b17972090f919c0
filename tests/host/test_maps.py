"""Maps of our own making on this machine's kernel."""

from __future__ import annotations

from contextlib import closing

import pytest

from faultprof.bpf.maps import Map, MapSpec

_HASH, _ARRAY, _PER_CPU_ARRAY = 1, 2, 6
_NUMBERS = 3000  # more than one batch


def test_a_hash_map_is_emptied() -> None:
    with closing(Map.create(MapSpec("test", _HASH, 4, 8, 4096, 0))) as table:
        table.clear()  # when it is empty already, too
        for number in range(_NUMBERS):
            table.write(number, number.to_bytes(8, "little"))
        keys, values = table.read_hash()
        assert len(keys) == len(values) == _NUMBERS
        table.clear()
        assert len(table.read_hash()[0]) == 0


@pytest.mark.parametrize("kind", [_ARRAY, _PER_CPU_ARRAY])
@pytest.mark.parametrize("count", [0, 1, 5, 63, 64, 99])
def test_an_array_is_read_at_once(kind: int, count: int) -> None:
    with closing(Map.create(MapSpec("test", kind, 4, 16, 64, 0))) as table:
        size = table.spec.record_size
        for number in range(64):
            table.write(number, number.to_bytes(8, "little") * (size // 8))
        read = table.read_array(count)
        wanted = min(count, 64)
        assert read == b"".join(table.read(number) for number in range(wanted))
        assert len(read) == wanted * size

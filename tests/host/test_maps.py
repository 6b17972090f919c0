"""Maps of our own making on this machine's kernel."""

from __future__ import annotations

from contextlib import closing

from faultprof.bpf.maps import Map, MapSpec

_HASH, _NUMBERS = 1, 3000  # more than one batch


def test_a_hash_map_is_emptied() -> None:
    with closing(Map.create(MapSpec("test", _HASH, 4, 8, 4096, 0))) as table:
        table.clear()  # when it is empty already, too
        for number in range(_NUMBERS):
            table.write(number, number.to_bytes(8, "little"))
        keys, values = table.read_hash()
        assert len(keys) == len(values) == _NUMBERS
        table.clear()
        assert len(table.read_hash()[0]) == 0

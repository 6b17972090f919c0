"""Clears of huge pages where the allocator leaves them to the fault: by hand, not collected."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from .vm import session
from .vm.errors import UnavailableError
from .vm.kernels import KERNELS

pytestmark = pytest.mark.noisy("a late timer")

PAGES = 24

SCRIPT = f"""\
set -e
cd /job/src
cc -O1 -o /tmp/huge tests/kernels/guest/huge.c
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
for page in 0 300; do
    faultprof record -q --mode sample --order -o /tmp/x.fprof -- /tmp/huge anon {PAGES} $page
    faultprof contention --json /tmp/x.fprof >/results/$page.json
    faultprof contention /tmp/x.fprof
done
"""


def test_the_fault_clears_where_the_allocator_does_not() -> None:
    """From the first page on; behind another page first, then before it, then around it."""
    try:
        machine = replace(session.prepare(KERNELS["7.3"]), append=("init_on_alloc=0",))
    except UnavailableError as error:
        pytest.skip(str(error))
    result = session.run_script(machine, SCRIPT)
    assert result.status == 0, result.output
    print(result.output)
    for page, order in (("0", "ascending"), ("300", "around")):
        found = json.loads(result.files[f"{page}.json"])["order"]
        assert found["init_on_alloc"] is False
        assert found["first_touches"] == PAGES
        work = found["functions"]["folio_zero_user"]
        assert work["calls"] + work["switched_calls"] == PAGES
        assert list(work["shares"]) == [order], work

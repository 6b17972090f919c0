"""Another chance for tests whose machine can spoil them: ``@pytest.mark.noisy("by what")``.

Where a hypervisor or an emulator holds a CPU up, a clock goes on and its timers are late: a figure
is then wrong by more than any sensible limit. Such a test may be tried again, and says how often it
was; a fault of ours would show every time. What its module measured once is measured again.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

ATTEMPTS = 3


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a noisy test up to ATTEMPTS times, and report the last of them."""
    if item.get_closest_marker("noisy") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    spoilt = []
    for attempt in range(1, ATTEMPTS + 1):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = next((report for report in reports if report.failed), None)
        if failed is None or attempt == ATTEMPTS:
            break
        spoilt.append((f"attempt {attempt} failed", failed.longreprtext))
        _forget_fixtures(item)
    for report in reports:
        report.sections[:0] = spoilt
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forget_fixtures(item: pytest.Item) -> None:
    """Have the fixtures of the test and of its module made anew."""
    module = item.getparent(pytest.Module)
    assert module is not None
    item.session._setupstate.teardown_exact(module.parent)  # type: ignore[arg-type]
    item._initrequest()  # type: ignore[attr-defined]

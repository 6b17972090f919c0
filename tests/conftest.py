"""The three tiers, and when leaving one out is a failure.

tests/unit needs neither root nor a kernel, tests/host needs root and this machine's kernel,
tests/kernels boots stock kernels in QEMU. A tier that cannot run here is skipped with its reason,
unless FAULTPROF_REQUIRE names it (CI: ``unit,host,kernels``): then every skip in it is a failure.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.noisy import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

# Machines are shared: how long an example takes says nothing about what it tests.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

TESTS = Path(__file__).parent


def required_tiers() -> set[str]:
    """Return the tiers that must not be skipped."""
    return {tier.strip() for tier in os.environ.get("FAULTPROF_REQUIRE", "").split(",")} - {""}


def tier_of(path: Path) -> str:
    """Return the name of the folder below tests/ that ``path`` is in."""
    return path.relative_to(TESTS).parts[0]


def host_obstacle() -> str | None:
    """Return why tests/host cannot run here, or None."""
    if os.geteuid() != 0:
        return "tests/host needs root: sudo make test"
    if importlib.util.find_spec("bcc") is None:
        return "tests/host needs bcc for this Python: apt install python3-bpfcc"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    obstacle = host_obstacle()
    if obstacle is None:
        return
    for item in items:
        if tier_of(item.path) == "host":
            item.add_marker(pytest.mark.skip(reason=obstacle))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and tier_of(item.path) in required_tiers():
        report.outcome = "failed"
        report.longrepr = f"skipped, but FAULTPROF_REQUIRE forbids it: {report.longrepr}"
    return report

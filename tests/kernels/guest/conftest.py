"""The tests of this directory run inside a virtual machine, once on each kernel.

The outer session collects them too (see ../conftest.py), without running them: what only a guest
has is imported inside the tests. Fixtures of these tests belong here, helpers beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.kernels.guest.traced_shell import compiled, setting
from tests.kernels.vm.kernels import selected
from tests.kernels.vm.session import OUTCOMES, Outcome
from tests.noisy import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]


@pytest.fixture(scope="session", autouse=True)
def kernel(request: pytest.FixtureRequest) -> str:
    """Return the running kernel's name in the catalogue, such as "6.12"."""
    return str(request.param)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Compile the program that writes to pages."""
    return str(compiled("pages.c", tmp_path_factory.mktemp("pages")))


@pytest.fixture
def small_pages() -> Iterator[None]:
    """Fault in pages of the base size, whatever the distribution's default is."""
    with setting("/sys/kernel/mm/transparent_hugepage/enabled", "never"):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on each selected kernel; inside a guest that is the running one.

    First of all hooks, so that the kernel comes first in a test's name. Otherwise it would come
    last in a session that is given this directory, as a guest's is: pytest registers this file
    then before its own hook for the parameters of fixtures, and calls the later ones first.
    """
    module = metafunc.module.__name__.rpartition(".")[2]
    names = [kernel.name for kernel in selected() if kernel.runs(module)]
    metafunc.parametrize("kernel", names, indirect=True, scope="session")


class OutcomeWriter:
    """Writes the outcome of each test as a line, for the outer session."""

    def __init__(self) -> None:
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reports on a test's setup, call and teardown."""
        self._reports[report.nodeid].append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the outcome once the test is over."""
        with OUTCOMES.open("a") as file:
            file.write(_outcome(nodeid, self._reports.pop(nodeid)).to_json() + "\n")


def _outcome(nodeid: str, reports: list[pytest.TestReport]) -> Outcome:
    decisive = next((report for report in reports if not report.passed), reports[-1])
    text = "\n".join(f"---- {name} ----\n{content}" for name, content in decisive.sections)
    if decisive.failed:
        return Outcome(nodeid, "failed", f"{decisive.longreprtext}\n{text}")
    if decisive.passed:
        return Outcome(nodeid, "passed", text)
    if hasattr(decisive, "wasxfail"):
        return Outcome(nodeid, "xfailed", decisive.wasxfail)
    reason = decisive.longrepr[2] if isinstance(decisive.longrepr, tuple) else ""
    return Outcome(nodeid, "skipped", reason.removeprefix("Skipped: "))


def pytest_configure(config: pytest.Config) -> None:
    """Write outcomes where the outer session looks for them, which is only in a guest."""
    if OUTCOMES.parent.is_dir():
        config.pluginmanager.register(OutcomeWriter())

"""Shows the tests of `guest/`, which run inside virtual machines, as tests of this session.

pytest collects them here like any others, once per kernel, and they keep their node ids; but in
the place of the function stands its outcome in that kernel's guest session. The first such test
starts the sessions, two at a time, with exactly the selected tests: `-k`, node ids and
FAULTPROF_KERNELS all work, and `-s` shows the guests' output as it comes, one after the other.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

from .vm import session
from .vm.errors import UnavailableError, VmError
from .vm.kernels import KERNELS, selected
from .vm.machine import Machine

GUEST = Path(__file__).parent / "guest"
AT_A_TIME = 2


class GuestSessions:
    """The guest sessions of a run: one per kernel, all started when the first is asked for.

    A guest works on one CPU for most of its time, so two beside each other take hardly longer than
    one; their output would be mixed, so not when it is shown live.
    """

    def __init__(self, *, live: bool) -> None:
        """Show the guests' output as it comes if `live`."""
        self.tests: dict[str, list[str]] = defaultdict(list)
        self._live = live
        self._pool = ThreadPoolExecutor(1 if live else AT_A_TIME)
        self._preparing = Lock()
        self._sessions: dict[str, Future[session.GuestSession]] = {}

    def outcome(self, kernel: str, test: str) -> session.Outcome:
        """Return what became of `test` in the session of `kernel`.

        Raises:
            VmError: the session did not come to its end, or not to this test.
        """
        if not self._sessions:
            self._sessions = {name: self._pool.submit(self._run, name) for name in self.tests}
        finished = self._sessions[kernel].result()
        if test not in finished.outcomes:
            raise VmError("the guest session came to its end without this test")
        return finished.outcomes[test]

    def recordings(self, kernel: str) -> Mapping[str, bytes] | None:
        """Return what the tests of a kernel's session have left; None where none was selected.

        Raises:
            VmError: the session did not come to its end.
        """
        test = next(iter(self.tests.get(kernel, ())), None)
        if test is None:
            return None
        self.outcome(kernel, test)
        return self._sessions[kernel].result().recordings

    def summaries(self) -> list[str]:
        """Return a line for each session that came to its end."""
        done = [one for one in self._sessions.values() if one.done() and not one.cancelled()]
        return [one.result().summary for one in done if one.exception() is None]

    def close(self) -> None:
        """Start no more sessions; QEMU ends those that run with this process."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, kernel: str) -> session.GuestSession:
        with self._preparing:  # apt does not work twice at once
            machine = session.prepare(KERNELS[kernel])
        return session.run(machine, self.tests[kernel], self._show)

    def _show(self, chunk: bytes) -> None:
        if self._live:
            sys.stdout.write(chunk.decode(errors="replace"))
            sys.stdout.flush()


SESSIONS = pytest.StashKey[GuestSessions]()


class GuestTest(pytest.Item):
    """A test of a guest session, seen from outside."""

    function: pytest.Function
    kernel: str

    def runtest(self) -> None:
        """Take on the outcome that the test had in its guest."""
        try:
            outcome = self.config.stash[SESSIONS].outcome(self.kernel, self.nodeid)
        except UnavailableError as error:
            pytest.skip(str(error))
        except VmError as error:
            pytest.fail(str(error), pytrace=False)
        match outcome.outcome:
            case "skipped":
                pytest.skip(f"Linux {self.kernel}: {outcome.text}")
            case "xfailed":
                pytest.xfail(f"Linux {self.kernel}: {outcome.text}")
            case "failed":
                pytest.fail(outcome.text, pytrace=False)
        print(outcome.text, end="")

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Give the place of the test function."""
        return self.function.reportinfo()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Put a GuestTest in the place of each selected test function of `guest/`."""
    sessions = GuestSessions(live=session.config.getoption("capture") == "no")
    session.config.stash[SESSIONS] = sessions
    for position, item in enumerate(items):
        if isinstance(item, pytest.Function) and item.path.is_relative_to(GUEST):
            # Its parent is the session, not the module: the module's marks hold in the guest.
            test = GuestTest.from_parent(
                session, name=item.name, nodeid=item.nodeid, path=item.path
            )
            test.function = item
            test.kernel = str(item.callspec.params["kernel"])
            sessions.tests[test.kernel].append(test.nodeid)
            items[position] = test


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how long each kernel took."""
    if SESSIONS in config.stash:
        for line in config.stash[SESSIONS].summaries():
            terminalreporter.write_line(f"Linux {line}")
        config.stash[SESSIONS].close()


@pytest.fixture(scope="session")
def machine() -> Machine:
    """Return a machine with the first of the selected kernels."""
    try:
        return session.prepare(selected()[0])
    except UnavailableError as error:
        pytest.skip(str(error))

"""Running a command many times: its output, its failure, and the watchdog."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faultprof.capture import perturb
from faultprof.capture.dosing import DoseSession, Runner
from faultprof.capture.perturbing import Counts, Dose
from faultprof.capture.wait import Signals
from faultprof.errors import FaultprofError


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as opened:
        yield opened


def _runner(signals: Signals, script: str) -> Runner:
    return Runner(("sh", "-c", script), None, signals)


def test_a_run_is_prepared_while_held_and_its_output_kept(
    signals: Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    prepared: list[int] = []
    timed = _runner(signals, "echo $$; echo seen >&2").run(prepared.append)
    assert timed.output == f"{prepared[0]}\n"
    assert capfd.readouterr() == ("", "seen\n")
    assert timed.wall_s > 0


def test_a_failing_command_ends_with_its_status(signals: Signals) -> None:
    with pytest.raises(FaultprofError, match="failed with status 7") as caught:
        _runner(signals, "echo why; exit 7").run(lambda _: None)
    assert caught.value.exit_code == 7
    assert caught.value.detail == "why\n"


def test_a_command_that_is_not_there(signals: Signals) -> None:
    with pytest.raises(FaultprofError) as caught:
        Runner(("/no/such/program",), None, signals).run(lambda _: None)
    assert caught.value.exit_code == 127


def test_a_preparation_that_fails_never_runs_the_command(signals: Signals) -> None:
    pids: list[int] = []

    def fail(pid: int) -> None:
        pids.append(pid)
        raise FaultprofError("no")

    with pytest.raises(FaultprofError, match="no"):
        _runner(signals, "touch /tmp/must-not-be-there").run(fail)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_run_that_takes_too_long_is_let_go_of(signals: Signals) -> None:
    told: list[str] = []
    with pytest.raises(FaultprofError, match="was let go of") as caught:
        _runner(signals, "sleep 0.3").run(
            lambda _: None, timeout=0.05, on_timeout=lambda: told.append("let go")
        )
    assert told == ["let go"]
    assert caught.value.exit_code == 5


def test_a_signal_reaches_the_command_and_ends_the_session(signals: Signals) -> None:
    script = f"kill -TERM {os.getpid()}; sleep 10"
    with pytest.raises(SystemExit) as caught:
        _runner(signals, script).run(lambda _: None)
    assert caught.value.code == 128 + signal.SIGTERM


class FakeDelayer:
    """Takes doses down; its command takes as long as it is told to."""

    def __init__(self) -> None:
        self.functions: Sequence[Any] = (SimpleNamespace(name="f"),)
        self.doses: list[Dose] = []

    def aim(self, _scope: object, dose: Dose) -> None:
        self.doses.append(dose)

    def done(self) -> tuple[list[Counts], float]:
        return [Counts(hits=3, due=2)], 1.5

    def close(self) -> None:
        pass


def test_the_watchdog_knows_the_undelayed_median(signals: Signals) -> None:
    delayer: Any = FakeDelayer()
    command = _runner(signals, "sleep 0.1")
    session = DoseSession(command, delayer, every=3, cpus=[1], timeout=4.0)
    first = session.run(0, -1)
    second = session.run(1_000, 0)
    assert (first.counts["f"].due, first.parallel, second.delay_ns) == (2, 1.5, 1_000)
    ahead, delayed = delayer.doses
    assert (ahead.delay_ns, ahead.budget_ns, ahead.seconds) == (0, 0, 0)  # nothing may be delayed
    assert delayed.seconds == pytest.approx(4 * first.timed.wall_s)
    assert 0 < delayed.budget_ns <= delayed.seconds * 1e9 * (os.cpu_count() or 1)
    assert (delayed.every, delayed.cpus) == (3, frozenset({1}))


def test_a_kept_recording_is_delayed_where_the_runs_were(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Dose] = []
    delayer: Any = SimpleNamespace(
        method="kprobe", aim=lambda _, dose: given.append(dose), done=lambda: None
    )
    monkeypatch.setattr(perturb, "Session", lambda *_, **__: SimpleNamespace(run=lambda: 0))
    options = perturb.PerturbOptions(
        ("true",), ("do_fault",), (0, 1000), every=10, jitter=True, cpus=(1, 3)
    )
    perturb._keep(options, tmp_path, delayer, None, print)
    assert [dose.delay_ns for dose in given] == [0, 1000]
    for dose in given:
        assert (dose.every, dose.jitter, dose.cpus) == (10, True, {1, 3})

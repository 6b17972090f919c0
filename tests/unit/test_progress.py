"""Progress: what is told, and how it looks on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest

from faultprof import progress
from faultprof.cli.notices import Shown, step_text
from faultprof.progress import Step, Steps


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    steps: list[Step] = []
    monkeypatch.setattr(progress, "listener", steps.append)
    return steps


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pipe() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "60")
    return Terminal()


def test_nobody_listens_by_default() -> None:
    assert progress.listener is None
    Steps("x", 3).advance()


def test_the_time_left_is_that_of_the_steps_so_far(told: list[Step], clock: Clock) -> None:
    with Steps("block", 4, clock=clock) as steps:
        for seconds in (2.0, 4.0, 6.0, 12.0):
            clock.now = seconds
            steps.advance("said")
    assert [(one.done, one.left_s) for one in told] == [(1, 6.0), (2, 4.0), (3, 2.0), (4, 0.0)]
    assert [step_text(one) for one in (told[1], told[3])] == [
        "block 2 of 4: said, about 4 s left",
        "block 4 of 4: said",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (99.4, "99 s"), (150.0, "2 min"), (5400.0, "90 min"), (9000.0, "2.5 h")],
)
def test_times_are_as_rough_as_guesses(seconds: float, text: str) -> None:
    assert step_text(Step("x", 1, 2, left_s=seconds)) == f"x 1 of 2, about {text} left"


def test_lines_stay_in_a_pipe(pipe: io.StringIO, clock: Clock) -> None:
    shown = Shown(pipe, clock=clock)
    shown.show(Step("block", 1, 2, "a"))
    shown.show(Step("block", 2, 2, "b"))
    shown.clear()
    assert pipe.getvalue() == "faultprof: block 1 of 2: a\nfaultprof: block 2 of 2: b\n"


def test_small_steps_are_seldom_told_in_a_pipe(pipe: io.StringIO, clock: Clock) -> None:
    shown = Shown(pipe, clock=clock)
    for number in range(1, 121):
        clock.now = number / 10
        shown.show(Step("unit", number, 120, every=False))
    assert pipe.getvalue().splitlines() == [
        "faultprof: unit 50 of 120",
        "faultprof: unit 100 of 120",
    ]


def test_a_terminal_has_one_line(terminal: Terminal, clock: Clock) -> None:
    shown = Shown(terminal, clock=clock)
    for number in range(1, 4):
        clock.now = float(number)
        shown.show(Step("block", number, 3, "x" * 99))
    written = terminal.getvalue()
    assert "\n" not in written
    lines = [one for one in written.split("\r\x1b[K") if one]
    assert [line[:22] for line in lines] == ["faultprof: block 1 of ", "faultprof: block 2 of "]
    assert all(len(line) < 60 for line in lines)
    assert written.endswith("\r\x1b[K")  # the last step takes the line away


def test_a_terminal_is_not_flooded(terminal: Terminal, clock: Clock) -> None:
    shown = Shown(terminal, clock=clock)
    for number in range(1000):
        clock.now = number / 1000
        shown.show(Step("unit", number, 5000, every=False))
    assert terminal.getvalue().count("unit") <= 11


def test_work_that_prints_gets_lines(terminal: Terminal, clock: Clock) -> None:
    Shown(terminal, clock=clock).show(Step("run", 1, 3, shares=True))
    assert terminal.getvalue() == "faultprof: run 1 of 3\n"
    Shown(terminal, clock=clock, verbose=True).show(Step("block", 1, 3))
    assert terminal.getvalue().endswith("\nfaultprof: block 1 of 3\n")


def test_what_ends_early_leaves_nothing(terminal: Terminal, told: list[Step], clock: Clock) -> None:
    shown = Shown(terminal, clock=clock)
    with Steps("unit", 9, every=False, clock=clock) as steps:
        steps.advance()
    for step in told:
        shown.show(step)
    assert terminal.getvalue().endswith("\r\x1b[K")

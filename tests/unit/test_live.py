"""The live view: rates and trends of ticks, pictures of any size, keys, and looking at engines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.analysis.live import WINDOW, History, Sort, View
from faultprof.capture.engines import Peek
from faultprof.capture.live import CallNode, LiveReader, NodeTick, Tick
from faultprof.capture.sampling import Samples, SamplingOptions, key_dtype
from faultprof.cli.screen import parsed_keys
from faultprof.recording.frames import Frame
from faultprof.render.terminal import ASCII, UNICODE, Terminal
from faultprof.render.top.screen import About, fitted, screen_lines, width_of
from faultprof.render.top.state import Action, State, press

TOP = CallNode(Frame(""))
FAULT = TOP.callee(Frame("do_fault"))
READ = FAULT.callee(Frame("do_read_fault"))
MAP = READ.callee(Frame("filemap_map_pages"))
AGAIN = MAP.callee(Frame("do_fault"))


def tick(nodes: Mapping[CallNode, NodeTick], seconds: float = 1.0, **more: object) -> Tick:
    return Tick(seconds, nodes=nodes, **more)  # type: ignore[arg-type]


def history(*ticks: Tick) -> History:
    found = History()
    for one in ticks:
        found.add(one)
    return found


def own(view: View) -> dict[str, float]:
    return {row.frame.function: row.own for row in view.rows}


# Figures.


def test_nothing_yet() -> None:
    assert History().view(Sort.OWN, 10) == View()


def test_rates_are_per_second_of_the_last_tick() -> None:
    ticks = [tick({}, 0.5, faults={"read": 10}), tick({}, 2.0, faults={"read": 10})]
    rate = history(*ticks).view(Sort.OWN, 10).rate("read")
    assert rate is not None
    assert (rate.per_s, rate.course) == (5.0, (20.0, 5.0))


def test_shares_are_of_all_that_was_spent_in_the_window() -> None:
    first = {FAULT: NodeTick(None, 1000, 1000)}
    later = {FAULT: NodeTick(None, 40, 10), READ: NodeTick(None, 30, 30)}
    view = history(tick(first), *[tick(later)] * WINDOW).view(Sort.OWN, 10)
    assert own(view) == {"do_fault": 25.0, "do_read_fault": 75.0}
    assert {row.frame.function: row.inclusive for row in view.rows} == {
        "do_fault": 100.0,
        "do_read_fault": 75.0,
    }
    # The tick before the window is what the change is measured against.
    assert [(row.change, row.course[0]) for row in view.rows] == [(75.0, 0.0), (-75.0, 100.0)]


def test_no_change_before_there_is_something_to_compare_with() -> None:
    view = history(*[tick({FAULT: NodeTick(None, 5, 5)})] * WINDOW).view(Sort.OWN, 10)
    assert view.rows[0].change == 0.0


def test_calls_and_their_average() -> None:
    nodes = {FAULT: NodeTick(100, 5000, 2000), READ: NodeTick(50, 3000, 3000)}
    view = history(tick(nodes, 0.5)).view(Sort.CALLS, 10)
    assert [(row.calls_per_s, row.avg_ns) for row in view.rows] == [(200.0, 50.0), (100.0, 60.0)]
    assert [(one.name, one.per_s) for one in view.handled] == [("do_read_fault", 100.0)]


def test_a_function_below_itself_counts_once() -> None:
    nodes = {
        FAULT: NodeTick(1, 100, 40),
        READ: NodeTick(1, 60, 0),
        MAP: NodeTick(1, 60, 30),
        AGAIN: NodeTick(1, 30, 30),
    }
    rows = {
        row.frame.function: row
        for row in history(tick(nodes)).view(Sort.OWN, 10, functions=True).rows
    }
    assert AGAIN.recursive
    assert (rows["do_fault"].own, rows["do_fault"].inclusive) == (70.0, 100.0)
    assert rows["do_fault"].calls_per_s == 2.0
    by_node = history(tick(nodes)).view(Sort.OWN, 10).rows
    assert [row.caller.function if row.caller else None for row in by_node] == [
        None,
        "filemap_map_pages",
        "do_read_fault",
        "do_fault",
    ]


def test_orders() -> None:
    nodes = {
        FAULT: NodeTick(1, 90, 10),
        READ: NodeTick(9, 80, 30),
        MAP: NodeTick(5, 50, 50),
    }
    view = history(tick(nodes))

    def order(sort: Sort) -> list[str]:
        return [row.frame.function for row in view.view(sort, 10).rows]

    assert order(Sort.OWN) == ["filemap_map_pages", "do_read_fault", "do_fault"]
    assert order(Sort.INCLUSIVE) == ["do_fault", "do_read_fault", "filemap_map_pages"]
    assert order(Sort.CALLS) == ["do_read_fault", "filemap_map_pages", "do_fault"]
    assert order(Sort.NAME) == ["do_fault", "do_read_fault", "filemap_map_pages"]
    limited = view.view(Sort.OWN, 1)
    assert (len(limited.rows), limited.count) == (1, 3)


def test_waits_are_of_the_window_and_the_longest_first() -> None:
    waits = {"a": (10, 1_000_000), "b": (1, 5_000_000)}
    view = history(tick({}, 2.0, waits=waits)).view(Sort.OWN, 10)
    assert view.waits is not None
    assert [(one.name, one.per_s, one.waited) for one in view.waits] == [
        ("b", 0.5, 0.0025),
        ("a", 5.0, 0.0005),
    ]
    assert history(tick({})).view(Sort.OWN, 10).waits is None


def test_costs_are_of_one_cpu() -> None:
    view = history(
        tick({}, 2.0, own_cpu_s=0.02, probes_ns=10_000_000), tick({}, 1.0, own_cpu_s=0.03)
    ).view(Sort.OWN, 10)
    assert (view.own_percent, view.probes_percent) == (3.0, 0.5)


_SHARES = st.dictionaries(
    st.sampled_from([FAULT, READ, MAP, AGAIN]),
    st.integers(0, 10**12).map(lambda n: NodeTick(None, n, n)),
)


@given(st.lists(_SHARES, max_size=15), st.booleans())
def test_shares_add_up(ticks: list[dict[CallNode, NodeTick]], functions: bool) -> None:
    rows = history(*map(tick, ticks)).view(Sort.OWN, 10, functions=functions).rows
    total = sum(row.own for row in rows)
    assert total == pytest.approx(100) or total == 0


# Pictures.

_TEXT = st.text(max_size=60) | st.sampled_from(
    ["\x1b[2J\x1b]0;pwned\x07", "漢" * 99, "\u202eab", "e\u0301" * 9]
)


@st.composite
def views(draw: st.DrawFn) -> View:
    def rate() -> float:
        return draw(st.floats(0, 1e9))

    names = draw(st.lists(_TEXT, max_size=5, unique=True))
    callers = [TOP.callee(Frame(draw(_TEXT), draw(_TEXT))) for _ in names]
    calls = draw(st.none() | st.integers(0, 10**9))
    nodes = {
        caller.callee(Frame(name)): NodeTick(calls, 10, 5)
        for caller, name in zip(callers, names, strict=True)
    }
    waits = draw(st.none() | st.dictionaries(_TEXT, st.tuples(st.just(3), st.just(10**7))))
    kinds = {kind: int(rate()) for kind in ("read", "write", "kernel", "minor", "major")}
    lost = {draw(_TEXT): 5}
    ticks = [tick(nodes, faults=kinds, waits=waits, lost=lost, own_cpu_s=rate())]
    return history(*ticks * draw(st.integers(0, 2))).view(Sort.OWN, 99)


@given(
    views(),
    st.tuples(st.integers(1, 200), st.integers(1, 60)),
    st.sampled_from([UNICODE, ASCII]),
    st.builds(State, help=st.booleans(), first=st.integers(0, 99), message=_TEXT),
    _TEXT,
)
def test_every_picture_fits_and_is_harmless(
    view: View, size: tuple[int, int], glyphs: object, state: State, title: str
) -> None:
    terminal = Terminal(glyphs=glyphs)  # type: ignore[arg-type]
    lines = screen_lines(view, state, About(title, title, 5e9), size, terminal)
    assert len(lines) == size[1]
    assert max(map(width_of, lines)) <= size[0]
    assert all(line.isprintable() for line in lines)


def test_a_picture() -> None:
    nodes = {FAULT: NodeTick(100, 5_000_000, 2_000_000), READ: NodeTick(50, 3_000_000, 3_000_000)}
    faults = {"read": 900, "write": 95, "protection": 5, "exec": 0, "kernel": 7}
    one = tick(
        nodes,
        faults={**faults, "minor": 1000, "major": 0},
        own_cpu_s=0.01,
        probes_ns=2_000_000,
        waits={"mmap_lock": (3, 1_500_000)},
        lost={"stacks beyond the map": 12},
    )
    view = history(one).view(Sort.OWN, 20)
    about = About("usemem 1g", "sampling at 999 Hz", 12.0)
    lines = screen_lines(view, State(), about, (80, 12), Terminal())
    assert [line.rstrip() for line in lines] == [
        "faultprof top  usemem 1g                                                    12 s",
        "faults  1,000/s      █  minor 1,000  major 0",
        "        read 900  write 95  write-protected 5.00  exec 0  (in the kernel 7.00)",
        "handled do_read_fault 50",
        "locks      3.00/s  waited 1.50 ms/s      █  mmap_lock",
        "cost    this view 1.0%, its probes 0.20% of a CPU; sampling at 999 Hz",
        "lost    12 stacks beyond the map",
        "   self   incl.   calls/s      avg  trend          function < caller",
        " 60.00%  60.00%        50  60.0 µs       █         do_read_fault < do_fault",
        " 40.00% 100.00%       100  50.0 µs       █         do_fault",
        "",
        "q end  space pause  w write  h help  sort s i c t n: self  f 2 nodes",
    ]


def test_cutting_counts_columns() -> None:
    assert fitted("漢字漢字", 5, "…") == "漢字…"
    assert fitted("漢字", 4, "…") == "漢字"
    assert width_of("e\u0301") == 1


# Keys.


def test_keys() -> None:
    state, action = press(State(first=7), "i")
    assert (state, action) == (State(Sort.INCLUSIVE), Action.NOTHING)
    assert press(state, "q")[1] is Action.QUIT
    assert press(state, "w")[1] is Action.WRITE
    assert press(press(state, " ")[0], "p")[0] == state
    assert press(State(first=3), "up")[0].first == 2
    assert press(State(), "page-up")[0].first == 0
    assert press(State(message="wrote"), "x")[0].message == ""
    helped = press(State(), "?")[0]
    assert helped.help
    assert press(helped, "w") == (State(), Action.NOTHING)
    assert press(helped, "q")[1] is Action.QUIT


def test_keys_of_a_terminal() -> None:
    assert parsed_keys("s\x1b[A\x1bOB\x1b[5~q") == ["s", "up", "down", "page-up", "q"]
    assert parsed_keys("\x1b") == ["escape"]
    assert parsed_keys("\x1b[38;5;1mq") == ["escape", "q"]
    assert parsed_keys("\x1b[") == ["escape"]


@given(st.text(max_size=40))
def test_any_input_is_some_keys(text: str) -> None:
    state = State()
    for key in parsed_keys(text):
        state, _ = press(state, key)
    assert state.first >= 0


# Looking.


class _Names:
    def resolve(self, addresses: object, _is_return: object) -> list[tuple[Frame, ...]]:
        return [(Frame(f"f{address}"),) for address in addresses]  # type: ignore[attr-defined]


class _Faults:
    def __init__(self, _scope: object) -> None:
        self.count = 0

    def read(self) -> dict[str, int]:
        self.count += 10
        return {"read": self.count}

    def costs(self) -> tuple[int, int]:
        return 0, 0

    def close(self) -> None:
        pass


class _Engines:
    """Counts by stack, a stack being a tuple of addresses with the leaf first."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, ...], int] = {}
        self.traced: dict[tuple[str, ...], tuple[int, int, int]] | None = None

    def lend_scope(self) -> None:
        pass

    def costs(self) -> tuple[int, int]:
        return 7, 700

    def peek(self) -> Peek:
        keys = np.zeros(len(self.counts), key_dtype(False))
        for key, stack in zip(keys, self.counts, strict=True):
            key["kernel_depth"] = len(stack)
            key["kernel"][: len(stack)] = stack
        counts = np.array(list(self.counts.values()), np.uint64)
        stats = {"map_full": 2, "map_busy": 0}
        return Peek(
            SamplingOptions(99, "cpu-clock", 64, False, False),
            Samples(keys, counts, stats, None),
            self.traced,
        )


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> _Engines:
    monkeypatch.setattr("faultprof.capture.live.FaultCounter", _Faults)
    monkeypatch.setattr("faultprof.capture.live.Symbolizer", lambda **_: _Names())
    monkeypatch.setattr("faultprof.capture.live.syscall.enable_run_stats", _no_stats)
    return _Engines()


def _no_stats() -> int:
    raise OSError


def figures(one: Tick) -> dict[str, tuple[int, int]]:
    return {node.frame.function: (tick.inclusive, tick.own) for node, tick in one.nodes.items()}


def test_looking_tells_what_is_new(engines: _Engines) -> None:
    reader = LiveReader(engines, None)  # type: ignore[arg-type]
    engines.counts = {(2, 1): 5, (1,): 3}
    one = reader.look()
    assert figures(one) == {"f1": (8, 3), "f2": (5, 5)}
    assert (one.samples, one.faults, one.lost["stacks beyond the map"]) == (8, {"read": 10}, 2)
    assert one.probes_ns is None
    engines.counts = {(2, 1): 6, (1,): 3, (3, 1): 1}
    two = reader.look()
    assert figures(two) == {"f1": (2, 0), "f2": (1, 1), "f3": (1, 1)}
    # The same nodes, so that they can be followed from tick to tick.
    assert set(one.nodes) <= set(two.nodes)
    reader.forget()
    engines.counts = {(1,): 2}
    assert figures(reader.look()) == {"f1": (2, 2)}


def test_looking_at_a_trace(engines: _Engines) -> None:
    reader = LiveReader(engines, None)  # type: ignore[arg-type]
    engines.traced = {("a",): (10, 1000, 400), ("a", "b"): (10, 600, 600)}
    assert figures(reader.look()) == {"a": (1000, 400), "b": (600, 600)}
    engines.traced = {("a",): (11, 1100, 500), ("a", "b"): (10, 600, 600)}
    one = reader.look()
    assert [(node.frame.function, tick) for node, tick in one.nodes.items()] == [
        ("a", NodeTick(1, 100, 100))
    ]

"""0-day tables, value arrays and hand-made tables, as they arrive in mails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.comparison import compare_sides
from faultprof.analysis.lkp_table import parse
from faultprof.analysis.mail_text import ImportedText, Table
from faultprof.analysis.measurement import Measurement, Side
from faultprof.render.lkp import lkp_lines, row_line
from faultprof.render.terminal import ASCII, Terminal
from tests.unit.threads import ARRAYS, HEADING, ROUNDS, ROWS, TIMES, ZERO_DAY, quoted

PIPE = Terminal()


def only_table(text: str) -> Table:
    imported = parse(text)
    assert imported.unread == ()
    (table,) = imported.tables
    return table


def lines_of(table: Table) -> list[str]:
    return list(lkp_lines(compare_sides(table.sides), PIPE))


def reasons(imported: ImportedText) -> list[tuple[int, str]]:
    return [(one.line, one.reason) for one in imported.unread]


def means(table: Table) -> dict[str, list[float]]:
    names = table.sides[0].metrics
    return {name: [side.metrics[name].mean for side in table.sides] for name in names}


# 0-day tables.


def test_a_quoted_table_prints_as_it_was_character_for_character() -> None:
    assert lines_of(only_table(ZERO_DAY)) == [*HEADING, *ROWS]


def test_the_table_knows_its_commits_and_lines() -> None:
    table = only_table(ZERO_DAY)
    assert (table.kind, table.first_line, table.last_line) == ("0-day table", 6, 12)
    assert [side.label for side in table.sides] == HEADING[0].split()
    assert table.sides[1].title.startswith('("filemap: add filemap_map_order0_folio()')
    assert parse(ZERO_DAY).prose == ()


@pytest.mark.parametrize("mark", ["> ", ">> ", "> > ", ">>>", "   ", " > >\t"])
def test_any_quoting_reads_the_same(mark: str) -> None:
    table = only_table(quoted("\n".join([*HEADING, *ROWS]), mark))
    assert lines_of(table) == [*HEADING, *ROWS]


def test_columns_that_a_mail_program_moved() -> None:
    moved = [" " + line.replace("     ", "      ") for line in [*HEADING, *ROWS]]
    assert lines_of(only_table("\n".join(moved).replace("±", "Â±"))) == [*HEADING, *ROWS]


def test_windows_line_ends() -> None:
    text = "\r\n".join([*HEADING, *ROWS, ""])
    assert lines_of(only_table(text)) == [*HEADING, *ROWS]


THREE = """\
=========================================================================================
compiler/cpufreq_governor/kconfig/rootfs/tbox_group/test/testcase:
  gcc-12/performance/x86_64/debian-12/some-box/anon-cow-seq/vm-scalability

commit:
  aaaaaaaaaa ("mm: a")
  v6.3-rc2
  cccccccccc <--- your patch

aaaaaaaaaaaaaaaa                    v6.3-rc2 cccccccccccccccccccccccccc0
---------------- --------------------------- ---------------------------
       fail:runs  %reproduction    fail:runs  %reproduction    fail:runs
           |             |             |             |             |
           :25           0%            :3           33%           1:3     last_state.booting
         %stddev     %change         %stddev     %change         %stddev
             \\          |                \\          |                \\
      0.20 ±153%  +2.1e+05%     418.07 ±203%    +135.0%       0.47 ± 19%  perf-sched.wait_time.avg
 2.177e+09         +4165.3%  9.287e+10            +0.1%   2.18e+09        cpuidle..time
      7.30 ± 12%      -1.2        6.10            +0.0        7.30        perf-profile.cycles-pp.f
    112.01            +2.1%     114.40            -8.2%     102.83        meminfo.Active(file)
"""


def test_three_columns_failures_and_all_number_formats() -> None:
    imported = parse(THREE)
    assert reasons(imported) == [(14, "counts of failed runs are not compared")]
    (table,) = imported.tables
    assert len(table.sides) == 3
    assert table.caption.startswith("gcc-12/performance")
    assert lines_of(table)[4:] == THREE.splitlines()[16:]
    assert [side.title for side in table.sides] == ['("mm: a")', "", "<--- your patch"]
    assert imported.prose == ()


def test_a_wrapped_name_is_put_back() -> None:
    long = ROWS[0].replace("  vm-scalability", "\nvm-scalability")
    assert lines_of(only_table("\n".join([*HEADING, long, ROWS[1]])))[4:] == ROWS[:2]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("    233050           -28.1%     167484", "the name of the metric is missing"),
        (ROWS[1], "stands in this table a second time"),
        ("    233050           -28.1%     167484  -1.0%  166000  x.y", "3 columns, but the table"),
        ("    1e+300           -28.1%     167484        x.y", "beyond all reason"),
        ("    233050           -28.1      167484        x.y", "a change in percent where lkp"),
        ("    233050           -28.1%     167484        x%", "a change in percent where lkp"),
        ("    233050           -21.8%     167484        x.y", "the means beside it give another"),
        ("      5.04 =C2=B1  7%    +833.7%   47.09      x.y", "not a row of this table"),
        (f"{ROWS[0]}   <--- look", "text behind the name of the metric"),
    ],
)
def test_what_cannot_be_read_is_named_by_line(row: str, reason: str) -> None:
    rows = [ROWS[1], row, ROWS[3], "", "Regards"]
    imported = parse("\n".join([*HEADING, *rows]))
    (one,) = imported.unread
    assert one.line == 6
    assert reason in one.reason
    assert one.text in row
    assert "vm-scalability.throughput" in imported.tables[0].sides[0].metrics
    assert imported.prose == ((9, 9),)


def test_rows_without_their_table_are_named() -> None:
    imported = parse(f"as you can see\n{ROWS[3]}\nit got worse")
    assert imported.tables == ()
    assert reasons(imported) == [(2, "a row without the rule of dashes that begins a table")]
    assert imported.prose == ((1, 1), (3, 3))


def test_a_rule_without_names_or_rows() -> None:
    imported = parse("\n".join([*HEADING[1:], *ROWS]))
    assert reasons(imported) == [(1, "the line above this rule does not name 2 columns")]
    assert [side.label for side in imported.tables[0].sides] == ["column1", "column2"]
    (one,) = parse("name     value\n-------- --------\nfoo      bar\n").unread
    assert one.reason == "a rule of dashes without a row that can be read below it"


_cells = st.tuples(
    st.floats(0, 1e12).filter(lambda value: value == 0 or value > 1e-3), st.floats(0, 2)
)


@given(
    st.lists(_cells, min_size=2, max_size=4),
    st.sampled_from(["a.b", "a.b%", "perf-profile.x.y", "meminfo.Active(file)"]),
    st.sampled_from([PIPE, Terminal(glyphs=ASCII)]),
)
@settings(max_examples=150, deadline=None)
def test_what_is_printed_reads_back(
    cells: list[tuple[float, float]], name: str, terminal: Terminal
) -> None:
    """From runs to lkp's line, back to means, and to the very same line."""
    sides = [
        Side(
            f"side{number}", {name: Measurement((mean * (1 - spread / 3), mean * (1 + spread / 3)))}
        )
        for number, (mean, spread) in enumerate(cells)
    ]
    printed = list(lkp_lines(compare_sides(sides), terminal))
    (table,) = parse("\n".join(printed)).tables
    assert [side.label for side in table.sides] == [side.label for side in sides]
    again = compare_sides(table.sides)
    assert [row_line(row, terminal) for row in again.rows] == printed[4:]


# Value arrays.


def test_the_threads_arrays_give_their_means() -> None:
    table = only_table(ARRAYS)
    assert means(table) == {"vm-scalability.throughput": [56369257.5, 55877845]}
    assert [side.label[:12] for side in table.sides] == ["9bacdd8996c7", "f13a82be4c32"]
    assert table.sides[0].title.startswith("extra tests on head commit of linus/master; good: [")
    assert "the data is even better" in ARRAYS.splitlines()[parse(ARRAYS).prose[0][0] - 1]


def test_a_matrix_file_is_one_side() -> None:
    matrix = '{\n  "a.time": [\n    1.5,\n    2\n  ],\n  "a.rate": [3, 4e2, -5]\n}\n'
    table = only_table(matrix)
    (side,) = table.sides
    assert {name: one.values for name, one in side.metrics.items()} == {
        "a.time": (1.5, 2),
        "a.rate": (3, 400, -5),
    }


def test_arrays_of_one_name_are_several_sides() -> None:
    table = only_table('"a": [1, 2]\n"b": [3]\n\n"a": [5]\n')
    assert [side.label for side in table.sides] == ["line1", "line4"]
    assert [list(side.metrics) for side in table.sides] == [["a", "b"], ["a"]]


@pytest.mark.parametrize(
    ("text", "expected", "values"),
    [
        ('"a": [1, two, 3]', [(1, "not a number")], (1, 3)),
        ('"a": [\n 1,\n null,\n 3\n]', [(3, "not a number")], (1, 3)),
        ('"a": [\n 1,\n 2,\nHello', [(1, "the array is not closed by ]")], (1, 2)),
        ('"a": [\n 1,\n 1e999\n]', [(3, "not a number")], (1,)),
    ],
)
def test_broken_arrays(
    text: str, expected: list[tuple[int, str]], values: tuple[float, ...]
) -> None:
    imported = parse(text)
    assert reasons(imported) == expected
    assert imported.tables[0].sides[0].metrics["a"].values == values


def test_arrays_that_hold_nothing() -> None:
    assert reasons(parse('"a": []\n"b": 105228,')) == [
        (1, "an array without values"),
        (2, "a single value, not an array of runs"),
    ]


# Tables of rounds.


def test_the_threads_averages_come_from_its_rounds() -> None:
    assert means(only_table(ROUNDS)) == {
        "N=1": [58, 62.8, 176.8],
        "N=100": [10516.8, 11098.4, 39563.4],
        "N=512": [55520.4, 60001.4, 157006.6],
    }


def test_rounds_are_unwrapped() -> None:
    (table,) = parse(ROUNDS).tables
    labels = ["clear_highpage", "folio_zero_range", "folio_zero_user"]
    assert [side.label for side in table.sides] == labels
    assert table.sides[2].metrics["N=1"].values == (177, 168, 234, 157, 148)


def test_a_wrong_average_is_named() -> None:
    (one,) = parse(ROUNDS.replace("62.8", "68.2")).unread
    assert (one.text, one.reason) == ("68.2", "the rounds give an average of 62.8")


def test_a_round_with_a_missing_number_is_named() -> None:
    text = "N=1\n  a_b c_d\n1  5 6\n2  7\n3  8 9\n"
    imported = parse(text)
    assert imported.tables[0].sides[0].metrics["N=1"].values == (5,)
    assert reasons(imported) == [(4, "not a round of 2 numbers")]
    assert imported.prose == ((5, 5),)


# Output of time.


def test_several_runs_of_two_kernels() -> None:
    first, second, third = parse(TIMES).tables
    assert first.caption == "case-anon-w-seq-mt: (2M PMD THP)"
    assert [side.label for side in first.sides] == ["base", "patched"]
    assert first.sides[0].metrics["user"].values == pytest.approx((119.98, 143.431, 138.739))
    assert second.sides[1].title == "use copy_user_gigantic_page for 2M hugetlb too"
    assert third.caption == ""
    assert [side.label for side in third.sides] == [
        "folio_zero_range",
        "clear_highpage",
        "folio_zero_user",
    ]
    assert third.sides[2].metrics["sys"].values == (3.152,)
    assert parse(TIMES).unread == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I ran it again.\nreal 0m1.0s 0m2.0s", "no line above says what these are the times of"),
        ("base:\nreal 0m1.0s 0m2.0s\nuser 1m0.5s", "different numbers of times"),
    ],
)
def test_times_that_cannot_be_placed(text: str, reason: str) -> None:
    imported = parse(text)
    assert imported.tables == ()
    assert all(reason in one.reason for one in imported.unread)
    assert len(imported.unread) == text.count("real") + text.count("user")


# Anything.

_pieces = st.one_of(
    st.sampled_from(
        [*HEADING, *ROWS, *"\n".join([ZERO_DAY, ARRAYS, ROUNDS, TIMES, THREE]).splitlines()]
    ),
    st.text(alphabet=' >"[]{},:%±|\\-+.e0123456789abN=\tms\r', max_size=40),
)


@given(st.lists(_pieces, max_size=40), st.sampled_from(["", "> ", ">>> "]))
@settings(max_examples=300, deadline=None)
def test_every_line_of_any_text_is_accounted_for(pieces: list[str], mark: str) -> None:
    text = "\n".join(mark + piece for piece in pieces)
    imported = parse(text)
    prose = {line for first, last in imported.prose for line in range(first, last + 1)}
    unread = {one.line for one in imported.unread}
    assert not prose & unread
    for line in unread | prose:
        assert 1 <= line <= text.count("\n") + 1
    for table in imported.tables:
        assert 1 <= table.first_line <= table.last_line <= text.count("\n") + 1
        if len(table.sides) > 1:
            compare_sides(table.sides)

"""``faultprof compare``: recordings and mails in, tables out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from faultprof import __version__
from faultprof.analysis.bootstrap import RESAMPLES
from faultprof.analysis.change import Test, Verdict
from faultprof.analysis.comparison import Comparison, Order, choose, compare_sides
from faultprof.analysis.measurement import Measurement, Side, side_of_recording
from faultprof.cli.compare import compare
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import KernelInfo, Metadata, RunInfo
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import read_recording
from faultprof.recording.writer import write_recording
from faultprof.render.compare import comparison_lines
from faultprof.render.compare_exports import csv_lines, json_text, markdown_lines
from faultprof.render.lkp import heading_lines, lkp_lines
from faultprof.render.terminal import Terminal
from tests.unit.threads import ARRAYS, HEADING, ROUNDS, ROWS, ZERO_DAY

PIPE = Terminal()
KERNELS = {"before": "6.1.0-37-amd64", "after": "7.3.0-amd64"}
WALL = {"before": (2.41, 2.38, 2.45, 2.40, 2.43), "after": (2.11, 2.14, 2.09, 2.16, 2.12)}
FREE = {"before": (0.21, 0.25, 0.19, 0.24, 0.2), "after": (0.22, 0.2, 0.26, 0.19, 0.23)}
SPREAD = {"before": (3.1, 2.9, 3.0, 3.2, 3.1), "after": (3.0, 3.3, 3.1, 2.8, 3.2)}


def metadata(runs: Sequence[RunInfo], **changes: Any) -> Metadata:
    return Metadata(
        **{
            "command": ("usemem", "-t", "4", "1g"),
            "kernel": KernelInfo(KERNELS["before"]),
            "mode": "sample",
            "clock": "cycles",
            "frequency": 999,
            "runs": tuple(runs),
            "ledger": Ledger(),
            **changes,
        }
    )


def five_runs(name: str) -> Metadata:
    """Return five runs: wall and throughput really change, the others do not."""
    runs = [
        RunInfo(
            number,
            exit_status=0,
            wall_s=wall,
            user_s=0.5,
            sys_s=1.5 + wall / 100,
            samples=2000,
            on_cpu_s=4 * wall,
            metrics={
                "usemem.throughput": round(41e6 / wall),
                "usemem.free_time": free,
                "usemem.stddev%": spread,
            },
        )
        for number, (wall, free, spread) in enumerate(
            zip(WALL[name], FREE[name], SPREAD[name], strict=True)
        )
    ]
    return metadata(runs, kernel=KernelInfo(KERNELS[name]))


def five_run_side(name: str) -> Side:
    return side_of_recording(five_runs(name), name, f"{name}.fprof")


@pytest.fixture(scope="module")
def before_after() -> Comparison:
    return compare_sides([five_run_side("before"), five_run_side("after")])


def written(path: Path, data: Metadata) -> str:
    paths = [[PathCount("usemem", (Frame("do_fault"),), 1)] for _ in data.runs]
    write_recording(path, data, paths)
    return str(path)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("recordings")
    return [written(directory / f"{name}.fprof", five_runs(name)) for name in WALL]


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(compare)
    return CliRunner().invoke(app, arguments)


def shown(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


def failure(*arguments: str) -> FaultprofError:
    error = run(*arguments).exception
    assert isinstance(error, FaultprofError), error
    return error


# Sides.


def test_metrics_of_runs_survive_the_recording(tmp_path: Path) -> None:
    read = read_recording(Path(written(tmp_path / "x.fprof", five_runs("after")))).metadata
    assert read.runs == five_runs("after").runs
    assert read.runs[0].metrics["usemem.stddev%"] == 3.0


def test_older_recordings_have_no_metrics_of_runs() -> None:
    data = five_runs("after").to_json()
    for one in data["runs"]:
        del one["metrics"]
    old = side_of_recording(Metadata.from_json(data), "old")
    assert list(old.metrics) == ["wall_s", "user_s", "sys_s", "on_cpu_s"]


def test_what_was_not_measured_is_missing_and_not_zero() -> None:
    system_wide = metadata([RunInfo(0, wall_s=2.0, on_cpu_s=0.0, metrics={"x": float("nan")})])
    assert list(side_of_recording(system_wide, "all").metrics) == ["wall_s"]
    partly = [RunInfo(0, exit_status=0, metrics={"x": 5.0}), RunInfo(1, exit_status=0)]
    side = side_of_recording(metadata(partly), "partly")
    assert (side.metrics["x"].values, side.metrics["x"].runs) == ((5,), (0,))
    assert side.notes == ("x is known of 1 of 2 runs",)


def test_a_reader_is_told_of_failed_runs_and_lost_data() -> None:
    ledger = Ledger()
    ledger.degrade("3 samples lost")
    runs = [RunInfo(0, exit_status=0), RunInfo(1, exit_status=139), RunInfo(2, exit_status=1)]
    notes = side_of_recording(metadata(runs, ledger=ledger), "x").notes
    assert notes == ("2 of 3 runs failed (status 1, 139)", "degraded: 3 samples lost")


def interleaved(values: Sequence[float], blocks: object, session: object = "abc") -> Side:
    runs = [RunInfo(place, exit_status=0, wall_s=value) for place, value in enumerate(values)]
    options = {"interleaved": {"session": session, "blocks": blocks}}
    return side_of_recording(metadata(runs, options=options), "x")


DRIFT = [10.0, 20, 30, 40, 50, 60, 70, 80]


def test_a_reader_is_told_that_runs_are_missing() -> None:
    runs = [RunInfo(number, exit_status=0, wall_s=1.0) for number in range(3)]
    cut = side_of_recording(metadata(runs, options={"repeat": 10}), "x")
    assert "cut short: 3 of 10 runs" in cut.notes
    assert not side_of_recording(metadata(runs, options={"repeat": 3}), "x").notes


def test_interleaved_runs_are_compared_block_by_block() -> None:
    base = interleaved(DRIFT, list(range(8)))
    new = interleaved([one + 0.5 for one in reversed(DRIFT)], list(reversed(range(8))))
    (row,) = [one for one in compare_sides([base, new]).rows if one.name == "wall_s"]
    (change,) = row.changes
    assert change is not None
    assert change.worth is not None
    assert (change.worth.paired, change.worth.test) == (True, Test.SIGNED_RANK)
    assert change.worth.difference_interval == (0.5, 0.5)
    assert change.worth.verdict is Verdict.REAL


@pytest.mark.parametrize(
    ("session", "blocks"),
    [
        ("other", [*range(8)]),
        ("abc", [*range(7), 9]),
        ("abc", [0, *range(7)]),
        ("abc", [*range(7)]),
        ("abc", "01234567"),
        (7, [*range(8)]),
    ],
)
def test_runs_that_do_not_belong_together_are_not_paired(session: object, blocks: object) -> None:
    base = interleaved(DRIFT, list(range(8)))
    (row, *_) = compare_sides([base, interleaved(DRIFT, blocks, session)]).rows
    (change,) = row.changes
    assert change is not None
    assert change.worth is not None
    assert not change.worth.paired


def test_pairs_can_be_forced() -> None:
    base, new = ({"x": Measurement(tuple(DRIFT))}, {"x": Measurement((11.0, *DRIFT[1:]))})
    (row,) = compare_sides([Side("a", base), Side("b", new)], paired=True).rows
    (change,) = row.changes
    assert change is not None
    assert change.worth is not None
    assert change.worth.paired
    with pytest.raises(FaultprofError, match="x has 8 on one side and 1 on the other"):
        compare_sides([Side("a", base), Side("b", {"x": Measurement((1.0,))})], paired=True)


# The comparison.


def test_verdicts(before_after: Comparison) -> None:
    real = [row.name for row in choose(before_after, changed=True).rows]
    assert real == ["wall_s", "sys_s", "on_cpu_s", "usemem.throughput"]


def test_rows_are_chosen_and_sorted(before_after: Comparison) -> None:
    chosen = choose(before_after, globs=["usemem.*", "*all_s"], order=Order.CHANGE)
    assert [row.name for row in chosen.rows] == [
        "usemem.throughput",
        "wall_s",
        "usemem.free_time",
        "usemem.stddev%",
    ]
    assert chosen.hidden == 3
    by_p = [row.name for row in choose(before_after, order=Order.P).rows]
    assert by_p[:4] == ["on_cpu_s", "sys_s", "usemem.throughput", "wall_s"]
    by_name = [row.name for row in choose(before_after, order=Order.NAME).rows]
    assert by_name == sorted(by_name)


def test_a_metric_that_one_side_lacks_is_blank() -> None:
    sides = [Side("a", {"x": Measurement((1.0,))}), Side("b", {"y": Measurement((2.0,))})]
    comparison = compare_sides(sides)
    assert list(lkp_lines(comparison, PIPE))[4:] == [
        "      1.00" + " " * 34 + "  x",
        " " * 16 + " " * 12 + "      2.00        y",
    ]
    assert [row.changes for row in comparison.rows] == [(None,), (None,)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((999.994,), (1000.0,), "    999.99            +0.0%       1000        x"),
        ((10516.8,), (39563.9,), "     10516          +276.2%      39563        x"),
        ((1e8,), (123456789,), " 100000000           +23.5%  1.235e+08        x"),
        ((0.0,), (0.0,), "      0.00            +0.0%       0.00        x"),
        ((0.0,), (1.83,), "      0.00       +1.8e+102%       1.83        x"),
        ((0.2,), (418.07,), "      0.20        +2.1e+05%     418.07        x"),
        ((98.0, 102), (50, 150), "    100.00            +0.0%     100.00 ± 50%  x"),
        ((97.99, 102.01), (0, 500), "    100.00 ±  2%    +150.0%     250.00 ±100%  x"),
    ],
)
def test_lkps_number_formats(
    before: Sequence[float], after: Sequence[float], expected: str
) -> None:
    metrics = [{"x": Measurement(tuple(values))} for values in (before, after)]
    (*_, line) = lkp_lines(compare_sides([Side("a", metrics[0]), Side("b", metrics[1])]), PIPE)
    assert line == expected


@pytest.mark.parametrize("name", ["a.stddev%", "perf-profile.self.cycles-pp.clear_page_erms"])
def test_percentages_show_their_difference(name: str) -> None:
    sides = [Side("a", {name: Measurement((7.3,))}), Side("b", {name: Measurement((6.1,))})]
    (*_, line) = lkp_lines(compare_sides(sides), PIPE)
    assert line == f"      7.30            -1.2        6.10        {name}"


def test_labels_are_cut_to_their_columns() -> None:
    first, rule, *_ = heading_lines(["0123456789abcdef0123", "new", "x" * 40])
    assert first == f"0123456789abcdef {'new':>27} {'x' * 27} "
    assert rule == f"{'-' * 16} {'-' * 27} {'-' * 27} "


# Renderings.


def test_text(before_after: Comparison, snapshot: SnapshotAssertion) -> None:
    assert "\n".join(comparison_lines([before_after], PIPE)) == snapshot


def test_every_line_begins_with_lkps(before_after: Comparison) -> None:
    text = list(comparison_lines([before_after], PIPE))
    table = [line for line in text if not line.startswith("#")]
    plain = list(lkp_lines(before_after, PIPE))
    assert len(table) == len(plain)
    assert all(line.startswith(one.rstrip()) for line, one in zip(table, plain, strict=True))


def test_text_of_three_sides(snapshot: SnapshotAssertion) -> None:
    few = replace(five_run_side("after"), label="few", metrics={"wall_s": Measurement((2.4, 2.5))})
    comparison = compare_sides([five_run_side("before"), five_run_side("after"), few])
    chosen = choose(comparison, globs=["wall_s", "usemem.t*"])
    assert "\n".join(comparison_lines([chosen], PIPE)) == snapshot


def test_csv(before_after: Comparison, snapshot: SnapshotAssertion) -> None:
    text = "\n".join(csv_lines([choose(before_after, globs=["wall_s", "*%"])]))
    assert text == snapshot
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["verdict"] for row in rows] == ["", "real", "", "noise"]
    assert float(rows[1]["relative_value"]) == pytest.approx(-0.12013, abs=1e-5)


def test_markdown(before_after: Comparison, snapshot: SnapshotAssertion) -> None:
    assert "\n".join(markdown_lines(before_after)) == snapshot


def test_json(before_after: Comparison, snapshot: SnapshotAssertion) -> None:
    chosen = choose(before_after, globs=["wall_s", "*%"])
    data = json.loads(json_text([chosen], {}))
    assert data.pop("tool_version") == __version__
    assert json.dumps(data, indent=1) == snapshot


ESTIMATE = {"value", "low", "high"}
CHANGE = {
    "difference": dict,
    "relative": (dict, type(None)),
    "shown": (int, float),
    "p": (float, type(None)),
    "test": (str, type(None)),
    "mann_whitney_p": (float, type(None)),
    "paired": (bool, type(None)),
    "verdict": (str, type(None)),
}
MEASURED = {
    "values": list,
    "mean": (int, float),
    "stddev": (int, float, type(None)),
    "stddev_percent": (int, float, type(None)),
}


def check_fields(data: dict[str, Any], fields: dict[str, Any]) -> None:
    assert data.keys() == fields.keys()
    for name, kind in fields.items():
        assert isinstance(data[name], kind), name


def check_schema(data: dict[str, Any]) -> None:
    """Check that ``compare --json`` is as ``render.compare_exports`` documents it."""
    fields = {"tool_version": str, "alpha": float, "confidence": float, "seed": int}
    check_fields(data, {**fields, "resamples": int, "tables": list, "texts": list})
    for text in data["texts"]:
        check_fields(text, {"file": str, "unread": list, "prose": list})
        for one in text["unread"]:
            check_fields(one, {"line": int, "text": str, "reason": str})
    for table in data["tables"]:
        check_table(table)


def check_table(table: dict[str, Any]) -> None:
    check_fields(table, {"caption": str, "sides": list, "metrics": list, "hidden_metrics": int})
    for one in table["sides"]:
        fields = {"label": str, "title": str, "source": str, "runs": int, "notes": list}
        check_fields(one, fields)
    for metric in table["metrics"]:
        fields = {"name": str, "in_points": bool, "measured": list, "changes": list}
        check_fields(metric, fields)
        assert len(metric["measured"]) == len(table["sides"]) == len(metric["changes"]) + 1
        for measured in filter(None, metric["measured"]):
            check_fields(measured, MEASURED)
        for change in filter(None, metric["changes"]):
            check_fields(change, CHANGE)
            assert change["difference"].keys() == ESTIMATE
            assert change["relative"] is None or change["relative"].keys() == ESTIMATE
            assert change["verdict"] in (None, "real", "noise", "too few runs")
            assert change["test"] in (None, "Mann-Whitney", "signed-rank")


def test_json_keeps_its_schema(recordings: list[str], tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text("Hello,\n\n" + ZERO_DAY + "\n" + ARRAYS + "\n" + ROUNDS + "\n    1 -2.0% 3 x\n")
    for arguments in (recordings, [str(mail)], [f"{mail}:1", recordings[0]]):
        data = json.loads(shown(*arguments, "--json"))
        check_schema(data)
        assert data["resamples"] == RESAMPLES
        assert bool(data["texts"]) == (arguments is not recordings)


_values = st.lists(st.floats(-1e100, 1e100).filter(lambda one: one == 0 or abs(one) > 1e-99))
_sides = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b%", "perf-profile.c", "\x1b[31m|<b>\u202e,\n", '"=1+1']),
        _values.filter(bool).map(lambda values: Measurement(tuple(values[:6]))),
        max_size=3,
    ).map(lambda metrics: Side("\x1b]0;evil\x07", metrics, "title\n", notes=("\x9bnote",))),
    min_size=2,
    max_size=3,
)


@given(_sides)
@settings(max_examples=60, deadline=None)
def test_every_rendering_takes_anything_and_is_harmless(sides: list[Side]) -> None:
    comparison = compare_sides(sides)
    check_schema(json.loads(json_text([comparison], {})))
    for lines in (
        comparison_lines([comparison], PIPE),
        lkp_lines(comparison, PIPE),
        csv_lines([comparison]),
        markdown_lines(comparison),
        json_text([comparison], {}).splitlines(),
    ):
        for line in lines:
            assert line.isprintable()


# The command.


def test_two_recordings(recordings: list[str]) -> None:
    text = shown(*recordings)
    line = next(line for line in text.splitlines() if " wall_s " in line)
    assert line.startswith("      2.41           -12.0%       2.12        wall_s  ")
    assert line.endswith("  0.008  real")
    assert "# base      before: 5 runs of usemem -t 4 1g on 6.1.0-37-amd64" in text
    assert "seed 1" in text


def test_two_recordings_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = []
    for name in WALL:
        (tmp_path / name).mkdir()
        paths.append(written(tmp_path / name / "faultprof.fprof", five_runs(name)))
    data = json.loads(shown(*paths, "--json"))
    assert [one["label"] for one in data["tables"][0]["sides"]] == [
        str(tmp_path / name / "faultprof") for name in WALL
    ]


def test_the_threads_table_character_for_character(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(ZERO_DAY)
    assert shown(str(mail), "--lkp").splitlines() == [*HEADING, *ROWS]
    text = shown(str(mail)).splitlines()
    assert [line for line in text if not line.startswith("#")] == [*HEADING, *ROWS]


def test_the_threads_arrays_and_rounds(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(ARRAYS + "\n" + ROUNDS)
    arrays, rounds = json.loads(shown(str(mail), "--json"))["tables"]
    assert arrays["metrics"][0]["changes"][0]["verdict"] == "noise"
    measured = {
        metric["name"]: [one["mean"] for one in metric["measured"]] for metric in rounds["metrics"]
    }
    assert measured == {
        "N=1": [58, 62.8, 176.8],
        "N=100": [10516.8, 11098.4, 39563.4],
        "N=512": [55520.4, 60001.4, 157006.6],
    }
    verdicts = [[one["verdict"] for one in metric["changes"]] for metric in rounds["metrics"]]
    assert verdicts == [["noise", "real"], ["real", "real"], ["real", "real"]]


def test_sides_of_a_text_are_addressed(tmp_path: Path, recordings: list[str]) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(ZERO_DAY + "\n" + ARRAYS)
    data = json.loads(shown(f"{mail}:578d", f"{mail}:4", f"{mail}:2", "--json"))
    (table,) = data["tables"]
    assert [one["source"] for one in table["sides"]] == [f"{mail}:{n}" for n in (1, 4, 2)]
    throughput = next(one for one in table["metrics"] if one["name"].endswith("throughput"))
    assert [one["shown"] for one in throughput["changes"]] == [
        pytest.approx(8.3122, abs=1e-4),
        -27.3,
    ]
    assert failure(str(mail), recordings[0]).message == f"{mail} holds 2 tables"
    assert "has no side 7" in failure(f"{mail}:7", recordings[0]).message
    swapped = json.loads(shown(f"{mail}:2", f"{mail}:1", "--json"))["tables"][0]
    # The table's own change is that from its first column.
    assert swapped["metrics"][1]["changes"][0]["shown"] == pytest.approx(39.147, abs=1e-3)


def test_a_file_with_a_colon_in_its_name(tmp_path: Path) -> None:
    mail = tmp_path / "mail:2"
    mail.write_text(ZERO_DAY)
    assert shown(str(mail), "--lkp").splitlines()[4:] == ROWS
    assert "is one side only" in failure(f"{mail}:1").message


def test_latin_1_mails(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_bytes(ZERO_DAY.encode("latin-1"))
    assert shown(str(mail), "--lkp").splitlines()[4:] == ROWS


def test_unread_lines_are_named_on_standard_error(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(f"Hi,\n\n{ZERO_DAY}>> 12 ± x\n\n\x1b[2J 1 -5.0% 2 y\n")
    result = run(str(mail), "--lkp")
    first, *unread = result.stderr.splitlines()
    assert first == f"{mail}: 1 table in lines 8-15; none in lines 1, 17"
    assert unread == [f"{mail}:15: not read, not a row of this table: 12 ± x"]
    assert result.stdout.splitlines()[4:] == ROWS


def test_filters_and_order(recordings: list[str]) -> None:
    text = shown(
        *recordings, "--changed", "--metric", "usemem.*", "--metric", "*_s", "--sort", "name"
    )
    rows = [line for line in text.splitlines() if line.endswith("  real")]
    assert [line[46:].split()[0] for line in rows] == [
        "on_cpu_s",
        "sys_s",
        "usemem.throughput",
        "wall_s",
    ]
    assert "# hidden    3 of 7 metrics" in text


def test_seed_and_alpha_are_said(recordings: list[str]) -> None:
    text = shown(*recordings, "--seed", "9", "--alpha", "0.005")
    assert "99.5% of the change" in text
    assert "seed 9" in text
    assert "too few runs" in text  # 2/252 is more than 0.005


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--json", "--csv"), "exclude each other", ExitCode.USAGE),
        (("--alpha", "1.5"), "--alpha 1.5 is no probability", ExitCode.USAGE),
        (("--metric", "nothing*"), "no metric matches nothing*", ExitCode.USAGE),
    ],
)
def test_bad_options(
    recordings: list[str], arguments: Sequence[str], message: str, code: ExitCode
) -> None:
    error = failure(*recordings, *arguments)
    assert message in error.message
    assert error.hint
    assert error.exit_code == code


def test_bad_files(tmp_path: Path, recordings: list[str]) -> None:
    prose = tmp_path / "prose.txt"
    prose.write_text("nothing\n>> 12 -3.0% 11 a.b\n")
    assert "(line 2: a row without the rule" in failure(str(prose), recordings[0]).message
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "empty").touch()
    for name in ("binary", "empty", "missing", ""):
        error = failure(str(tmp_path / name), recordings[0])
        assert error.exit_code == ExitCode.BAD_RECORDING
    assert failure(recordings[0]).message == f"{recordings[0]} is one side only"

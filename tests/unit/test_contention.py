"""Contention, whatever its parts: which are opened, what stands for those that are not there."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from faultprof.capture.contention.parts import KINDS, Parts, open_part
from faultprof.capture.contention.quality import judge_contention
from faultprof.capture.contention.setting import Setting
from faultprof.capture.options import RecordOptions
from faultprof.capture.scope import Scope
from faultprof.errors import ExitCode, FaultprofError, unsupported
from faultprof.recording.contention import LOCKS, OCCUPANCY, PARTS
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import report
from faultprof.render.contention.report import section_module
from tests.running import run
from tests.unit.recordings import SESSION, recorded, session_metadata

SETTING = Setting(RecordOptions(Path("x.fprof")), Scope(None), None)


class Fake:
    """A part that notes what is done to it."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def start(self) -> None:
        self.log.append(f"start {self.name}")

    def stop(self) -> dict[str, Any]:
        return {"lost": {}}

    def next_run(self, scope: Scope) -> None:
        self.log.append(f"next {self.name} {scope.pid}")

    def close(self) -> None:
        self.log.append(f"close {self.name}")


def opened(required: tuple[str, ...], log: list[str]) -> Parts:
    """Open all parts, of which this machine cannot do one."""

    def opener(name: str, setting: Setting) -> Fake:
        if name == OCCUPANCY:
            raise unsupported("no probes here", "none")
        return Fake(log, name)

    return Parts(PARTS, required, SETTING, opener)


def test_every_part_has_its_modules() -> None:
    assert tuple(KINDS) == PARTS
    for name, kind in KINDS.items():
        assert callable(import_module(f"faultprof.capture.contention.{kind.module}").open_part)
        section = import_module(section_module(name))
        assert callable(section.lines)
        assert callable(section.as_json)


def test_a_part_that_cannot_be_had_is_left_out_with_its_reason() -> None:
    log: list[str] = []
    parts = opened((), log)
    assert parts.names == PARTS[1:]
    assert parts.missing == {OCCUPANCY: "no probes here"}
    parts.start()
    assert list(parts.stop()) == list(PARTS[1:])
    parts.close()
    parts.close()
    assert log == [f"start {name}" for name in PARTS[1:]] + [
        f"close {name}" for name in reversed(PARTS[1:])
    ]


def test_a_part_that_was_asked_for_by_name_must_work() -> None:
    with pytest.raises(FaultprofError) as raised:
        opened((OCCUPANCY,), [])
    assert raised.value.exit_code == ExitCode.UNSUPPORTED


def test_occupancy_needs_a_trace() -> None:
    with pytest.raises(FaultprofError) as raised:
        open_part(OCCUPANCY, SETTING)
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    assert RecordOptions(Path("x"), contention=(OCCUPANCY,)).wants_trace
    assert not RecordOptions(Path("x"), all_contention=True).wants_trace
    assert not RecordOptions(Path("x"), contention=(LOCKS,)).wants_trace


def test_losses_degrade_and_missing_parts_do_not() -> None:
    ledger = Ledger()
    judge_contention(ledger, [{"locks": {"lost": {"waits_full": 0}}}], {"order": "no probes"})
    assert not ledger.degraded
    assert [note.text for note in ledger.notes] == ["order not recorded: no probes"]
    lossy = {"locks": {"lost": {"waits_full": 2}}}
    judge_contention(ledger, [lossy, {}, lossy], {})
    assert ledger.counters == {"locks_waits_full": 4}
    assert ledger.verdict == "degraded: locks: 4 waits full"


def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    recorded(tmp_path / "faultprof.fprof", SESSION)
    done = run("contention", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in PARTS:
        assert f"{name}: not recorded (record --{name})" in done.stdout
    data = json.loads(run("contention", "--json", cwd=tmp_path).stdout)
    assert [data[name] for name in PARTS] == [None] * len(PARTS)
    assert (data["run"], len(data["runs"])) == (None, 2)
    for key in data:
        assert f"``{key}``" in str(report.__doc__)
    done = run("contention", "--plot", "x.svg", cwd=tmp_path)
    assert (done.returncode, "has no contention to draw" in done.stderr) == (2, True)
    done = run("contention", "--run", "7", cwd=tmp_path)
    assert (done.returncode, "there is no run 7" in done.stderr) == (2, True)


def test_a_run_keeps_what_its_parts_have() -> None:
    info = RunInfo(0, contention={"locks": {"lost": {}}})
    metadata = replace(session_metadata(), runs=(info,))
    again = type(metadata).from_json(json.loads(json.dumps(metadata.to_json())))
    assert again.runs == (info,)
    assert RunInfo.from_json({"index": 0}).contention == {}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_in_a_strange_shape_is_damage(tmp_path: Path, part: str) -> None:
    runs = (RunInfo(0, contention={part: {"no": "such thing"}}), RunInfo(1))
    metadata = replace(session_metadata(), runs=runs)
    recorded(tmp_path / "a.fprof", SESSION, metadata)
    for options in ((), ("--json",)):
        done = run("contention", tmp_path / "a.fprof", *options)
        assert done.returncode == ExitCode.BAD_RECORDING, done.stderr

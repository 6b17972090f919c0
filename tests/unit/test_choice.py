"""What ``record --mode auto`` takes, on machines made of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faultprof.bpf import probing
from faultprof.bpf.probing import Attempt
from faultprof.capture import engines
from faultprof.capture.choice import Choice, choose_mode
from faultprof.capture.options import RecordOptions
from faultprof.capture.schedule import Schedule
from faultprof.capture.scope import Scope
from faultprof.capture.session import Session
from faultprof.errors import FaultprofError, unsupported

WORKS, FAILS = Attempt(True), Attempt(False, "switched off")


def options(**given: Any) -> RecordOptions:
    return RecordOptions(Path("unused"), **given)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a machine that can trace, as far as files tell."""
    for name in (
        "sys/bus/event_source/devices/kprobe/type",
        "sys/kernel/tracing/events/enable",
        "sys/kernel/tracing/available_filter_functions",
        "sys/kernel/btf/vmlinux",
        "proc/filesystems",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\ttracefs\n")
    return tmp_path


def attempts(monkeypatch: pytest.MonkeyPatch, kprobe: Attempt, fentry: Attempt) -> None:
    monkeypatch.setattr(probing, "try_kprobe", lambda _: kprobe)
    monkeypatch.setattr(probing, "try_fentry", lambda _: fentry)


@pytest.mark.parametrize(
    ("kprobe", "fentry", "why_not"),
    [
        (WORKS, WORKS, ""),
        (WORKS, FAILS, ""),
        (FAILS, WORKS, ""),
        (FAILS, FAILS, "kprobes do not work: switched off"),
    ],
)
def test_auto_traces_where_an_attempt_succeeds(
    machine: Path, monkeypatch: pytest.MonkeyPatch, kprobe: Attempt, fentry: Attempt, why_not: str
) -> None:
    attempts(monkeypatch, kprobe, fentry)
    assert choose_mode(options(), machine) == Choice(not why_not, why_not)


@pytest.mark.parametrize(
    ("missing", "why_not"),
    [
        ("sys/bus/event_source/devices/kprobe/type", "this kernel has no kprobes"),
        ("sys/kernel/tracing/available_filter_functions", "tracefs has no available_filter_functi"),
        ("sys/kernel/btf/vmlinux", "this kernel has no BTF"),
    ],
)
def test_auto_samples_where_a_file_says_that_there_are_no_probes(
    machine: Path, monkeypatch: pytest.MonkeyPatch, missing: str, why_not: str
) -> None:
    monkeypatch.delattr(probing, "try_kprobe")  # nothing is tried
    (machine / missing).unlink()
    if missing.endswith("type"):
        (machine / missing).parent.rmdir()
    choice = choose_mode(options(), machine)
    assert not choice.trace
    assert choice.why_not.startswith(why_not)


@pytest.mark.parametrize(
    ("given", "trace"),
    [
        ({"mode": "sample"}, False),
        ({"mode": "sample", "functions": ("do_fault",)}, False),
        ({"mode": "trace"}, True),
        ({"functions": ("do_fault",)}, True),
        ({"presets": ("read",)}, True),
        ({"attach": "kprobe"}, True),
        ({"attach": "auto"}, False),
    ],
)
def test_what_is_asked_for_is_done(given: dict[str, Any], trace: bool, tmp_path: Path) -> None:
    assert choose_mode(options(**given), tmp_path).trace == trace


def test_sampling_imports_nothing_of_the_tracer() -> None:
    code = """
import sys
from pathlib import Path
from faultprof.capture.choice import choose_mode
from faultprof.capture.options import RecordOptions
assert not choose_mode(RecordOptions(Path("x"), mode="sample")).trace
from faultprof.capture import engines, session
tracing = ("tracing", "trace_plan", "resolve", "catalogue", "attachable", "probes")
print(*(name for name in sys.modules if name.rpartition(".")[2] in tracing))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class FakeEngines:
    """Engines that can sample, and trace only if told so."""

    summary = "tracing 3 functions by fentry, sampling at 99 Hz"
    error: FaultprofError | None = None

    def __init__(self, *_: object, trace: bool, **__: object) -> None:
        self.trace = trace
        if trace and self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("given", "choice", "error", "trace", "said"),
    [
        ({}, Choice(True), None, True, [FakeEngines.summary]),
        ({}, Choice(False, "no way"), None, False, ["sampling only, not tracing: no way"]),
        ({"mode": "sample"}, Choice(False), None, False, []),
        (
            {},
            Choice(True),
            unsupported("no BTF", ""),
            False,
            ["sampling only, not tracing: no BTF"],
        ),
    ],
)
def test_what_is_done_is_said(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    choice: Choice,
    error: FaultprofError | None,
    trace: bool,
    said: list[str],
) -> None:
    monkeypatch.setattr(engines, "Engines", FakeEngines)
    monkeypatch.setattr(Session, "_calibration", lambda *_: None)
    monkeypatch.setattr(FakeEngines, "error", error)
    lines: list[str] = []
    session = Session(Schedule((options(**given),)), lines.append, identity=None)
    made: Any = session._engines(Scope(1), choice)
    assert (made.trace, lines) == (trace, said)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"mode": "trace"}, unsupported("no BTF", "")),
        ({"functions": ("f",)}, unsupported("f is inlined", "")),
        ({}, FaultprofError("a usage error", "")),
    ],
)
def test_a_trace_that_was_asked_for_does_not_turn_into_samples(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], error: FaultprofError
) -> None:
    monkeypatch.setattr(engines, "Engines", FakeEngines)
    monkeypatch.setattr(Session, "_calibration", lambda *_: None)
    monkeypatch.setattr(FakeEngines, "error", error)
    session = Session(Schedule((options(**given),)), lambda _: None, identity=None)
    with pytest.raises(FaultprofError, match=error.message):
        session._engines(Scope(1), Choice(True))

"""Every field of every command's --json is documented where the object is made.

The tests of each command check its values and types; here it is that nothing is printed that nobody
has described. Objects whose keys are data (counters, options, names) are listed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from faultprof.render.functions import functions_json
from tests.unit.recordings import SESSION, recorded
from tests.unit.test_calibration import CALIBRATION
from tests.unit.test_catalogue_render import listing
from tests.unit.test_padding import _found
from tests.unit.test_perturbation import WALL, _runs, perturbation
from tests.unit.traces import TRACED, traced

# Objects whose keys are not the command's: what was counted, asked for, or found.
DATA = {"counters", "options", "resolved", "renamed", "metrics", "missing", "settings", "measured"}

Made = Callable[[Path], Any]


def printed(*arguments: str | Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "faultprof", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sampled(directory: Path) -> Path:
    recorded(directory / "sampled.fprof", SESSION)
    return directory / "sampled.fprof"


def with_trace(directory: Path) -> Path:
    traced(directory / "traced.fprof", TRACED)
    return directory / "traced.fprof"


COMMANDS: dict[str, tuple[Made, tuple[str, ...]]] = {
    "report of samples": (
        lambda path: printed("report", sampled(path), "--json"),
        ("render.json", "recording.metadata"),
    ),
    "report of a trace": (
        lambda path: printed("report", with_trace(path), "--json"),
        ("render.json", "render.trace_json", "render.cross_check", "recording.metadata"),
    ),
    "compare": (
        lambda path: printed("compare", sampled(path), with_trace(path), "--json"),
        ("render.compare_exports",),
    ),
    "diff of samples": (
        lambda path: printed("diff", sampled(path), sampled(path), "--json"),
        ("render.diff_json",),
    ),
    "diff of traces": (
        lambda path: printed("diff", with_trace(path), with_trace(path), "--json"),
        ("render.diff_json",),
    ),
    "contention": (
        lambda path: printed("contention", sampled(path), "--json"),
        ("render.contention.report",),
    ),
    "doctor": (lambda _: printed("doctor", "--json"), ("kernel.checks",)),
    "workload list": (lambda _: printed("workload", "list", "--json"), ("cli.workload",)),
    "functions": (lambda _: functions_json(listing("6.1")), ("render.functions",)),
    "calibrate": (lambda _: CALIBRATION.to_json(), ("cli.calibrate",)),
    "perturb": (
        lambda _: perturbation(WALL, _runs(lambda us: 1 + 0.1 * us, noise=0.01)).to_json(),
        ("analysis.perturbation",),
    ),
    "calibrate --verify": (lambda _: _found(2.0, 0.1, 0.1).to_json(), ("analysis.padding",)),
}


def fields(data: Any) -> Iterator[str]:
    """Yield the keys of an object and of all below it, apart from those that are data."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield name
            if name not in DATA:
                yield from fields(value)
    elif isinstance(data, list):
        for value in data:
            yield from fields(value)


def documented(module: str) -> set[str]:
    """Return the words that a module's docstring, or those of its classes, mark as code."""
    module_ = import_module(f"faultprof.{module}")
    classes = [one for one in vars(module_).values() if isinstance(one, type)]
    text = "\n".join(one.__doc__ or "" for one in [module_, *classes])
    words = set(re.findall(r"``\"?(\w+)\"?(?=[`: ])", text))
    words |= set(re.findall(r"\"(\w+)\"", text))
    return words | {
        name.strip()
        for names in re.findall(r"^ +((?:\w+, )*\w+): ", text, re.M)
        for name in names.split(",")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_is_documented(command: str, tmp_path: Path) -> None:
    make, modules = COMMANDS[command]
    found = set(fields(json.loads(json.dumps(make(tmp_path)))))
    known = set().union(*(documented(module) for module in modules))
    assert found - known == set()

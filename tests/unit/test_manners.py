"""What all commands have in common: examples, manual pages, completion, and silence."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from faultprof.cli.completion import FILES, VARIABLE
from faultprof.cli.manual import manual
from faultprof.render.manual import Page, page_lines
from tests.running import run
from tests.unit.recordings import SESSION, recorded

MANUAL = manual()
COMMANDS = [name for name in MANUAL if name not in ("faultprof.1", "faultprof-workload.1")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples(name: str) -> None:
    command = name.removesuffix(".1").replace("-", " ")
    examples = MANUAL[name].partition(".EX\n")[2].partition("\n.EE")[0].replace("\\-", "-")
    assert f"{command}" in examples


def test_pages_say_what_help_says() -> None:
    page = re.sub(r"\\-", "-", MANUAL["faultprof-flame.1"])
    said = run("flame", "--help").stdout
    for option in re.findall(r"^  (--[\w-]+)", said, re.MULTILINE):
        assert f"{option}" in page
    assert "faultprof\\-flame\\fR(1)" in MANUAL["faultprof.1"]


def test_pages_have_no_macros_of_their_own() -> None:
    """Lines that begin with a dot or an apostrophe would be read as macros."""
    hostile = Page("x", "\\fBbold", "", [".so /etc/passwd", "'br", 'a "b" -c'], examples=[".rm"])
    known = {".TH", ".SH", ".B", ".PP", ".TP", ".EX", ".EE"}
    for text in ("\n".join(page_lines(hostile, "1")), *MANUAL.values()):
        macros = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
        assert macros <= known
    lines = list(page_lines(hostile, "1"))
    assert "\\&.so /etc/passwd" in lines
    assert "\\(aqbr" in lines
    assert "x \\- \\efBbold" in lines


@pytest.mark.parametrize("shell", FILES)
def test_scripts_for_shells(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert f"{VARIABLE}=complete_{shell}" in done.stdout


def test_completion_answers() -> None:
    asked = {**os.environ, VARIABLE: "complete_bash", "COMP_WORDS": "faultprof fl"}
    done = run(env={**asked, "COMP_CWORD": "1"})
    assert (done.returncode, done.stdout.split()) == (0, ["flame"])


def test_quiet_says_nothing_but_errors(tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    done = run("--quiet", "flame", "a.fprof", "-o", "x.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("--quiet", "flame", "none.fprof", cwd=tmp_path)
    assert (done.returncode, "there is no recording" in done.stderr) == (4, True)

"""Manual pages in the man macros, from help texts.

Knows: the sections of a page, and what must be escaped in them (man(7), groff(7)).
Leaves to others: which commands there are and what they say (``cli.manual``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_EXIT_STATUS = (
    ("0", "success; of record, whatever status the recorded command ended with"),
    ("2", "bad usage"),
    ("3", "this machine cannot do that; the reason and the remedy are said"),
    ("4", "a bad recording, or one of a newer version"),
    ("5", "recorded, but the data are degraded and --strict was given"),
)
_FILES = (("faultprof.fprof", "the recording that commands write and read without other names"),)


@dataclass(frozen=True, slots=True)
class Page:
    """What a manual page says.

    Args:
        name: such as ``faultprof-flame``.
        short: in one line.
        usage: what stands behind the name in the synopsis.
        paragraphs: the description.
        arguments: name and help of each.
        options: likewise.
        commands: name and help of each command below it.
        examples: command lines.
        see_also: further pages.
    """

    name: str
    short: str
    usage: str
    paragraphs: Sequence[str]
    arguments: Sequence[tuple[str, str]] = ()
    options: Sequence[tuple[str, str]] = ()
    commands: Sequence[tuple[str, str]] = ()
    examples: Sequence[str] = ()
    see_also: Sequence[str] = ()


def page_lines(page: Page, version: str) -> Iterator[str]:
    """Yield the lines of a page of section 1."""
    yield f'.TH "{escaped(page.name.upper())}" 1 "" "faultprof {escaped(version)}" "faultprof"'
    yield ".SH NAME"
    yield f"{escaped(page.name)} \\- {escaped(page.short)}"
    yield ".SH SYNOPSIS"
    yield f".B {escaped(page.name.replace('-', ' '))}"
    yield text_line(page.usage)
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(page.paragraphs):
        if number:
            yield ".PP"
        yield text_line(" ".join(paragraph.split()))
    yield from _listed("ARGUMENTS", page.arguments)
    yield from _listed("COMMANDS", page.commands)
    yield from _listed("OPTIONS", page.options)
    yield from _examples(page.examples)
    yield from _listed("EXIT STATUS", _EXIT_STATUS)
    yield from _listed("FILES", _FILES)
    if page.see_also:
        yield ".SH SEE ALSO"
        yield ", ".join(f"\\fB{escaped(name)}\\fR(1)" for name in page.see_also)


def _listed(title: str, entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for number, (name, text) in enumerate(entries):
        if not number:
            yield f".SH {title}"
        yield ".TP"
        yield f"\\fB{escaped(name)}\\fR"
        yield text_line(" ".join(text.split()))


def _examples(examples: Sequence[str]) -> Iterator[str]:
    if not examples:
        return
    yield ".SH EXAMPLES"
    yield ".EX"
    yield from (text_line(example) for example in examples)
    yield ".EE"


def escaped(text: str) -> str:
    """Return text that stands for itself: no macros, and hyphens that can be copied."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")


def text_line(text: str) -> str:
    """Return a line of text; one that begins with a dot is no macro."""
    return ("\\&" if text.startswith(".") else "") + escaped(text)

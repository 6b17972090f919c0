"""What became of the lines of an imported text.

Knows: how to say what was read, what could not be, and where nothing was found.
Leaves to others: reading (``analysis.lkp_table``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultprof.analysis.mail_text import ImportedText
from faultprof.render.terminal import sanitise

_LONGEST = 60  # characters of an unread line that are shown


def account_lines(name: str, text: ImportedText) -> Iterator[str]:
    """Yield one line for the whole of file ``name``, and one per thing that could not be read."""
    file = sanitise(name)
    spans = [(table.first_line, table.last_line) for table in text.tables]
    count = len(spans)
    read = f"{count} table{'s' * (count != 1)} in lines {_ranges(spans)}"
    rest = f"; none in lines {_ranges(text.prose)}" if text.prose else ""
    yield f"{file}: {read}{rest}"
    for one in text.unread:
        shown = sanitise(one.text)
        shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
        yield f"{file}:{one.line}: not read, {one.reason}: {shown}"


def _ranges(spans: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)

"""What became of the lines of an imported text.

Knows: how to say what was read, what could not be, and where nothing was found.
Leaves to others: reading (``analysis.lkp_table``, ``analysis.imports``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultprof.analysis.imports.account import Account
from faultprof.analysis.mail_text import ImportedText, Unread
from faultprof.render.terminal import sanitise

_LONGEST = 60  # characters of an unread line that are shown
_MOST_SHOWN = 50  # unread lines that are named; the recording holds more


def account_lines(name: str, text: ImportedText) -> Iterator[str]:
    """Yield one line for the whole of file ``name``, and one per thing that could not be read."""
    file = sanitise(name)
    spans = [(table.first_line, table.last_line) for table in text.tables]
    count = len(spans)
    read = f"{count} table{'s' * (count != 1)} in lines {_ranges(spans)}"
    rest = f"; none in lines {_ranges(text.prose)}" if text.prose else ""
    yield f"{file}: {read}{rest}"
    yield from _unread_lines(file, text.unread)


def import_lines(name: str, account: Account, held: Iterable[str]) -> Iterator[str]:
    """Yield what ``import`` says: the lines of file ``name`` that it could not read, and a sum.

    Args:
        name: the file.
        account: what became of its lines.
        held: what was found in them, in words.
    """
    file = sanitise(name)
    yield from _unread_lines(file, account.unread[:_MOST_SHOWN])
    more = account.unread_lines - min(len(account.unread), _MOST_SHOWN)
    if more:
        yield f"{file}: {more} more lines that could not be read"
    rest = f"; no figures in lines {_ranges(account.prose)}" if account.prose else ""
    yield f"{file}: {account.lines:,} lines: {', '.join(held)}{rest}"


def _unread_lines(file: str, unread: Iterable[Unread]) -> Iterator[str]:
    for one in unread:
        shown = sanitise(one.text)
        shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
        yield f"{file}:{one.line}: not read, {one.reason}: {shown}"


def _ranges(spans: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)

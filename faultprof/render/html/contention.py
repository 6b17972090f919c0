"""What was recorded of contention: its pictures, and each part's report.

Knows: where a part's text and the figure of all go on a page.
Leaves to others: the parts (``render.contention``), their panels (``render.plots.contention``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.selection import Selection
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.contention import PARTS, YIELD
from faultprof.recording.reader import Recording
from faultprof.render.contention.report import part_lines, part_title, runs_with
from faultprof.render.embed import escaped
from faultprof.render.html.elements import long_text, picture
from faultprof.render.terminal import Terminal


def contention_html(
    recordings: Sequence[Recording], labels: Sequence[str], selection: Selection
) -> str:
    """Return what there is of contention but fault-around's yield; nothing where nothing was.

    Raises:
        FaultprofError: exit code 4, when what a part has left is not what it writes.
    """
    return "".join(_of_all(recordings, labels, selection, [one for one in PARTS if one != YIELD]))


def yield_html(recordings: Sequence[Recording], labels: Sequence[str], selection: Selection) -> str:
    """Return what fault-around was good for; nothing where nobody looked.

    Raises:
        FaultprofError: as :func:`contention_html`.
    """
    return "".join(_of_all(recordings, labels, selection, [YIELD]))


def _of_all(
    recordings: Sequence[Recording],
    labels: Sequence[str],
    selection: Selection,
    names: Sequence[str],
) -> Iterator[str]:
    for recording, label in zip(recordings, labels, strict=True):
        there = [name for name in names if runs_with(name, recording, selection)]
        if not there:
            continue
        if len(recordings) > 1:
            yield f"<h3>{escaped(label)}</h3>\n"
        yield _figure(recording, selection, there)
        for name in there:
            lines = part_lines(name, recording, selection, Terminal())
            text = "\n".join(map(long_text, lines))
            title = escaped(f"{name}: {part_title(name)}")
            yield f'<div class="part">\n<h3>{title}</h3>\n<pre>{text}</pre>\n</div>\n'


def _figure(recording: Recording, selection: Selection, names: Sequence[str]) -> str:
    """Return the panels of some parts as a picture; nothing where none can be drawn."""
    from faultprof.render.plots.contention import contention_figure
    from faultprof.render.plots.style import file_of, styled

    try:
        with styled():
            svg = file_of(contention_figure(recording, selection, names), "svg")
    except FaultprofError as error:
        if error.exit_code != ExitCode.USAGE:
            raise
        return ""
    return picture(svg, f"plots of {', '.join(names)}")

"""What delays did to the command: a picture, and its report.

Knows: where they go on a page.
Leaves to others: the figures (``analysis.perturbation``), the report (``render.perturbation``).
"""

from __future__ import annotations

from collections.abc import Sequence

from faultprof.analysis.perturbation_file import SavedPerturbation
from faultprof.render.html.elements import long_text, picture
from faultprof.render.perturbation import perturbation_lines
from faultprof.render.terminal import Terminal


def perturbations_html(saved: Sequence[SavedPerturbation]) -> str:
    """Return all perturbations, one below the other."""
    from faultprof.render.plots.doses import Titled, doses_figure
    from faultprof.render.plots.style import file_of, styled

    pieces = []
    for one in saved:
        with styled():
            svg = file_of(doses_figure([Titled(one.delayed, one.found)]), "svg")
        head = {"command": one.command, "delayed": one.delayed}
        lines = perturbation_lines(one.found, head, None, Terminal())
        text = "\n".join(map(long_text, lines))
        pieces.append(f"{picture(svg, f'dose and response of {one.delayed}')}<pre>{text}</pre>\n")
    return "".join(pieces)

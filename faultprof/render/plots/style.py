"""How plots look, in one place: sizes, letters, lines, colours, and the files they become.

Knows: matplotlib.
Leaves to others: what is plotted; colours stand in ``render.palette``.

Made for print on white: dark lines, no background, 8 point letters at the width of a text column
and a half. Series differ in colour and in the style of their line, so that a grey print still
tells them apart. matplotlib is imported when a plot is drawn; it takes most of a second.

Text is drawn as it is: ``$`` in a name begins no formula, and a leading ``_`` hides no entry of a
legend, as it otherwise would. A user's matplotlibrc does not count.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faultprof.errors import FaultprofError
from faultprof.render.embed import shown
from faultprof.render.palette import SERIES
from faultprof.render.terminal import UNICODE
from faultprof.render.units import prose

FORMATS = (".png", ".svg", ".pdf")
LINES = ("-", "--", ":", "-.")
WIDTH = 6.4  # inches
GREY = "#666666"
_DPI = 200
_FEW_DECADES = 1000
_LONGEST = 60  # letters of a name
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "savefig.dpi": _DPI,
    "svg.fonttype": "none",  # text stays text: small, and found by search
    "svg.hashsalt": "faultprof",  # the same picture from the same recording
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


def format_of(path: Path) -> str:
    """Return ``png``, ``svg`` or ``pdf``.

    Raises:
        FaultprofError: exit code 2, when the suffix is none of these.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise FaultprofError(
            f"{path} is neither {', '.join(FORMATS[:-1])} nor {FORMATS[-1]}",
            "name such a file with -o",
        )
    return suffix[1:]


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Plot in this style, whatever matplotlib is set to."""
    # What it has to tell, such as that it builds a list of fonts, is no user's business.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(height: float, width: float = WIDTH) -> Any:
    """Return a figure, its size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def file_of(figure: Any, kind: str) -> bytes:
    """Return a figure as a file of the kind ``png``, ``svg`` or ``pdf``."""
    # Without a date, the same recording gives the same file.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of letters that the font lacks
        figure.savefig(file, format=kind, metadata=dates[kind])
    return file.getvalue()


def brief(text: str) -> str:
    """Return a name harmless, and short enough to leave room for the plot."""
    text = shown(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def colour(number: int) -> str:
    """Return the colour of the n-th series."""
    return SERIES[number % len(SERIES)]


def time_axis(axis: Any) -> None:
    """Make an axis one of nanoseconds on a logarithmic scale, with units at its marks.

    Call it once the axis has its limits: of a short one more marks are named.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    marks = (1, 2, 5) if high / low < _FEW_DECADES else (1,)
    axis.set_major_locator(LogLocator(base=10, subs=marks))
    axis.set_major_formatter(FuncFormatter(_time_mark))
    axis.set_minor_formatter(NullFormatter())


def _time_mark(ns: float, _: int) -> str:
    """Return a time without the zeros behind its point: 1 µs, 0.5 ns."""
    if ns < 1:
        return f"{ns:g} ns"
    number, unit = prose(round(ns), UNICODE).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def legend(axes: Any, handles: Sequence[Any], texts: Sequence[str], **where: Any) -> None:
    """Draw a legend; the texts may begin with anything."""
    if not handles:
        return
    entries = axes.legend(handles, ["x"] * len(handles), **where).get_texts()
    for entry, text in zip(entries, texts, strict=True):
        entry.set_text(text)

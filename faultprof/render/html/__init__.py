"""A recording, or what changed between two, as one page that opens from disk without a network.

Knows: which sections there are and in which order.
Leaves to others: the sections (modules of their names), flame graphs
(``render.flame``), foldable tables (``assets/report.js``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.perturbation_file import SavedPerturbation
from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure, measure_of, weigh_all
from faultprof.recording.reader import Recording
from faultprof.render.embed import asset, escaped
from faultprof.render.flame import FlameSide, command_of, drawable, page_start, svg_pieces
from faultprof.render.html.about import about_html, lacks_html
from faultprof.render.html.calibration import calibration_html
from faultprof.render.html.contention import contention_html, yield_html
from faultprof.render.html.functions import functions_html
from faultprof.render.html.perturbation import perturbations_html
from faultprof.render.html.runs import comparison_html, runs_html

MOST_NODES = 50_000  # what the table and the flame graph hold; about 2 MB

_TREE = """
<div class="tools">
<input type="search" id="tree-find" placeholder="find: regular expression"
 aria-label="find functions in the tree">
<button type="button" id="tree-hot">Hottest path</button>
<button type="button" id="tree-all">Unfold all</button>
<button type="button" id="tree-none">Fold all</button>
<output id="tree-status"></output>
</div>
<div id="tree" class="tree" tabindex="0" role="treegrid" aria-label="call tree"></div>
<noscript>The table that unfolds needs scripts; the picture above does not.</noscript>
"""


def page_pieces(
    recordings: Sequence[Recording],
    labels: Sequence[str],
    selection: Selection,
    measure: Measure | None = None,
    perturbations: Sequence[SavedPerturbation] = (),
) -> Iterator[str]:
    """Yield the page of one recording, or of two: before and after.

    ``perturbations`` are what delays did to its command.

    Raises:
        FaultprofError: exit code 2, when they do not have what is asked for.
    """
    measure = measure or measure_of(recordings)
    graph = drawable(weigh_all(recordings, selection, measure), selection, MOST_NODES)
    sides = [FlameSide(one.metadata, text) for one, text in zip(recordings, labels, strict=True)]
    title = command_of(sides[-1].metadata)
    yield page_start(f"faultprof: {title}", asset("flame.css") + asset("report.css"))
    yield f"<main>\n<h1>{escaped(title)}</h1>\n"
    yield about_html(recordings, labels)
    if len(recordings) > 1:
        yield _section("comparison", "Comparison", comparison_html(recordings, labels))
    yield '<section id="flame">\n<h2>Flame graph</h2>\n<div class="flame">\n'
    yield from svg_pieces(graph, sides, selection, head=False, histograms=True)
    yield "</div>\n</section>\n"
    yield _section("calltree", "Call tree", _TREE)
    for name, title, content in (
        ("contention", "Contention", contention_html(recordings, labels, selection)),
        ("yield", "Fault-around", yield_html(recordings, labels, selection)),
        ("perturbation", "Delays on purpose", perturbations_html(perturbations)),
        ("functions", "Functions", functions_html(recordings, labels, selection, measure)),
        ("runs", "Metrics over runs", runs_html(recordings, labels)),
        ("calibration", "What the probes cost", calibration_html(recordings, labels)),
    ):
        if content:
            yield _section(name, title, content)
    yield _section("lacks", "What is not here", lacks_html(recordings, labels))
    yield f"</main>\n<script>\n{asset('flame.js')}</script>\n"
    yield f"<script>\n{asset('report.js')}</script>\n</body>\n</html>\n"


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}">\n<h2>{escaped(title)}</h2>\n{content}</section>\n'

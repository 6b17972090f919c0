"""A perturbation as text, and as a plot.

Knows: the table from dose to metric, and the verdict in a sentence.
Leaves to others: the figures (``analysis.perturbation``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from faultprof.analysis.perturbation import Dose, Perturbation, Verdict
from faultprof.analysis.statistics import Estimate
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.units import prose, three_digits

_MEANING = {
    Verdict.CRITICAL: "a delay in it makes the command slower",
    Verdict.NO_EFFECT: "a delay in it does not change the metric",
    Verdict.ANOMALY: "a delay in it makes the command faster: look for contention behind it",
    Verdict.UNDECIDED: "the runs differ too much: more repeats, or larger delays",
}


def perturbation_lines(
    found: Perturbation, head: dict[str, str], cost: Estimate | None, terminal: Terminal
) -> Iterator[str]:
    """Yield the report.

    Args:
        found: the result.
        head: what stands above it: command, functions, seed.
        cost: ns that a call takes; None when nobody looked.
        terminal: what the output can show.
    """
    for key, text in head.items():
        yield from entry(key, text, terminal)
    yield from entry("calls", _calls(found), terminal)
    if found.missed:
        text = f"{found.missed:,} calls were not delayed as they should have been"
        yield from entry("caution", text, terminal)
    yield "#"
    yield from _table(found, terminal)
    yield ""
    unit = f"{found.metric.unit}/{terminal.glyphs.micro}s".lstrip("/")
    yield f"slope    {_signed(found.fit.slope)} {unit} of delay"
    yield from _verdict(found)
    if cost is not None:
        yield from _extrapolation(found, cost, terminal)


def _calls(found: Perturbation) -> str:
    cpus = f"{found.parallel:.2g}"
    return f"{found.calls:,.0f} a run to be delayed, spread over {cpus} CPU" + "s" * (cpus != "1")


def _table(found: Perturbation, terminal: Terminal) -> Iterator[str]:
    base = found.doses[0].metric.value
    name = sanitise(found.metric.name) + (f" ({found.metric.unit})" if found.metric.unit else "")
    rows: list[tuple[str, ...]] = [("#  delay", "achieved", "runs", name, "95% interval", "change")]
    rows += [_row(dose, base, terminal) for dose in found.doses]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _row(dose: Dose, base: float, terminal: Terminal) -> tuple[str, ...]:
    one = dose.metric
    change = f"{100 * (one.value / base - 1):+.1f}%" if base else "-"
    achieved = prose(dose.achieved_ns, terminal.glyphs) if dose.delay_ns else "-"
    return (
        prose(dose.delay_ns, terminal.glyphs) if dose.delay_ns else "0",
        achieved,
        str(len(dose.values)),
        number(one.value),
        f"{number(one.low)} to {number(one.high)}",
        change if dose.delay_ns else "",
    )


def _verdict(found: Perturbation) -> Iterator[str]:
    if found.index is None:
        yield f"index    none: nothing is expected of {sanitise(found.metric.name)}"
    else:
        yield f"index    {_signed(found.index)} (1: on the critical path, 0: off it)"
    meaning = _MEANING[found.verdict]
    if not found.calls:
        meaning = "the function was never called, nothing was delayed"
    yield f"verdict  {found.verdict}: {meaning}"


def _extrapolation(found: Perturbation, cost: Estimate, terminal: Terminal) -> Iterator[str]:
    gain, base = found.without(cost), found.fit.intercept.value
    percent = Estimate(*(100 * part / base for part in (gain.value, gain.low, gain.high)))
    low, high = sorted((percent.low, percent.high))
    yield (
        f"if free  a call takes {prose(max(0.0, cost.value), terminal.glyphs)}; at no cost, the "
        f"line leads to {number(base + gain.value)} {found.metric.unit}".rstrip()
        + f" ({percent.value:+.1f}%, {low:+.1f} to {high:+.1f}%)"
    )


def _signed(one: Estimate) -> str:
    return f"{number(one.value)} [{number(one.low)}, {number(one.high)}]"


def number(value: float) -> str:
    """Return a figure with three significant digits, its sign before it."""
    if not math.isfinite(value):
        return "?"
    return "-" * (value < 0) + three_digits(abs(value))


def write_plot(found: Perturbation, title: str, path: Path) -> None:
    """Draw points, intervals, the fitted line and the expected one to a PNG, SVG or PDF file.

    Raises:
        FaultprofError: it cannot be written.
    """
    from faultprof.render.files import write_bytes
    from faultprof.render.plots.doses import Titled, doses_figure
    from faultprof.render.plots.style import file_of, format_of, styled

    suffix = format_of(path)
    with styled():
        content = file_of(doses_figure([Titled(title, found)]), suffix)
    write_bytes(path, [content])

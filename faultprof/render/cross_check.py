"""The trace against the samples beside it: a line for headers, a table, and JSON.

Knows: the words and columns, and the fields of ``cross_check`` in ``faultprof report --json``.
Leaves to others: comparing (``analysis.cross_check``), the header (``trace_header``).

``cross_check`` is null with ``--comm`` (the trace does not know its tasks' names), else an object:
``root``, ``on_cpu_ns`` (traced below it), ``samples`` (in it), ``samples_in_probes`` (of these),
``confidence`` (of all intervals together), ``why_not`` (why nothing is compared; "" where it is)
and ``functions``: for each, ``name``, ``module``, ``resolution``, ``traced_percent``,
``sampled_percent``, ``samples``, ``low_percent`` and ``high_percent`` (the interval of the sampled
share), ``overhead_percent`` (what the calibrated cost of probes may explain) and ``agrees``. What
samples cannot show has null for all but its names and ``traced_percent``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faultprof.analysis.cross_check import CONFIDENCE, Checked, CrossCheck
from faultprof.render.branches import fitted
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.units import NOTHING, prose

_SHOWN = 2  # functions that the line names
_DIGITS = 4  # decimals of a percentage
_FIGURES = 53  # columns to the left of the names
_TITLES = "# traced  sampled          interval   samples"
_MEANING = (
    "shares of the time on the CPU below {root}; interval: what chance leaves open for the sampled "
    "share, {confidence:.0%} for all functions together; MORE, LESS: more or less was traced than "
    "that, by the cost of probes, missed calls, time that a hypervisor took away (no sample is "
    "taken in it), or a tail call (it takes a function off the stack)"
)


def check_text(check: CrossCheck) -> str:
    """Say in a sentence how far the samples bear the trace out."""
    if check.why_not:
        return f"not checked against samples: {check.why_not}"
    compared, apart = len(check.compared), check.disagreeing
    text = (
        f"{compared - len(apart)} of {compared} functions have the share that they have in the "
        f"{check.samples:,} samples below {check.root}, within chance"
    )
    if apart:
        named = ", ".join(_apart(one) for one in apart[:_SHOWN])
        more = f" and {len(apart) - _SHOWN} more" if len(apart) > _SHOWN else ""
        text += f"; not {named}{more} (see --check)"
    return text


def check_lines(check: CrossCheck, terminal: Terminal) -> Iterator[str]:
    """Yield both shares of each function, the largest traced one first."""
    traced = prose(check.on_cpu_ns, terminal.glyphs)
    about = f"{check.samples:,} samples and {traced} of traced time on the CPU in {check.root}"
    yield from entry("compared", check.why_not or about, terminal)
    if check.why_not:
        return
    yield from entry("probes", probes_text(check), terminal)
    meaning = _MEANING.format(root=check.root, confidence=CONFIDENCE)
    yield from entry("columns", meaning, terminal)
    yield "#"
    yield f"{_TITLES:<{_FIGURES}}function"
    for one in check.functions:
        name = fitted(one.frame, terminal.layout_width - _FIGURES, terminal)
        yield f"{_figures(one, check).ljust(_FIGURES)}{name}"


def probes_text(check: CrossCheck) -> str:
    """Say how many samples hit the probes themselves, and what they count for."""
    share = check.in_probes / check.samples if check.samples else 0.0
    return (
        f"{check.in_probes:,} of the {check.samples:,} samples ({share:.0%}) hit the probes "
        f"themselves; they count, as in the trace, for the caller of what is probed"
    )


def check_json(check: CrossCheck) -> dict[str, Any]:
    """Return the object ``cross_check``."""
    return {
        "root": check.root,
        "on_cpu_ns": check.on_cpu_ns,
        "samples": check.samples,
        "samples_in_probes": check.in_probes,
        "confidence": CONFIDENCE,
        "why_not": check.why_not,
        "functions": [_function_json(one, check) for one in check.functions],
    }


def _function_json(one: Checked, check: CrossCheck) -> dict[str, Any]:
    is_compared = one.samples is not None
    figures = {
        "sampled_percent": _percent(_sampled(one, check)),
        "samples": one.samples,
        "low_percent": _percent(one.low),
        "high_percent": _percent(one.high),
        "overhead_percent": _percent(one.overhead),
        "agrees": one.agrees,
    }
    return {
        "name": one.frame.function,
        "module": one.frame.module,
        "resolution": one.frame.resolution,
        "traced_percent": _percent(one.traced),
        **(figures if is_compared else dict.fromkeys(figures)),
    }


def _percent(share: float) -> float:
    return round(100 * share, _DIGITS)


def _sampled(one: Checked, check: CrossCheck) -> float:
    return (one.samples or 0) / check.samples


def _figures(one: Checked, check: CrossCheck) -> str:
    traced = f"{one.traced:8.2%}"
    if one.samples is None:
        return f"{traced}{NOTHING:>9}{NOTHING:>18}{NOTHING:>10}"
    interval = f"{100 * one.low:.2f} to {one.high:.2%}"
    verdict = "" if one.agrees else "MORE" if one.traced > one.high else "LESS"
    return f"{traced}{_sampled(one, check):9.2%}{interval:>18}{one.samples:>10,}  {verdict}"


def _apart(one: Checked) -> str:
    name = sanitise(one.frame.function)
    return f"{name} (traced {one.traced:.2%}, sampled {one.low:.2%} to {one.high:.2%})"

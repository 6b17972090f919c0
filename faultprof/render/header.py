"""The lines above a report: what was measured, how, and how far it can be trusted.

Knows: which of a recording's metadata a reader needs before the first figure.
Leaves to others: the figures (``text``).
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faultprof.analysis.selection import Selection
from faultprof.analysis.tree import CallTree
from faultprof.recording.metadata import IMPORT, Metadata
from faultprof.render.contention.worst import contended_entries
from faultprof.render.terminal import Terminal, sanitise

_INDENT = 12
_INTERRUPTS = (
    "the cpu-clock timer cannot interrupt code that runs with interrupts off: its time is charged "
    "to the instruction that turns them on again"
)


def header_lines(
    metadata: Metadata, tree: CallTree, selection: Selection, terminal: Terminal
) -> Iterator[str]:
    """Yield the header of a report of samples.

    Args:
        metadata: the recording's.
        tree: the chosen tree, not cut.
        selection: how it was chosen.
        terminal: what the output can show.
    """
    for key, text in sampled_entries(metadata, selection):
        yield from entry(key, text, terminal)
    yield from entry("percent", _percent_of(tree, selection), terminal)


def sampled_entries(metadata: Metadata, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield what a header says of a recording of samples."""
    measured = (("mode", _mode(metadata)), ("samples", _samples(metadata, selection)))
    yield from entries(metadata, measured)
    yield from contended_entries(selection.chosen_runs(metadata))
    if metadata.clock == "cpu-clock":
        yield "note", _INTERRUPTS


def entries(metadata: Metadata, measured: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what every header says; ``measured`` is what it says of how that was measured."""
    imported = metadata.mode == IMPORT
    without = "not stated" if imported else "none (a running process, or all)"
    yield "command", shlex.join(metadata.command) or without
    yield "kernel", _kernel(metadata)
    if captured := (metadata.imported or {}).get("captured"):
        yield "recorded", str(captured)
    yield "imported" if imported else "recorded", _origin(metadata)
    yield from measured
    yield "verdict", _verdict(metadata)
    if counted := _counters(metadata):
        yield "counted", counted
    for note in metadata.ledger.notes:
        if note.severity == "info":
            yield "note", note.text


def entry(key: str, text: str, terminal: Terminal) -> list[str]:
    """Return one ``# key  text`` entry, wrapped; ``text`` may come from anywhere."""
    return textwrap.wrap(
        sanitise(text),
        width=max(40, terminal.layout_width),
        initial_indent=f"# {key}".ljust(_INDENT),
        subsequent_indent="#".ljust(_INDENT),
        break_on_hyphens=False,
    ) or [f"# {key}"]


def _percent_of(tree: CallTree, selection: Selection) -> str:
    tasks = f"tasks named {', '.join(selection.comms)}" if selection.comms else ""
    if selection.relative:
        within = ", ".join(part for part in (selection.root, tasks) if part) or "all tasks"
        return f"relative: of the {tree.total:,} samples in {within}"
    shown = f"; shown are {tasks}" if tasks else ""
    return f"absolute: of all {tree.total:,} samples of the recorded processes{shown}"


def _kernel(metadata: Metadata) -> str:
    kernel, cpu = metadata.kernel, metadata.cpu
    cpus = f"{cpu.count} CPU{'s' * (cpu.count != 1)}" if cpu.count else ""
    machine = ", ".join(part for part in (kernel.machine, cpus, cpu.model) if part)
    return f"{kernel.release} ({machine})" if machine else kernel.release


def _origin(metadata: Metadata) -> str:
    host = f" on {metadata.host}" if metadata.host else ""
    return f"{metadata.created}{host} by faultprof {metadata.tool_version}"


def _mode(metadata: Metadata) -> str:
    if metadata.imported is not None:
        return _import(metadata, metadata.imported)
    if not metadata.clock:
        return metadata.mode
    return f"{metadata.mode}, clock {metadata.clock} at {metadata.frequency} Hz"


def _samples(metadata: Metadata, selection: Selection) -> str:
    samples = sum(run.samples for run in selection.chosen_runs(metadata))
    return f"{samples:,} in {runs_text(metadata, selection)}"


def _import(metadata: Metadata, imported: Mapping[str, Any]) -> str:
    """Say what a text was, and what it says of how its samples were taken."""
    source = f"{metadata.mode} of {imported.get('format')} from {imported.get('file')}"
    event = f", event {imported.get('event')}" if imported.get("event") else ""
    return source + event + (f" at {metadata.frequency} Hz" if metadata.frequency else "")


def runs_text(metadata: Metadata, selection: Selection) -> str:
    """Say how many runs are shown, how long they took, and whether they failed."""
    runs = selection.chosen_runs(metadata)
    times = f"wall {sum(run.wall_s for run in runs):.2f} s"
    on_cpu = [run.on_cpu_s for run in runs if run.on_cpu_s is not None]
    if on_cpu:
        times += f", on CPU {sum(on_cpu):.2f} s"
    failed = [run.exit_status for run in runs if run.exit_status]
    if failed and len(runs) == 1:
        times += f", exit status {failed[0]}"
    elif failed:
        times += f", exit status not 0 in {len(failed)} of them"
    if selection.run is not None:
        return f"run {selection.run} of {len(metadata.runs)}, counted from 0 ({times})"
    return f"{len(runs)} run{'s' * (len(runs) != 1)} ({times})"


def _verdict(metadata: Metadata) -> str:
    ledger = metadata.ledger
    return ledger.verdict if ledger.degraded else f"{ledger.verdict}: nothing known to be lost"


def _counters(metadata: Metadata) -> str:
    """Return what was counted; what is 0 has nothing to tell, and --json has it all."""
    counters = metadata.ledger.counters
    return ", ".join(
        f"{name.replace('_', ' ')} {count:,}" for name, count in counters.items() if count
    )

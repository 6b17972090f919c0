"""One side of a comparison: its metrics, each as single values or, from a table, as a mean.

Knows: which metrics a recording's runs have, and which of two sides' runs belong together.
Leaves to others: where sides come from (``sides``, ``lkp_table``) and comparing them
(``comparison``).

Metrics of a recording, one value per run: ``wall_s``, ``user_s``, ``sys_s``, ``on_cpu_s`` (seconds,
see ``RunInfo``), then the run's own named ``metrics`` in alphabetical order. What a run does not
have is missing, never zero.

Runs of two recordings belong together where ``options.interleaved`` of both has the same
``session`` (any text that no other session has) and the same ``blocks`` (for each run, in order,
the number of the block in which it ran): within a block, each side ran once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faultprof.analysis.statistics import deviation, mean
from faultprof.recording.metadata import Metadata, RunInfo

INTERLEAVED = "interleaved"
_LARGEST = 1e100  # between it and its reciprocal, no sum or ratio leaves the range of floats


@dataclass(frozen=True, slots=True)
class Measurement:
    """A metric on one side.

    Args:
        values: of single runs, or empty where only a table's figures are known.
        table_mean: the mean that a table gives.
        table_text: the same as it is printed there.
        table_deviation: the deviation that a table gives, in whole percent; None: at most 2.
        runs: for each value, the run it comes from.
    """

    values: tuple[float, ...] = ()
    table_mean: float = math.nan
    table_text: str = ""
    table_deviation: int | None = None
    runs: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean of the runs."""
        return mean(self.values) if self.values else self.table_mean

    @property
    def deviation(self) -> float | None:
        """Population standard deviation in the metric's unit; None where it is not known."""
        return deviation(self.values) if self.values else None

    @property
    def deviation_percent(self) -> float | None:
        """The deviation in percent of the mean; None where unknown, or the mean is zero.

        From a table it is a whole number, cut off, and nothing up to 2.
        """
        if not self.values:
            return self.table_deviation
        return 100 * deviation(self.values) / self.mean if self.mean else None


@dataclass(frozen=True, slots=True)
class Side:
    """What one column of a comparison shows.

    Args:
        label: short name: a recording's file name, a commit.
        metrics: by name, in the order in which they are to be shown.
        title: what it is, in words.
        source: the file that it was read from.
        notes: what a reader must know before believing it.
        session, blocks: which interleaved session it belongs to, and the block of each run.
        table: names the table that it is a column of; "" for none.
        quoted: changes that the table states, from its first column to this one, by metric and
            as printed: in percent, or in points where the metric is a percentage itself.
    """

    label: str
    metrics: Mapping[str, Measurement]
    title: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    session: str = ""
    blocks: tuple[int, ...] = ()
    table: str = ""
    quoted: Mapping[str, str] = field(default_factory=dict)

    @property
    def most_runs(self) -> int:
        """The largest number of single values that any metric has."""
        return max((len(one.values) for one in self.metrics.values()), default=0)


def usable(value: float) -> bool:
    """Return whether a number can be computed with: finite, and within all reason."""
    return value == 0 or 1 / _LARGEST <= abs(value) <= _LARGEST  # false of nan as well


def in_points(name: str) -> bool:
    """Return whether lkp shows a metric's difference, not its ratio: it is a percentage."""
    return name.endswith("%") or name.startswith("perf-profile")


def side_of_recording(metadata: Metadata, label: str, source: str = "") -> Side:
    """Return the metrics of a recording's runs."""
    runs = metadata.runs
    own = sorted({name for run in runs for name in run.metrics})
    by_name: dict[str, list[float | None]] = {
        "wall_s": [run.wall_s for run in runs],
        "user_s": [_of_command(run, run.user_s) for run in runs],
        "sys_s": [_of_command(run, run.sys_s) for run in runs],
        "on_cpu_s": [run.on_cpu_s or None for run in runs],
    }
    by_name |= {name: [run.metrics.get(name) for run in runs] for name in own}
    measured = {name: _measurement(values) for name, values in by_name.items()}
    measured = {name: one for name, one in measured.items() if one.values}
    session, blocks = interleaving(metadata)
    return Side(
        label=label,
        metrics=measured,
        title=title_of(metadata),
        source=source,
        notes=(*_notes(metadata), *_gaps(measured, len(runs))),
        session=session,
        blocks=blocks,
    )


def _of_command(run: RunInfo, seconds: float) -> float | None:
    """CPU times are those of a command; without one (-p, -a) there are none."""
    return None if run.exit_status is None else seconds


def _measurement(values: Sequence[float | None]) -> Measurement:
    known = [(run, one) for run, one in enumerate(values) if one is not None and usable(one)]
    return Measurement(tuple(one for _, one in known), runs=tuple(run for run, _ in known))


def interleaving(metadata: Metadata) -> tuple[str, tuple[int, ...]]:
    """Return the session in which runs were interleaved, and each one's block; else "" and ()."""
    stated = metadata.options.get(INTERLEAVED)
    if not isinstance(stated, Mapping):
        return "", ()
    session, blocks = stated.get("session"), stated.get("blocks")
    if not isinstance(session, str) or not isinstance(blocks, list):
        return "", ()
    if len(blocks) != len(metadata.runs) or not all(type(block) is int for block in blocks):
        return "", ()
    return session, tuple(blocks)


def title_of(metadata: Metadata) -> str:
    """Say in words how many runs of what were recorded, and on which kernel."""
    if metadata.imported is not None:
        return f"imported {metadata.imported.get('format')}, {metadata.imported.get('file')}"
    count = len(metadata.runs)
    command = " ".join(metadata.command) or "a running process, or all"
    return f"{count} run{'s' * (count != 1)} of {command} on {metadata.kernel.release}"


def _notes(metadata: Metadata) -> list[str]:
    notes = []
    wanted = metadata.options.get("repeat")
    if isinstance(wanted, int) and wanted > len(metadata.runs):
        notes.append(f"cut short: {len(metadata.runs)} of {wanted} runs")
    failed = [run for run in metadata.runs if run.exit_status]
    if failed:
        statuses = ", ".join(sorted({str(run.exit_status) for run in failed}))
        notes.append(f"{len(failed)} of {len(metadata.runs)} runs failed (status {statuses})")
    if metadata.ledger.degraded:
        notes.append(metadata.ledger.verdict)
    return notes


def _gaps(measured: Mapping[str, Measurement], runs: int) -> list[str]:
    return [
        f"{name} is known of {len(one.values)} of {runs} runs"
        for name, one in measured.items()
        if len(one.values) < runs
    ]


def paired_values(
    base: Side, new: Side, name: str
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return a metric's values in the order of their blocks; None where runs do not pair up."""
    if not base.session or base.session != new.session:
        return None
    before, after = _by_block(base, name), _by_block(new, name)
    if before is None or after is None or before.keys() != after.keys():
        return None
    blocks = sorted(before)
    return [before[block] for block in blocks], [after[block] for block in blocks]


def _by_block(side: Side, name: str) -> dict[int, float] | None:
    measured = side.metrics[name]
    if not measured.values:
        return None
    blocks = [side.blocks[run] for run in measured.runs]
    values = dict(zip(blocks, measured.values, strict=True))
    return values if len(values) == len(blocks) else None

"""Tables of metrics in a recording: how those of an imported text are kept, and read back.

Knows: the JSON under ``imported.tables`` of a recording's metadata, in both directions.
Leaves to others: finding tables in a text (``lkp_table``), comparing them (``comparison``).

A table's columns are sides, not runs of one command: a 0-day table gives means only, of as many
commits as it has columns. So they are kept as what they are, and not as a recording's own runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from faultprof.analysis.mail_text import Table
from faultprof.analysis.measurement import Measurement, Side


def tables_to_json(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Return tables as plain JSON data."""
    return [
        {
            "kind": table.kind,
            "caption": table.caption,
            "first_line": table.first_line,
            "last_line": table.last_line,
            "sides": [_side_to_json(side) for side in table.sides],
        }
        for table in tables
    ]


def _side_to_json(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "title": side.title,
        "notes": list(side.notes),
        "quoted": dict(side.quoted),
        "metrics": {name: _measurement_to_json(one) for name, one in side.metrics.items()},
    }


def _measurement_to_json(one: Measurement) -> dict[str, Any]:
    if one.values:
        return {"values": list(one.values)}
    mean = None if math.isnan(one.table_mean) else one.table_mean
    return {"mean": mean, "printed": one.table_text, "deviation_percent": one.table_deviation}


def tables_from_json(data: Any) -> tuple[Table, ...]:
    """Rebuild tables from :func:`tables_to_json`.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
    """
    return tuple(
        Table(
            kind=str(one["kind"]),
            caption=str(one["caption"]),
            sides=tuple(_side_from_json(side) for side in one["sides"]),
            first_line=int(one["first_line"]),
            last_line=int(one["last_line"]),
        )
        for one in data
    )


def _side_from_json(data: Mapping[str, Any]) -> Side:
    return Side(
        label=str(data["label"]),
        title=str(data["title"]),
        notes=tuple(str(note) for note in data["notes"]),
        quoted={str(name): str(text) for name, text in data["quoted"].items()},
        metrics={str(name): _measurement_from_json(one) for name, one in data["metrics"].items()},
    )


def _measurement_from_json(data: Mapping[str, Any]) -> Measurement:
    if "values" in data:
        values = tuple(float(value) for value in data["values"])
        return Measurement(values, runs=tuple(range(len(values))))
    mean, deviation = data["mean"], data["deviation_percent"]
    return Measurement(
        table_mean=math.nan if mean is None else float(mean),
        table_text=str(data["printed"]),
        table_deviation=None if deviation is None else int(deviation),
    )

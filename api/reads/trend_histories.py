"""Which histories a model has: its configurations, how many points each has, and which are alike but for their runtime's version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from domain.comparison.comparison_input import alike_of
from domain.configuration import browser_of, decoded_options
from domain.measured import STATED
from ingest.projection import Tables

__all__ = ["LINE", "WHOLE", "begun", "kin", "measured", "most", "named", "pointed", "undated_of"]

Row = dict[str, Any]
LINE = (
    "configuration",
    "platform",
    "precision",
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "compiled",
    "layout",
    "threads",
    "weights",
    "runtime_version",
    "hardware_count",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
)
WHOLE = ("model_id", "hardware_id", "device", "runtime_name", "workload", "execution")
"""What is read of a configuration for its line, and for what it is alike in."""
_NAMED = """
SELECT {columns}, points, undated FROM (
    SELECT subject, count(*) FILTER (WHERE inside) AS points, count(*) FILTER (WHERE inside AND time IS NULL) AS undated,
        min({{'moment': moment, 'position': position}}) AS first
    FROM (
        SELECT *, coalesce(time, recorded_at) AS moment,
            moment >= coalesce(?, moment) AND moment < coalesce(?, 'infinity'::TIMESTAMPTZ) AS inside
        FROM measurement ANTI JOIN void USING (position)
    )
    WHERE ({there}) AND subject IN (SELECT id FROM subject WHERE {conditions}) GROUP BY subject
) AS counted JOIN subject ON counted.subject = subject.id ORDER BY first
"""
_KIN = """
SELECT DISTINCT configuration, model_id, hardware_id, hardware_count, workload, execution FROM subject SEMI JOIN (
    SELECT model_id, hardware_id, hardware_count, platform, mode FROM subject WHERE model_id = ? AND configuration IN ({chosen})
) AS chosen USING (model_id, hardware_id, hardware_count, platform, mode)
"""
_MEASURED = """
SELECT {counts} FROM (FROM measurement ANTI JOIN void USING (position))
WHERE subject IN (SELECT id FROM subject WHERE model_id = ?)
"""
Window = tuple[datetime | None, datetime | None]


def begun(row: Mapping[str, Any]) -> Row:
    """Return the line of a configuration, without points, from its first row."""
    line = {name: row[name] for name in LINE}
    return line | {
        "hardware": row["hardware_id"],
        "hardware_id": row["hardware_id"],
        "runtime": row["runtime_name"],
        "browser": browser_of(decoded_options(row["execution"]).get("options"))[0],
        "hardware_stated": row["device"] == STATED,
        "alike": alike_of(row),
        "points": [],
    }


def named(
    tables: Tables,
    filters: Mapping[str, Sequence[str] | None],
    columns: Sequence[str],
    window: Window,
    undated: bool = True,
) -> list[Row]:
    """Return the lines of measurements that have one of the columns, by their first points; `count` is of those in the window.

    Those that do not say when they were measured are counted as `undated`, and in `count` where `undated` is true.

    `filters` are on columns of `subject`. No point is read, so that this costs what the answer does and not what there is.
    """
    supplied = {name: values for name, values in filters.items() if values is not None}
    conditions = [
        f"{name} IN ({', '.join('?' * len(values))})" if values else "false" for name, values in supplied.items()
    ]
    statement = _NAMED.format(
        columns=", ".join(f"subject.{name}" for name in (*LINE, *WHOLE)),
        there=" OR ".join(f"{name} IS NOT NULL" for name in columns),
        conditions=" AND ".join(conditions),
    )
    values = [*window, *(value for each in supplied.values() for value in each)]
    lines: dict[str, Row] = {}
    for row in tables.select("measurement void subject", statement, values).to_pylist():
        line = lines.get(row["configuration"]) or lines.setdefault(
            row["configuration"], begun(row) | {"count": 0, "undated": 0}
        )
        line["count"] += row["points"] - (0 if undated else row["undated"])
        line["undated"] += row["undated"]
    return list(lines.values())


def kin(tables: Tables, model: str, configurations: Sequence[str]) -> list[str]:
    """Return these configurations of a model and those that differ from them in the version of their runtime alone."""
    if not configurations:
        return []
    statement = _KIN.format(chosen=", ".join("?" * len(configurations)))
    rows = tables.select("subject", statement, [model, *configurations]).to_pylist()
    alike = {str(row["configuration"]): alike_of(row) for row in rows}
    wanted = {alike[name] for name in configurations if name in alike}
    return sorted(name for name, value in alike.items() if value in wanted)


def measured(tables: Tables, model: str, metrics: Mapping[str, Sequence[str]]) -> list[str]:
    """Return which metrics, by name with the columns that may hold each, some row of a model has."""
    counts = ", ".join(f'count(coalesce({", ".join(columns)})) AS "{name}"' for name, columns in metrics.items())
    (result,) = tables.select("measurement void subject", _MEASURED.format(counts=counts), [model]).to_pylist()
    return [name for name, rows in result.items() if rows]


def most(lines: Iterable[Row], top: int, also: Sequence[str] = ()) -> tuple[list[Row], int]:
    """Return the lines of the `top` histories with the most points, in their order, and how many histories there are.

    `also` are beginnings of the names of others that are kept.
    """
    lines = list(lines)
    counts = _counts(lines)
    kept = {alike for alike in counts if alike.startswith(tuple(also))}
    kept |= set(sorted(counts, key=lambda alike: -counts[alike])[:top])
    return [line for line in lines if line["alike"] in kept], len(counts)


def pointed(lines: Iterable[Row], top: int, chosen: Sequence[str]) -> list[str]:
    """Return the histories whose names begin as `chosen`, or where there are none the `top` with the most points.

    One of a single point is not among those while another has several.
    """
    counts = _counts(lines)
    chosen_histories = [alike for alike in counts if alike.startswith(tuple(chosen))]
    several = [alike for alike, count in counts.items() if count > 1] or list(counts)
    return chosen_histories or sorted(several, key=lambda alike: -counts[alike])[:top]


def undated_of(lines: Iterable[Row]) -> dict[str, int]:
    """Take from each line how many of its points are undated; return them by history, of those that have some."""
    counts: dict[str, int] = {}
    for line in lines:
        number = line.pop("undated")
        if number:
            counts[line["alike"]] = counts.get(line["alike"], 0) + number
    return counts


def _counts(lines: Iterable[Row]) -> dict[str, int]:
    """Return how many points each history has."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line["alike"]] = counts.get(line["alike"], 0) + line["count"]
    return counts

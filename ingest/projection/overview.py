"""All that is known at a glance: counts by family and platform, by the day of the newest measurement, and by failure."""

from __future__ import annotations

from typing import Any

from ingest.projection.tables import Tables

__all__ = ["cells", "failing", "fresh"]

_CELLS = """
SELECT coalesce(family, 'unknown') AS family, platform, count(DISTINCT model_id) AS models,
    count(DISTINCT hardware_id) AS hardware, count(DISTINCT configuration) AS configurations,
    sum(measurements)::BIGINT AS measurements
FROM standing JOIN subject ON standing.subject = subject.id
GROUP BY ALL ORDER BY measurements DESC, family, platform
"""
_FRESH = """
SELECT day, count(*) AS configurations FROM (
    SELECT max(newest AT TIME ZONE 'UTC')::DATE::VARCHAR AS day
    FROM standing JOIN subject ON standing.subject = subject.id GROUP BY configuration
) GROUP BY day ORDER BY day DESC
"""
_FAILING = """
SELECT platform, stage, coalesce(error, outcome) AS error, count(*) AS failures, count(DISTINCT model_id) AS models,
    arg_max(split_part(message, chr(10), 1), position) AS message, arg_max(remedy, position) AS remedy,
    arg_max(model_id, position) AS model, arg_max(event_id, position) AS evidence, max(position) AS position
FROM outcomes WHERE outcome NOT IN ('passed', 'skipped')
GROUP BY platform, stage, coalesce(error, outcome) ORDER BY failures DESC, position DESC LIMIT ?
"""


def cells(tables: Tables) -> list[dict[str, Any]]:
    """Return one row a family and platform with measurements: models, hardware, configurations, measurements; most first."""
    return [dict(row) for row in tables.select("standing subject", _CELLS).to_pylist()]


def fresh(tables: Tables) -> list[dict[str, Any]]:
    """Return by day (UTC, the newest first) how many configurations were measured then for the last time."""
    return [dict(row) for row in tables.select("standing subject", _FRESH).to_pylist()]


def failing(tables: Tables, limit: int) -> list[dict[str, Any]]:
    """Return what fails most often, by platform, stage and error, with the newest example of each."""
    return [dict(row) for row in tables.select("outcomes", _FAILING, [limit]).to_pylist()]

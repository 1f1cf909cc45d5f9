"""The siblings of some rows, looked for in the whole log: what `predictor.learning.siblings` finds in a table, found by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.projection import Tables
from predictor.features.dataset import COLUMNS, Row, row_from_table, taught
from predictor.learning.covariance import MINORS
from predictor.learning.siblings import DOUBLINGS, PER_DOUBLING

__all__ = ["siblings_of"]

NEAREST = 3
"""So many are read of each row: the nearest may be of a device whose figures are not known."""
_VERSION = r"^(\d+)\.(\d+)"
_NEAREST = rf"""
SELECT position FROM (WITH teaching AS (
    SELECT position, hardware_id, coalesce(batch_size, 1) AS batch, coalesce(runtime_version, '') AS version, {{
            'model': model_id, 'mode': coalesce(mode, 'inference'), 'sequence_length': sequence_length, 'image_size': image_size,
            'images': images, 'audio_seconds': audio_seconds, 'frames': frames, 'input_tokens': input_tokens,
            'output_tokens': output_tokens, 'steps': steps, 'platform': coalesce(platform, platform_asked),
            'runtime': coalesce(runtime_name, ''), 'precision': coalesce(precision, ''), 'compiled': coalesce(compiled, false),
            'channels_last': coalesce(lower(layout) IN ('nhwc', 'channels_last'), false)
        }} AS work
    FROM measurements
    WHERE model_id IN (SELECT unnest(?)) AND (verdict = 'valid' OR (verdict = 'suspect' AND origin = 'imported'))
        AND origin IN ('measured', 'imported') AND coalesce(fallback_share, 0) = 0 AND coalesce(concurrency, 1) = 1
        AND coalesce(scenario, '') NOT IN ('serving', 'server') AND coalesce(latency_p50_ms, latency_mean_ms) > 0
), own AS (
    SELECT * FROM teaching WHERE position IN (SELECT unnest(?))
), others AS (
    SELECT work, hardware_id, batch, version, min(position) AS position,
        coalesce(try_cast(regexp_extract(version, '{_VERSION}', 1) AS INTEGER) * {MINORS}
            + try_cast(regexp_extract(version, '{_VERSION}', 2) AS INTEGER), 0) AS steps
    FROM teaching WHERE work IN (SELECT work FROM own) GROUP BY ALL
), of_version AS (
    SELECT DISTINCT version, steps FROM others
), pairs AS (
    SELECT own.position AS of, others.position, abs(log2(own.batch / others.batch)) AS doublings,
        abs(of_version.steps - others.steps) + {PER_DOUBLING} * doublings AS distance
    FROM own JOIN of_version USING (version) JOIN others ON own.work = others.work AND own.hardware_id <> others.hardware_id
    WHERE doublings <= {DOUBLINGS}
)
SELECT DISTINCT unnest(min_by(position, (distance, position), {NEAREST})) AS position FROM pairs GROUP BY of)
"""


def siblings_of(tables: Tables, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the same work on other devices that lie nearest to each of these, by position.

    Of a million rows few are anybody's nearest: the others need not become objects. Of measurements that are alike the first
    counts, so that another repetition changes nothing.
    """
    if not rows:
        return []
    values = [sorted({row.model for row in rows}), [row.position for row in rows]]
    positions = tables.select("measurements", _NEAREST, values).column("position").to_pylist()
    found = tables.view("measurements", {"position": positions}, columns=COLUMNS) if positions else None
    made = map(row_from_table, [] if found is None else found.to_pylist())
    return [row for row in made if row is not None and taught(row, mode=None) is not None]

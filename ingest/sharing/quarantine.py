"""Shared rows that are held back: faster than physics allows, copied, or far from what others measured or is predicted.

A row is held back by a retraction whose reason begins with QUARANTINED, in the transaction that appends the row. Undoing the
retraction releases it. A row is judged by what was measured here, else by the imported rows of the highest trust, if that is
not below its own: a stranger who floods the log holds back nothing but rows of other strangers.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from domain.answers.sharing import HeldRow
from domain.catalogues import language_models, models
from domain.configuration import Configuration
from domain.events import Decoded
from domain.payloads import MeasurementRecorded
from domain.vocabulary import NO_EVIDENCE
from ingest.importers import rules
from ingest.importers.draft import Draft
from ingest.importers.rules.rows import digits
from ingest.sharing.trust import RANKS, Signer, rank

if TYPE_CHECKING:
    from ingest.projection.tables import Tables

__all__ = ["FAR", "QUARANTINED", "Doubt", "Expected", "Predict", "doubts", "held_rows", "physical_doubt"]

QUARANTINED = "quarantined: "
FAR = 3.0
"""Times faster or slower than the nearest row of the same configuration, or than the nearer end of a predicted interval.

The rule `slower-elsewhere` has the same factor: two runs of one configuration differ by some percent, beside other work by
half. An 80 % interval misses one honest row in five, by less than that.
"""
COPIED_DIGITS = 6
"""Two measurements agree in so many digits of a time once in a million."""


class Expected(NamedTuple):
    """What is expected of a configuration: an interval of its latency that measurement supports, and what physics allows."""

    low_ms: float | None
    high_ms: float | None
    floor_ms: float | None


class Doubt(NamedTuple):
    """Why a row is held back: the rule, and what it saw."""

    rule: str
    reason: str


Predict = Callable[[MeasurementRecorded], Expected | None]


def doubts(
    tables: Tables, events: Sequence[Decoded], signers: Mapping[str, Signer], predict: Predict
) -> dict[str, Doubt]:
    """Return by event id why rows are held back; `tables` must not hold these events yet."""
    rows = {event.id: event.data for event in events if isinstance(event.data, MeasurementRecorded)}
    held: dict[str, Doubt] = {}
    keys = {name: _configuration(tables, row) for name, row in rows.items()}
    sources = {event.id: event.source for event in events}
    neighbours = _neighbours(tables, sorted(set(keys.values())), signers)
    for name, row in rows.items():
        least = rank(sources[name], signers)
        others = [other for other in neighbours[keys[name]] if other["source"] != sources[name]]
        highest = max((other["rank"] for other in others), default=least)
        judges = [other for other in others if other["rank"] == highest >= least]
        times = [time for other in judges if (time := _time_of(other)) is not None]
        doubt = physical_doubt(row) or _copied(row, others) or _against_neighbours(row, times)
        if doubt is None and not times:
            doubt = _against_prediction(row, predict)
        if doubt is not None:
            held[name] = doubt
    return held


def physical_doubt(row: MeasurementRecorded) -> Doubt | None:
    """Return why a row cannot be by itself: the rules that importers have, where they call a row invalid."""
    document: dict[str, Any] = msgspec.to_builtins(row)
    model = {**document["model"], "parameters": _parameters(row) or row.model.parameters}
    draft = Draft(
        model=model,
        workload=document["workload"],
        execution=document["execution"],
        hardware=document["hardware"],
        metrics=document["metrics"],
    )
    rules.judge(draft)
    return next((Doubt(item.rule, item.reason) for item in draft.findings if item.verdict == "invalid"), None)


def held_rows(tables: Tables) -> list[HeldRow]:
    """Return the rows that are held back, the newest first."""
    rows = tables.select("retractions measurement subject context", _HELD, [f"{QUARANTINED}%"]).to_pylist()
    return [HeldRow(**{**row, "reason": row["reason"].removeprefix(QUARANTINED)}) for row in rows]


_HELD = """
SELECT m.event_id::VARCHAR AS event_id, s.model_id AS model, s.hardware_id AS hardware, s.platform, s.precision, s.batch_size,
    coalesce(m.latency_p50_ms, m.latency_mean_ms) AS latency_ms, r.reason,
    regexp_extract(c.source, 'ed25519:[0-9a-f]+') AS signer, c.reference AS bundle, r.event_id AS retraction, r.position
FROM retractions AS r JOIN measurement AS m ON m.event_id = try_cast(r.target_event_id AS UUID)
JOIN subject AS s ON m.subject = s.id JOIN context AS c ON m.context = c.id
WHERE r.undone_position IS NULL AND r.reason LIKE ? ORDER BY r.position DESC
"""


def _parameters(row: MeasurementRecorded) -> int | None:
    """Return what the catalogue says of a model's size: a row may say what it likes."""
    known = models.find(row.model.id) or language_models.find(row.model.id)
    return getattr(known, "parameters", None)


def _configuration(tables: Tables, row: MeasurementRecorded) -> str:
    observed = row.observed
    execution = msgspec.structs.replace(
        row.execution,
        platform=(observed and observed.platform) or row.execution.platform,
        precision=(observed and observed.precision) or row.execution.precision,
    )
    return Configuration(
        model=msgspec.structs.replace(row.model, id=tables.resolve_model(row.model.id)),
        workload=row.workload,
        execution=execution,
        hardware=msgspec.structs.replace(row.hardware, id=tables.resolve_hardware(row.hardware.id)),
    ).key


_COLUMNS = (
    "configuration",
    "source",
    "origin",
    "verdict",
    "latency_p50_ms",
    "latency_mean_ms",
    "throughput_per_s",
    "tokens_per_s",
)


def _neighbours(
    tables: Tables, configurations: Sequence[str], signers: Mapping[str, Signer]
) -> Mapping[str, list[dict[str, Any]]]:
    by_configuration: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if configurations:
        for row in tables.view("measurements", {"configuration": configurations}, columns=_COLUMNS).to_pylist():
            if row["origin"] not in NO_EVIDENCE and row["verdict"] != "invalid":
                trust = RANKS["own"] if row["origin"] == "measured" else rank(row["source"], signers)
                by_configuration[row["configuration"]].append({**row, "rank": trust})
    return by_configuration


def _copied(row: MeasurementRecorded, others: Sequence[Mapping[str, Any]]) -> Doubt | None:
    took = _latency(row)
    if took is None or digits(took) < COPIED_DIGITS or all(_time_of(other) != took for other in others):
        return None
    return Doubt("copied", f"{took:.6g} ms stands digit for digit in the row of somebody else")


def _against_neighbours(row: MeasurementRecorded, times: Sequence[float]) -> Doubt | None:
    took = _latency(row)
    if took is None:
        return None
    nearest = min(times, key=lambda value: max(took / value, value / took), default=None)
    if nearest is None or 1 / FAR < took / nearest < FAR:
        return None
    middle = statistics.median(times)
    return Doubt(
        "far-from-neighbours",
        f"{took:.4g} ms, and the same configuration took {nearest:.4g} ms at the nearest in {len(times)} rows (median {middle:.4g})",
    )


def _against_prediction(row: MeasurementRecorded, predict: Predict) -> Doubt | None:
    took = _latency(row)
    expected = None if took is None else predict(row)
    if took is None or expected is None:
        return None
    low, high, floor = expected
    if low is not None and high is not None:
        if low / FAR < took < high * FAR:
            return None
        return Doubt("far-from-predicted", f"{took:.4g} ms, and {low:.4g} to {high:.4g} ms are predicted")
    if floor is not None and took * FAR <= floor:
        return Doubt("beyond-roofline", f"{took:.4g} ms, and peak and bandwidth of the device ask for {floor:.4g} ms")
    return None


def _latency(row: MeasurementRecorded) -> float | None:
    latency = row.metrics.latency_ms
    if latency is not None and (latency.p50 or latency.mean):
        return latency.p50 or latency.mean
    return _inverse(row.metrics.throughput_per_s, row.metrics.tokens_per_s)


def _time_of(row: Mapping[str, Any]) -> float | None:
    took = row["latency_p50_ms"] or row["latency_mean_ms"]
    return took or _inverse(row["throughput_per_s"], row["tokens_per_s"])


def _inverse(throughput: float | None, tokens: float | None) -> float | None:
    """Return ms an item, or a token, where no latency is given."""
    rate = throughput or tokens
    return 1e3 / rate if rate else None

"""Tables of states and levels, of what failed and what to try, and of claims beside evidence: for pages and terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from domain.compatibility.states import NOTHING_SEEN, RULES, works
from presentation import formatting
from presentation.reports.content import Column, Row, Table
from presentation.reports.evidence import evidence_column

__all__ = [
    "claimed_words",
    "contradictions_table",
    "failures_table",
    "figures_table",
    "level_words",
    "levels_table",
    "opposed_table",
]

CLAIMED = "claimed: "
"""What stands before a word that no evidence bears out."""
_SHOWN = 120
"""Characters of a message that a cell shows."""
_RULES = ". ".join(f"{name.capitalize()}: {RULES[name]}" for name in ("high", "medium", "low")) + "."

_METRICS = {
    None: "support",
    "tokens_per_s": "tokens a second",
    "peak_memory_bytes": "peak memory",
    "item_ms": "time of an item",
    "frame_ms": "time of a frame",
    "realtime_factor": "times real time",
    "latency_ms": "latency",
    "first_run_ms": "first run",
    "preprocess_ms": "preprocessing",
    "speedup_low": "least speed-up",
    "speedup_high": "largest speed-up",
}


def _metric(row: Row) -> str:
    return _METRICS[row["metric"]]


def level_words(row: Row) -> str:
    """Write the level, or where nothing was seen what is claimed, so that the two are never taken for each other."""
    if row["state"] in NOTHING_SEEN:
        return claimed_words(row)
    return row.get("level") or "none"


def claimed_words(row: Row) -> str:
    """Write what documents claim of a row: `claimed: high`."""
    return f"{CLAIMED}{row['claimed']}" if row.get("claimed") else formatting.MISSING


def _name(row: Row) -> str:
    return str(row.get("model_id") or row.get("family") or row.get("category") or formatting.MISSING)


def _state(row: Row) -> str:
    states = row.get("states")
    if not states:
        return str(row["state"])
    return f"{row['state']}\n" + ", ".join(f"{n} {state}" for state, n in states.items())


def _seen(row: Row) -> str:
    if not row.get("last_seen"):
        return formatting.MISSING
    day = formatting.date(row["last_seen"]).rpartition(" ")[0].rpartition(" ")[0]
    tries = row.get("tries") or row.get("runs") or 0
    return f"{day}{', stale' if row.get('stale') else ''}\n{tries} tr{'y' if tries == 1 else 'ies'}"


def _stopped(row: Row) -> str:
    if row["state"] in NOTHING_SEEN:
        return ""
    if "states" in row:
        return row.get("stopped") or ""
    if works(row["state"]) or not row.get("stopped_stage"):
        return f"{claimed_words(row)}, which is contradicted" if row.get("contradicted") else ""
    said = f"{row['stopped_stage']}: {row['stopped_error'] or row['stopped_outcome']}"
    return said + (
        f"\n{textwrap.shorten(row['stopped_message'], _SHOWN, placeholder=' …')}" if row["stopped_message"] else ""
    )


def levels_table(rows: Sequence[Row], title: str = "Levels", *, name: str = "levels") -> Table:
    """Return one row a model, family or category and platform: its level, state, speed, age, and what stopped it."""
    heads = {"model_id": "Model", "family": "Family", "category": "Category"}
    head = next(heads[key] for key in heads if any(row.get(key) for row in rows) or key == "category")
    columns = (
        Column("name", head),
        Column("model_id"),
        Column("family"),
        Column("category"),
        Column("platform", "Platform"),
        *(
            (Column("precision", "Precision", lambda row: row.get("precision") or formatting.MISSING),)
            if _by_precision(rows)
            else ()
        ),
        Column("level", "Level", level_words),
        Column("state", "State", _state),
        Column("speedup", "Over the CPU", _speed, figures=True),
        Column("speedup_best"),
        Column("speedup_works"),
        Column("last_seen", "Last tried", _seen),
        Column("runs"),
        Column("tries"),
        Column("age_days"),
        Column("stale"),
        Column("stopped_error", "What stopped it", _stopped),
        Column("stopped_outcome"),
        Column("stopped_stage"),
        Column("stopped_message"),
        Column("stopped_remedy"),
        Column("claimed"),
        Column("claims"),
        Column("contradicted"),
        evidence_column(),
    )
    result = [{**row, "name": _name(row), "evidence": list(row.get("evidence_ids") or ())} for row in rows]
    note = f"{_RULES} Over the CPU: {RULES['speed']}; the largest in brackets. Stale: {RULES['stale']}." + (
        f" Of a family or category: {RULES['family']}." if head != "Model" else ""
    )
    return Table(name, title, columns, result, note)


def _by_precision(rows: Iterable[Row]) -> bool:
    return any("precision" in row and "precisions" not in row for row in rows)


def _speed(row: Row) -> str:
    if row.get("speedup") is None:
        return "yardstick" if row["platform"] == "cpu" and row["state"] not in NOTHING_SEEN else formatting.MISSING
    best = row.get("speedup_best")
    return formatting.factor(row["speedup"]) + (
        f"\n(most {formatting.significant(best)})" if best and best > row["speedup"] else ""
    )


def failures_table(result: Sequence[Row]) -> Table:
    """Return what stopped most models first, with the cause and what to try, of `domain.remedies.failures`."""
    columns = (
        Column("platform", "Platform"),
        Column(
            "error",
            "What stopped it",
            lambda row: f"{row['stage'] or 'run'}: {row['error'] or row['outcome']}\n{row['cause']}",
        ),
        Column("outcome"),
        Column("stage"),
        Column("cause"),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("cells", "Cells", lambda row: formatting.count(row["cells"]), figures=True),
        Column("of", "Of", lambda row: _some(row["of"])),
        Column("advice", "What to try"),
        Column("message"),
        Column("remedy"),
        evidence_column(),
    )
    rows = [{**row, "evidence": row["evidence_ids"]} for row in result]
    return Table("failures", "What failed most, and what to try", columns, rows)


def _some(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(name.rpartition("/")[2] for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _source(row: Row) -> str:
    return f"{row['section']}\n{_edition(row)}"


def _edition(row: Row) -> str:
    """The documents share their title; what tells them apart is in brackets."""
    return str(row["document"]).partition("(")[2].rstrip(")")


def contradictions_table(claims: Iterable[Row]) -> Table:
    """Return the claims that evidence does not bear out, with the events that say so."""
    behinds = [_behind(row) for row in claims if row["verdict"] in ("contradicted", "other level", "exceeded")]
    columns = (
        Column("name", "Named"),
        Column("platform", "Platform"),
        Column("says", "Claimed", lambda row: f"{CLAIMED}{row['says']}"),
        Column("how", "Seen", lambda row: f"{_saw(row)}\n{row['how'].partition('; ')[2]}"),
        Column("verdict", "Verdict"),
        Column("section", "Source", _source),
        Column("document"),
        Column("note"),
        Column("id"),
        evidence_column(),
    )
    return Table("contradictions", "Where claims and evidence disagree", columns, behinds)


def _saw(row: Row) -> str:
    return ", ".join(f"{n} {state}" for state, n in row["states"].items())


def figures_table(claims: Iterable[Row]) -> Table:
    """Return the published figures beside ours, those that were measured here first."""
    rows: list[dict[str, Any]] = [{**_behind(row), "measured_on": row["where"]} for row in claims if row["metric"]]
    rows.sort(key=lambda row: row["ours"] is None)
    columns = (
        Column("name", "Named"),
        Column("platform", "Platform"),
        Column("metric", "Metric", _metric),
        Column(
            "printed",
            "Published",
            lambda row: f"{CLAIMED}{row['printed']}" + ("\nsimulated" if row["simulated"] else ""),
        ),
        Column("value"),
        Column("ours", "Ours", _ours, figures=True),
        Column("ratio", "Ours ÷ theirs", lambda row: formatting.factor(row["ratio"]), figures=True),
        Column("measured_on", "Of what", lambda row: row["measured_on"] or row["how"] or "not measured here"),
        Column("hardware"),
        Column("verdict"),
        Column("note"),
        Column("sizes"),
        Column("opposed_by"),
        Column("id"),
        Column("section", "Source", _source),
        Column("document"),
        evidence_column(),
    )
    note = (
        "No document names the hardware, the precision or the versions behind a figure: a ratio compares different hardware. "
        "Our memory is that of the whole process."
    )
    return Table("figures", "Published figures beside ours", columns, rows, note)


def _ours(row: Row) -> str:
    value, metric = row["ours"], str(row["metric"])
    if value is None:
        return formatting.MISSING
    if metric.endswith("_bytes"):
        return formatting.memory(value)
    return formatting.latency(value) if metric.endswith("_ms") else formatting.significant(value)


def opposed_table(claims: Sequence[Row]) -> Table:
    """Return the claims of which another document says the opposite, each pair once."""
    by_id = {row["id"]: row for row in claims}
    pairs = [
        (row, by_id[other])
        for row in claims
        for other in row["opposed_by"]
        if other in by_id and list(by_id).index(row["id"]) < list(by_id).index(other)
    ]
    result = [
        {
            "name": value["name"],
            "platform": value["platform"],
            "metric": value["metric"],
            "one": _word(value),
            "other": _word(other),
            "where": _source(value),
            "against": _source(other),
        }
        for value, other in pairs
    ]
    columns = (
        Column("name", "Named"),
        Column("platform", "Platform"),
        Column("metric", "Metric", _metric),
        Column("one", "One says"),
        Column("where", "In"),
        Column("other", "Another says"),
        Column("against", "In"),
    )
    return Table("opposed", "Where the documents disagree with each other", columns, result)


def _word(row: Row) -> str:
    return f"{CLAIMED}{row['says'] or row['printed']}"


def _behind(row: Row) -> dict[str, Any]:
    return {**row, "evidence": row["evidence_ids"]}

"""Measurements as rows of a report, and the words in which every table says what they are and what they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from presentation import formatting, run_progress
from presentation.palette import ORIGIN_WORDS, VERDICT_GLYPHS, basis_mark
from presentation.reports.content import Column, Row, Table

__all__ = [
    "EVENTS_SHOWN",
    "FIGURES",
    "HIDDEN",
    "HOW",
    "WHERE",
    "WORK",
    "counted",
    "evidence_column",
    "evidence_table",
    "model_columns",
    "option_words",
    "origin_words",
    "row_of",
    "short",
    "told_apart",
    "where_words",
    "work_words",
    "worst",
]

EVENTS_SHOWN = 2
"""Events that a cell names; the others are counted."""
WORK = (
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
    "optimizer",
    "gradient_checkpointing",
)
"""What one call was asked to do: rows of one workload agree in all of it."""
HOW = {
    "runtime": "runtime",
    "runtime_version": "version",
    "compiled": "compiled",
    "layout": "layout",
    "threads": "threads",
    "streams": "streams",
    "hardware_count": "devices",
    "parallelism": "parallelism",
    "power_limit_w": "power limit in W",
    "options": "options",
    "weights": "weights",
    "statistic": "statistic",
    "origin": "origin",
}
"""How the same work was done and recorded, with the words for it: what may differ between rows that are compared."""
_KEPT = (
    "category",
    "family",
    "parameters",
    "hardware_kind",
    "hardware_count",
    "platform",
    "precision",
    *WORK,
    "compiled",
    "layout",
    "threads",
    "streams",
    "parallelism",
    "power_limit_w",
    "options",
    "weights",
    "platform_asked",
    "precision_asked",
    "fallback_share",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "forward_ms",
    "loss_ms",
    "backward_ms",
    "optimizer_ms",
    "peak_memory_bytes",
    "energy_j",
    "load_ms",
    "first_run_ms",
    "verdict",
    "origin",
    "configuration",
    "run_id",
    "position",
    "source",
    "attestation",
    "provenance_source",
    "reference",
    "licence",
    "event_id",
)


def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the view `measurements` as reports hold it.

    `latency_ms` is the median, or the mean where no median was recorded (`statistic` says which), with its 95 %
    interval where one is known. Throughput is that of the row, else batch over latency; its interval is that of the
    latency turned round.
    """
    statistic = "p50" if row.get("latency_p50_ms") is not None else "mean"
    latency = row.get(f"latency_{statistic}_ms")
    low, high = (row.get(f"latency_{statistic}_ci95_{end}_ms") for end in ("low", "high"))
    rate, batch = row.get("throughput_per_s"), row.get("batch_size")
    if rate is None and latency and batch:
        rate = batch * 1000.0 / latency
    spread = bool(rate and latency and low and high)
    return {
        **{name: _flat(row.get(name)) for name in _KEPT},
        "model": row["model_id"],
        "hardware": row["hardware_id"],
        "runtime": row.get("runtime_name"),
        "runtime_version": row.get("runtime_version"),
        "environment": row.get("environment_fingerprint"),
        "basis": "measured" if row.get("origin") == "measured" else "imported",
        "latency_ms": latency,
        "latency_ms_low": low,
        "latency_ms_high": high,
        "statistic": None if latency is None else statistic,
        "latency_is_mean": latency is not None and statistic == "mean",
        "throughput_per_s": rate,
        "throughput_per_s_low": rate * latency / high if spread and rate and latency and high else None,
        "throughput_per_s_high": rate * latency / low if spread and rate and latency and low else None,
        "n": row.get("latency_n"),
        "reasons": list(row.get("verdict_reasons") or []),
        "time": row.get("time") or row.get("recorded_at"),
        "evidence": [row["event_id"]],
    }


def _flat(value: Any) -> Any:
    """Return objects and lists as JSON text, which can be compared and stand in a cell."""
    return msgspec.json.encode(value, order="sorted").decode() if isinstance(value, dict | list) else value


def work_words(row: Row, without: Sequence[str] = ()) -> str:
    """Say what one call was asked to do: `inference, single stream, batch 8, 128 tokens`."""
    shapes = {
        "mode": "{}",
        "scenario": "{}",
        "batch_size": "batch {}",
        "sequence_length": "{} tokens",
        "image_size": "{} px",
        "images": "{} images",
        "audio_seconds": "{} s of audio",
        "frames": "{} frames",
        "input_tokens": "{} tokens in",
        "output_tokens": "{} out",
        "steps": "{} steps",
        "concurrency": "{} at once",
        "arrival_rate_per_s": "{} a second",
        "optimizer": "{}",
    }
    document = [
        shape.format(_plain(row[name]))
        for name, shape in shapes.items()
        if name not in without and row.get(name) is not None
    ]
    if row.get("gradient_checkpointing") and "gradient_checkpointing" not in without:
        document.append("gradient checkpointing")
    if row.get("batch_size") is None and "batch_size" not in without:
        document.append("batch not said")
    return ", ".join(document)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).replace("_", " ")


def where_words(row: Row) -> str:
    """Say where and how something ran: `nvidia-l4 · cuda · fp16 · compiled`."""
    count = row.get("hardware_count") or 1
    parts = [f"{row['hardware']}{f' × {count}' if count > 1 else ''}", str(row.get("platform") or formatting.MISSING)]
    parts.append(str(row.get("precision") or "precision not said"))
    if row.get("compiled"):
        parts.append("compiled")
    return " · ".join(parts)


def option_words(row: Row) -> str:
    """Name a way of running a model: `nvidia-l4 · cuda · fp16`, compiled or not."""
    return where_words({**row, "compiled": None})


def origin_words(row: Row) -> str:
    """Say whose number it is and what to think of it: `● measured`, `○ imported ⚠ suspect`, `SIMULATED`."""
    if not row.get("origin"):
        return formatting.MISSING
    origin, verdict = str(row["origin"]), row.get("verdict")
    words = (
        ORIGIN_WORDS[origin].strip()
        if origin in ORIGIN_WORDS
        else f"{basis_mark(str(row.get('basis'))).glyph} {origin}"
    )
    if verdict in ("suspect", "invalid"):
        words += f"\n{VERDICT_GLYPHS[verdict]} {verdict}"
    elif verdict is None and "verdict" in row:
        words += ", not judged"
    return words


def worst(rows: Iterable[Row]) -> dict[str, Any]:
    """Return origin, basis and verdict of a figure that rests on several rows: those of the weakest of them."""
    kept = list(rows)
    origins, verdicts = {row.get("origin") for row in kept}, {row.get("verdict") for row in kept}
    origin = next((item for item in ("simulated", "page", "imported", "measured") if item in origins), None)
    verdict = next((item for item in ("invalid", "suspect", None, "valid") if item in verdicts), None)
    return {
        "origin": origin,
        "basis": "measured" if origin == "measured" else "imported",
        "verdict": verdict,
        "evidence": list(dict.fromkeys(event for row in kept for event in row["evidence"])),
    }


def _latency(row: Row) -> str:
    ends = (row.get("latency_ms_low"), row.get("latency_ms_high"))
    words = formatting.latency(row.get("latency_ms"), *ends, mean=bool(row.get("latency_is_mean")))
    return words.replace(" (", "\n(", 1)


def model_columns(without: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return the columns that name a row: the model, and below it what it was asked to do."""

    def named(row: Row) -> str:
        return f"{row['model']}\n{work_words(row, without)}"

    return Column("model", "Model", named), Column("category"), Column("family"), Column("mode")


def evidence_column() -> Column:
    """Return the column that a page turns into links: the ids of the events that a row rests on."""
    return Column("evidence", "Evidence", _events)


def _events(row: Row) -> str:
    named = list(row.get("evidence") or ())
    rest = len(named) - EVENTS_SHOWN
    return ", ".join([*map(short, named[:EVENTS_SHOWN]), *([f"and {formatting.count(rest)} more"] if rest > 0 else [])])


def short(event_id: str) -> str:
    """Return the end of an event's id, which tells ids of one moment apart."""
    return str(event_id)[-8:]


WHERE = (
    Column("hardware", "Where", where_words),
    Column("platform"),
    Column("precision"),
)
FIGURES = (
    Column("latency_ms", "Latency", _latency, figures=True),
    Column("latency_ms_low"),
    Column("latency_ms_high"),
    Column("statistic"),
    Column("throughput_per_s", "Items", lambda row: formatting.throughput(row.get("throughput_per_s")), figures=True),
    Column("throughput_per_s_low"),
    Column("throughput_per_s_high"),
    Column("tokens_per_s"),
    Column("ttft_ms"),
    Column("tpot_ms"),
    Column("peak_memory_bytes", "Memory", lambda row: formatting.memory(row.get("peak_memory_bytes")), figures=True),
    Column("energy_j"),
    Column("load_ms"),
    Column("first_run_ms"),
    Column("n", "n", lambda row: formatting.count(row.get("n")), figures=True),
    Column("origin", "Origin", origin_words),
    Column("verdict"),
    evidence_column(),
)
"""The figures of one measurement, its origin, verdict and event."""
HIDDEN = tuple(
    Column(key)
    for key in (
        *WORK,
        "runtime",
        "runtime_version",
        "compiled",
        "layout",
        "threads",
        "streams",
        "weights",
        "hardware_count",
        "fallback_share",
        "configuration",
        "run_id",
        "environment",
        "position",
        "time",
    )
)
"""What only files hold of a measurement."""


def evidence_table(rows: Iterable[Row]) -> Table:
    """Return one row an event: what it says, whose it is, its verdict with reasons, and where it stands in the log."""
    once = {row["event_id"]: row for row in rows if row.get("event_id")}
    columns = (
        Column("event_id", "Event", lambda row: str(row["event_id"])),
        Column("model", "What", _what),
        Column("hardware"),
        Column("platform"),
        Column("precision"),
        Column("configuration"),
        Column("origin", "Origin", origin_words),
        Column("verdict"),
        Column("reasons", "Reasons", lambda row: "; ".join(row.get("reasons") or ()) or formatting.MISSING),
        Column("provenance_source", "Source", _source),
        Column("source"),
        Column("attestation"),
        Column("reference"),
        Column("licence"),
        Column("time", "When", lambda row: formatting.when(row.get("time"))),
        Column("environment", "Environment", lambda row: formatting.digest(row.get("environment"))),
        Column("run_id"),
        Column("position", "Position", lambda row: formatting.count(row.get("position")), figures=True),
    )
    ordered = sorted(once.values(), key=lambda row: row.get("position") or 0)
    return Table("evidence", "Evidence", columns, ordered, "`assay query` and GET /v1/events/{id} show an event whole.")


def _what(row: Row) -> str:
    work = f": {work_words(row)}" if row.get("mode") else ""
    return f"{row['model']}{work}; {where_words(row)}"


def _source(row: Row) -> str:
    parts = (row.get("provenance_source"), row.get("reference"), row.get("licence"))
    named = ", ".join(str(part) for part in parts if part)
    if not named:
        return run_progress.source_words(row.get("source"), row.get("attestation"))
    return f"{named} ({row['attestation']})" if row.get("attestation") else named


def told_apart(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add to rows of one name, as `distinct`, what else tells them apart; the event's id where nothing does."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model"], where_words(row), work_words(row)), []).append(row)
    told_apart = []
    for row in rows:
        group = groups[row["model"], where_words(row), work_words(row)]
        differing = [name for name in HOW if len({repr(item.get(name)) for item in group}) > 1]
        words = [f"{HOW[name]} {_said(row.get(name))}" for name in differing if name != "compiled"]
        if len(group) > 1 and not words:
            words = [short(row["event_id"])]
        told_apart.append({**row, "distinct": " · ".join(words) or None})
    return told_apart


def _said(value: Any) -> str:
    return "not said" if value is None else "yes" if value is True else "no" if value is False else str(value)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Write a number of things: `1 model`, `1,204 models`."""
    return f"{formatting.count(n)} {noun if n == 1 else plural or noun + 's'}"

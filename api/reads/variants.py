"""A model and its variants side by side: what was measured of each, how large it is, and what it costs in quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers.variants import ModelVariants, VariantRow
from domain.vocabulary import NO_EVIDENCE
from ingest.projection import Tables
from predictor.variants.evidence import Form, VariantBook, read_variants

__all__ = ["model_variants"]

Row = Mapping[str, Any]
_BASE_OF = "SELECT base_id FROM variants WHERE model_id = ? LIMIT 1"
_COLUMNS = (
    "position", "event_id", "model_id", "hardware_id", "platform", "precision", "runtime_name", "workload", "batch_size",
    "latency_p50_ms", "latency_mean_ms", "latency_p50_ci95_low_ms", "latency_p50_ci95_high_ms", "throughput_per_s",
    "peak_memory_bytes", "device_memory_bytes", "verdict", "origin",
)  # fmt: skip


def model_variants(tables: Tables, name: str) -> ModelVariants:
    """Return the rows of a model and its variants; of a variant's id those of its base. Losers are among them.

    The best measurement of each device, platform and precision counts, on devices where a variant was measured or evaluated, at the one workload that most of them were measured
    at. Forms that nobody measured have a row without figures.
    """
    model = tables.resolve_model(name)
    bases = tables.select("variants", _BASE_OF, [model]).to_pylist()
    model = bases[0]["base_id"] if bases else model
    book = read_variants(tables, model, "inference")
    if book is None:
        return ModelVariants(model=model, workload=None, base_bytes=None, items=[])
    names = [model, *dict.fromkeys(form.model_id for form in book.forms.values())]
    rows = [
        row
        for row in tables.measurements(model=names, mode="inference", best=True, columns=_COLUMNS).to_pylist()
        if row["origin"] not in NO_EVIDENCE
    ]
    # The model itself may have been measured on any device; beside variants stand those that one was tried on.
    tried = {row["hardware_id"] for row in rows if row["model_id"] != model}
    tried |= {loss.hardware for losses in book.losses.values() for loss in losses}
    rows = [row for row in rows if row["hardware_id"] in tried]
    workload = _usual_workload(rows)
    best: dict[tuple[str, str, str, str | None], Row] = {}
    for row in sorted(rows, key=_latency):
        if row["workload"] == workload and _latency(row) > 0:
            best.setdefault((row["model_id"], row["hardware_id"], row["platform"], row["precision"]), row)
    measured = [_measured(row, book, best) for row in best.values()]
    seen = {(item.model, item.form) for item in measured}
    unmeasured = [_unmeasured(form) for form in book.forms.values() if (form.model_id, form.form) not in seen]
    order = {name: place for place, name in enumerate(names)}
    items = sorted(
        [*measured, *unmeasured],
        key=lambda item: (item.hardware or "~", item.platform or "~", order[item.model], item.precision or ""),
    )
    return ModelVariants(
        model=model,
        workload=None if workload is None else msgspec.json.decode(workload),
        base_bytes=book.base_bytes,
        items=items,
    )


def _latency(row: Row) -> float:
    return row["latency_p50_ms"] or row["latency_mean_ms"] or 0.0


def _usual_workload(rows: Sequence[Row]) -> str | None:
    """The workload that most of the models were measured at; of several the one of the smallest batch."""
    models: dict[str, set[str]] = {}
    batches: dict[str, int] = {}
    for row in rows:
        models.setdefault(row["workload"], set()).add(row["model_id"])
        batches[row["workload"]] = row["batch_size"] or 0
    return min(models, key=lambda text: (-len(models[text]), batches[text], text), default=None)


def _measured(row: Row, book: VariantBook, best: Mapping[tuple[str, str, str, str | None], Row]) -> VariantRow:
    model = row["model_id"]
    form = None if model == book.model else book.form_of(model, row["platform"], row["runtime_name"])
    plain = best.get((book.model, row["hardware_id"], row["platform"], "fp32"))
    value = _latency(row)
    reference = model == book.model and row["precision"] == "fp32"
    quality = None if reference else book.loss_at(model, row["hardware_id"], row["platform"], row["precision"])
    return VariantRow(
        model=model,
        recipe=None if form is None else form.recipe,
        form=None if form is None else form.form,
        hardware=row["hardware_id"],
        platform=row["platform"],
        precision=row["precision"],
        batch_size=row["batch_size"],
        latency_ms=value,
        latency_ms_low=row["latency_p50_ci95_low_ms"],
        latency_ms_high=row["latency_p50_ci95_high_ms"],
        throughput_per_s=row["throughput_per_s"],
        speedup=None if plain is None else float(f"{_latency(plain) / value:.4g}"),
        peak_memory_bytes=row["device_memory_bytes"] or row["peak_memory_bytes"],
        bytes=book.base_bytes if form is None else form.bytes,
        quality=quality,
        is_reference=reference,
        verdict=row["verdict"],
        evidence=[str(row["event_id"]), *([] if quality is None else [quality.evidence])],
    )


def _unmeasured(form: Form) -> VariantRow:
    return VariantRow(
        model=form.model_id,
        recipe=form.recipe,
        form=form.form,
        precision=form.precision,
        bytes=form.bytes,
        evidence=[form.event_id],
    )

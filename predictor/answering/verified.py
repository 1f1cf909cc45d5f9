"""How far verified outputs were from those of fp32 on the CPU, by platform and precision: what a precision costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ingest.projection import Tables

__all__ = ["output_errors"]


def output_errors(tables: Tables, model: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the newest comparison of outputs for each (platform, precision) of a model.

    Each tells the worst output: the least `cosine`, the largest `max_absolute` error, the `outcome` and the `evidence`.
    Simulated tests are none.
    """
    columns = ["position", "event_id", "platform", "precision", "outcome", "checks", "origin"]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in tables.view("tests", {"model": model}, columns=columns).to_pylist():
        outputs = (json.loads(row["checks"]) if row["checks"] else {}).get("outputs") or []
        document = {"cosine": _worst(outputs, "cosine", min), "max_absolute": _worst(outputs, "max_absolute", max)}
        if row["origin"] == "simulated" or all(value is None for value in document.values()):
            continue
        rows[(row["platform"], row["precision"])] = {**document, "outcome": row["outcome"], "evidence": row["event_id"]}
    return rows


def _worst(outputs: list[Mapping[str, Any]], name: str, pick: Any) -> float | None:
    existing = [float(output[name]) for output in outputs if output.get(name) is not None]
    return float(f"{pick(existing):.6g}") if existing else None

"""The earlier framework's `hardware_compatibility_matrix.json`.

`model_families.<family>.hardware_compatibility.<platform>` has `compatible`, `performance_rating` and `benchmark_results`: one object a
model with `model_name`, `timestamp`, and `mean_latency` in s and `mean_throughput`, both means over all batch sizes and lengths.
`compatible: false` says that no benchmark gave figures, not that it cannot run: a model without figures becomes a failure, and what is said
of a family alone, without a model, is not taken. Files that were looked at again later name `simulated_hardware`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    has_members,
    model_named,
    moment,
    platform_of,
    record_at,
    simulated_platforms,
)
from ingest.importers.reading import BadFile, json_document, number
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedCompatibility"]

NAME = "seed-compatibility"


class SeedCompatibility:
    """Hardware compatibility matrices (JSON)."""

    name = NAME
    title = "earlier framework: hardware_compatibility_matrix.json"

    def sniff(self, file: File) -> bool:
        """Return whether the file is a matrix; an empty one is known by its name."""
        if has_members(file, "model_families", "hardware_compatibility"):
            return True
        return file.base == "hardware_compatibility_matrix.json" and has_members(
            file, "hardware_types", "model_families"
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, the means and the failures; see Importer."""
        matrix = json_document(file)
        if not isinstance(matrix, dict):
            raise BadFile("is not a matrix")
        document = Document(
            file, NAME, source="earlier framework, compatibility matrix", time=moment(matrix.get("timestamp"))
        )
        yield from document.events(_drafts(document, matrix))


def _drafts(document: Document, matrix: dict[str, Any]) -> Iterator[Draft | Refused]:
    simulated = simulated_platforms(matrix)
    row = 0
    families = matrix.get("model_families")
    for family, value in (families if isinstance(families, dict) else {}).items():
        cells = value.get("hardware_compatibility") if isinstance(value, dict) else None
        for word, cell in (cells if isinstance(cells, dict) else {}).items():
            results = cell.get("benchmark_results") if isinstance(cell, dict) else None
            for index, result in enumerate(results if isinstance(results, list) else []):
                row += 1
                where = record_at("model_families", family, word, f"benchmark_results[{index}]")
                try:
                    yield _draft(result, family, word, simulated, where, row)
                except BadRow as bad:
                    yield document.refused(bad.reason, row=row, field=bad.field)


def _draft(result: Any, family: str, word: str, simulated: set[str], where: str, row: int) -> Draft:
    platform = platform_of(word)
    if platform is None or not isinstance(result, dict):
        raise BadRow("hardware_compatibility", f"{word!r} is not a platform with results")
    draft = Draft(
        model=model_named(result.get("model_name"), family=family),
        workload={"mode": "inference", "scenario": "single_stream"},
        execution={"platform": platform},
        hardware=NOWHERE.hardware(platform),
        time=moment(result.get("timestamp")),
        row=row,
        original={"record": where},
    )
    if platform in simulated:
        draft.claims["flags"] = {"simulated_hardware": f"{platform} is simulated"}
    latency = number(result, "mean_latency", unit="s")
    rate = number(result, "mean_throughput")
    if latency is None and rate is None:
        draft.kind, draft.outcome, draft.message = "failure", "error", "the benchmark gave no figures"
        return draft
    draft.metrics = {"latency_ms": {"mean": latency} if latency else None, "throughput_per_s": rate}
    draft.original["mean_latency (s)"] = result.get("mean_latency")
    draft.claims["averaged_over"] = ["batch sizes", "sequence lengths"]
    return draft

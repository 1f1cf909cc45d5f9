"""The earlier framework's batches of benchmarks: `batch_benchmarks_<platform>_<date>.json` and `benchmark_progress_<date>.json`.

**Batch**: `results.<model>` holds the command, its output and, as `benchmark_data`, the whole result file of one direct benchmark: it is read
as `seed-direct` reads that file, so that both are the same facts. A command that failed becomes a failure. **Progress**:
`failed_benchmarks`, with `model_type`, `hardware_type`, `error`, `stderr` and `timestamp`, become failures; the command in the error may name the model in full.
`completed_benchmarks` names what other files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.legacy.direct import SOURCE, direct_drafts
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    error_of,
    has_members,
    model_named,
    moment,
    platform_of,
    record_at,
)
from ingest.importers.reading import BadFile, json_document, text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedBatch"]

NAME = "seed-batch"
_MODEL = re.compile(r"'--model', '([^']+)'")


class SeedBatch:
    """Batches of benchmarks and their progress (JSON)."""

    name = NAME
    title = "earlier framework: batch_benchmarks_*.json and benchmark_progress_*.json"

    def sniff(self, file: File) -> bool:
        """Return whether the file is a batch or the progress of one."""
        return has_members(file, "benchmark_data", "batch_sizes", "command") or has_members(
            file, "completed_benchmarks", "failed_benchmarks"
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield the run of the batch with its failures, and a run for each direct benchmark inside; see Importer."""
        outcome = json_document(file)
        if not isinstance(outcome, dict):
            raise BadFile("is not a batch of benchmarks")
        document = Document(
            file, NAME, source="earlier framework, batch of benchmarks", time=moment(outcome.get("timestamp"))
        )
        yield from document.events(_failures(document, outcome))
        results = outcome.get("results")
        for name, result in (results if isinstance(results, dict) else {}).items():
            inner = result.get("benchmark_data") if isinstance(result, dict) else None
            if isinstance(inner, dict):
                direct = Document(file, "seed-direct", source=SOURCE, time=moment(inner.get("timestamp")))
                yield from direct.events(direct_drafts(direct, inner, record_at("results", name, "benchmark_data")))


def _failures(document: Document, outcome: dict[str, Any]) -> Iterator[Draft | Refused]:
    for row, (where, name, word, result) in enumerate(_failed(outcome), start=1):
        try:
            yield _failure(result, name, word, where, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=f"{where}/{bad.field}")


def _failed(row: dict[str, Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield where it stands, model, platform and the record of each benchmark that gave nothing."""
    listed = row.get("failed_benchmarks")
    for index, result in enumerate(listed if isinstance(listed, list) else []):
        document = result if isinstance(result, dict) else {}
        yield f"failed_benchmarks[{index}]", document.get("model_type"), document.get("hardware_type"), result
    results = row.get("results")
    for name, result in (results if isinstance(results, dict) else {}).items():
        document = result if isinstance(result, dict) else {}
        if not isinstance(document.get("benchmark_data"), dict):
            yield (
                record_at("results", name),
                document.get("model") or name,
                document.get("hardware") or row.get("hardware"),
                result,
            )


def _failure(result: Any, name: Any, word: Any, where: str, row: int) -> Draft:
    platform = platform_of(word)
    if platform is None or not isinstance(result, dict):
        raise BadRow("hardware_type", "is not a platform with a record")
    said = text(result, "stderr") or text(result, "error") or "no reason is given"
    named = _MODEL.search(text(result, "error") or "")
    error, message = error_of(said)
    return Draft(
        kind="failure",
        model=model_named(named[1] if named else name),
        workload={"mode": "inference"},
        execution={"platform": platform},
        hardware=NOWHERE.hardware(platform),
        outcome="error",
        stage="resolve",
        error=error,
        message=message,
        time=moment(result.get("timestamp")),
        row=row,
        original={"record": where},
    )

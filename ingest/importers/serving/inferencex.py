"""InferenceX (formerly InferenceMAX): rows of its database as JSON, and the `agg_*.json` of its runs.

A row of the database has `hardware, framework, model, precision, spec_method, disagg, is_multinode`, the sizes of both kinds of
worker (`prefill_tp, prefill_ep, prefill_num_workers, num_prefill_gpu`, the same with decode), `isl, osl, conc, date, run_url`
and an object `metrics`. A run's own file has the metrics beside the others, `hw` for the hardware and `tp, ep, dp_attention`
where one engine does all. Times are in seconds: `median_ttft`, `median_tpot`, `median_e2el` with `mean_`, `p90_`, `p95_` and
`p99_`. Throughput is in tokens a second and GPU, and is taken times the GPUs: `output_tput_per_gpu` of the GPUs that decode.

The schema is that of SemiAnalysisAI/InferenceX and its dashboard (Apache-2.0); no dump was at hand to try it on. A file is a
list of rows, an object that holds the list as `rows`, `items`, `data` or `benchmark_results`, or one row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from domain.catalogues import hardware
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import precision_of, runtime_of
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import hardware_named, model_named

__all__ = ["InferenceX"]

_LISTS = ("rows", "items", "data", "benchmark_results")
_STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_KEPT = ("run_url", "image", "benchmark_type", "offload_mode")
_PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "hpu", "google": "tpu"}


class InferenceX:
    """Rows of InferenceX (JSON)."""

    name = "inferencex"
    title = "InferenceX (InferenceMAX) database rows and agg_*.json"

    def sniff(self, file: File) -> bool:
        """Return whether it has InferenceX's throughput of a GPU beside the concurrency."""
        head = file.head() if file.suffix == ".json" else ""
        return "tput_per_gpu" in head and '"conc"' in head

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        found = json_document(file)
        if isinstance(found, dict):
            found = next((found[name] for name in _LISTS if isinstance(found.get(name), list)), [found])
        if not isinstance(found, list):
            raise BadFile("is neither a row nor a list of rows")
        document = Document(
            file, self.name, source="InferenceX results", licence="Apache-2.0", reference="SemiAnalysisAI/InferenceX"
        )
        yield from document.events(_drafts(document, found))


def _drafts(document: Document, rows: list[Any]) -> Iterator[Draft | Refused]:
    for place, row in enumerate(rows, start=1):
        try:
            if not isinstance(row, dict):
                raise BadRow("row", "is not an object")
            yield _draft(place, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=place, field=bad.field, content=json.dumps(row))


def _draft(place: int, row: Mapping[str, Any]) -> Draft:
    name, model = text(row, "hardware") or text(row, "hw"), text(row, "model")
    if name is None or model is None:
        raise BadRow("hardware" if name is None else "model", "is missing")
    found = row.get("metrics", row)
    if not isinstance(found, Mapping):
        raise BadRow("metrics", "is not an object")
    prefill, decode = _gpus(row, "prefill"), _gpus(row, "decode")
    apart = row.get("disagg") in (True, "true")
    count = (prefill + decode if apart else max(prefill, decode)) or whole(row, "tp") or 1
    metrics = _metrics(found, (decode if apart else 0) or count)
    if all(value is None for value in metrics.values()):
        raise BadRow("metrics", "no time and no rate is given")
    spec = hardware.find(name)
    speculative = text(row, "spec_method") or text(row, "spec_decoding")
    options: dict[str, Any] = {"speculative": speculative} if speculative not in (None, "none") else {}
    if apart:
        sizes = {side: _sizes(row, side) for side in ("prefill", "decode")}
        options |= {"serving": "disaggregated", **{side: said for side, said in sizes.items() if said}}
    if row.get("dp_attention") in (True, "true"):
        options["attention"] = "data parallel"
    date = text(row, "date")
    return Draft(
        row=place,
        model=model_named(model),
        workload={
            "mode": "inference",
            "scenario": "serving",
            "input_tokens": whole(row, "isl"),
            "output_tokens": whole(row, "osl"),
            "concurrency": whole(row, "conc"),
        },
        execution={
            "platform": _PLATFORMS.get((spec.vendor or "").lower(), "other") if spec else "other",
            "runtime": runtime_of(text(row, "framework")),
            "precision": precision_of(text(row, "precision")),
            "parallelism": None if apart else _parallelism(row),
            "options": options or None,
        },
        hardware=hardware_named(name, "gpu", count),
        metrics=metrics,
        time=f"{date[:10]}T00:00:00+00:00" if date else None,
        original={name: said for name in _KEPT if (said := text(row, name)) is not None},
    )


def _metrics(found: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Return the metrics in our units; `gpus` are those that give out tokens."""

    def milliseconds(name: str) -> float | None:
        return number(found, name, unit="s")

    latency = {ours: milliseconds(f"{theirs}_e2el") for theirs, ours in _STATISTICS.items()}
    rate = number(found, "output_tput_per_gpu")
    return {
        "latency_ms": latency if any(latency.values()) else None,
        "ttft_ms": milliseconds("median_ttft") or milliseconds("mean_ttft"),
        "tpot_ms": milliseconds("median_tpot") or milliseconds("mean_tpot"),
        "tokens_per_s": rate * gpus if rate is not None else None,
    }


def _gpus(row: Mapping[str, Any], side: str) -> int:
    """Return how many GPUs do one half of the work: as said, else the size of a worker times the workers."""
    said = whole(row, f"num_{side}_gpu")
    return said if said is not None else (whole(row, f"{side}_tp") or 0) * (whole(row, f"{side}_num_workers") or 1)


def _sizes(row: Mapping[str, Any], side: str) -> dict[str, int]:
    names = {"tensor": "tp", "expert": "ep", "workers": "num_workers"}
    return {ours: size for ours, theirs in names.items() if (size := whole(row, f"{side}_{theirs}"))}


def _parallelism(row: Mapping[str, Any]) -> dict[str, int] | None:
    names = {"tensor": ("tp", "decode_tp"), "expert": ("ep", "decode_ep")}
    sizes = {
        ours: size
        for ours, columns in names.items()
        if (size := next((found for column in columns if (found := whole(row, column))), None))
    }
    return sizes or None

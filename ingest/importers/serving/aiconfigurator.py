"""Measured LLM serving of ai-dynamo/aiconfigurator: tables of "silicon" runs that its estimates are compared with.

A row is one run of an engine under a number of concurrent requests: `silicon_ttft_ms` and `silicon_tpot_ms` in ms (means),
`isl` and `osl` tokens in and out. `mode` is `agg`, where the same workers fill and decode (`batch_size, tp_size, pp_size,
attention_dp_size, moe_tp_size, moe_ep_size`), or `disagg`, where they are apart (the same with `prefill_` and `decode_` in
front, and `…_num_workers`). `silicon_data_source` holds `name=value` parts: `silicon_concurrency`, `measured`.

A worker has tensor × pipeline × attention-data devices; the experts of a mixture are spread over the same ones. Of
disaggregated rows `parallelism` stays empty, since there are two: they are under the options `prefill` and `decode`.
Rows that do not say how many workers there were are counted with one of each and are suspect (rule `devices-unknown`).
The path of whoever made a table is shortened in what is kept of the source. The id is not taken: it repeats the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from domain.catalogues import hardware
from domain.scrub import scrub
from ingest.importers.document import Document
from ingest.importers.draft import Draft, Finding
from ingest.importers.files import File
from ingest.importers.identity import precision_of, runtime_of
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, hardware_named, header_of, model_named

__all__ = ["AiConfigurator"]

_NEEDED = {"silicon_ttft_ms", "silicon_tpot_ms", "model_path", "system", "backend", "isl", "osl"}
_SIZES = {
    "tensor": "tp_size",
    "pipeline": "pp_size",
    "attention_data": "attention_dp_size",
    "expert_tensor": "moe_tp_size",
    "expert": "moe_ep_size",
    "batch_size": "batch_size",
    "workers": "num_workers",
}
_PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "google": "tpu"}
_PART = re.compile(r"\s*([a-z_]+)=([^;]*)")


class AiConfigurator:
    """aiconfigurator's measured serving (CSV)."""

    name = "aiconfigurator"
    title = "aiconfigurator silicon tables (ai-dynamo)"

    def sniff(self, file: File) -> bool:
        """Return whether the header has its columns."""
        return file.suffix == ".csv" and set(header_of(file)) >= _NEEDED

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        document = Document(file, self.name, source="aiconfigurator silicon data", licence="Apache-2.0")
        return document.events(csv_drafts(file, document, _drafts))


def _drafts(line: int, row: dict[str, str]) -> Iterator[Draft]:
    name, system = text(row, "model_path"), text(row, "system")
    if name is None or system is None:
        raise BadRow("model_path" if name is None else "system", "is missing")
    said = text(row, "silicon_data_source") or ""
    parts = dict(_PART.findall(said))
    mode = (text(row, "mode") or "agg").lower()
    if mode not in ("agg", "disagg"):
        raise BadRow("mode", f"is {mode!r}, neither agg nor disagg")
    runtime = runtime_of(text(row, "backend"), text(row, "backend_version"))
    options: dict[str, Any] = {
        "gemm": text(row, "gemm_quant_mode"),
        "moe": text(row, "moe_quant_mode"),
    }
    workload = {
        "mode": "inference",
        "scenario": "serving",
        "input_tokens": whole(row, "isl"),
        "output_tokens": whole(row, "osl"),
        "concurrency": whole(parts, "silicon_concurrency"),
    }
    parallelism, findings = None, []
    if mode == "agg":
        sizes = _sizes(row, "")
        workload["batch_size"] = sizes.get("batch_size")
        count = _devices(sizes)
        parallelism = {
            "tensor": sizes.get("tensor"),
            "pipeline": sizes.get("pipeline"),
            "data": sizes.get("attention_data"),
            "expert": sizes.get("expert"),
        }
        options["expert_tensor_parallel"] = sizes.get("expert_tensor")
    else:
        prefill, decode = _sizes(row, "prefill_"), _sizes(row, "decode_")
        options |= {"serving": "disaggregated", "prefill": prefill, "decode": decode}
        count = sum(_devices(sizes) * sizes.get("workers", 1) for sizes in (prefill, decode))
        if "workers" not in prefill or "workers" not in decode:
            reason = "the file does not say how many prefill and decode workers there were; one of each is counted"
            findings = [Finding("devices-unknown", "suspect", reason)]
    yield Draft(
        row=line,
        model=model_named(name),
        workload=workload,
        execution={
            "platform": _platform(system),
            "runtime": runtime,
            "precision": precision_of(text(row, "precision")),
            "parallelism": parallelism,
            "options": options,
        },
        hardware=hardware_named(system, "gpu", count),
        metrics={
            "ttft_ms": number(row, "silicon_ttft_ms", unit="ms"),
            "tpot_ms": number(row, "silicon_tpot_ms", unit="ms"),
        },
        time=_time(parts.get("measured")),
        original={"silicon_data_source": scrub(said)} if said else {},
        findings=findings,
    )


@lru_cache(maxsize=1024)
def _platform(system: str) -> str:
    spec = hardware.find(system)
    return _PLATFORMS.get((spec.vendor if spec else None) or "", "other")


def _sizes(row: dict[str, str], prefix: str) -> dict[str, int]:
    """Return the sizes of one kind of worker that the row says."""
    wholes = {name: whole(row, prefix + column) for name, column in _SIZES.items()}
    return {name: size for name, size in wholes.items() if size is not None}


def _devices(sizes: dict[str, int]) -> int:
    return sizes.get("tensor", 1) * sizes.get("pipeline", 1) * sizes.get("attention_data", 1)


def _time(said: str | None) -> str | None:
    """Return the moment, or None where there is none with an offset."""
    try:
        moment = datetime.fromisoformat((said or "").strip())
    except ValueError:
        return None
    return moment.isoformat() if moment.tzinfo else None

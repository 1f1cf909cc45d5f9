"""Intel's published OpenVINO figures (Apache-2.0): platforms, language models on Core Ultra, and the model server.

`openvino-platforms`: `platform, base_platform, device_kind, model, precision, throughput, throughput_unit, latency,
latency_unit, note`, of OpenVINO 2024.3. Throughput is measured with as many requests at once as the device likes, latency
with one: two measurements a row, `offline` and `single_stream`. The unit of latency is `ms`, `ms/token` or, of diffusion,
`s` for one image. A `note` marks latencies that the source repeats from another model: they are invalid.

`openvino-llm`: `system, device_kind, model, precision, input_tokens, first_token_latency_ms, next_token_latency_ms,
peak_rss_mb, batch`. Rows that differ in their figures alone are different compressions that the source does not name.

`openvino-model-server`: `platform, device_kind, model, precision, direct_throughput_fps, model_server_throughput_fps`: one
model with and without the server in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.importers.draft import Draft, Finding
from ingest.importers.identity import hardware_of, precision_of
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import in_bytes, model_named

__all__ = ["OPENVINO_LLM", "OPENVINO_MODEL_SERVER", "OPENVINO_PLATFORMS"]

_KINDS = {"CPU": "cpu", "iGPU": "gpu", "dGPU": "gpu", "CPU+iGPU": "other"}
_DEVICES = {"CPU": "CPU", "iGPU": "GPU", "dGPU": "GPU", "CPU+iGPU": "AUTO:GPU,CPU"}
_MB = 1e6
_TOKENS = {"bert-base": 128, "bert-large": 384}
"""Input sizes of the models that begin so, which are not in the files (OpenVINO documentation, performance benchmarks FAQ)."""
_RELEASE = "2024.3.0"


def _work(model: str, **work: Any) -> dict[str, Any]:
    """Return the workload of a call of a model."""
    length = next((count for name, count in _TOKENS.items() if model.lower().startswith(name)), None)
    return {"mode": "inference", "sequence_length": length, **work}


def _where(device: str, kind: str) -> dict[str, Any]:
    """Return the hardware: a CPU by its name, its own GPU or both of them as a device beside it."""
    name = re.sub(r"[®™]", "", device).strip()
    if not name.startswith("Intel"):
        name = f"Intel {name}"
    beside = {"iGPU": " iGPU", "CPU+iGPU": " CPU and iGPU"}.get(kind, "")
    return hardware_of(name + beside, kind=_KINDS[kind])


def _execution(kind: str, precision: str, version: str | None = None, name: str = "openvino") -> dict[str, Any]:
    if kind not in _KINDS:
        raise BadRow("device_kind", f"is none of {', '.join(_KINDS)}")
    plain, _, way = precision.partition("-")
    options = {"device": _DEVICES[kind]} | ({"quantisation": way.lower()} if way else {})
    return {
        "platform": "openvino",
        "runtime": {"name": name, **({"version": version} if version else {})},
        "precision": precision_of(plain),
        "options": options,
    }


def _platforms(line: int, row: Row) -> Iterator[Draft]:
    device, kind, model, precision = needed(row, "base_platform", "device_kind", "model", "precision")
    rate, latency = number(row, "throughput"), number(row, "latency")
    if rate is None and latency is None:
        raise BadRow("throughput", "neither throughput nor latency is given")
    execution, hardware = _execution(kind, precision, _RELEASE), _where(device, kind)
    note = text(row, "note")
    if rate is not None:
        unit = text(row, "throughput_unit")
        if unit not in ("FPS", "tokens/s"):
            raise BadRow("throughput_unit", f"is neither FPS nor tokens/s but {unit!r}")
        yield Draft(
            row=line,
            model=model_named(model),
            workload=_work(model, scenario="offline"),
            execution=execution,
            hardware=hardware,
            metrics={"tokens_per_s" if unit == "tokens/s" else "throughput_per_s": rate},
            original={"throughput_unit": unit},
        )
    if latency is not None:
        unit = text(row, "latency_unit")
        shapes: dict[str | None, dict[str, Any]] = {
            "ms": {"latency_ms": {"p50": latency}},
            "ms/token": {"tpot_ms": latency},
            "s": {"latency_ms": {"p50": latency * 1000}},
        }
        if unit not in shapes:
            raise BadRow("latency_unit", f"is none of ms, ms/token and s but {unit!r}")
        yield Draft(
            row=line,
            model=model_named(model),
            workload=_work(model, scenario="single_stream", batch_size=1),
            execution=execution,
            hardware=hardware,
            metrics=shapes[unit],
            original={"latency_unit": unit},
            findings=[Finding("copied-latency", "invalid", f"the source says of this latency: {note}")] if note else [],
        )


def _llm(line: int, row: Row) -> Iterator[Draft]:
    system, kind, model, precision = needed(row, "system", "device_kind", "model", "precision")
    first, each = number(row, "first_token_latency_ms"), number(row, "next_token_latency_ms")
    if first is None and each is None:
        raise BadRow("first_token_latency_ms", "neither of the two latencies is given")
    yield Draft(
        row=line,
        model=model_named(model),
        workload={
            "mode": "inference",
            "scenario": "single_stream",
            "batch_size": whole(row, "batch"),
            "input_tokens": whole(row, "input_tokens"),
        },
        execution=_execution(kind, precision, name="openvino-genai"),
        hardware=_where(system, kind),
        metrics={"ttft_ms": first, "tpot_ms": each, "peak_memory_bytes": in_bytes(row, "peak_rss_mb", _MB)},
    )


def _model_server(line: int, row: Row) -> Iterator[Draft]:
    device, kind, model, precision = needed(row, "platform", "device_kind", "model", "precision")
    name = device.replace("CPU-only", "").strip()
    for field, runtime in (
        ("direct_throughput_fps", "openvino"),
        ("model_server_throughput_fps", "openvino-model-server"),
    ):
        rate = number(row, field)
        if rate is not None:
            yield Draft(
                row=line,
                model=model_named(model),
                workload=_work(model, scenario="offline"),
                execution=_execution(kind, precision, "2024.1", runtime),
                hardware=_where(name, kind),
                metrics={"throughput_per_s": rate},
            )


_REFERENCE = "openvinotoolkit/openvino docs/sphinx_setup/_static/benchmarks_files"
OPENVINO_PLATFORMS = PublishedTable(
    "openvino-platforms",
    "OpenVINO performance benchmarks by platform (Intel), as CSV",
    columns={"base_platform", "device_kind", "throughput_unit", "latency_unit"},
    drafts=_platforms,
    licence="Apache-2.0",
    reference=_REFERENCE,
)
OPENVINO_LLM = PublishedTable(
    "openvino-llm",
    "OpenVINO language models on Core Ultra (Intel), as CSV",
    columns={"system", "device_kind", "first_token_latency_ms", "next_token_latency_ms", "peak_rss_mb"},
    drafts=_llm,
    licence="Apache-2.0",
    reference=_REFERENCE,
)
OPENVINO_MODEL_SERVER = PublishedTable(
    "openvino-model-server",
    "OpenVINO Model Server beside direct runs (Intel), as CSV",
    columns={"device_kind", "direct_throughput_fps", "model_server_throughput_fps"},
    drafts=_model_server,
    licence="Apache-2.0",
    reference=_REFERENCE,
)

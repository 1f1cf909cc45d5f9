"""Rows of tools that measure any code: the benchmark's name stands for the model, and the unit says which metric it is.

pytest-benchmark, asv, github-action-benchmark and Bencher know no models. The model of such a row is `benchmark/<name>`
unless the catalogue knows the name; `assay model alias benchmark/<name> MODEL` maps it, backwards as well. Parameters
of a benchmark that say what ran by a well-known name are read: model, batch_size, sequence_length, image_size, device,
precision, hardware and their usual short forms. Where they name the model, the benchmark's name becomes an option, so
that two benchmarks of one model stay two configurations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from domain.catalogues import models
from domain.vocabulary import PLATFORMS
from ingest.importers.draft import Draft
from ingest.importers.identity import hardware_of, model_of, precision_of
from ingest.importers.members import UNKNOWN, UNKNOWN_GPU, as_said, count, model_name, quantity, word
from ingest.importers.reading import UNITS
from ingest.importers.refusals import BadRow

__all__ = ["benchmark_model", "draft_of", "metric_of", "unit_of_time"]

_LONGEST = 170
_UNFIT = re.compile(r"[\s\x00-\x1f\"\\]+")
_ABSOLUTE = re.compile(r"(?<![^\s=('\"])(?:[A-Za-z]:[\\/]|[\\/~])[^\s:]*")
_PER_CALL = re.compile(r"\s*(?:/|\bper\b)\s*(?:iter(?:ation)?|op|run|call|it)s?$")
_SHORT = {"nsec": "ns", "usec": "us", "msec": "ms", "secs": "s", "second": "s", "μs": "us", "joule": "j", "joules": "j"}
_RATES = frozenset(
    (
        "iter/sec",
        "iter/s",
        "iters/sec",
        "iters/s",
        "it/s",
        "ops/sec",
        "ops/s",
        "op/s",
        "calls/s",
        "items/s",
        "items/sec",
        "samples/s",
        "samples/sec",
        "images/s",
        "images/sec",
        "img/s",
        "imgs/s",
        "req/s",
        "requests/s",
        "requests/sec",
        "qps",
        "rps",
        "fps",
        "1/s",
        "hz",
        "inferences/s",
        "inf/s",
        "queries/s",
        "operations/s",
        "operations / second",
    )
)
_TOKEN_RATES = frozenset(("tokens/s", "tokens/sec", "token/s", "tok/s", "toks/s", "t/s", "output tokens/s"))
_MODELS = ("model", "model_name", "model_id")
_SIZES = {
    "batch_size": ("batch_size", "batch", "bs"),
    "sequence_length": ("sequence_length", "seq_len", "seq_length", "seqlen"),
    "image_size": ("image_size", "img_size"),
    "input_tokens": ("input_tokens", "input_len"),
    "output_tokens": ("output_tokens", "output_len", "max_new_tokens"),
    "concurrency": ("concurrency",),
}
_DEVICES = ("platform", "device", "backend")
_PRECISIONS = ("precision", "dtype", "torch_dtype")
_HARDWARE = ("hardware", "hardware_id", "gpu_name", "device_name")


class _Told(NamedTuple):
    """What parameters of a benchmark say of what ran."""

    model: str | None
    sizes: dict[str, int]
    platform: str | None
    precision: str | None
    hardware: str | None


def benchmark_model(name: str) -> dict[str, Any]:
    """Return the model of a benchmark: the catalogue's where it knows the name, else `benchmark/<name>`.

    A name's folders on somebody's machine are left out; a long one ends in a digest of all of it.
    """
    if models.find(name) is not None:
        return model_of(name)
    short = _UNFIT.sub("-", _ABSOLUTE.sub(lambda path: model_name(path[0]), name)).strip("-")
    if len(short) > _LONGEST:
        short = f"{short[:_LONGEST]}-{hashlib.sha256(short.encode('utf-8', 'replace')).hexdigest()[:8]}"
    if not short:
        raise BadRow("name", "is empty")
    return {"id": f"benchmark/{short}"}


def unit_of_time(unit: str) -> str | None:
    """Return a unit as `reading.UNITS` names it where it is one of time, also of one call (`ns/iter`); else None."""
    said = _PER_CALL.sub("", unit.strip().lower())
    said = _SHORT.get(said, said)
    return said if UNITS.get(said, ("", 0.0))[0] == "ms" else None


def metric_of(
    row: Mapping[str, Any], field: str, unit: str, *, name: str = "", statistic: str = "mean"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metric that a value in this unit is, and the value as it stood; BadRow where there is none.

    A time is the latency's `statistic`. Bytes are memory only where the benchmark's name says so.
    """
    said = _SHORT.get(unit.strip().lower(), unit.strip().lower())
    original = {f"{field} ({unit})": as_said(row.get(field))}
    time = unit_of_time(unit)
    scaled = time or (said if said in UNITS else None)
    value = quantity(row, field, unit=scaled)
    if value is None:
        raise BadRow(field, "is missing, or 0")
    if time is not None:
        return {"latency_ms": {statistic: value}}, original if time != "ms" else {}
    if said in _RATES:
        return {"throughput_per_s": value}, original
    if said in _TOKEN_RATES:
        return {"tokens_per_s": value}, original
    if scaled is not None and "mem" in name.lower():
        device = any(part in name.lower() for part in ("gpu", "vram", "cuda", "device"))
        return {"device_memory_bytes" if device else "peak_memory_bytes": round(value)}, original
    if said in ("w", "watt", "watts", "j"):
        return {"energy_j" if said == "j" else "power_w": value}, original
    raise BadRow("unit", f"is {unit[:60]!r}, and Assay has no metric of it")


def draft_of(
    name: str,
    parameters: Mapping[str, Any],
    metrics: dict[str, Any],
    *,
    hardware: dict[str, Any] = UNKNOWN,
    runtime: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Draft:
    """Return a draft of one benchmark; `hardware` is the machine's, where parameters name no device."""
    document = _told(parameters)
    extra = {**(options or {}), **({"benchmark": name[:200]} if document.model else {})}
    platform = document.platform or ("cpu" if hardware.get("kind") == "cpu" else "other")
    if document.hardware is not None:
        hardware = hardware_of(document.hardware)
    elif platform in ("cuda", "rocm", "mps", "xpu"):
        hardware = UNKNOWN_GPU
    return Draft(
        model=model_of(document.model) if document.model else benchmark_model(name),
        workload={"mode": "inference", **document.sizes},
        execution={"platform": platform, "precision": document.precision, "runtime": runtime, "options": extra or None},
        hardware=hardware,
        metrics=metrics,
        claims={} if document.model else {"any_code": True},
    )


def _told(parameters: Mapping[str, Any]) -> _Told:
    said = {str(name).lower(): value for name, value in parameters.items()}
    sizes: dict[str, int] = {}
    for ours, names in _SIZES.items():
        first = next((size for name in names if (size := _size(said, name)) is not None), None)
        sizes |= {ours: first} if first else {}
    devices = [device.lower().partition(":")[0] for name in _DEVICES if (device := word(said, name))]
    return _Told(
        model=next((model_name(result) for name in _MODELS if (result := word(said, name))), None),
        sizes=sizes,
        platform=next((device for device in devices if device in PLATFORMS), None),
        precision=next((precision_of(result) for name in _PRECISIONS if (result := word(said, name))), None),
        hardware=next((result for name in _HARDWARE if (result := word(said, name))), None),
    )


def _size(said: dict[str, Any], name: str) -> int | None:
    """Return a size where it is one: a parameter of the same name may mean something else."""
    try:
        return count(said, name)
    except BadRow:
        return None

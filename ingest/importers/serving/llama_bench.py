"""Results of llama.cpp's `llama-bench -o json|jsonl|csv` (ggml-org/llama.cpp, builds of 2023 to 2026).

JSON is a list of flat objects, JSONL one a line, CSV the same without the samples and with every value in quotes. An
object has `build_commit`, `build_number`, `cpu_info`, `gpu_info`, `backends` (before 2025 a flag a backend: `cuda`,
`metal` …), `model_filename`, `model_type` (such as `qwen2 7B Q4_K - Medium`), `model_size`, `model_n_params`,
`n_batch`, `n_ubatch`, `n_threads`, `type_k`, `type_v`, `n_gpu_layers`, `split_mode`, `flash_attn`, `n_prompt`, `n_gen`,
`n_depth`, `test_time`, `avg_ns` and `stddev_ns` (of a repetition), `avg_ts` and `stddev_ts` (tokens a second),
`samples_ns`, `samples_ts`. Columns differ by build.

Three tests: a prompt alone (n_gen 0: `sequence_length`, latency), generation alone (n_prompt 0: `output_tokens`, and
`tpot_ms` = time ÷ tokens) and both. `tokens_per_s` counts output tokens only, so of a prompt alone `avg_ts` stays in
`original`. One sequence is processed, so the batch is 1; llama.cpp's `n_batch` is the tokens of one decoding and an
option.

The model is the file's name without its quantization, or the words of `model_type` where that says nothing; the folder
is not taken, because it is private. Precision is the quantization: Q8_0 and Q4_0 are `int8` and `int4`, mixed forms
keep their own word (`q4_k_m`). With no layer on the GPU (`n_gpu_layers` 0) the platform is the CPU; 99 layers or more,
or fewer than 0, are all of them. Not taken: how the file is read (mmap), and polling.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, model_of, precision_of
from ingest.importers.members import UNKNOWN_CPU, as_said, gpus_of, moment, series, truth
from ingest.importers.reading import BadFile, csv_rows, csv_text, json_document, json_lines, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["LlamaBench"]

_NEEDED = ("model_filename", "model_type", "n_prompt", "n_gen", "avg_ns")
_PLATFORMS = {
    "cuda": "cuda",
    "hip": "rocm",
    "rocm": "rocm",
    "hipblas": "rocm",
    "metal": "mps",
    "mtl": "mps",
    "sycl": "xpu",
    "vulkan": "vulkan",
    "kompute": "vulkan",
    "opencl": "opencl",
    "cann": "cann",
    "musa": "musa",
    "webgpu": "webgpu",
}
"""Backends that run on a GPU; CPU, BLAS, AMX and RPC are none."""
_FLAGS = ("cuda", "metal", "sycl", "vulkan", "kompute", "opencl", "cann")
"""Columns of builds before there was `backends`, one a backend."""
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_HUB = re.compile(r"^[\w.-]+?_[\w.-]+?-GGUF_(?=.)", re.IGNORECASE)
_QUANTIZATION = re.compile(
    r"(?:^|[\s._-])(?P<word>(?:I?Q\d(?:_[0-9A-Z]+)*|TQ\d_0|BF16|F16|F32|MXFP4(?:_MOE)?|NVFP4))(?: - (?P<size>Small|Medium|Large)| - [\d.]+ bpw.*| MoE)?$",
    re.IGNORECASE,
)
_PRECISIONS = {"q4_0": "int4", "q4_1": "int4", "mxfp4_moe": "fp4"}
_NAMELESS = frozenset(("ggml-model", "model", "ggml", "weights", ""))
_ALL_LAYERS = 99
_COUNTS = ("n_batch", "n_ubatch", "n_depth", "n_cpu_moe")
_FLAGS_OF_WORK = ("flash_attn", "no_kv_offload", "embeddings", "no_op_offload", "tensor_buft_overrides", "moe_cache")


class LlamaBench:
    """Results of llama-bench (JSON, JSONL, CSV)."""

    name = "llama-bench"
    title = "llama.cpp llama-bench -o json, jsonl or csv"

    def sniff(self, file: File) -> bool:
        """Return whether the first row has llama-bench's columns."""
        if file.suffix not in (".json", ".jsonl", ".ndjson", ".csv"):
            return False
        head = file.head().lstrip()
        first = head.partition("}")[0] if head[:1] in "[{" else head.partition("\n")[0]
        names = [f'"{name}"' for name in _NEEDED] if head[:1] in ("[", "{") else list(_NEEDED)
        return bool(head) and all(name in first for name in names)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        records = _records(file)
        first = list(itertools.islice(records, 1))  # what is no such file at all makes no run
        document = Document(file, self.name, source="llama.cpp llama-bench")
        yield from document.events(_rows(document, file, itertools.chain(first, records)))


def _rows(document: Document, file: File, records: Iterable[tuple[int, Any]]) -> Iterator[Draft | Refused]:
    for at, row in records:
        if isinstance(row, Refused):
            yield row
            continue
        try:
            if not isinstance(row, dict):
                raise BadRow("row", "is not an object")
            yield _draft(row, at)
        except BadRow as bad:
            yield document.refused(bad.reason, row=at, field=bad.field, content=_alone(file, row))


def _records(file: File) -> Iterator[tuple[int, Any]]:
    """Yield the rows with their numbers: of a list, of lines, or of a table."""
    if file.suffix == ".csv":
        for item in csv_rows(file):
            yield (item.row or 0, item) if isinstance(item, Refused) else item
    elif file.suffix == ".json" and not file.head().lstrip().startswith("{"):
        document = json_document(file)
        if not isinstance(document, list):
            raise BadFile("is not a list of results")
        yield from enumerate(document, start=1)
    else:
        for line, document in json_lines(file):
            if isinstance(document, BadFile):
                yield line, Refused(path=file.name, row=line, reason=document.reason)
            else:
                yield line, document


def _alone(file: File, row: Any) -> str:
    if file.suffix == ".csv":
        return csv_text([list(row), list(row.values())])
    return json.dumps([row] if file.suffix == ".json" and file.head().lstrip().startswith("[") else row) + "\n"


def _draft(row: dict[str, Any], at: int) -> Draft:
    prompt, made = whole(row, "n_prompt"), whole(row, "n_gen")
    if prompt is None and made is None:
        raise BadRow("n_prompt", "is 0, and so is n_gen: nothing was processed")
    mean_ms = number(row, "avg_ns", unit="ns")
    if mean_ms is None:
        raise BadRow("avg_ns", "is missing")
    latency: dict[str, Any] = {"mean": mean_ms, "stddev": number(row, "stddev_ns", unit="ns", zero=True)}
    samples = series(row.get("samples_ns"), "samples_ns", "ns")
    if samples:
        latency |= {"min": min(samples), "max": max(samples), "n": len(samples)}
    hardware, platform = _where(row)
    return Draft(
        model=_model(row),
        workload=_workload(prompt, made),
        execution={
            "platform": platform,
            "runtime": {"name": "llama.cpp", "version": text(row, "build_number")},
            "precision": _precision(_quantization(row)),
            "threads": whole(row, "n_threads"),
            "options": _options(row, hardware, platform),
        },
        hardware=hardware,
        metrics={
            "latency_ms": latency,
            "tpot_ms": mean_ms / made if made and not prompt else None,
            "tokens_per_s": made / mean_ms * 1000 if made else None,
        },
        environment=_environment(row),
        time=moment(row.get("test_time"), "test_time"),
        row=at,
        claims={"samples_ms": samples},
        original={
            f"{name} ({unit})": as_said(row[name])
            for name, unit in (
                ("avg_ns", "ns"),
                ("stddev_ns", "ns"),
                ("avg_ts", "tokens/s"),
                ("stddev_ts", "tokens/s"),
                ("model_size", "bytes"),
            )
            if row.get(name) is not None
        },
    )


def _workload(prompt: int | None, made: int | None) -> dict[str, Any]:
    workload: dict[str, Any] = {"mode": "inference", "scenario": "single_stream", "batch_size": 1}
    if made is None:
        return {**workload, "sequence_length": prompt}
    return {**workload, "input_tokens": prompt, "output_tokens": made}


def _quantization(row: dict[str, Any]) -> str | None:
    """Return the quantization in one word, such as `q4_k_m`: of the type's words, else of the file's name."""
    for said in (text(row, "model_type"), _stem(row)):
        match = _QUANTIZATION.search(said or "")
        if match:
            size = match["size"]
            return (match["word"] + (f"_{size[0]}" if size else "")).lower()
    return None


def _precision(quantization: str | None) -> str | None:
    return precision_of(_PRECISIONS.get(quantization or "", quantization))


def _stem(row: dict[str, Any]) -> str:
    name = re.split(r"[\\/]", text(row, "model_filename") or "")[-1]
    return _HUB.sub("", _SHARD.sub("", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)))


def _model(row: dict[str, Any]) -> dict[str, Any]:
    kind = text(row, "model_type")
    if kind is None and text(row, "model_filename") is None:
        raise BadRow("model_type", "is missing, and so is model_filename")
    words = re.sub(r"\(guessed\)\s*|\bmostly\b|\ball\b", " ", kind or "").split()
    name = _QUANTIZATION.sub("", _stem(row)).strip(" ._-")
    if name.lower() in _NAMELESS:
        name = "-".join(words[:2]) or "unknown"
    return model_of(
        name,
        category="text_generation",
        family=_family(words),
        parameters=whole(row, "model_n_params"),
    )


def _family(words: list[str]) -> str | None:
    first = words[0].lower() if words else ""
    return first if re.fullmatch(r"[a-z0-9][a-z0-9._+-]{0,63}", first) else None


def _backends(row: dict[str, Any]) -> list[str]:
    said = text(row, "backends")
    if said is not None:
        return [word for word in re.split(r"[,\s/]+", said.lower()) if word]
    return [name for name in _FLAGS if truth(row.get(name))]


def _layers(row: dict[str, Any]) -> int | None:
    """Return the layers on the GPU, None where they are all or not said."""
    said = text(row, "n_gpu_layers")
    try:
        layers = int(said) if said is not None else -1
    except ValueError:
        raise BadRow("n_gpu_layers", "is not a whole number") from None
    return layers if 0 <= layers < _ALL_LAYERS else None


def _where(row: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the hardware that did the work, and its platform."""
    platform = next((_PLATFORMS[word] for word in _backends(row) if word in _PLATFORMS), "cpu")
    names = [name.strip() for name in (text(row, "gpu_info") or "").split(", ") if name.strip()]
    if platform == "cpu" or _layers(row) == 0:
        names = [name.strip() for name in (text(row, "cpu_info") or "").split(", ") if name.strip()]
        if not names:
            return UNKNOWN_CPU, "cpu"
        return hardware_of(names[0], kind="cpu", count=len(names) if len(set(names)) == 1 else 1), "cpu"
    if platform == "mps":
        names = [name if name.lower().endswith("gpu") else f"{name} GPU" for name in names]
    if text(row, "split_mode") is None and str(row.get("split_mode")).strip() == "none" and names:
        main = whole(row, "main_gpu") or 0
        names = names[main : main + 1] or names[:1]
    return gpus_of(names), platform


def _options(row: dict[str, Any], hardware: dict[str, Any], platform: str) -> dict[str, Any] | None:
    options: dict[str, Any] = {"quantization": _quantization(row)}
    options |= {name: whole(row, name) for name in _COUNTS} | {name: text(row, name) for name in ("type_k", "type_v")}
    for name in _FLAGS_OF_WORK:
        options[name] = _plain(row.get(name))
    layers = _layers(row)
    if layers is not None and any(word in _PLATFORMS for word in _backends(row)):
        options["n_gpu_layers"] = layers
    if hardware["count"] > 1 and platform != "cpu":
        options["split_mode"] = text(row, "split_mode")
    return {name: value for name, value in options.items() if value is not None and value is not False} or None


def _plain(said: Any) -> Any:
    """Return a flag or a word, None where nothing is said: CSV writes flags as 0 and 1, later builds -1 for auto."""
    word = text({"said": str(said)}, "said")
    flag = truth(word)
    return "auto" if word == "-1" else word[:200] if word and flag is None else flag


def _environment(row: dict[str, Any]) -> dict[str, Any] | None:
    number_, commit = text(row, "build_number"), text(row, "build_commit")
    build = "-".join(part for part in (number_, commit) if part)
    return environment({"llama.cpp": build} if build else None, cpu=text(row, "cpu_info"))

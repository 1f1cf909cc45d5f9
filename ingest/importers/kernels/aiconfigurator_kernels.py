"""Kernel tables of ai-dynamo/aiconfigurator (Apache-2.0): matrix products, attention, mixtures of experts and collectives of
LLM engines on data-centre GPUs.

Two spellings of the same rows are taken, as CSV or as Parquet. As the repository has them under `systems/data`
(`gemm_perf.txt`, `context_attention_perf.txt`, `generation_attention_perf.txt`, `encoder_attention_perf.txt`, `moe_perf.txt`,
`custom_allreduce_perf.txt`, `nccl_perf.txt`, `oneccl_perf.txt`, all also with the suffix `.parquet`): `framework, version,
device, op_name, kernel_source`, where `device` is the driver's name, the sizes, and `latency` in ms. And put together over all
systems: `device` is the system (`h100_sxm`), `device_name` the driver's name, `latency_ms`.

- gemm: `gemm_dtype, m, n, k`. Attention: `attn_dtype, kv_cache_dtype, batch_size, isl` (new tokens), `step` (tokens cached),
  `num_heads, num_key_value_heads, head_dim, window_size`; rows with more than one beam are not taken.
- moe: `moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size, distribution`.
- Collectives: `allreduce_dtype` or `nccl_dtype, num_gpus, message_size` in elements, not bytes, whatever its name says.

A time is the mean of at least 6 replays of a CUDA graph after 3 warm-ups, over several copies of the weights, so that they
seldom lie in the cache. Blocks of 8-bit weights under vLLM ran without a graph, and its 8-bit products include quantising the
activations. Collectives say themselves whether they ran in a graph (`backend`); NCCL's and oneCCL's are those of their own
benchmarks. The same configuration with other times is a repeat, and kept as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from domain.kernels import NUMBER_TYPES
from domain.payloads import KernelTypes
from ingest.importers.document import Document
from ingest.importers.files import File
from ingest.importers.identity import precision_of, runtime_of
from ingest.importers.kernels.columns import Columns, Texts, columns_of, names_of, numbered
from ingest.importers.kernels.facts import facts
from ingest.importers.kernels.kernel_table import KernelTable, device_named, grouped, platform_of
from ingest.importers.reading import BadFile
from ingest.importers.refusals import Refused

__all__ = ["AiConfiguratorKernels"]


class _Kind(NamedTuple):
    """One sort of table: the number type's column in the repository, our names of the sizes' columns, and what is optional."""

    operator: str
    dtypes: tuple[str, ...]
    sizes: Mapping[str, str]
    optional: frozenset[str] = frozenset()


_KINDS = (
    _Kind("gemm", ("gemm_dtype",), {"n": "n", "k": "k", "m": "m"}),
    _Kind(
        "attention",
        ("attn_dtype",),
        {
            "window_size": "window_size",
            "head_dim": "head_dim",
            "kv_heads": "num_kv_heads",
            "heads": "num_heads",
            "cached_tokens": "step",
            "query_tokens": "isl",
            "batch": "batch",
        },
        frozenset(("window_size", "kv_heads", "cached_tokens")),
    ),
    _Kind(
        "moe",
        ("moe_dtype",),
        {
            "hidden_size": "hidden_size",
            "inner_size": "inter_size",
            "experts": "num_experts",
            "top_k": "topk",
            "tensor_parallel": "moe_tp",
            "expert_parallel": "moe_ep",
            "tokens": "num_tokens",
        },
    ),
    _Kind("collective", ("allreduce_dtype", "nccl_dtype"), {"ranks": "ranks", "elements": "message_elements"}),
)
"""Sizes by our names, in the order in which rows are sorted, slowest first."""
_NAMES = {
    **{dtype: "dtype" for kind in _KINDS for dtype in kind.dtypes},
    "latency": "latency_ms",
    "op_name": "op",
    "batch_size": "batch",
    "seqlen": "isl",
    "num_key_value_heads": "num_kv_heads",
    "moe_tp_size": "moe_tp",
    "moe_ep_size": "moe_ep",
    "num_gpus": "ranks",
    "message_size": "message_elements",
}
_SOFTWARE = ("framework", "version", "kernel_source", "dtype")
_MAY_BE = ("kind", "op", "device_name", "kv_cache_dtype", "distribution", "backend", "used_cuda_graph", "beam_width")
_SYSTEMS = {"NVIDIA B300 SXM6 AC": "b300_sxm", "Intel(R) Graphics [0xe211]": "b60"}
"""What drivers call devices of systems that the catalogue knows by another name."""
_PHASES = {f"{phase}_attention": phase for phase in ("context", "generation", "encoder")}
_LIBRARIES = ("nccl", "oneccl")
_NOTES = {
    ("nvidia-gb200", "vllm"): "On this device vLLM reaches 46 % of the peak where it reaches 70 % on a B200.",
    ("nvidia-l40s", "tensorrt-llm"): "The source's collectives of this device equal those of an older SGLang table.",
}


class AiConfiguratorKernels:
    """aiconfigurator's kernel tables (CSV or Parquet)."""

    name = "aiconfigurator-kernels"
    title = "aiconfigurator kernel tables (ai-dynamo): *_perf.txt, or flattened as Parquet or CSV"

    def sniff(self, file: File) -> bool:
        """Return whether the columns are those of one of its tables."""
        return _kind_of(names_of(file)) is not None

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its tables and the end of the run; see Importer."""
        document = Document(
            file,
            self.name,
            source="aiconfigurator kernel tables",
            licence="Apache-2.0",
            reference="ai-dynamo/aiconfigurator systems/data",
        )
        kind = _kind_of(names_of(file))
        if kind is None:
            raise BadFile("has not the columns of a kernel table of aiconfigurator (docs/importers.md names them)", 1)
        needed = (
            "device",
            *_SOFTWARE,
            *(name for size, name in kind.sizes.items() if size not in kind.optional),
            "latency_ms",
        )
        optional = (*_MAY_BE, *(kind.sizes[size] for size in kind.sizes if size in kind.optional))
        columns = columns_of(file, needed, optional, _NAMES)
        return document.events(facts(document, columns, _tables(columns, kind)))


def _kind_of(names: set[str]) -> _Kind | None:
    ours = {_NAMES.get(name, name) for name in names}
    if not ours.issuperset({"device", *_SOFTWARE, "latency_ms"}):
        return None
    return next(
        (
            kind
            for kind in _KINDS
            if ours.issuperset(name for size, name in kind.sizes.items() if size not in kind.optional)
        ),
        None,
    )


def _tables(columns: Columns, kind: _Kind) -> Iterator[KernelTable]:
    sizes = {
        size: columns.whole(name, needed=size not in kind.optional, least=int(size not in kind.optional))
        for size, name in kind.sizes.items()
    }
    latency = columns.times("latency_ms")
    keys = {name: columns.texts(name, needed=True) for name in ("device", *_SOFTWARE)}
    keys |= {
        name: columns.texts(name)
        for name in ("kind", "op", "device_name", "kv_cache_dtype", "distribution", "backend", "used_cuda_graph")
    }
    if kind.operator == "attention":
        keys["phase"] = _phases(columns, keys)
        columns.refuse(columns.whole("beam_width", needed=False) > 1, "beam_width", "beams are not taken")
    if kind.operator == "collective":
        columns.refuse(keys["op"].codes < 0, "op", "is missing")
        keys["ranks"] = numbered(sizes["ranks"])
    for said, places in grouped(columns, keys):
        about = _about(kind, said)
        yield KernelTable(
            about=about,
            columns=columns,
            places=places,
            sizes={name: values[places] for name, values in sizes.items()},
            latency=latency[places],
            order=list(kind.sizes),
        )


def _phases(columns: Columns, keys: Mapping[str, Texts]) -> Texts:
    """Return by row whether it is attention of a prompt, of a generated token or of an encoder."""
    source = keys["kind"] if "kind" in columns else keys["op"]
    phases = source.mapped(
        lambda word: _PHASES.get(word, word) if _PHASES.get(word, word) in _PHASES.values() else None
    )
    columns.refuse(phases.codes < 0, "kind" if "kind" in columns else "op", "is none of context, generation, encoder")
    return phases


def _about(kind: _Kind, said: Mapping[str, str | None]) -> dict[str, Any]:
    """Return an event's data without its columns."""
    driver = said["device_name"] or said["device"]
    device = device_named((driver, _SYSTEMS.get(driver or ""), said["device"]), "gpu", int(said.get("ranks") or 1))
    source = said["kernel_source"] or ""
    runtime = runtime_of(source if source.lower() in _LIBRARIES else said["framework"], said["version"])
    dtype = said["dtype"] or ""
    types = NUMBER_TYPES.get(dtype) or KernelTypes(published=precision_of(dtype))
    published = {name: getattr(types, name) for name in ("published", "weights", "activations", "arithmetic")}
    cache = NUMBER_TYPES.get(said["kv_cache_dtype"] or "")
    published["kv_cache"] = cache.weights if cache else precision_of(said["kv_cache_dtype"])
    if kind.operator in ("attention", "collective"):
        published["weights"] = None
    if kind.operator == "collective":
        published["arithmetic"] = None
    about: dict[str, Any] = {
        "hardware": device,
        "execution": {
            "platform": platform_of(device),
            "runtime": runtime,
            "precision": types.weights or precision_of(dtype),
        },
        "operator": kind.operator,
        "name": said["op"] if kind.operator == "collective" else None,
        "phase": said.get("phase"),
        "kernel": source,
        "device_name": driver,
        "types": {name: value for name, value in published.items() if value is not None},
        "fixed": {"distribution": said["distribution"]} if said["distribution"] else {},
        "method": _method(kind, said, device["id"], (runtime or {}).get("name")),
    }
    return {name: value for name, value in about.items() if value is not None}


def _method(kind: _Kind, said: Mapping[str, str | None], device: str, runtime: str | None) -> dict[str, Any]:
    """Return what a time of the table contains."""
    dtype = said["dtype"] or ""
    vllm = runtime == "vllm" and kind.operator == "gemm"
    method: dict[str, Any] = {"statistic": "mean"}
    if runtime in _LIBRARIES:
        method |= {"launch": "eager", "buffers": "warm", "warmups": 40 if runtime == "nccl" else 20}
    elif kind.operator == "collective":
        how = f"{said['backend']} {said['kernel_source']}".lower()
        method |= {"launch": "graph" if "graph" in how else "eager" if "eager" in how else None}
    else:
        graph = said["used_cuda_graph"]
        launched = "graph" if graph is None or graph.lower() == "true" else "eager"
        method |= {"launch": launched, "buffers": "rotated", "samples": 6, "warmups": 3}
    if vllm and dtype == "fp8_block":
        method["launch"] = "eager"
    if vllm and dtype.startswith("fp8"):
        method["includes"] = ["activation-quantisation"]
    method["note"] = _NOTES.get((device, runtime or ""))
    return {name: value for name, value in method.items() if value is not None}

"""What a page says of its browser and of the work, read: which backends there are, where nodes went, what is doubtful."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from domain.compatibility.pages import is_software_renderer
from domain.statistics import median, series_interval
from domain.verdicts import drift

if TYPE_CHECKING:
    from runner.platforms.base import Settings

__all__ = [
    "Ability",
    "Backend",
    "Placement",
    "Taken",
    "backends_of",
    "doubts_of",
    "is_software",
    "observation",
    "placement_of",
]

_DRIFT = 0.1
_NODES = re.compile(r"[Nn]odes?(?:\(s\))? placed on \[(\w+)\]\. Number of nodes: (\d+)")
_PARTITIONS = re.compile(
    r"GetCapability, number of partitions supported by WebNN: (\d+) number of nodes in the graph: (\d+) "
    r"number of nodes supported by WebNN: (\d+)"
)
_OWN = {
    "wasm": frozenset({"CPUExecutionProvider"}),
    "webgpu": frozenset({"WebGpuExecutionProvider", "JsExecutionProvider"}),
    "webnn": frozenset({"WebNNExecutionProvider"}),
}


Backend = Literal["wasm", "webgpu", "webnn"]


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a page could use a backend: `evidence` says what it did, or `reason` why it did nothing."""

    backend: Backend
    available: bool
    evidence: str | None = None
    reason: str | None = None
    remedy: str | None = None
    features: tuple[str, ...] = ()
    """What the backend has: SIMD and threads, fp16, or the WebNN devices that were granted."""
    adapter: str | None = None
    software: bool | None = None
    """WebGPU only: the adapter is the processor in place of a GPU."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the page may name; a software adapter is the processor."""
        if self.backend == "webnn":
            return self.features
        if self.backend == "webgpu" and self.adapter:
            return (f"cpu ({self.adapter})" if self.software else self.adapter,)
        return ("cpu",) if self.available else ()


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of the compiled graph by execution provider, and what WebNN took of the graph before."""

    nodes: dict[str, int] = {}
    partitions: int | None = None
    graph_nodes: int | None = None
    webnn_nodes: int | None = None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A series as the page took it: times of a call in ms, and whether the page was hidden for a time."""

    samples: list[float] = msgspec.field(default_factory=list, name="ms")
    calls_per_sample: int = 1
    """More than one where the clock's steps are longer than a call; a sample is the mean of so many then."""
    hidden: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What did the work, with the page's own words."""

    device: str
    precision: str
    fallback_share: float
    details: dict[str, Any]


def backends_of(environment: Mapping[str, Any]) -> dict[str, Ability]:
    """Return what a page can compute with, from its `environment`."""
    return {"wasm": _wasm(environment), "webgpu": _webgpu(environment), "webnn": _webnn(environment)}


def _wasm(environment: Mapping[str, Any]) -> Ability:
    if not environment.get("wasm"):
        return Ability(backend="wasm", available=False, reason="a small WebAssembly module did not run")
    words = (("SIMD", environment.get("simd")), ("threads", environment.get("shared_memory")))
    features = tuple(word for word, there in words if there)
    evidence = f"a WebAssembly module ran, with {' and '.join(features) or 'neither SIMD nor threads'}"
    return Ability(backend="wasm", available=True, evidence=evidence, features=features)


def _webgpu(environment: Mapping[str, Any]) -> Ability:
    adapter = environment.get("adapter")
    if not environment.get("gpu"):
        reason = "no navigator.gpu: WebGPU is off or this build has none"
        return Ability(backend="webgpu", available=False, reason=reason)
    if not adapter or adapter.get("error"):
        reason = ": ".join(filter(None, ("no WebGPU adapter", (adapter or {}).get("error"))))
        return Ability(backend="webgpu", available=False, reason=reason)
    name, software = adapter_name(adapter), is_software(adapter)
    return Ability(
        backend="webgpu",
        available=True,
        evidence=f"an adapter gave a device: {name}{' (software)' if software else ''}",
        features=("fp16",) if adapter.get("shader_f16") else (),
        adapter=name,
        software=software,
    )


def _webnn(environment: Mapping[str, Any]) -> Ability:
    contexts = environment.get("ml")
    if not contexts:
        reason = "no navigator.ml: WebNN is off or this build has none"
        return Ability(backend="webnn", available=False, reason=reason)
    devices = tuple(device for device, made in contexts.items() if made is True)
    if not devices:
        return Ability(
            backend="webnn",
            available=False,
            reason=f"no WebNN context: {next(iter(contexts.values()))}",
            remedy="assay browser install brings a Chromium that has WebNN on Linux.",
        )
    # A browser grants `gpu` and `npu` on machines that have neither.
    evidence = f"contexts were made for {', '.join(devices)}; which device works is not told"
    return Ability(backend="webnn", available=True, evidence=evidence, features=devices)


def adapter_name(adapter: Mapping[str, Any]) -> str:
    """Return what an adapter says that it is."""
    words = [str(adapter[name]) for name in ("vendor", "architecture", "device", "description") if adapter.get(name)]
    return " ".join(words) or "unnamed"


def is_software(adapter: Mapping[str, Any]) -> bool:
    """Return whether an adapter is the processor: it says so, or its name is that of a software renderer."""
    return bool(adapter.get("isFallbackAdapter")) or is_software_renderer(adapter_name(adapter))


def device_of(adapter: Mapping[str, Any]) -> str:
    """Return the device that an adapter is; a software adapter is the processor."""
    return f"cpu ({adapter_name(adapter)})" if is_software(adapter) else adapter_name(adapter)


def placement_of(lines: Iterable[str]) -> Placement:
    """Return where nodes went, from lines of onnxruntime's verbose log; the last word on a provider counts."""
    nodes: Counter[str] = Counter()
    webnn: tuple[int, int, int] | None = None
    for line in lines:
        for match in _NODES.finditer(line):
            nodes[match[1]] = int(match[2])
        if taken := _PARTITIONS.search(line):
            webnn = (int(taken[1]), int(taken[2]), int(taken[3]))
    if webnn is None:
        return Placement(nodes=dict(nodes))
    return Placement(nodes=dict(nodes), partitions=webnn[0], graph_nodes=webnn[1], webnn_nodes=webnn[2])


def fallback_share(backend: str, placement: Placement) -> float:
    """Return the share of the nodes that another provider ran; for WebNN, of the graph before it was fused."""
    if backend == "webnn" and placement.graph_nodes:
        return 1 - (placement.webnn_nodes or 0) / placement.graph_nodes
    total = sum(placement.nodes.values())
    return 1 - sum(count for name, count in placement.nodes.items() if name in _OWN[backend]) / total if total else 0.0


def observation(
    backend: str, settings: Settings, environment: Mapping[str, Any], placement: Placement, *, threads: int
) -> Seen:
    """Return what did the work. WebNN's device is not told by any browser."""
    # onnxruntime's processor kernels have no 16-bit arithmetic in WebAssembly: it casts around each of them.
    precision = "fp32" if backend == "wasm" and settings.precision == "fp16" else settings.precision
    device = "cpu"
    if backend == "webgpu":
        device = device_of(environment.get("adapter") or {})
    elif backend == "webnn":
        device = "not told"
    return Seen(
        device=device,
        precision=precision,
        fallback_share=round(fallback_share(backend, placement), 4),
        details=_present(
            {
                "nodes": placement.nodes,
                "share_of": "nodes",
                **({"webnn": _taken(placement)} if backend == "webnn" else {}),
                "threads": {"asked": settings.threads, "had": threads},
                "isolated": environment.get("isolated"),
                "clock_step_ms": environment.get("clock_step_ms"),
                "adapter": environment.get("adapter") if backend == "webgpu" else None,
                "hardware_concurrency": environment.get("hardware_concurrency"),
                "memory": "proportional set size of the browser's processes",
            }
        ),
    )


def _present(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}


def _taken(placement: Placement) -> dict[str, int | None]:
    return {
        "partitions": placement.partitions,
        "graph_nodes": placement.graph_nodes,
        "nodes": placement.webnn_nodes,
    }


def doubts_of(
    backend: str,
    settings: Settings,
    environment: Mapping[str, Any],
    taken: Taken,
    *,
    beside: Sequence[float] | None = None,
) -> list[str]:
    """Return why a row of a page is suspect; `beside` are times of WebNN's cpu in the same page, in ms."""
    samples = taken.samples
    doubts = []
    adapter = environment.get("adapter")
    if backend == "webgpu" and adapter and is_software(adapter):
        doubts.append(f"a software adapter did the work: {adapter_name(adapter)} is the processor")
    if not environment.get("isolated"):
        doubts.append("the page was not cross-origin isolated: one thread and a coarse clock")
    if taken.hidden:
        doubts.append("the page was hidden for a time")
    if taken.calls_per_sample > 1:
        step = environment.get("clock_step_ms") or 0.0
        doubts.append(
            f"the page's clock steps by {step:.3g} ms, so that a sample is the mean of {taken.calls_per_sample} calls"
        )
    change = drift(samples)
    if change is not None and change < 0:
        doubts.append(f"code was still being optimised: the second half took {-change:.0%} less")
    if beside and samples and _alike(samples, beside):
        doubts.append(
            f"cannot be told from cpu: {median(samples):.3g} ms with {settings.device}, {median(beside):.3g} ms with cpu"
        )
    return doubts


def _alike(samples: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two medians are within a tenth, as a machine drifts, or their intervals overlap or are not known."""
    first, second = series_interval(samples), series_interval(others)
    if first is None or second is None or (first[0] <= second[1] and second[0] <= first[1]):
        return True
    return abs(median(samples) / median(others) - 1) <= _DRIFT

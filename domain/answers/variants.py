"""Variants in answers: what an option was compressed by, how large it is, and what it costs in quality."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

__all__ = [
    "Deliveries",
    "Delivery",
    "Endpoint",
    "ModelVariants",
    "OptionVariant",
    "QualityLoss",
    "VariantRow",
    "form_of_platform",
]

_OPENVINO = frozenset(("openvino",))
_ONNX = frozenset(("onnxruntime", "onnxruntime-cuda", "qnn", "wasm", "webgpu", "webnn"))


class QualityLoss(msgspec.Struct, frozen=True, kw_only=True):
    """How much worse a model is than its base on the same examples, with the 95 % interval; negative is better.

    `loss`, `low` and `high` are percentage points where `unit` is `pt`. `worse` and `better` count examples on which only
    one of the two is right. It was measured on `platform` and `precision` of `hardware`, by the event `evidence`.
    """

    metric: str
    unit: str
    loss: float
    low: float
    high: float
    examples: int
    data: str
    method: str
    worse: int | None
    better: int | None
    hardware: str
    platform: str
    precision: str | None
    evidence: str

    def text(self) -> str:
        """Return the loss with its interval: `0.1 pt (-0.2 to 0.4; 2,000 examples)`."""
        ends = f"{self.low:.3g} to {self.high:.3g}"
        return f"{self.loss:.3g} {self.unit} ({ends}; {self.examples:,} examples)"

    def examples_needed(self, limit: float) -> int | None:
        """Return about how many examples show that the loss is within `limit`; None where the estimate itself is beyond.

        The upper end comes nearer to the estimate by the square root of the number of examples.
        """
        room = limit - self.loss
        if room <= 0:
            return None
        share = max((self.high - self.loss) / room, 1.0)
        digits = max(1, len(str(self.examples)) - 2)
        unit = int(10**digits)
        return math.ceil(self.examples * share * share / unit) * unit


class OptionVariant(msgspec.Struct, frozen=True, kw_only=True):
    """The variant that an option runs: its own model id, the recipe, the form that its platform takes and the size of that.

    `bytes` is the size of the form's files, `base_bytes` that of the base's weights. `quality` is null where nobody evaluated it.
    """

    model: str
    base: str
    recipe: str
    form: str
    quantization: str | None
    bytes: int
    base_bytes: int | None
    quality: QualityLoss | None


def form_of_platform(platform: str, runtime: str | None = None) -> str:
    """Return which form of a variant a platform takes: `openvino`, `onnx` or `checkpoint`."""
    if platform in _OPENVINO:
        return "openvino"
    return "onnx" if platform in _ONNX or runtime == "onnxruntime" else "checkpoint"


class VariantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model or one of its variants on one device, platform and precision: speed, memory, size and quality side by side.

    `recipe` is null for the model itself. `latency_ms` is the median of one call of the answer's workload with its 95 %
    interval, null where that was not measured; `speedup` is against the model itself in fp32 there. `bytes` is the size of
    the form on disk. `quality` is null where nobody evaluated it; `is_reference` marks the model itself in fp32, which costs 0.
    """

    model: str
    recipe: str | None = None
    form: str | None = None
    hardware: str | None = None
    platform: str | None = None
    precision: str | None = None
    batch_size: int | None = None
    latency_ms: float | None = None
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    throughput_per_s: float | None = None
    speedup: float | None = None
    peak_memory_bytes: int | None = None
    bytes: int | None = None
    quality: QualityLoss | None = None
    is_reference: bool = False
    verdict: str | None = None
    evidence: list[str]


class ModelVariants(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/variants`: the rows of a model and its variants, at the workload that most of them were measured at."""

    model: str
    workload: dict[str, int | float | str | None] | None
    base_bytes: int | None
    items: list[VariantRow]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint delivered between two moments beside its promise, as the view `deliveries` has it.

    `delivered_ms` is the statistic that was promised; `request_p50_ms` contains the waiting.
    """

    endpoint: str
    server: str
    model_id: str
    hardware_id: str
    platform: str
    precision: str | None
    since: datetime
    until: datetime
    requests: int
    failures: int
    verdict: str
    reason: str | None
    delivered_ms: float | None
    latency_p50_ms: float | None
    latency_n: int | None
    request_p50_ms: float | None
    throughput_per_s: float | None
    promise_latency_ms: float | None
    promise_low_ms: float | None
    promise_high_ms: float | None
    promise_coverage: float | None
    promise_origin: str | None
    promise_percentile: str | None
    recommendation: str | None
    position: int
    event_id: str


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A served model as it stands, as the view `endpoints` has it."""

    endpoint: str
    server: str
    state: str
    model_id: str
    hardware_id: str | None
    platform: str | None
    precision: str | None
    workers: int | None
    memory_bytes: int | None
    reason: str | None
    promise_latency_ms: float | None
    promise_low_ms: float | None
    promise_high_ms: float | None
    changed_at: datetime
    position: int
    event_id: str


class Deliveries(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/deliveries`: endpoints by name, and what they delivered, the newest first."""

    endpoints: list[Endpoint]
    items: list[Delivery]

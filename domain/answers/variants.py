"""Variants in answers: what an option was compressed by, how large it is, and what it costs in quality."""

from __future__ import annotations

import math

import msgspec

__all__ = ["OptionVariant", "QualityLoss", "form_of_platform"]

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

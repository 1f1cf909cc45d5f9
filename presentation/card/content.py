"""What a card says, as structs: the machine, its roofs, and figures of models on it and on like machines."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from domain.answers import Sizes
from presentation import formatting

__all__ = [
    "BASIS_WORDS",
    "MARKER",
    "Card",
    "CardFigure",
    "CardKernel",
    "CardModel",
    "CardPeer",
    "CardPoint",
    "CardRoof",
    "CardRoofline",
    "CardRow",
    "Headline",
    "call_words",
    "headline",
    "software_words",
]

MARKER = "Assay card"
"""Stands in every file of a card, so that a card is known from other files."""
BASIS_WORDS = {
    "measured": "measured",
    "imported": "imported",
    "reference": "estimate (sibling)",
    "calibrated": "estimate (calibrated)",
    "predicted": "estimate",
    "roofline": "estimate (specs only)",
}
"""What a figure rests on, in words of a legend."""
_SOFTWARE = {
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "onnxruntime-cuda": "ONNX Runtime",
    "tensorrt": "TensorRT",
    "tensorrt-llm": "TensorRT-LLM",
    "torch": "torch",
    "qnn": "QNN",
    "qairt": "QAIRT",
    "tflite": "LiteRT",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "mlx": "MLX",
}


_LONG = 1e5
"""From here on a rate is written with a prefix: `2.44 M`."""


class Headline(NamedTuple):
    """A figure in words: its value, its unit in full and short, and its interval in that unit (empty where there is none)."""

    value: str
    unit: str
    short_unit: str
    interval: str

    @property
    def text(self) -> str:
        """Value and unit."""
        return f"{self.value} {self.unit}".rstrip()


class CardModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the sizes of one call of it, at batch 1."""

    id: str
    label: str
    sizes: Sizes | None = None


class CardFigure(msgspec.Struct, frozen=True, kw_only=True):
    """How long one call takes on one device, and what that rests on.

    The interval is the 95 % confidence interval of a measured median, or the 80 % interval of an estimate. `n` counts samples.
    """

    basis: str
    latency_ms: float
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    latency_is_mean: bool = False
    platform: str | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    precision: str | None = None
    compiled: bool = False
    origin: str | None = None
    verdict: str | None = None
    reasons: list[str] = []
    n: int | None = None
    weights: str | None = None
    time: datetime | None = None
    event_id: str | None = None


class CardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model: its figure on this machine, those on like machines in the order of the card's peers, and what measures it."""

    model: CardModel
    own: CardFigure | None
    peers: list[CardFigure | None]
    command: str


class CardPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A device of the same class, by its name and its specified figures."""

    id: str
    name: str
    peak_flops: float | None = None
    peak_precision: str | None = None
    bandwidth_bytes_per_s: float | None = None


class CardRoof(msgspec.Struct, frozen=True, kw_only=True):
    """The peak of one precision: specified, and reached by kernels (`calibrate`) or by the quick probe (`detect`)."""

    precision: str
    specified_flops: float | None = None
    measured_flops: float | None = None
    measured_by: str | None = None
    platform: str | None = None
    verdict: str | None = None


class CardKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A measured kernel under the roof: FLOP per byte and FLOP/s."""

    flop_per_byte: float
    flops_per_s: float
    platform: str
    precision: str
    verdict: str | None = None


class CardPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A measured call of a model under the roof; `row` is its place in the card, from 0."""

    row: int
    flop_per_byte: float
    flops_per_s: float
    platform: str
    verdict: str | None = None


class CardRoofline(msgspec.Struct, frozen=True, kw_only=True):
    """Bandwidth and peaks, specified and measured, and what was measured under them."""

    roofs: list[CardRoof] = []
    specified_bandwidth: float | None = None
    measured_bandwidth: float | None = None
    bandwidth_by: str | None = None
    bandwidth_verdict: str | None = None
    kernels: list[CardKernel] = []
    points: list[CardPoint] = []

    @property
    def bandwidth(self) -> float | None:
        """The specified bandwidth, or the measured one where that is larger or the only one; bytes/s."""
        return max(filter(None, (self.specified_bandwidth, self.measured_bandwidth)), default=None)

    @property
    def complete(self) -> bool:
        """Whether there is a bandwidth and a peak, so that a roof can be drawn."""
        return self.bandwidth is not None and any(roof.specified_flops or roof.measured_flops for roof in self.roofs)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a card shows. `title` is the machine in one line; `software` are names with versions."""

    title: str
    hardware: str
    kind: str
    count: int
    software: list[str]
    roofline: CardRoofline
    rows: list[CardRow]
    peers: list[CardPeer]
    notes: list[str]
    made: datetime
    version: str
    position: int | None = None

    @property
    def measured(self) -> int:
        """How many of the models were measured on this machine."""
        return sum(row.own is not None and row.own.basis == "measured" for row in self.rows)

    @property
    def bases(self) -> list[str]:
        """The bases that stand on the card, in the order of the palette."""
        figures = [figure for row in self.rows for figure in (row.own, *row.peers) if figure is not None]
        return [basis for basis in BASIS_WORDS if any(figure.basis == basis for figure in figures)]

    @property
    def platforms(self) -> list[str]:
        """The platforms that stand on the card, each once."""
        figures = [figure for row in self.rows for figure in (row.own, *row.peers) if figure is not None]
        names = [figure.platform for figure in figures]
        names += [kernel.platform for kernel in self.roofline.kernels]
        return list(dict.fromkeys(filter(None, names)))


def call_words(sizes: Sizes | None) -> str:
    """Return what one call is, short: `one pass, 128 tokens`, `30 s audio, 100 tokens`."""
    if sizes is None:
        return "one call"
    if sizes.steps:
        return f"one image, {sizes.steps} steps"
    if sizes.output_tokens:
        read = f"{sizes.audio_seconds:g} s audio" if sizes.audio_seconds else ""
        unit = " tokens" if (sizes.input_tokens or 0) < 1000 else ""
        read = read or (f"{sizes.input_tokens:,}{unit} in" if sizes.input_tokens else "")
        out = f"{sizes.output_tokens:,} {'out' if sizes.input_tokens and not sizes.audio_seconds else 'tokens'}"
        return ", ".join(filter(None, (read, out)))
    if sizes.frames:
        return f"one clip of {sizes.frames} frames"
    if sizes.image_size:
        images = "one image" if sizes.images in (None, 1) else f"{sizes.images} images"
        return (
            f"{images} and one text" if sizes.sequence_length else f"{images}, {sizes.image_size} × {sizes.image_size}"
        )
    if sizes.audio_seconds:
        return f"{sizes.audio_seconds:g} s of audio, one pass"
    length = sizes.sequence_length or sizes.input_tokens
    return f"one pass, {length:,} tokens" if length else "one pass"


def headline(sizes: Sizes | None, figure: CardFigure | None) -> Headline:
    """Return a figure as it is compared.

    Generated text is tokens a second, speech a multiple of real time, anything else the time of one call.
    """
    if figure is None:
        return Headline(formatting.MISSING, "", "", "")
    low, high = figure.latency_ms_low, figure.latency_ms_high
    if low is None or high is None or low <= 0:
        low = high = None
    if sizes is not None and sizes.audio_seconds:
        return _rate(sizes.audio_seconds * 1e3, figure.latency_ms, low, high, ("× real time", "×"))
    if sizes is not None and sizes.output_tokens:
        return _rate(sizes.output_tokens * 1e3, figure.latency_ms, low, high, ("tokens/s", "tok/s"))
    scale = formatting.latency_scale([figure.latency_ms])
    value = formatting.significant(scale.of(figure.latency_ms))
    ends = formatting.interval(low, high, scale, value=figure.latency_ms, unit=False) if low is not None else ""
    return Headline(value, scale.unit, scale.unit, ends)


def _rate(
    work: float, value_ms: float, low_ms: float | None, high_ms: float | None, units: tuple[str, str]
) -> Headline:
    value, ends = work / value_ms, ""
    if low_ms is not None and high_ms is not None:
        ends = formatting.interval(work / high_ms, work / low_ms, formatting.Scale("", 1.0), value=value, unit=False)
    text = formatting.significant(value) if value < _LONG else formatting.plain(formatting.si(value, "")).strip()
    return Headline(text, *units, ends)


def software_words(figure: CardFigure) -> str:
    """Return software and precision of a figure: `OpenVINO bf16`."""
    name = figure.runtime or figure.platform or ""
    words = (_SOFTWARE.get(name, name), figure.precision or "", "compiled" if figure.compiled else "")
    return " ".join(filter(None, words))

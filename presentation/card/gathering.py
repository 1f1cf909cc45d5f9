"""Puts a card together: the best measurement of each model here, estimates where there is none, and like machines beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from assay import __version__
from assay.client import Client
from domain.answers import RankedOption, Recommendation, Sizes
from domain.catalogues import models as model_catalogue
from domain.catalogues.hardware import HardwareSpec, catalogue
from domain.errors import AssayError, Unavailable, UnknownModel
from domain.performance.kernel_figures import reached
from domain.vocabulary import BENCH_FLAGS
from presentation import formatting
from presentation.answer_words import model_name
from presentation.card.content import (
    Card,
    CardFigure,
    CardKernel,
    CardModel,
    CardPeer,
    CardPoint,
    CardRoof,
    CardRoofline,
    CardRow,
)
from presentation.card.evidence import Evidence, Machine, MeasuredKernels

__all__ = [
    "CLASSES",
    "MOST_ROWS",
    "bench_command",
    "chosen_models",
    "gather",
    "is_measured",
    "like_machines",
    "title_of",
]

MOST_ROWS = 5
PEERS = 3
_TRANSCRIPTION = Sizes(audio_seconds=30.0, output_tokens=100)
_GENERATION = Sizes(input_tokens=64, output_tokens=16)
CLASSES: dict[str, tuple[CardModel, ...]] = {
    "embedding": (CardModel(id="google-bert/bert-base-uncased", label="BERT-base", sizes=Sizes(sequence_length=128)),),
    "vision": (
        CardModel(id="google/vit-base-patch16-224", label="ViT-B/16", sizes=Sizes(image_size=224)),
        CardModel(id="microsoft/resnet-50", label="ResNet-50", sizes=Sizes(image_size=224)),
    ),
    "audio": (
        CardModel(id="openai/whisper-tiny", label="Whisper tiny", sizes=_TRANSCRIPTION),
        CardModel(id="openai/whisper-small", label="Whisper small", sizes=_TRANSCRIPTION),
    ),
    "multimodal": (
        CardModel(
            id="openai/clip-vit-base-patch32",
            label="CLIP ViT-B/32",
            sizes=Sizes(sequence_length=77, image_size=224, images=1),
        ),
    ),
    "text_generation": (
        CardModel(id="openai-community/gpt2", label="GPT-2 124M", sizes=_GENERATION),
        CardModel(id="Qwen/Qwen2-0.5B", label="Qwen2 0.5B", sizes=_GENERATION),
    ),
}
"""The classes of a card in order. Of each, the first model that was measured is shown, else the first."""
_PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "int8")
"""Precisions whose peaks a card compares."""


def bench_command(model: CardModel) -> str:
    """Return the command that measures a call of a model."""
    sizes = {} if model.sizes is None else model.sizes.stated()
    flags = [f"{BENCH_FLAGS[name]} {value:g}" for name, value in sizes.items() if name in BENCH_FLAGS]
    return " ".join(["assay bench", model.id, *flags])


def chosen_models(named: Sequence[str]) -> list[tuple[CardModel, ...]]:
    """Return the rows of a card as alternatives: the named models first, then the classes that they leave room for.

    A class that a named model belongs to is not shown again.
    """
    standard = {model.id: model for models in CLASSES.values() for model in models}
    rows: list[tuple[CardModel, ...]] = []
    taken: set[str] = set()
    for name in dict.fromkeys(named):
        known = model_catalogue.find(name)
        id_ = name if known is None else known.id
        taken |= set() if known is None else {known.category}
        rows.append((standard.get(id_) or CardModel(id=id_, label=model_name(id_)),))
    rows += [models for category, models in CLASSES.items() if category not in taken]
    return rows[: max(MOST_ROWS, len(named))]


def title_of(machine: Machine) -> str:
    """Return a machine in a line: `AMD EPYC 9005 · 2 cores · 24 GB`, `8 × NVIDIA H100 SXM · 80 GB each`."""
    name = f"{machine.count} × {machine.name}" if machine.count > 1 else machine.name
    cores = machine.spec.cores.value if machine.spec.cores is not None and machine.kind == "cpu" else None
    each = " each" if machine.count > 1 else ""
    memory = None if machine.memory_bytes is None else formatting.plain(_installed(machine.memory_bytes))
    parts = [
        name,
        f"{cores:g} core{'' if cores == 1 else 's'}{each}" if cores else "",
        f"{memory}{each if machine.kind != 'cpu' else ''}" if memory else "",
    ]
    return " · ".join(filter(None, parts))


def _installed(value: float) -> str:
    """Write memory as it is sold: a kernel keeps up to a twenty-fifth of what is installed for itself."""
    sold = math.ceil(value / 2**30)
    return f"{sold} GB" if sold >= 2 and value / 2**30 >= sold * 0.96 else formatting.memory(value)


def gather(
    machine: Machine, rows: Sequence[tuple[CardModel, ...]], evidence: Evidence, client: Client | None, made: datetime
) -> Card:
    """Return the card of a machine. Without a client there are neither estimates nor like machines, and a note says so.

    Raises UnknownModel for a named model that neither the service nor the catalogue nor the measurements know.
    """
    models = [_model(alternatives, evidence, client) for alternatives in rows]
    peers = [] if client is None else like_machines(machine.spec, _measured_hardware(client, machine.kind))
    card_rows = [
        CardRow(
            model=model,
            own=_best(model, evidence) or _estimate(client, model, machine.id),
            peers=[_estimate(client, model, peer.id) for peer in peers],
            command=bench_command(model),
        )
        for model in models
    ]
    return Card(
        title=title_of(machine),
        hardware=machine.id,
        kind=machine.kind,
        count=machine.count,
        software=_software(machine),
        roofline=_roofline(machine, evidence, card_rows),
        rows=card_rows,
        peers=[_peer(peer) for peer in peers],
        notes=_notes(card_rows, evidence, client),
        made=made,
        version=__version__,
        position=None if client is None else _position(client),
    )


def _model(alternatives: Sequence[CardModel], evidence: Evidence, client: Client | None) -> CardModel:
    """Return the first alternative that was measured, else the first; the sizes of one call where it has none yet."""
    model = next((model for model in alternatives if _best(model, evidence) is not None), alternatives[0])
    if model.sizes is not None:
        return model
    newest = max(
        (call for call in evidence.calls if call.model == model.id),
        key=lambda call: str(call.figure.time),
        default=None,
    )
    if newest is not None:
        return msgspec.structs.replace(model, sizes=newest.sizes)
    if client is not None:
        answer = _answer(client, model, None)
        usual = answer.workload.stated()
        return msgspec.structs.replace(model, id=answer.model, label=model_name(answer.model), sizes=Sizes(**usual))
    if model_catalogue.find(model.id) is None:
        raise UnknownModel(model.id, model_catalogue.nearest(model.id), field="MODEL")
    return model


def is_measured(alternatives: Sequence[CardModel], evidence: Evidence) -> bool:
    """Return whether one of the models was measured on the machine at the sizes of its call, or at any where it has none."""
    return any(
        call.figure.basis == "measured" and call.model == model.id and model.sizes in (None, call.sizes)
        for call in evidence.calls
        for model in alternatives
    )


def _best(model: CardModel, evidence: Evidence) -> CardFigure | None:
    """Return the fastest configuration that was measured, each by its newest row; a valid one before a suspect one."""
    newest: dict[tuple[Any, ...], CardFigure] = {}
    calls = [call for call in evidence.calls if call.model == model.id and call.sizes == model.sizes]
    for call in sorted(calls, key=lambda call: str(call.figure.time)):
        figure = call.figure
        newest[figure.platform, figure.runtime, figure.precision, figure.compiled, figure.basis] = figure
    usable = [figure for figure in newest.values() if figure.verdict != "invalid"]
    return min(
        usable,
        key=lambda figure: (figure.basis != "measured", figure.verdict == "suspect", figure.latency_ms),
        default=None,
    )


def _answer(client: Client, model: CardModel, hardware: str | None) -> Recommendation:
    sizes = {} if model.sizes is None else model.sizes.stated()
    where = {} if hardware is None else {"hardware": [hardware]}
    return msgspec.convert(client.recommend(model.id, top=1, batch_sizes=[1], **where, **sizes), Recommendation)


def _estimate(client: Client | None, model: CardModel, hardware: str) -> CardFigure | None:
    """Return what the service answers for a model on a device, or None where it has no answer."""
    if client is None or model.sizes is None:
        return None
    try:
        ranked = _answer(client, model, hardware).ranked
    except Unavailable:
        raise
    except AssayError:
        return None
    return _option_figure(ranked[0]) if ranked else None


def _option_figure(option: RankedOption) -> CardFigure | None:
    if option.latency_ms is None or option.origin in ("page", "simulated"):
        return None
    return CardFigure(
        basis=option.basis,
        latency_ms=option.latency_ms,
        latency_ms_low=option.latency_ms_low,
        latency_ms_high=option.latency_ms_high,
        latency_is_mean=bool(option.latency_is_mean),
        platform=option.platform,
        runtime=option.runtime,
        runtime_version=option.runtime_version,
        precision=option.precision,
        compiled=bool(option.compiled),
        origin=option.origin,
        verdict=option.verdict,
        n=option.n,
    )


def like_machines(spec: HardwareSpec, measured: Sequence[str] = ()) -> list[HardwareSpec]:
    """Return the devices of the same kind that come nearest in peak and bandwidth, nearest first.

    Where at least two of its kind have measurements, only those are compared.
    """
    own = {spec.id, *spec.parts}
    others = [
        other
        for other in catalogue().values()
        if other.kind == spec.kind and other.id not in own and not spec.id.startswith(f"{other.id}-")
    ]
    seen = [other for other in others if other.id in set(measured)]
    others = seen if len(seen) > 1 else [other for other in others if not other.asked_only]
    distances = {other.id: _distance(spec, other) for other in others}
    near = sorted((other for other in others if distances[other.id] < math.inf), key=lambda other: distances[other.id])
    return near[:PEERS]


def _distance(spec: HardwareSpec, other: HardwareSpec) -> float:
    """Return how far two devices are apart: factors of e in the peaks that both have, and in bandwidth."""
    shared = [name for name in _PRECISIONS if name in spec.peak_flops and name in other.peak_flops]
    peaks = [abs(math.log(spec.peak_flops[name].value / other.peak_flops[name].value)) for name in shared]
    mine = spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s
    others = other.memory_bandwidth_bytes_per_s
    feeds = [abs(math.log(mine.value / others.value))] if mine and others else []
    return math.inf if not peaks and not feeds else sum(feeds) + (sum(peaks) / len(peaks) if peaks else 0.0)


def _position(client: Client) -> int | None:
    """Return the position of the service's log; None where what ships answers, which has none."""
    try:
        position: int | None = client.ready().get("position")
    except AssayError:
        return None
    return position


def _measured_hardware(client: Client, kind: str) -> list[str]:
    try:
        rows = client.hardware(kind=kind)
    except Unavailable:
        raise
    except AssayError:
        return []
    return [row["id"] for row in rows if row.get("measurements")]


def _peer(spec: HardwareSpec) -> CardPeer:
    precision = next((name for name in ("fp32", "fp16", "bf16", "int8") if name in spec.peak_flops), None)
    bandwidth = spec.memory_bandwidth_bytes_per_s
    return CardPeer(
        id=spec.id,
        name=spec.name,
        peak_flops=spec.peak_flops[precision].value if precision else None,
        peak_precision=precision,
        bandwidth_bytes_per_s=None if bandwidth is None else bandwidth.value,
    )


class _Reached(NamedTuple):
    """What the kernels of one platform in one precision reached; suspect where no undisturbed timing says it."""

    platform: str
    precision: str
    flops_per_s: float | None
    bytes_per_s: float | None
    arithmetic: str
    bandwidth: str


def _reached(part: MeasuredKernels) -> _Reached:
    valid = reached([kernel for kernel in part.kernels if kernel.verdict == "valid"], None, None)
    every = reached(part.kernels, None, None)
    return _Reached(
        part.platform,
        part.precision,
        valid.flops_per_s or every.flops_per_s,
        valid.bytes_per_s or every.bytes_per_s,
        "valid" if valid.flops_per_s else "suspect",
        "valid" if valid.bytes_per_s else "suspect",
    )


def _roofline(machine: Machine, evidence: Evidence, rows: Sequence[CardRow]) -> CardRoofline:
    spec = machine.spec
    parts = [_reached(part) for part in evidence.kernels]
    specified, probed = spec.memory_bandwidth_bytes_per_s, spec.sustained_bandwidth_bytes_per_s
    # Tensors in fp32 are the largest: those of narrower types may stay in a cache.
    feed = max(
        (part for part in parts if part.bytes_per_s),
        key=lambda part: (part.bandwidth == "valid", part.precision == "fp32", part.bytes_per_s),
        default=None,
    )
    return CardRoofline(
        roofs=[
            _roof(name, spec, [part for part in parts if part.precision == name and part.flops_per_s])
            for name in _PRECISIONS
            if name in spec.peak_flops or name in spec.sustained_flops or any(part.precision == name for part in parts)
        ],
        specified_bandwidth=None if specified is None else specified.value,
        measured_bandwidth=feed.bytes_per_s if feed else probed.value if probed else None,
        bandwidth_by="calibrate" if feed else "detect" if probed else None,
        bandwidth_verdict=feed.bandwidth if feed else None,
        kernels=[
            CardKernel(
                flop_per_byte=kernel.intensity,
                flops_per_s=kernel.flops_per_s,
                platform=part.platform,
                precision=part.precision,
                verdict=kernel.verdict,
            )
            for part in evidence.kernels
            for kernel in part.kernels
            if kernel.verdict != "invalid" and kernel.flops_per_s > 0
        ],
        points=_points(evidence, rows),
    )


def _roof(precision: str, spec: HardwareSpec, parts: Sequence[_Reached]) -> CardRoof:
    best = max(parts, key=lambda part: (part.arithmetic == "valid", part.flops_per_s or 0.0), default=None)
    probe, specified = spec.sustained_flops.get(precision), spec.peak_flops.get(precision)
    return CardRoof(
        precision=precision,
        specified_flops=None if specified is None else specified.value,
        measured_flops=best.flops_per_s if best else probe.value if probe else None,
        measured_by="calibrate" if best else "detect" if probe else None,
        platform=best.platform if best else None,
        verdict=best.arithmetic if best else None,
    )


def _points(evidence: Evidence, rows: Sequence[CardRow]) -> list[CardPoint]:
    places = {call.figure.event_id: call.point for call in evidence.calls if call.point is not None}
    return [
        CardPoint(
            row=index,
            flop_per_byte=place[0],
            flops_per_s=place[1],
            platform=row.own.platform or "other",
            verdict=row.own.verdict,
        )
        for index, row in enumerate(rows)
        if row.own is not None and (place := places.get(row.own.event_id)) is not None
    ]


def _software(machine: Machine) -> list[str]:
    """Return the versions of driver, runtimes and system that decide how fast a model runs."""
    environment = machine.environment
    libraries = environment.get("libraries") or {}
    names = {"torch": "torch", "openvino": "OpenVINO", "onnxruntime": "ONNX Runtime", "transformers": "transformers"}
    said = [f"{label} {libraries[name]}" for name, label in names.items() if name in libraries]
    driver, system, python = (environment.get(name) for name in ("driver", "os", "python"))
    return [
        *([f"host {machine.host}"] if machine.host else []),
        *([f"driver {driver}"] if driver else []),
        *said,
        *([str(system)] if system else []),
        *([f"Python {python}"] if python else []),
    ]


def _notes(rows: Sequence[CardRow], evidence: Evidence, client: Client | None) -> list[str]:
    """Return what is missing on the card and the command that adds it."""
    notes = []
    missing = [row.model.label for row in rows if row.own is None or row.own.basis != "measured"]
    if missing:
        notes.append(f"not measured here: {', '.join(missing)}. `assay card --measure` measures them")
    if client is not None and any(row.own is None for row in rows):
        notes.append("estimates need to know this machine. `assay detect --post` describes it to the service")
    if not evidence.kernels:
        notes.append("no kernels were measured here. `assay calibrate` measures the roofline")
    if client is None:
        notes.append("no service answered: estimates and like machines are left out")
    suspect = [row.model.label for row in rows if row.own is not None and row.own.verdict == "suspect"]
    if suspect:
        notes.append(f"suspect: {', '.join(suspect)}. Free the machine of other work and measure again")
    return notes

"""The page of coverage as Markdown: how good answers are by class of device and class of model, with rows and sources."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from domain.catalogues import engines, hardware
from domain.events import MEASUREMENT_RECORDED
from ingest import evidence
from predictor.artifact.artifact import Predictor
from predictor.features.shipped_traces import shipped_rows
from presentation import formatting

__all__ = ["FAIR", "GOOD", "coverage_page", "grade"]

GOOD, FAIR = 0.15, 0.30
"""The largest error on a device that was left out whose answers are called good, and fair."""
LEFT_OUT_NEEDED = 10
"""With fewer rows left out a cell has no grade: three rows of one machine say nothing of the next."""
COMMAND = "python -m assay.accuracy --out docs"
MODELS = ("vision", "text", "audio", "multimodal", "language", "images", "video")
_CLASS_OF = {
    "embedding": "text",
    "text_to_text": "text",
    "text_generation": "language",
    "vision_language": "multimodal",
    "diffusion": "images",
    "text": "text",
}
_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "aws": "AWS"}
_KINDS = {"cpu": "CPU", "gpu": "GPU", "npu": "NPU", "tpu": "TPU", "other": "accelerator"}
_BY_SHARE = (("Apple GPU", "language"),)
"""Cells without a row that trained, which the usual share of an engine answers."""
_BITS = dict(zip(engines.BANDS, (4, 8, 16), strict=True))
DEVICES_NEEDED = 3
"""With fewer devices the factor of a usual share is assumed (docs/prediction.md)."""
MEDIAN_OF_WIDTH = 0.6745 / 1.2816
"""The median of normal errors over the half-width that holds four of five."""
_ORDER = ("NVIDIA GPU", "AMD GPU", "Apple GPU", "Intel GPU", "Qualcomm NPU", "Intel CPU", "AMD CPU", "Apple CPU")


class _Cell(NamedTuple):
    """Published rows by source, and the error of devices left out with how many rows; None where too few were left out."""

    sources: Counter[str]
    error: float | None
    left_out: int


def grade(error: float | None, published: int) -> str:
    """Return good, fair, poor, or none, by the error on a device left out and how many published rows there are."""
    if error is None:
        return "rows only" if published else "not graded"
    return "good" if error <= GOOD else "fair" if error <= FAIR else "poor"


def coverage_page(predictor: Predictor) -> str:
    """Return the page about a predictor and the published rows that ship with it."""
    cells = _cells(predictor)
    devices = sorted(
        {device for device, _ in cells}, key=lambda name: (_ORDER.index(name) if name in _ORDER else 99, name)
    )
    lines = [
        "# Where answers are good, fair and poor",
        "",
        f"Made by `{COMMAND}` from the predictor and the published rows that ship; do not edit.",
        "",
        (
            "A cell has its grade, the error on a device that was left out of training with its siblings, on how many rows, and how"
            " many published rows of it ship. A row of the very question goes before any prediction, whatever the grade."
            f" *Good*: at most {GOOD:.0%}; *fair*: at most {FAIR:.0%}; *poor*: more; *rows only*: published figures are shown,"
            f" and fewer than {LEFT_OUT_NEEDED} rows of the kind were left out, too few to say how far a prediction is off;"
            " *not graded*: likewise, and no published figure ships; *none*: no row of the kind, and an answer"
            f" rests on its kernels alone{_of_software(predictor)}. The error is the median; where a class joins several kinds of"
            " models, their medians weighed by rows. *Language* is the time per token of served models on accelerators that"
            " trained, as the mean error weighed by rows; of a generation where nothing was served; *shares*: nothing was left"
            " out, and an engine's usual share of the device answers (last table)."
        ),
        "",
        f"| device | {' | '.join(MODELS)} |",
        f"| --- |{' --- |' * len(MODELS)}",
    ]
    for device in devices:
        row = [_shown(cells.get((device, model)), device, model) for model in MODELS]
        lines.append(f"| {device} | {' | '.join(row)} |")
    lines += ["", "## Sources", "", "| device | model | rows | from |", "| --- | --- | --- | --- |"]
    for device in devices:
        for model in MODELS:
            cell = cells.get((device, model))
            if cell is not None and cell.sources:
                total = formatting.count(sum(cell.sources.values()))
                named = ", ".join(f"{name} {formatting.count(count)}" for name, count in cell.sources.most_common())
                lines.append(f"| {device} | {model} | {total} | {named} |")
    return "\n".join([*lines, *_engines()]) + "\n"


def _engines() -> list[str]:
    """Return the table of what engines usually reach, which answers for devices and weights that nothing trained on."""
    lines = [
        "",
        "## Language models by the usual share of their engine",
        "",
        (
            "Where nothing of an engine with such weights trained, or six devices or more were published, a token takes the share"
            " of the bandwidth that the engine usually reaches. Four of five devices that were left out lie within the factor;"
            " the grade is of the median error that goes with it. *Assumed*: too few devices to measure the factor."
        ),
        "",
        "| engine | platform | weights | figures | devices | factor | grade |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for engine in engines.catalogue().values():
        for platform, kind in [(name, kind) for name in engine.platforms for kind in _kinds(engine.name, name)]:
            efficiency = engines.efficiency_of(engine.name, platform, kind)
            for band, share in efficiency.decode.items() if efficiency is not None else ():
                if share.rows:
                    measured = share.devices >= DEVICES_NEEDED
                    error = math.expm1(share.width * MEDIAN_OF_WIDTH)
                    cells = (
                        engine.name,
                        platform if kind is None else f"{platform} ({kind})",
                        f"{_BITS[band]} bits",
                        formatting.count(share.rows),
                        formatting.count(share.devices),
                        f"÷× {math.exp(share.width):.2g}",
                        grade(error, share.rows) if measured else "assumed",
                    )
                    lines.append(f"| {' | '.join(cells)} |")
    return lines


def _kinds(engine: str, platform: str) -> tuple[str | None, ...]:
    """Return the kinds of devices whose shares differ on a platform."""
    apart = [kind for kind in ("cpu", "gpu") if engines.efficiency_of(engine, platform, kind) is not None]
    same = engines.efficiency_of(engine, platform)
    return (None,) if same is not None else tuple(apart)


def _of_software(predictor: Predictor) -> str:
    general = predictor.card.general
    if general is None:
        return ""
    score = general.scores["software"]["overall"]
    return f", which were {score['median_ape']:.0%} off at the median where a maker's software was left out as a whole"


def _shown(cell: _Cell | None, device: str, model: str) -> str:
    if cell is None:
        return "**shares**" if (device, model) in _BY_SHARE else "none"
    published = sum(cell.sources.values())
    rows = f"{formatting.count(published)} rows" if published else "own rows only"
    error = "" if cell.error is None else f" {cell.error:.0%} of {formatting.count(cell.left_out)} left out,"
    return f"**{grade(cell.error, published)}**{error} {rows}"


def _cells(predictor: Predictor) -> dict[tuple[str, str], _Cell]:
    sources: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    published = list(_published())
    traced = {
        row["model_id"]: row["category"]
        for row in shipped_rows({row.model for row in published}, ("model_id", "category"))
    }
    for row in published:
        device = _device_class(row.hardware, row.kind, row.platform)
        category = traced.get(row.model) or row.category or "not known"
        sources[device, "language" if row.served else _CLASS_OF.get(category, category)][row.source] += 1
    errors = _errors(predictor)
    return {
        key: _Cell(sources.get(key, Counter()), *errors.get(key, (None, 0)))
        for key in {*sources, *errors}
        if key[1] in MODELS
    }


class _Row(NamedTuple):
    """What the page needs of a published row."""

    source: str
    model: str
    category: str | None
    hardware: str
    kind: str | None
    platform: str
    served: bool


def _published() -> Iterable[_Row]:
    for source in evidence.sources():
        for batch in evidence.events([source.name]):
            for text in batch:
                event: dict[str, Any] = msgspec.json.decode(text)
                if event["type"] == MEASUREMENT_RECORDED:
                    yield _row(source.name, event["data"])


def _row(source: str, data: Mapping[str, Any]) -> _Row:
    model, metrics, device = data["model"], data["metrics"], data["hardware"]
    tokens = bool(metrics.get("tpot_ms") or metrics.get("tokens_per_s"))
    return _Row(
        source=source,
        model=model["id"],
        category=model.get("category"),
        hardware=device["id"],
        kind=device.get("kind"),
        platform=(data.get("observed") or {}).get("platform") or data["execution"]["platform"],
        served=tokens and "whisper" not in model["id"],
    )


def _device_class(hardware_id: str, kind: str | None, platform: str) -> str:
    spec = hardware.find(hardware_id)
    maker = (None if spec is None else spec.maker) or hardware_id.partition("-")[0]
    kind = "npu" if platform == "qnn" else kind or (None if spec is None else spec.kind) or "other"
    return f"{_MAKERS.get(maker, maker.capitalize())} {_KINDS.get(kind, 'accelerator')}"


def _errors(predictor: Predictor) -> dict[tuple[str, str], tuple[float | None, int]]:
    """Return by class of device and of model the error on devices left out, None where they have too few rows, and the rows."""
    found: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    general, serving = predictor.card.general, predictor.card.serving
    for name, score in (general.scores["hardware"]["by_cell"] if general is not None else {}).items():
        device, _, category = name.partition("|")
        maker, _, kind = device.partition(" ")
        key = (
            f"{_MAKERS.get(maker, maker.capitalize())} {_KINDS.get(kind, 'accelerator')}",
            _CLASS_OF.get(category, category),
        )
        found[key].append((score["median_ape"], score["rows"]))
    served: Mapping[str, Any] = serving.scores["tpot"]["hardware"]["by_hardware"] if serving is not None else {}
    of_served: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for hardware_id, score in served.items():
        spec = hardware.find(hardware_id)
        of_served[_device_class(hardware_id, spec.kind if spec else None, ""), "language"].append(
            (score["mape"], score["rows"])
        )
    found.update(of_served)
    counts = {key: sum(rows for _, rows in parts) for key, parts in found.items()}
    return {
        key: (
            sum(error * rows for error, rows in parts) / counts[key] if counts[key] >= LEFT_OUT_NEEDED else None,
            counts[key],
        )
        for key, parts in found.items()
    }

"""Precisions that are slower than fp32 in the same software on the same device: where quantising does not pay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from domain.configuration import browser_of, decoded_options
from domain.vocabulary import NO_EVIDENCE

__all__ = ["QUANTIZATION_OPTIONS", "SlowerPrecision", "slower_precisions", "software_words", "without_quantization"]

Row = Mapping[str, Any]
QUANTIZATION_OPTIONS = frozenset(
    {"quantization", "weights", "activations", "block_size", "group_size", "preset", "calibration"}
)
"""Options of an execution that say how weights were quantised, and so follow from the precision."""
_ALIKE = (
    "model_id",
    "hardware_id",
    "hardware_count",
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
    "optimizer",
    "gradient_checkpointing",
    "platform",
    "runtime_name",
    "runtime_version",
    "compiled",
    "layout",
    "threads",
    "streams",
    "weights",
    "origin",
)
"""Columns of the view `measurements` in which a row has to agree with the fp32 that it stands beside."""


class SlowerPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """A precision whose median latency is above that of fp32, where all else is alike and the intervals are apart.

    `ratio` is its latency over that of fp32, with the least and the most that both 95 % intervals allow. `verdict` is the
    worse one of the two rows.
    """

    model: str
    hardware: str
    platform: str
    runtime: str | None
    browser: str | None
    precision: str
    batch_size: int | None
    sequence_length: int | None
    latency_ms: float
    fp32_latency_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    verdict: str | None
    evidence: list[str]

    @property
    def sentence(self) -> str:
        """Both figures and the ratio in one sentence."""
        where = software_words(self.platform, self.runtime, self.browser)
        work = f" at batch {self.batch_size}" if self.batch_size not in (None, 1) else ""
        doubt = " (a row is suspect)" if self.verdict == "suspect" else ""
        return (
            f"{self.precision} is slower than fp32 on {where}{work}: {_ms(self.latency_ms)} against "
            f"{_ms(self.fp32_latency_ms)}, {self.ratio:.3g} times ({self.ratio_low:.3g} to {self.ratio_high:.3g}){doubt}"
        )


def slower_precisions(rows: Iterable[Row]) -> list[SlowerPrecision]:
    """Return the precisions that are slower than fp32, the worst ratio first; of each configuration the newest row counts.

    `rows` have the columns of the view `measurements`. Invalid rows, rows without an interval of the median, and origins
    that are no evidence are left out, and so is what ran in another precision than was asked for.
    """
    newest: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if _usable(row):
            kept = newest.setdefault(_key(row), {})
            before = kept.get(row["precision"])
            if before is None or _standing(row) > _standing(before):
                kept[row["precision"]] = row
    result = []
    for by_precision in newest.values():
        base = by_precision.get("fp32")
        if base is None:
            continue
        result += [
            slower
            for precision, row in by_precision.items()
            if precision != "fp32" and (slower := _beside(row, base)) is not None
        ]
    return sorted(result, key=lambda item: (-item.ratio, item.hardware, item.platform, item.precision))


def without_quantization(options: Any) -> dict[str, Any]:
    """Return the options of an execution that do not follow from its precision."""
    return {name: value for name, value in decoded_options(options).items() if name not in QUANTIZATION_OPTIONS}


def software_words(platform: str, runtime: str | None, browser: str | None = None) -> str:
    """Return a platform with its runtime and browser: `cpu (torch)`, `webnn (onnxruntime-web in chromium)`."""
    software = " in ".join(part for part in (runtime, browser) if part)
    return platform if not software or software == platform else f"{platform} ({software})"


def _usable(row: Row) -> bool:
    return bool(
        row.get("latency_p50_ms")
        and row.get("latency_p50_ci95_low_ms")
        and row.get("latency_p50_ci95_high_ms")
        and row.get("precision")
        and row.get("precision_asked") in (None, row["precision"])
        and row.get("verdict") != "invalid"
        and row.get("origin") not in NO_EVIDENCE
    )


def _key(row: Row) -> tuple[Any, ...]:
    options, parallelism = row.get("options"), row.get("parallelism")
    # Most rows have neither, and a model has thousands of rows.
    parts = _parts(options, parallelism) if options or parallelism else _NO_PARTS
    return (*map(row.get, _ALIKE), parts)


def _parts(options: Any, parallelism: Any) -> bytes:
    return msgspec.json.encode([without_quantization(options), decoded_options(parallelism)], order="sorted")


_NO_PARTS = _parts(None, None)


def _standing(row: Row) -> tuple[bool, int]:
    return row.get("verdict") != "suspect", int(row.get("position") or 0)


def _beside(row: Row, base: Row) -> SlowerPrecision | None:
    low = row["latency_p50_ci95_low_ms"] / base["latency_p50_ci95_high_ms"]
    if low <= 1:
        return None
    suspect = "suspect" in (row.get("verdict"), base.get("verdict"))
    return SlowerPrecision(
        model=row["model_id"],
        hardware=row["hardware_id"],
        platform=row["platform"],
        runtime=row.get("runtime_name"),
        browser=browser_of(row.get("options"))[0],
        precision=row["precision"],
        batch_size=row.get("batch_size"),
        sequence_length=row.get("sequence_length"),
        latency_ms=row["latency_p50_ms"],
        fp32_latency_ms=base["latency_p50_ms"],
        ratio=row["latency_p50_ms"] / base["latency_p50_ms"],
        ratio_low=low,
        ratio_high=row["latency_p50_ci95_high_ms"] / base["latency_p50_ci95_low_ms"],
        verdict="suspect" if suspect else row.get("verdict"),
        evidence=[str(row["event_id"]), str(base["event_id"])],
    )


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"

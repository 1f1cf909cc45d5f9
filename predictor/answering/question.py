"""The questions that can be asked, checked: what is wrong is named by its field, before anything is computed."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

from domain.canonical import digest
from domain.errors import ImpossibleConstraint, UsageError
from domain.vocabulary import MODES
from predictor.answering.option import SIZE_NAMES, Sizes

__all__ = ["OBJECTIVES", "PERCENTILES", "PredictQuestion", "Question"]

OBJECTIVES = ("latency", "throughput", "cost", "energy", "memory")
PERCENTILES = ("p50", "p90", "p95", "p99")
DEFAULT_BATCH_SIZES = (1, 2, 4, 8, 16, 32)
LARGEST_BATCH = 65536
TOP_LIMIT = 1000


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `recommend` is asked: the flags of `assay recommend`.

    `hardware` is `all` (whatever is known), `own` (described or measured by our runner) or slugs. Empty lists do not
    restrict. `max_memory_mb` is in 10^6 bytes; `max_usd_per_hour` is for one device. `as_of` is a position, or the name of one,
    which the service replaces by the position.
    """

    model: str
    mode: str = "inference"
    objective: str = "latency"
    percentile: str = "p50"
    max_latency_ms: float | None = None
    max_memory_mb: float | None = None
    max_usd_per_hour: float | None = None
    min_throughput_per_s: float | None = None
    hardware: str | list[str] = "all"
    platform: str | list[str] = []
    precision: str | list[str] = []
    batch_sizes: list[int] = []
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None
    top: int = 10
    record: bool = False

    def checked(self) -> Question:
        """Return the question in its one normal form. Raises UsageError or ImpossibleConstraint naming the field."""
        _one_of(self.mode, MODES, "mode")
        _one_of(self.objective, OBJECTIVES, "objective")
        _one_of(self.percentile, PERCENTILES, "percentile")
        for field in ("max_latency_ms", "max_memory_mb", "max_usd_per_hour", "min_throughput_per_s"):
            _bound(getattr(self, field), field)
        if not self.model.strip():
            raise UsageError(
                "no model is named.", field="model", remedy="Give a model id, for example bert-base-uncased."
            )
        if not 1 <= self.top <= TOP_LIMIT:
            raise UsageError(f"{self.top} is not a number of answers.", field="top", remedy=f"1 to {TOP_LIMIT}.")
        if isinstance(self.as_of, str):
            raise UsageError(
                "a name stands where a position belongs.",
                field="as_of",
                remedy="Ask the service, which knows the names.",
            )
        if self.as_of is not None and self.as_of < 0:
            raise UsageError("a position is 0 or more.", field="as_of", remedy="Leave it out for the newest.")
        for field in (*SIZE_NAMES, "concurrency"):
            value = getattr(self, field)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{value} is not a size.", field=field, remedy="Give a positive number.")
        for size in self.batch_sizes:
            if not 1 <= size <= LARGEST_BATCH:
                raise UsageError(f"{size} is not a batch size.", field="batch_sizes", remedy=f"1 to {LARGEST_BATCH}.")
        hardware = self.hardware
        if hardware not in ("all", "own"):
            hardware = _listed(hardware)
            if not hardware or {"all", "own"} & set(hardware):
                raise UsageError(
                    "name devices, or own, or all.",
                    field="hardware",
                    remedy="For example --hardware nvidia-l4,nvidia-t4.",
                )
        return msgspec.structs.replace(
            self,
            model=self.model.strip(),
            hardware=hardware,
            platform=_listed(self.platform),
            precision=_listed(self.precision),
            batch_sizes=sorted(set(self.batch_sizes)),
        )

    @property
    def sizes(self) -> Sizes:
        """The sizes that are asked for."""
        return Sizes(**{name: getattr(self, name) for name in SIZE_NAMES})

    @property
    def at(self) -> int | None:
        """The position that is asked for, None for the newest; of a checked question."""
        return None if isinstance(self.as_of, str) else self.as_of

    def identity(self) -> dict[str, Any]:
        """Return what of the question decides the answer: everything but whether it is recorded."""
        asked = msgspec.to_builtins(self)
        asked.pop("record")
        asked.pop("as_of")
        return dict(asked)


class PredictQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `predict` is asked: one configuration."""

    model: str
    hardware: str
    platform: str
    precision: str
    batch_size: int = 1
    mode: str = "inference"
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    compiled: bool | None = None
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None
    record: bool = False

    def as_question(self) -> Question:
        """Return the question that has this configuration as its only candidate, checked."""
        for field in ("hardware", "platform", "precision"):
            if not getattr(self, field).strip():
                raise UsageError("a prediction is of one configuration.", field=field, remedy="Name one.")
        return Question(
            model=self.model,
            mode=self.mode,
            hardware=[self.hardware],
            platform=[self.platform],
            precision=[self.precision],
            batch_sizes=[self.batch_size],
            **{name: getattr(self, name) for name in (*SIZE_NAMES, "concurrency")},
            as_of=self.as_of,
            record=self.record,
            top=1,
        ).checked()


def answer_id(question: dict[str, Any], position: int, predictor: str, schema: int) -> str:
    """Return the id of an answer: 32 hex digits of the digest of what it depends on, and nothing else."""
    named = {"question": question, "position": position, "predictor": predictor, "schema": schema}
    return digest(named).removeprefix("sha256:")[:32]


def _one_of(value: str, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise UsageError(f"{value!r} is not one of them.", field=field, remedy=f"One of {', '.join(known)}.")


def _bound(value: float | None, field: str) -> None:
    if value is None:
        return
    if not math.isfinite(value) or value <= 0:
        raise ImpossibleConstraint(
            f"{value:g} can never be met.", field=field, remedy="Give a positive number, or leave it out."
        )


def _listed(value: str | list[str]) -> list[str]:
    names = value.split(",") if isinstance(value, str) else value
    return sorted({name.strip() for name in names if name.strip()})

"""What `assay fit` is asked, checked before anything is computed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from domain.catalogues.language_config import read_config
from predictor.answering.question import OF_ENGINES, Question

__all__ = ["FitQuestion"]


class FitQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, its sizes, and where it is to fit: `own` devices, `all` or slugs.

    `max_memory_mb` is in 10^6 bytes, for one device; without it the device's memory is the limit.
    """

    model: str
    config: dict[str, Any] | None = None
    runtime: str | None = None
    offload: bool = False
    host_memory_mb: float | None = None
    host_bandwidth_gb_per_s: float | None = None
    mode: str = "inference"
    hardware: str | list[str] = "own"
    platform: str | list[str] = []
    precision: str | list[str] = []
    max_memory_mb: float | None = None
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None

    def question(self, **more: Any) -> Question:
        """Return it as a checked question of `recommend`. Raises UsageError or ImpossibleConstraint naming the field."""
        request = {name: getattr(self, name) for name in self.__struct_fields__}
        return Question(
            **{**request, "compiled": "usual", "objective": "throughput", "per_hardware": False, **more}
        ).checked()

    def identity(self) -> dict[str, Any]:
        """Return what of the question decides the answer."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        document.pop("as_of")
        if self.config is not None:
            document["config"] = read_config(self.config, self.model).members
        return {name: value for name, value in document.items() if value or name not in OF_ENGINES}

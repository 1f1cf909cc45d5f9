"""What `assay suggest` is asked, checked before anything is computed."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from domain.errors import UsageError
from predictor.answering.question import Question

__all__ = ["DEFAULT_BATCH_SIZES", "SuggestQuestion"]

DEFAULT_BATCH_SIZES = (1, 8)
LONGEST_S = 30 * 86400.0
MODELS_LIMIT = 200


class SuggestQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The flags of `assay suggest`.

    `budget_s` is the time of machines in s, over all devices. `hardware` is `own` (described or measured by our runner),
    `all` or slugs. Empty lists do not restrict; without `models` the open questions are those that were recorded, and
    where none was, every model that has an operator trace. `top` is how many runs there may be at most.
    """

    budget_s: float
    hardware: str | list[str] = "own"
    models: list[str] = []
    mode: str = "inference"
    platform: str | list[str] = []
    precision: str | list[str] = []
    batch_sizes: list[int] = []
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None
    top: int = 200

    def checked(self) -> SuggestQuestion:
        """Return the question in its normal form. Raises UsageError naming the field."""
        if not math.isfinite(self.budget_s) or not 0 < self.budget_s <= LONGEST_S:
            raise UsageError(
                f"a budget of {self.budget_s:g} s cannot be spent.",
                field="budget_s",
                remedy="Give more than 0 s and no more than 30 days.",
            )
        if len(self.models) > MODELS_LIMIT:
            raise UsageError(
                f"{len(self.models)} models are named.", field="models", remedy=f"Name {MODELS_LIMIT} at the most."
            )
        model = self.models[0] if self.models else "any"
        request = self.about(Question(model=model, mode=self.mode, top=self.top)).checked()
        return msgspec.structs.replace(
            self,
            hardware=request.hardware,
            platform=request.platform,
            precision=request.precision,
            batch_sizes=sorted(set(self.batch_sizes)),
        )

    def about(self, question: Question) -> Question:
        """Return what a question asks, of the devices and ways that runs are suggested for."""
        return msgspec.structs.replace(
            question,
            hardware=self.hardware,
            platform=self.platform or question.platform,
            precision=self.precision or question.precision,
            batch_sizes=self.batch_sizes or question.batch_sizes or list(DEFAULT_BATCH_SIZES),
            as_of=self.as_of,
        )

    @property
    def at(self) -> int | None:
        """The position that is asked for, None for the newest; of a checked question."""
        return None if isinstance(self.as_of, str) else self.as_of

"""What the Models page asks: a list, one model, its ranking over hardware, its operators, and the coverage of its family."""

from __future__ import annotations

from typing import Any

from assay.client.row_types import Model, Scaling
from dashboard.service import KEPT, SentRows, checked, client, decoded, kept, sent_rows
from domain.answers import Prediction, Recommendation
from domain.answers.model_profile import FamilyCoverage, ModelProfile, OperatorBreakdown
from domain.answers.variants import ModelVariants

__all__ = ["compared", "family", "listed", "on_ranks", "one", "operators", "predicted", "ranking", "variants"]

MOST_DEVICES = 300


@kept(max_entries=KEPT)
def listed(position: int, limit: int, **filters: Any) -> SentRows[Model]:
    """Return at most `limit` models at a position, what was measured most first; with `search` the best match first."""
    return sent_rows(client().models(as_of=position, limit=limit, sort="measurements", **filters), Model)


@kept(max_entries=KEPT)
def one(name: str, position: int) -> ModelProfile:
    """Return what is known of one model, by any of its names."""
    answer = checked(dict(client().model(name, as_of=position)), "model", "sizes", "platforms", "best")
    return decoded(answer, ModelProfile)


@kept(max_entries=KEPT)
def compared(name: str, position: int) -> list[dict[str, Any]]:
    """Return the best measurement of a model on each device, and on each number of them, the largest throughput first."""
    answer = client().compare_hardware(
        name, mode="inference", metric="throughput_per_s", per_hardware=True, limit=MOST_DEVICES, as_of=position
    )
    return list(checked(dict(answer), "rows")["rows"])


@kept(max_entries=KEPT)
def ranking(name: str, position: int, mode: str, objective: str, top: int) -> Recommendation:
    """Return the best configuration of each hardware for a model, measured or predicted, best first."""
    question = {"mode": mode, "objective": objective, "top": top, "per_hardware": True, "hardware": "all"}
    answer = checked(dict(client().recommend(name, as_of=position, **question)), "ranked", "position")
    return decoded(answer, Recommendation)


@kept(max_entries=KEPT)
def on_ranks(name: str, position: int) -> list[Scaling]:
    """Return the trainings of a model on several ranks, the newest first."""
    return sent_rows(client().scaling(model=name, as_of=position), Scaling).items[::-1]


@kept(max_entries=KEPT)
def variants(name: str, position: int) -> ModelVariants:
    """Return a model and its variants side by side."""
    return client().variants(name, as_of=position)


@kept(max_entries=KEPT)
def operators(name: str, position: int, **question: Any) -> OperatorBreakdown:
    """Return what the time of a call of a model goes into, operator by operator."""
    answer = checked(dict(client().operators(name, as_of=position, **question)), "operators", "basis")
    return decoded(answer, OperatorBreakdown)


@kept(max_entries=KEPT)
def predicted(name: str, position: int, **question: Any) -> Prediction:
    """Return the latency of one configuration, measured or predicted."""
    answer = checked(dict(client().predict(name, as_of=position, **question)), "latency_ms", "basis")
    return decoded(answer, Prediction)


@kept(max_entries=KEPT)
def family(name: str, category: str | None, position: int) -> FamilyCoverage:
    """Return what was tried of a family on which platform, and the largest gaps of its category with commands."""
    answer = checked(dict(client().coverage(family=name, category=category, as_of=position)), "items", "gaps")
    return decoded(answer, FamilyCoverage)

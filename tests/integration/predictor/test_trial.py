"""The trial of a newly trained predictor: what is read once for a fold gives the cases that reading anew for each gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest

from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import ARTIFACT_KIND
from predictor.live import answerer as live_answerer
from predictor.live.answerer import LiveAnswerer
from predictor.live.shadow import ScoredCase, compared

DEVICE = "amd-epyc-7763"
MODELS, BATCHES = 8, (1, 4, 8)


class Forgetful(Reading):
    """Reads everything anew."""

    def lists(self, what: Hashable, make: Callable[[], Any]) -> Any:
        return make()

    def of(self, what: Hashable, read: Callable[[], Any]) -> Any:
        return read()


class Counting(Reading):
    """Counts the models whose rows were read."""

    models: list[Hashable] = []  # noqa: RUF012 - one list for all of them

    def of(self, what: Hashable, read: Callable[[], Any]) -> Any:
        def counted() -> Any:
            if isinstance(what, tuple) and what[0] == "model":
                self.models.append(what)
            return read()

        return super().of(what, counted)


def test_readings_kept_for_a_fold_give_the_same_cases(
    service: Any, told: Any, build: Any, make_trace: Any, law: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    for seed in range(MODELS):
        model = f"acme/text-{seed}"
        trace = make_trace(model, f"t{seed}", "embedding", 50 + seed, sequence_length=128)
        events.append(build.event("assay.model.traced.v1", trace))
        for batch in BATCHES:
            truth = law(trace, DEVICE, "cpu", "fp32", batch) * (2 + seed % 3)
            events.append(build.measurement(truth, model=model, hardware=DEVICE, batch_size=batch))
    half = len(events) // 2
    told(*events[:half])
    answerer = LiveAnswerer(service.projection.cursor, lambda digest: service.artifacts.get(digest).content)
    first = answerer.train()
    service.artifacts.put(first.content, first.event_data["card"], ARTIFACT_KIND)
    told(build.event("assay.predictor.trained.v1", first.event_data), *events[half:])

    # Corrected by all that was measured, both would say the same here.
    monkeypatch.setattr(live_answerer, "corrected", lambda plain, *_: plain)

    def cases(reading: type[Reading]) -> list[ScoredCase]:
        taken: list[ScoredCase] = []

        def capture(scored: list[ScoredCase], *rest: Any, **more: Any) -> Any:
            taken.extend(scored)
            return compared(scored, *rest, **more)

        monkeypatch.setattr(live_answerer, "Reading", reading)
        monkeypatch.setattr(live_answerer, "compared", capture)
        answerer.compare()
        return taken

    once = cases(Counting)
    unseen = [f"acme/text-{seed}" for seed in range(MODELS // 2, MODELS)]
    assert sorted(case.model for case in once) == sorted(unseen * len(BATCHES))
    assert any(case.old != case.new for case in once)
    assert once == cases(Forgetful)
    assert sorted(Counting.models) == [("model", model, "inference") for model in unseen]

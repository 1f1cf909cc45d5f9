"""The trial: what may be held out, and when a newcomer is worse by more than noise."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from predictor.artifact.artifact import Card, load_shipped
from predictor.features.dataset import Row
from predictor.live.shadow import MODELS, MOST, ROWS, PredictedLatency, ScoredCase, compared, held_out, learnt_by

OLD = "sha256:old"


def cases(old: float, new: float, *, models: int = 10, each: int = 4, spread: float = 0.0) -> list[ScoredCase]:
    """Cases whose errors are e^old and e^new, and differ between models by `spread` in log terms."""
    random = np.random.default_rng(1)
    found = []
    for model in range(models):
        more = float(random.normal(0, spread))
        found += [
            ScoredCase(
                model=f"m{model}",
                measured=1.0,
                old=PredictedLatency(value=float(np.exp(old)), low=0.9, high=1.1),
                new=PredictedLatency(value=float(np.exp(abs(new + more))), low=0.5, high=2.0),
            )
            for _ in range(each)
        ]
    return found


def test_what_is_worse_is_rejected_and_what_is_better_taken() -> None:
    worse = compared(cases(0.05, 0.2), OLD)
    assert (worse.accepted, worse.rows, worse.models, worse.old) == (False, 40, 10, OLD)
    assert worse.reason.startswith("rejected: worse than the one in force on 40 rows of 10 models")
    assert worse.difference == pytest.approx(0.15)
    assert worse.scores["old"]["coverage_80"] == 1.0
    assert worse.scores["new"]["mape"] == pytest.approx(np.exp(0.2) - 1, abs=1e-4)
    better = compared(cases(0.2, 0.05), OLD)
    assert better.accepted
    assert better.difference == pytest.approx(-0.15)


def test_worse_within_the_noise_of_the_models_is_taken() -> None:
    noisy = compared(cases(0.2, 0.21, spread=0.15), OLD)
    assert noisy.low is not None
    assert noisy.low < 0
    assert noisy.accepted
    assert not compared(cases(0.2, 0.21, spread=0.0), OLD).accepted


def test_many_rows_of_one_model_do_not_decide() -> None:
    even = cases(0.1, 0.1, models=9)
    odd = [
        ScoredCase(model="odd", measured=1.0, old=PredictedLatency(value=1.0), new=PredictedLatency(value=1.5))
        for _ in range(200)
    ]
    assert compared([*even, *odd], OLD).accepted


@pytest.mark.parametrize(("models", "each"), [(MODELS - 1, 10), (MODELS, ROWS // MODELS - 1)])
def test_few_rows_or_models_decide_nothing_and_it_is_said(models: int, each: int) -> None:
    told = compared(cases(0.0, 1.0, models=models, each=each), OLD)
    assert (told.accepted, told.difference) == (True, None)
    assert told.reason.startswith("accepted without a comparison")
    assert f"{models * each} rows of {models} models" in told.reason


def row(position: int, **changes: Any) -> Row:
    told: dict[str, Any] = {
        "model": "m", "hardware": "h", "platform": "cuda", "precision": "fp16", "batch_size": 1, "latency_ms": 1.0,
        "position": position, "event_id": f"e{position}", "time": "2026-11-20T00:00:00+00:00",
    }  # fmt: skip
    return Row(**{**told, **changes})


@pytest.fixture(scope="module")
def shipped() -> Card:
    return load_shipped().card


def positions(rows: list[Row]) -> list[int]:
    return [one.position for one in rows]


def test_the_newest_fifth_that_the_one_in_force_has_not_seen_is_held_out(shipped: Card) -> None:
    rows = [row(position) for position in range(1, 101)]
    trained = msgspec.structs.replace(shipped, position=90, trees_from="log")
    assert positions(held_out(rows, trained)) == list(range(100, 90, -1))
    early = msgspec.structs.replace(shipped, position=10, trees_from="log")
    assert positions(held_out(rows, early)) == list(range(100, 80, -1))
    many = [row(position) for position in range(1, 10 * MOST)]
    assert len(held_out(many, early)) == MOST


def test_rows_by_which_answers_were_scored_come_first(shipped: Card) -> None:
    rows = [row(position) for position in range(1, 21)]
    trained = msgspec.structs.replace(shipped, position=0, trees_from="log")
    assert positions(held_out(rows, trained, {"e3", "e5"})) == [5, 3, 20, 19]


def test_published_results_are_no_test_of_trees_that_may_have_learnt_them(shipped: Card) -> None:
    rows = [row(position, origin="imported" if position % 2 else "measured") for position in range(1, 21)]
    new = msgspec.structs.replace(shipped, position=0)
    assert positions(held_out(rows, new)) == [20, 18, 16, 14]
    own = msgspec.structs.replace(new, trees_from="log")
    assert positions(held_out(rows, own)) == [20, 19, 18, 17]


def test_measurements_that_the_shipped_predictor_learnt_from_are_no_test_of_any(shipped: Card) -> None:
    rows = [row(position) for position in range(1, 21)]
    own = msgspec.structs.replace(shipped, position=0, trees_from="log")
    assert positions(held_out(rows, own, learnt={f"e{position}" for position in range(1, 19)})) == [20, 19]


def test_what_the_shipped_predictor_learnt_from_is_known_by_id(shipped: Card) -> None:
    assert shipped.few is not None
    learnt = learnt_by(shipped)
    assert len(learnt) > 100
    assert {one for place in shipped.few.places for one in place.evidence} <= learnt
    assert learnt_by(msgspec.structs.replace(shipped, few=None)) == frozenset()

"""The trial: what may be held out, and when a newcomer is worse by more than noise."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from predictor.artifact.artifact import Card, load_shipped
from predictor.features.dataset import Row
from predictor.live.shadow import MOST, SMALL, PredictedLatency, ScoredCase, compared, folds, learnt_by

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


@pytest.mark.parametrize("models", [0, 1])
def test_one_model_decides_nothing_and_the_newcomer_does_not_answer(models: int) -> None:
    result = compared(cases(1.0, 0.0, models=models), OLD)
    assert (result.accepted, result.difference, result.models) == (False, None, models)
    assert f"{models * 4} rows of {models} models" in result.reason


def test_two_models_are_compared() -> None:
    assert not compared(cases(0.0, 1.0, models=2), OLD).accepted
    assert compared(cases(1.0, 0.0, models=2), OLD, seen=True).accepted


def row(position: int, **changes: Any) -> Row:
    told: dict[str, Any] = {
        "model": "m", "hardware": "h", "platform": "cuda", "precision": "fp16", "batch_size": 1, "latency_ms": 1.0,
        "position": position, "event_id": f"e{position}", "time": "2026-11-20T00:00:00+00:00",
    }  # fmt: skip
    return Row(**{**told, **changes})


@pytest.fixture(scope="module")
def shipped() -> Card:
    return load_shipped().card


def of_models(*positions: int, **changes: Any) -> list[Row]:
    """A row at each position, each of a model of its own."""
    return [row(position, model=f"m{position}", **changes) for position in positions]


def held(rows: list[Row], old: Card, **known: Any) -> list[list[str]]:
    return [sorted(fold.models) for fold in folds(rows, old, **known)]


def test_every_model_that_the_one_in_force_has_not_seen_is_held_out_once(shipped: Card) -> None:
    trained = msgspec.structs.replace(shipped, position=3, trees_from="log")
    assert held(of_models(1, 2, 3, 4, 5), trained) == [["m5"], ["m4"]]
    (first, _) = folds(of_models(1, 2, 3, 4, 5), trained)
    assert not first.seen
    assert [item.position for item in first.rows] == [5]


def test_all_rows_of_a_model_are_held_out_and_the_unseen_ones_are_predicted(shipped: Card) -> None:
    trained = msgspec.structs.replace(shipped, position=3, trees_from="log")
    rows = [*of_models(1, 2), row(3, model="m4"), *of_models(4, 5)]
    fold = next(fold for fold in folds(rows, trained) if "m4" in fold.models)
    assert [item.position for item in fold.rows] == [4]


def test_models_that_were_seen_are_compared_where_no_others_are(shipped: Card) -> None:
    published = of_models(1, 2, 3, origin="imported")
    new = msgspec.structs.replace(shipped, position=0)
    assert [(sorted(fold.models), fold.seen) for fold in folds(published, new)] == [
        (["m3"], True),
        (["m2"], True),
        (["m1"], True),
    ]
    assert held([*published, *of_models(4, 5)], new) == [["m5"], ["m4"]]
    learnt = {"e4", "e5"}
    assert held([*of_models(4, 5, 6, 7)], new, learnt=learnt) == [["m7"], ["m6"]]
    assert folds(of_models(1), new) == []


def test_models_by_which_answers_were_scored_come_first(shipped: Card) -> None:
    trained = msgspec.structs.replace(shipped, position=0, trees_from="log")
    assert held(of_models(*range(1, 6)), trained, scored={"e2"}) == [["m2"], ["m5"], ["m4"], ["m3"], ["m1"]]


def test_of_many_rows_one_fold_is_held_out(shipped: Card) -> None:
    trained = msgspec.structs.replace(shipped, position=0, trees_from="log")
    rows = [row(position, model=f"m{position % 100}") for position in range(1, SMALL + 1000)]
    (fold,) = folds(rows, trained)
    assert len(fold.rows) <= MOST
    assert 10 < len(fold.models) <= 50


def test_what_the_shipped_predictor_learnt_from_is_known_by_id(shipped: Card) -> None:
    assert shipped.few is not None
    learnt = learnt_by(shipped)
    assert len(learnt) > 100
    assert {one for place in shipped.few.places for one in place.evidence} <= learnt
    assert learnt_by(msgspec.structs.replace(shipped, few=None)) == frozenset()

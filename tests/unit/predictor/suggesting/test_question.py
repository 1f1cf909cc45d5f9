"""What can be asked for: a budget that can be spent, names in their normal form, defaults that a question overrides."""

from __future__ import annotations

import math

import pytest

from domain.errors import UsageError
from predictor.answering.question import Question
from predictor.suggesting.question import DEFAULT_BATCH_SIZES, MODELS_LIMIT, SuggestQuestion


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_a_budget_that_cannot_be_spent_is_named(budget: float) -> None:
    with pytest.raises(UsageError) as refused:
        SuggestQuestion(budget_s=budget).checked()
    assert refused.value.field == "budget_s"


def test_what_is_wrong_is_named_by_its_field() -> None:
    for asked, field in (
        (SuggestQuestion(budget_s=1.0, mode="dreaming"), "mode"),
        (SuggestQuestion(budget_s=1.0, batch_sizes=[0]), "batch_sizes"),
        (SuggestQuestion(budget_s=1.0, hardware=[]), "hardware"),
        (SuggestQuestion(budget_s=1.0, models=["a"] * (MODELS_LIMIT + 1)), "models"),
        (SuggestQuestion(budget_s=1.0, top=0), "top"),
    ):
        with pytest.raises(UsageError) as refused:
            asked.checked()
        assert refused.value.field == field


def test_names_are_listed_and_a_question_keeps_what_nobody_overrides() -> None:
    asked = SuggestQuestion(budget_s=60.0, hardware="b,a", platform="openvino,cpu").checked()
    assert (asked.hardware, asked.platform) == (["a", "b"], ["cpu", "openvino"])
    about = asked.about(Question(model="m", precision=["int8"], batch_sizes=[4], hardware="all"))
    assert (about.hardware, about.platform, about.precision, about.batch_sizes) == (
        ["a", "b"], ["cpu", "openvino"], ["int8"], [4],
    )  # fmt: skip
    assert asked.about(Question(model="m")).batch_sizes == list(DEFAULT_BATCH_SIZES)

"""Decisions arranged for a page: ours first and named, rules of thumb numbered, nothing lost."""

from __future__ import annotations

import pytest

from dashboard.screens.predictor import decisions
from predictor.choosing.decisions import decisions as shipped
from presentation import charts, formatting

DETAIL_TOOLTIP = shipped()


def test_ours_come_first_by_name_and_rules_of_thumb_by_number() -> None:
    found = decisions.rules(DETAIL_TOOLTIP)
    assert len(found) == len(DETAIL_TOOLTIP["machines"])
    ours = [one["ours"] for one in found]
    assert ours == sorted(ours, reverse=True)
    assert [one["mark"] for one in found if not one["ours"]] == [str(place + 1) for place in range(ours.count(False))]
    assert "nothing measured" in [one["mark"] for one in found if one["ours"]]
    table = decisions.rules_table(found)
    assert str(table[0].values[-1]).startswith(f"{ours.count(False)} · ")


def test_the_answer_is_what_it_chooses_unmeasured_and_where_it_is_right_most_often() -> None:
    ours = {"ours, nothing measured": (0.84, 0.25), "ours, 3 checked": (0.97, 0.07)}
    made = [
        {"rule": rule, "success": right, "overspend": over, "questions": 9, "top_1": 0, "top_3": 0}
        for rule, (right, over) in {"biggest GPU": (0.99, 5.7), **ours}.items()
    ]
    assert formatting.plain(decisions.sentence(decisions.rules({"machines": made}))) == (
        "With nothing measured 84.0 % of choices meet the limits, at 25.0 % above the cheapest; "
        "3 checked, 97.0 % of choices meet the limits, at 7.0 %"
    )
    alone = formatting.plain(decisions.sentence(decisions.rules({"machines": made[:2]})))
    assert alone.endswith("at 25.0 % above the cheapest")


def test_each_kind_of_choice_has_our_loss_and_each_question_of_memory_its_answers() -> None:
    devices = decisions.devices(DETAIL_TOOLTIP)
    choices = devices[0].values
    assert set(choices) == {one["choices"] for one in DETAIL_TOOLTIP["devices"]}
    assert len(choices) == len(set(choices))
    assert list(decisions.fits(DETAIL_TOOLTIP)[0].values) == [one["asked"] for one in DETAIL_TOOLTIP["fits"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_rule_is_drawn_where_its_figures_are(theme: str) -> None:
    found = decisions.rules(DETAIL_TOOLTIP)
    spec = charts.decided(found, theme=theme).to_dict()
    drawn = [
        one
        for layer in spec["layer"][:2]
        for one in layer["data"]["values"]
        if one["ours"] is (layer["mark"]["filled"])
    ]
    at = {one["mark"]: one for one in drawn}
    assert set(at) == {one["mark"] for one in found}
    for one in found:
        assert at[one["mark"]]["y"] == pytest.approx(100 * one["success"])
        assert at[one["mark"]]["x"] == pytest.approx(max(100 * one["overspend"], 0.5))
    written = ", ".join(
        one["mark"] for one in spec["layer"][2]["data"]["values"] if one["short"] and one["short_narrow"]
    )
    assert sorted(written.split(", ")) == sorted(at)

"""How choices are judged."""

import pytest

from predictor.choosing.baselines import like_another, named, of_random
from predictor.choosing.scores import Outcome, judged, regrets, scores
from predictor.choosing.work import Need, Work

NEED = Need(ttft_s=1.0, tpot_s=0.05, users=100)


def test_the_cheapest_that_meets_the_need_costs_nothing_too_much(work: Work) -> None:
    told = judged(work, NEED, 8, [8, 1])
    assert (told.met, told.exact, told.overspend, told.top_1, told.top_3) == (True, True, 0.0, True, True)


def test_too_many_small_machines_meet_it_at_a_price(work: Work) -> None:
    told = judged(work, NEED, 1, [1, 8])
    assert told.met
    assert told.overspend == pytest.approx(20 / 6 - 1)
    assert (told.top_1, told.top_3) == (False, True)


def test_a_machine_trusted_with_too_much_fails_and_has_no_overspend(work: Work) -> None:
    told = judged(work, NEED, 2, [2, 8])
    assert (told.met, told.overspend) == (False, None)


def test_a_machine_may_do_where_the_chosen_engine_on_it_does_not(work: Work) -> None:
    told = judged(work, NEED, 4, [4])
    assert (told.met, told.exact) == (True, False)


def test_success_and_overspend_are_told_over_questions_and_over_models() -> None:
    def one(model: str, overspend: float | None) -> Outcome:
        met = overspend is not None
        return Outcome(model=model, met=met, exact=met, overspend=overspend, top_1=met, top_3=met)

    told = scores([one("a", 0.1), one("a", 0.3), one("a", None), one("b", 0.0)])
    assert (told["questions"], told["success"]) == (4, 0.75)
    assert told["overspend"] == pytest.approx(0.4 / 3, abs=1e-6)
    assert told["macro_success"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-6)
    assert told["macro_overspend"] == pytest.approx(0.1)
    assert told["by_model"]["b"]["questions"] == 1


def test_scores_of_nothing_are_empty_not_zero() -> None:
    told = scores([])
    assert (told["questions"], told["success"], told["overspend"]) == (0, None, None)
    assert regrets([])["median"] is None


def test_regret_is_what_the_first_choice_loses() -> None:
    told = regrets([("a", 0.0, 0), ("a", 0.2, 2), ("b", 0.1, 3)])
    assert (told["median"], told["top_1"]) == (0.1, pytest.approx(1 / 3, abs=1e-6))
    assert told["top_3"] == pytest.approx(2 / 3, abs=1e-6)
    assert told["macro_mean"] == pytest.approx(0.1)
    assert told["by_model"]["a"] == {"questions": 2, "median": 0.1, "worst": 0.2}


def test_a_rule_that_names_a_machine_is_sized_by_what_was_measured(work: Work) -> None:
    assert named(work, NEED, [0, 1]).overspend == 0
    assert named(work, NEED, [1, 0]).overspend == pytest.approx(20 / 6 - 1)
    hard = Need(ttft_s=0.5, tpot_s=0.005, users=10)
    assert not named(work, hard, [0, 1]).met


def test_a_random_machine_is_each_of_them_once(work: Work) -> None:
    told = scores(of_random(work, NEED))
    assert (told["questions"], told["top_1"]) == (2, 0.5)
    assert told["overspend"] == pytest.approx((20 / 6 - 1) / 2)


def test_what_was_cheapest_for_the_nearest_model_comes_first(work: Work) -> None:
    assert like_another(work, NEED, [work], lambda _: 0.0) == [0, 1]
    few = Need(ttft_s=1.0, tpot_s=0.05, users=10)
    assert like_another(work, few, [work], lambda _: 0.0) == [1, 0]
    assert like_another(work, NEED, [], lambda _: 0.0) == [0, 1]

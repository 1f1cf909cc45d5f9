from typing import Any

import pytest

from predictor.failure_rates.cases import End, TriedConfiguration
from predictor.failure_rates.shares import Shares


def case(model: str, platform: str = "webnn", end: End | None = "runs", **over: Any) -> TriedConfiguration:
    return TriedConfiguration(
        model=model, platform=platform, precision="fp32", category="vision", family="net", end=end, **over
    )


def total(shares: Shares, asked: TriedConfiguration) -> float:
    found = shares.chances(asked)
    return found.runs + found.unsupported + found.out_of_memory + found.fails


def test_before_anything_was_tried_the_answer_rests_on_nothing_and_says_so() -> None:
    found = Shares.fitted([]).chances(case("a", end=None))
    assert (found.level, found.tries) == ("", 0)
    assert 0.5 < found.runs < 1
    assert total(Shares.fitted([]), case("a")) == pytest.approx(1.0)


def test_a_model_that_failed_again_and_again_will_fail_and_the_evidence_is_named() -> None:
    tries = [case("a", end="unsupported", evidence=f"e{index}") for index in range(6)]
    found = Shares.fitted(tries + [case(f"m{index}") for index in range(50)]).chances(case("a", end=None))
    assert found.unsupported > 0.7
    assert found.level == "configuration"
    assert found.tries == 6
    assert found.evidence == ("e1", "e2", "e3", "e4", "e5")


def test_a_new_model_is_judged_by_its_family_on_that_platform_and_not_on_another() -> None:
    tries = [case(f"m{index}", end="unsupported") for index in range(10)] + [
        case(f"m{index}", platform="cpu") for index in range(10)
    ]
    shares = Shares.fitted(tries)
    assert shares.chances(case("new", end=None)).unsupported > 0.6
    assert shares.chances(case("new", platform="cpu", end=None)).runs > 0.8
    assert shares.chances(case("new", end=None)).level == "family"


def test_one_try_moves_the_chance_by_less_than_ten() -> None:
    others = [case(f"m{index}") for index in range(30)]
    one = Shares.fitted([*others, case("a", end="fails")]).chances(case("a", end=None)).fails
    ten = Shares.fitted([*others, *([case("a", end="fails")] * 10)]).chances(case("a", end=None)).fails
    assert 0.05 < one < ten
    assert ten > 0.8


def test_the_order_of_the_rows_changes_nothing() -> None:
    tries = [case("a", end="fails"), case("b"), case("a"), case("c", platform="cpu")]
    asked = case("a", end=None)
    assert Shares.fitted(tries).chances(asked) == Shares.fitted(tries[::-1]).chances(asked)


def test_a_category_that_is_not_known_leaves_its_level_out() -> None:
    shares = Shares.fitted([case(f"m{index}") for index in range(10)])
    bare = TriedConfiguration(model="x", platform="webnn")
    assert shares.chances(bare).level == "platform by origin"
    assert total(shares, bare) == pytest.approx(1.0)


def test_what_others_reported_counts_for_less_than_what_was_measured() -> None:
    theirs = [case(f"m{index}", platform="cpu", end="fails", origin="imported") for index in range(20)]
    ours = [case(f"n{index}", platform="cpu") for index in range(20)]
    shares = Shares.fitted([*theirs, *ours])
    assert shares.chances(case("new", platform="cpu", end=None)).runs > 0.8
    assert shares.chances(case("new", platform="cpu", origin="imported", end=None)).fails > 0.8


def test_a_device_counts_by_itself_where_it_was_tried_and_as_any_other_elsewhere() -> None:
    shares = Shares.fitted([case("a", hardware="l4", end="fails")] * 5 + [case("a", hardware="t4")] * 5)
    there, other, none = (case("a", hardware=name, end=None) for name in ("l4", "h100", ""))
    assert [shares.tried(one) for one in (there, other, none)] == [True, False, False]
    assert shares.chances(there).fails > shares.chances(other).fails
    assert shares.chances(other) == shares.chances(case("a", hardware="a100", end=None))

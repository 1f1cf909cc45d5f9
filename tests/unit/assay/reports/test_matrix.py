from __future__ import annotations

from typing import Any

import pytest

from presentation.reports import matrix


def case(**changes: Any) -> dict[str, Any]:
    made = {
        "model_id": "acme/tiny", "platform": "cpu", "category": "embedding", "family": "bert", "built": True, "ran": True,
        "verified": True, "measured": True, "why_not": None, "remedy": None, "evidence": "e1", "position": 1,
        "hardware": ["acme-one"], "precisions": ["fp32"], "measurements": 1, "tests": 1, "failures": 0,
    }  # fmt: skip
    return made | changes


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((True, True, True, True), "right"),
        ((True, True, False, True), "wrong"),
        ((True, True, None, True), "ran"),
        ((True, False, None, None), "built"),
        ((False, False, None, None), "failed"),
        ((None, None, None, None), None),
    ],
)
def test_a_case_is_told_by_how_far_it_got(facts: tuple[Any, ...], state: str | None) -> None:
    assert matrix.state_of(case(**dict(zip(("built", "ran", "verified", "measured"), facts, strict=True)))) == state


def test_the_picture_has_the_furthest_state_of_a_cell_and_none_for_what_was_never_tried() -> None:
    never = dict.fromkeys(("built", "ran", "verified", "measured"))
    rows = [
        case(verified=None),
        case(),
        case(platform="qnn", **never),
        case(platform="cuda", built=False, ran=False, verified=None, measured=None),
    ]
    chart = matrix.matrix_chart(rows)
    assert {(row["platform"], row["state"]) for row in chart.rows} == {("cpu", "right"), ("cuda", "failed")}
    assert chart.sentence.startswith("Of 2 cases: 1 verified")


def test_models_of_one_short_name_keep_their_owner() -> None:
    chart = matrix.matrix_chart([case(), case(model_id="other/tiny"), case(model_id="acme/large")])
    assert [row["model"] for row in chart.rows] == ["acme/tiny", "other/tiny", "large"]


def test_reasons_are_counted_with_their_models_and_remedy() -> None:
    failed = {"built": False, "ran": False, "verified": None, "why_not": "unsupported at convert: no such operator"}
    rows = [
        case(**failed),
        case(model_id="acme/b", evidence="e2", remedy="Use fp32.", **failed),
        case(platform="cuda", **failed),
    ]
    first, _ = matrix.reasons_table(rows).rows
    assert (first["cases"], first["models"], first["remedy"]) == (2, ["acme/b", "acme/tiny"], "Use fp32.")
    assert first["evidence"] == ["e1", "e2"]


def test_counts_are_of_cases_by_platform() -> None:
    rows = [case(), case(model_id="acme/b", verified=False), case(platform="openvino", verified=None)]
    cpu, openvino = matrix.counts_table(rows).rows
    assert (cpu["models"], cpu["verified"], cpu["wrong"], openvino["verified"]) == (2, 1, 1, 0)


def test_never_tried_is_a_dash_and_not_a_no() -> None:
    table = matrix.matrix_table([case(verified=None, measured=False)])
    words = dict(zip([column.title for column in table.shown], table.words(table.rows[0]), strict=True))
    assert (words["Right"], words["Measured"], words["Runs"]) == ("—", "no", "yes")

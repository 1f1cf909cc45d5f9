from typing import Any

import pytest

from predictor.failure_rates.cases import case_from_row, cases_of, row_from_event

MEASURED = {
    "model_id": "acme/net", "platform": "cpu", "precision": "fp32", "hardware_id": "acme-1", "category": "vision",
    "family": "net", "mode": "inference", "batch_size": 1, "origin": "measured", "verdict": "valid", "event_id": "e1",
}  # fmt: skip


def tried(outcome: str, **over: Any) -> dict[str, Any]:
    return {**MEASURED, "verdict": None, "outcome": outcome} | over


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        ("passed", "runs"),
        ("unsupported", "unsupported"),
        ("out_of_memory", "out_of_memory"),
        ("failed", "fails"),
        ("error", "fails"),
        ("timeout", "fails"),
    ],
)
def test_outcomes_end_in_one_of_four_ways(outcome: str, end: str) -> None:
    case = case_from_row(tried(outcome))
    assert case is not None
    assert case.end == end


def test_a_measurement_has_run() -> None:
    case = case_from_row(MEASURED)
    assert case is not None
    assert (case.end, case.model, case.evidence) == ("runs", "acme/net", "e1")


@pytest.mark.parametrize(
    "row",
    [
        tried("skipped"),
        tried("passed", origin="simulated"),
        MEASURED | {"verdict": "invalid"},
        MEASURED | {"fallback_share": 0.4},
        MEASURED | {"platform": None},
    ],
)
def test_what_was_not_really_tried_is_no_case(row: dict[str, Any]) -> None:
    assert case_from_row(row) is None


def test_what_could_not_be_loaded_counts_for_what_was_asked_for() -> None:
    case = case_from_row(
        tried("unsupported", platform=None, precision=None, platform_asked="webnn", precision_asked="int4")
    )
    assert case is not None
    assert (case.platform, case.precision) == ("webnn", "int4")


def test_of_a_configuration_that_was_tried_again_the_newest_counts() -> None:
    found = cases_of([tried("error"), tried("passed", batch_size=8), tried("passed")])
    assert [(case.batch_size, case.end) for case in found] == [(8, "runs"), (1, "runs")]


def test_an_event_says_the_same_as_its_row() -> None:
    event = {
        "id": "e1",
        "data": {
            "model": {"id": "acme/net", "category": "vision", "family": "net"},
            "workload": {"mode": "inference", "batch_size": 1},
            "execution": {"platform": "openvino", "precision": "fp16"},
            "observed": {"platform": "cpu", "precision": "fp32", "fallback_share": 0.0},
            "hardware": {"id": "acme-1"},
            "provenance": {"origin": "measured"},
            "validity": {"verdict": "valid"},
        },
    }
    assert case_from_row(row_from_event(event)) == case_from_row(MEASURED)
    failed = {**event, "data": {**event["data"], "outcome": "unsupported", "observed": None}}  # type: ignore[dict-item]
    case = case_from_row(row_from_event(failed))
    assert case is not None
    assert (case.platform, case.precision, case.end) == ("openvino", "fp16", "unsupported")

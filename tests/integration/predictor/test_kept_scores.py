"""What the predictor could do on the shipped measurements, it must still be able to do."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.first_party import read
from benchmarks.kept_scores import DATA, RECORD, measured, worse
from predictor.learning.evaluation import evaluate
from predictor.learning.parametric import ParametricMethod


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text()))


def test_no_score_fell_by_more_than_five_percent(recorded: dict[str, Any]) -> None:
    assert worse(recorded, measured()) == []


def test_a_family_that_was_never_measured_is_predicted_within_ten_percent(recorded: dict[str, Any]) -> None:
    assert recorded["family"]["rows"] > 150
    assert recorded["family"]["median_ape"] <= 0.10


def test_a_worse_score_is_told_with_both_figures(recorded: dict[str, Any]) -> None:
    slightly = {"family": {**recorded["family"], "mape": recorded["family"]["mape"] * 1.04}}
    clearly = {"family": {**recorded["family"], "mape": recorded["family"]["mape"] * 1.06}}
    only = {"family": recorded["family"]}
    assert worse(only, slightly) == []
    (told,) = worse(only, clearly)
    assert f"family: mape is {clearly['family']['mape']:.4f}" in told
    assert len(worse(only, {})) == 2


def test_without_the_operators_the_scores_would_not_be_kept() -> None:
    """The gate sees what the traces give: every model with the operators of one of them is predicted far worse."""
    table = read(sorted(DATA.glob("*.ndjson.gz")))
    same = [table.subjects[0]] * len(table)
    blind = msgspec.structs.replace(table, subjects=same, prior=np.full(len(table), float(np.median(table.prior))))
    told = evaluate(blind, ParametricMethod(), "family", "latency")["overall"]
    assert told["median_ape"] > 3 * json.loads(RECORD.read_text())["family"]["median_ape"]

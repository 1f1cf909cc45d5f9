"""Thresholds per configuration: which rule decides, and what is wrong with a file of them."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.comparison.comparison_sides import NewestMeasurement, NewestOutcome, Side
from domain.comparison.regression import compare
from domain.comparison.thresholds import NO_THRESHOLDS, Thresholds, decode_thresholds
from domain.errors import UsageError
from domain.figures import Figure

P50, MEMORY = "latency_p50_ms", "peak_memory_bytes"


def row(p50, event, *, key="k", memory=100.0):
    figures = {
        P50: Figure(value=p50, low=p50 * 0.99, high=p50 * 1.01),
        MEMORY: Figure(value=memory),
    }
    return NewestMeasurement(
        key=key, alike=key, title=f"acme/bert-tiny {key}", hardware="nvidia-l4", origin="measured", event_id=event,
        figures=figures, model="acme/bert-tiny", platform="cuda", precision="fp16",
    )  # fmt: skip


def case(outcome, event, test="verify"):
    return NewestOutcome(
        key="k", alike="k", title="acme/bert-tiny k", hardware="nvidia-l4", outcome=outcome, event_id=event, test=test,
        model="acme/bert-tiny", platform="cuda", precision="fp16",
    )  # fmt: skip


def states(rules, before, after, **more):
    report = compare(before, after, thresholds=decode_thresholds({"thresholds": rules}), **more)
    return {change.column: change.state for change in report.changes}, report


BEFORE, AFTER = Side(name="b", measured=[row(1.0, "e1")]), Side(name="c", measured=[row(1.08, "f1", memory=150.0)])


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"alert": 0.05}, "worse"),
        ({"model": "bert-*", "alert": 0.05}, "worse"),
        ({"model": "acme/bert-tiny", "metric": "latency_*", "alert": 0.05}, "worse"),
        ({"hardware": "nvidia-*", "platform": "cuda", "precision": "fp16", "alert": 0.05}, "worse"),
        ({"model": "gpt*", "alert": 0.05}, "same"),
        ({"hardware": "nvidia", "alert": 0.05}, "same"),
        ({"platform": "cpu", "alert": 0.05}, "same"),
        ({"precision": "fp32", "alert": 0.05}, "same"),
        ({"metric": "ttft_ms", "alert": 0.05}, "same"),
    ],
)
def test_rule_is_for_what_its_globs_match(rule, state):
    assert states([rule], BEFORE, AFTER)[0][P50] == state


def test_first_rule_that_matches_decides_and_the_rest_has_the_common_threshold():
    narrow, wide = {"metric": "latency_*", "alert": 0.05}, {"alert": 1.0}
    assert states([narrow, wide], BEFORE, AFTER)[0] == {P50: "worse", MEMORY: "same"}
    assert states([wide, narrow], BEFORE, AFTER)[0] == {P50: "same", MEMORY: "same"}
    assert states([narrow], BEFORE, AFTER)[0] == {P50: "worse", MEMORY: "worse"}
    assert [change.alert for change in states([narrow], BEFORE, AFTER)[1].changes] == [0.1, 0.05]


def test_ignored_figures_and_tests_do_not_count_and_are_listed_with_the_reason():
    before = Side(name="b", measured=[row(1.0, "e1")], cases=[case("passed", "t1")])
    after = Side(name="c", measured=[row(9.0, "f1")], cases=[case("failed", "t2")])
    rules = [{"metric": "latency_*", "ignore": True, "reason": "known"}, {"metric": "verify", "ignore": True}]
    figures, report = states(rules, before, after)
    assert figures == {MEMORY: "same"} and report.turns == [] and not report.worse
    assert [text.rpartition("k ")[2] for text in sorted(report.ignored)] == ["latency_p50_ms: known", "verify"]


def test_rules_that_match_nothing_or_stand_behind_another_are_named():
    rules = [{"model": "bert*", "alert": 0.2}, {"model": "gpt*", "alert": 0.2}, {"metric": P50, "ignore": True}]
    unmatched = states(rules, BEFORE, AFTER)[1].unmatched
    assert [text.partition(":")[0] for text in unmatched] == ["thresholds[1]", "thresholds[2]"]
    assert "model=gpt*" in unmatched[0]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"thresholds": [{"alert": 0.1}, {"alert": -0.05}]}, "thresholds[1].alert"),
        ({"thresholds": [{"alert": "5%"}]}, "thresholds[0].alert"),
        ({"thresholds": [{"alert": float("nan")}]}, "thresholds[0].alert"),
        ({"thresholds": [{"alerts": 0.1}]}, "thresholds[0].alerts"),
        ({"thresholds": [{"model": ["a"], "alert": 0.1}]}, "thresholds[0].model"),
        ({"thresholds": [{"model": "a"}]}, "thresholds[0].alert"),
        ({"thresholds": [{"alert": 0.1, "ignore": True}]}, "thresholds[0].alert"),
        ({"threshold": []}, "threshold"),
        ({}, "thresholds"),
        (None, "thresholds"),
        ([], "thresholds"),
    ],
)
def test_mistake_is_named_by_the_path_of_its_member(document, field):
    with pytest.raises(UsageError) as refused:
        decode_thresholds(document)
    assert refused.value.field == field


json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["thresholds", "alert", "model", "ignore", "x"]), inner, max_size=3)
    ),
)


@given(json | st.fixed_dictionaries({"thresholds": st.lists(json, max_size=3)}))
def test_any_document_is_rules_or_a_usage_error(document):
    rules = NO_THRESHOLDS
    with suppress(UsageError):
        rules = decode_thresholds(document)
    assert msgspec.convert(msgspec.to_builtins(rules), Thresholds) == rules
    assert all(rule.ignore or rule.alert >= 0 for rule in rules.rules)

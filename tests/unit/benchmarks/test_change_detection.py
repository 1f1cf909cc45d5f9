"""A smaller table of docs/regressions.md, and scores of marked series whose answer is known."""

from __future__ import annotations

import json
import statistics

import pytest

from research import change_detection
from research.change_detection import LAWS, alarms_of_detector, alarms_of_trends, score
from research.turing_scores import SERIES, cover, f1, smoothed_changes


@pytest.fixture(scope="module")
def scores():
    return {law: score("assay", alarms_of_detector, law, 40) for law in LAWS}


@pytest.mark.parametrize("law", LAWS)
def test_false_alarms_are_rare_and_changes_are_found(scores, law):
    result = scores[law]
    dependent = law == "AR 0.4"
    assert result.false_alarms <= (0.2 if dependent else 0.05)
    assert result.recall["+6 %"] >= (0.85 if dependent else 0.93)
    assert result.delay["+6 %"] <= (13 if dependent else 9)
    assert result.recall["drift +22 %"] >= 0.93
    assert result.alarms["drift +22 %"] <= 1.25


def test_spikes_raise_no_alarm(scores):
    assert scores["spikes"].false_alarms == 0


def test_step_is_found_after_eight_runs_by_the_median_of_all_laws(scores):
    assert statistics.median(result.delay["+6 %"] for result in scores.values()) <= 8


def test_trends_rule_alarms_at_spikes_and_misses_steps():
    result = score("trends rule", alarms_of_trends, "spikes", 20)
    assert result.false_alarms > 2


def test_f1_counts_the_beginning_and_each_mark_once():
    assert f1([[], []], []) == 1.0
    assert f1([[50]], [53]) == 1.0
    assert f1([[50]], [56]) == 0.5
    assert f1([[50]], [48, 53]) == pytest.approx(0.8)
    assert f1([[50], []], []) == pytest.approx(2 * 0.75 / 1.75)


def test_cover_is_the_best_overlap_of_each_marked_segment():
    assert cover([[50]], [50], 100) == 1.0
    assert cover([[50]], [], 100) == 0.5
    assert cover([[], [50]], [], 100) == 0.75


def test_long_series_are_read_by_blocks():
    values = [100.0, 101.0, 99.0, 100.5] * 80 + [120.0, 121.0, 119.0, 120.5] * 80
    (place,) = smoothed_changes(values)
    assert abs(place - 320) <= 5


def test_marked_series_are_read_from_a_folder(tmp_path):
    values = [100.0, 101.0, 99.0, 100.5] * 8 + [120.0, 121.0, 119.0, 120.5] * 8
    (tmp_path / "annotations.json").write_text(json.dumps({SERIES[0]: {"6": [32], "7": []}}))
    (tmp_path / f"{SERIES[0]}.json").write_text(json.dumps({"series": [{"raw": values}]}))
    answer = change_detection.tcpd(tmp_path)
    assert answer["assay"]["series"] == 1
    assert answer["assay"]["f1"] == pytest.approx(1.0)
    assert answer["no alarm"]["f1"] == pytest.approx(2 * 0.75 / 1.75)

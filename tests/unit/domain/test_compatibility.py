"""States and levels of cells: each rule at its edge, the age of evidence, and what a family comes to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.compatibility.contradictions import VERDICTS
from domain.compatibility.states import (
    LEVELS,
    RULES,
    STALE_DAYS,
    STATES,
    best_of,
    grouped,
    judged,
    level_of,
    machine_bound,
    works,
)
from domain.vocabulary import OUTCOMES, STAGES

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def cell(**told: Any) -> dict[str, Any]:
    """A cell that ran, with what a test changes."""
    return {
        "model_id": "acme/tiny", "category": "embedding", "family": "bert", "platform": "cuda", "precision": "fp16",
        "built": True, "ran": True, "verified": None, "measured": True, "fallback_share": 0.0, "last_seen": NOW, "runs": 1,
        "stopped_outcome": None, "stopped_stage": None, "stopped_error": None, "stopped_message": None,
        "stopped_remedy": None, "speedup": None, "speedup_best": None, "evidence": "e", "evidence_ids": ["e"],
        "position": 1, **told,
    }  # fmt: skip


def stopped(outcome: str = "error", stage: str = "run", error: str = "RuntimeError", **told: Any) -> dict[str, Any]:
    """A cell that never ran."""
    facts = {"built": False, "ran": False, "measured": False}
    return cell(**{**facts, "stopped_outcome": outcome, "stopped_stage": stage, "stopped_error": error, **told})


@pytest.mark.parametrize(
    ("state", "facts"),
    [
        ("verified", cell(verified=True)),
        ("verified", cell(verified=True, measured=None)),
        ("ran", cell()),
        ("fell back", cell(fallback_share=0.2)),
        ("ran", cell(fallback_share=0.1)),
        ("fell back", stopped("failed", "verify", "Fallback", verified=False)),
        ("wrong", cell(verified=False, stopped_error="Mismatch")),
        ("out of memory", stopped("out_of_memory")),
        ("timeout", stopped("timeout", "compile")),
        ("error", stopped("error")),
        ("error", stopped("failed", "verify", "Odd")),
        ("unsupported", stopped("unsupported", "compile", "NotImplementedError")),
        ("unavailable", stopped("unsupported", "resolve", "PlatformUnavailable")),
        ("skipped", cell(built=None, ran=None, measured=None)),
    ],
)
def test_the_state_of_a_cell(state, facts):
    assert judged(facts, NOW)["state"] == state
    assert state in STATES


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("stage", STAGES)
def test_what_stopped_a_cell_always_has_a_state(outcome, stage):
    assert judged(stopped(outcome, stage, "X"), NOW)["state"] in STATES


@pytest.mark.parametrize(
    ("level", "state", "platform", "speedup"),
    [
        ("high", "verified", "cuda", 2.0), ("medium", "verified", "cuda", 1.99), ("medium", "verified", "cuda", 0.9),
        ("low", "verified", "cuda", 0.89), ("medium", "verified", "cuda", None), ("high", "verified", "cpu", None),
        ("medium", "ran", "cuda", 2.0), ("low", "ran", "cuda", 1.99), ("low", "ran", "cuda", None),
        ("medium", "ran", "cpu", None), ("low", "wrong", "cuda", 9.0), ("low", "fell back", "cuda", 9.0),
        (None, "error", "cuda", None), (None, "skipped", "cpu", None), (None, "claimed", "cuda", None),
    ],
)  # fmt: skip
def test_levels_at_their_edges(level, state, platform, speedup):
    assert level_of(state, platform, speedup) == level


def test_every_level_has_its_rule_in_words():
    assert {*LEVELS, "none", "stale", "speed", "family"} == set(RULES)


@pytest.mark.parametrize(("days", "stale"), [(0, False), (STALE_DAYS, False), (STALE_DAYS + 1, True)])
def test_age_is_counted_to_the_moment_of_the_position(days, stale):
    found = judged(cell(last_seen=NOW - timedelta(days=days)), NOW)
    assert (found["age_days"], found["stale"]) == (days, stale)


def test_without_a_moment_there_is_no_age():
    assert judged(cell(), None)["stale"] is None


def test_what_stopped_it_once_is_not_told_of_a_cell_that_works():
    assert judged(stopped(ran=True, verified=True), NOW)["stopped_error"] is None
    assert judged(stopped(), NOW)["stopped_error"] == "RuntimeError"


def test_memory_time_and_a_missing_platform_tell_of_the_machine_alone():
    assert machine_bound(stopped("out_of_memory"))
    assert machine_bound(stopped("unsupported", "load", "NotEnoughMemory"))
    assert not machine_bound(stopped("unsupported", "convert", "NotImplementedError"))


def test_the_best_precision_speaks_for_a_model():
    wrong = judged(cell(precision="int8", verified=False, stopped_error="Mismatch"), NOW)
    right = judged(cell(precision="fp16", verified=True, speedup=3.0), NOW)
    assert best_of([wrong, right])["precision"] == "fp16"


def test_a_family_is_what_half_of_its_models_reach():
    cells = [
        cell(model_id="a", verified=True, speedup=4.0, speedup_best=5.0), cell(model_id="b", verified=True, speedup=1.0),
        stopped(model_id="c"), judged(cell(model_id="d", built=None, ran=None, measured=None), NOW),
    ]  # fmt: skip
    (row,) = grouped([judged(one, NOW) for one in cells], "family")
    assert (row["family"], row["platform"], row["models"], row["working"]) == ("bert", "cuda", 3, 2)
    assert (row["state"], row["level"]) == ("verified", "medium")
    assert row["states"] == {"verified": 2, "error": 1}
    assert (row["stopped"], row["speedup_best"]) == ("error at run: RuntimeError", 5.0)
    assert grouped([judged(one, NOW) for one in cells], "category")[0]["family"] is None


def test_only_states_that_saw_something_say_whether_it_works():
    assert {state for state in STATES if works(state) is None} == {"unavailable", "skipped", "claimed", "no evidence"}
    assert {state for state in STATES if works(state)} == {"verified", "ran"}


def test_the_documentation_has_every_state_and_rule_as_it_is():
    page = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text()
    assert [state for state, meaning in STATES.items() if f"| {state} | {meaning} |" not in page] == []
    assert [name for name, rule in RULES.items() if rule not in page] == []
    assert [name for name, meaning in VERDICTS.items() if f"| {name} | {meaning} |" not in page] == []

"""The spool's state machine, every phase with every outcome."""

from __future__ import annotations

import itertools

import pytest

from domain.errors import (
    AssayError,
    ConflictingEvent,
    Forbidden,
    InvalidEvent,
    PayloadTooLarge,
    ServiceUnavailable,
    TooBusy,
    Unauthenticated,
)
from runner.spool.state import BACKOFF_CAP_S, SpoolState, outcome_of

STATES = [
    SpoolState(),
    SpoolState(phase="waiting", attempts=1, not_before_s=10.0),
    SpoolState(phase="waiting", attempts=40, not_before_s=10.0),
    SpoolState(phase="blocked", attempts=1),
]
EXPECTED = {
    "accepted": ("ready", "forget"),
    "refused": ("ready", "reject"),
    "busy": ("waiting", "keep"),
    "unavailable": ("waiting", "keep"),
    "forbidden": ("blocked", "keep"),
}


@pytest.mark.parametrize(("state", "outcome"), list(itertools.product(STATES, EXPECTED)))
def test_every_phase_with_every_outcome(state: SpoolState, outcome: str) -> None:
    after, action = state.after(outcome, now_s=100.0, draw=0.5)  # type: ignore[arg-type]
    assert (after.phase, action) == EXPECTED[outcome]
    assert after.attempts == (0 if after.phase == "ready" else state.attempts + 1)
    if after.phase == "waiting":
        assert 100.0 < after.not_before_s <= 100.0 + BACKOFF_CAP_S


def test_only_an_answer_of_4xx_other_than_429_gives_events_up() -> None:
    actions = {name: SpoolState().after(name, now_s=0, draw=0)[1] for name in EXPECTED}  # type: ignore[arg-type]
    assert [name for name, action in actions.items() if action == "reject"] == ["refused"]


def test_full_jitter_doubles_its_bound_up_to_the_cap() -> None:
    state, bounds = SpoolState(), []
    for _ in range(12):
        state, _ = state.after("unavailable", now_s=0.0, draw=1.0)
        bounds.append(state.not_before_s)
    assert bounds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert SpoolState().after("unavailable", now_s=5.0, draw=0.0)[0].not_before_s == 5.0


def test_a_service_that_says_when_is_not_asked_before() -> None:
    state, _ = SpoolState().after("busy", now_s=10.0, draw=0.5, retry_after_s=60.0)
    assert state.not_before_s >= 70.0
    assert not state.may_send(69.9)
    assert state.may_send(state.not_before_s)


def test_a_blocked_spool_waits_for_a_person_and_not_for_time() -> None:
    blocked, _ = SpoolState().after("forbidden", now_s=0.0, draw=0.5)
    assert not blocked.may_send(1e12)
    assert blocked.unblock().may_send(0.0)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TooBusy("slow down"), "busy"),
        (ServiceUnavailable("gone"), "unavailable"),
        (AssayError("status 500"), "unavailable"),
        (Unauthenticated("no token"), "forbidden"),
        (Forbidden("scope"), "forbidden"),
        (InvalidEvent("bad"), "refused"),
        (PayloadTooLarge("big"), "refused"),
        (ConflictingEvent("other body"), "refused"),
    ],
)
def test_errors_mean_outcomes(error: AssayError, outcome: str) -> None:
    assert outcome_of(error) == outcome

"""Search: whatever a name lacks it is found, and a mistyped one is offered, never taken for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues.models import catalogue
from domain.catalogues.search import edits, matches, meant

NAMES = {
    "google-bert/bert-base-uncased": ("bert-base-uncased", "bert"),
    "facebook/opt-125m": (),
    "acme/opt-350m": ("zoo/small-one",),
    "acme/tiny": (),
    "zoo/tiny": (),
}


@pytest.mark.parametrize(
    ("text", "first", "how"),
    [
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased", "id"),
        (" BERT-Base-Uncased ", "google-bert/bert-base-uncased", "alias"),
        ("opt-125M", "facebook/opt-125m", "owner_omitted"),
        ("small-one", "acme/opt-350m", "owner_omitted"),
        ("bert-ba", "google-bert/bert-base-uncased", "begins"),
        ("base", "google-bert/bert-base-uncased", "contains"),
        ("brt-base-uncased", "google-bert/bert-base-uncased", "typo"),
        ("bret-base-uncase", "google-bert/bert-base-uncased", "typo"),
        ("facebok/opt-125m", "facebook/opt-125m", "typo"),
    ],
)
def test_the_first_match_is_what_was_meant(text: str, first: str, how: str) -> None:
    match = matches(text, NAMES)[0]
    assert (match.id, match.how) == (first, how)


def test_what_is_three_edits_away_or_too_short_to_tell_is_not_offered() -> None:
    assert matches("brt-bas-uncased", NAMES)[0].edits == 2
    assert matches("brt-bas-uncasd", NAMES) == []
    assert matches("xx", NAMES) == []
    assert matches("  ", NAMES) == []


def test_a_mistyped_name_is_never_taken_for_another() -> None:
    assert {match.id for match in matches("opt-150m", NAMES)} == {"facebook/opt-125m", "acme/opt-350m"}
    assert meant("opt-150m", NAMES) == []


def test_a_name_that_two_owners_use_means_both() -> None:
    assert meant("tiny", NAMES) == ["acme/tiny", "zoo/tiny"]
    assert meant("acme/tiny", NAMES) == ["acme/tiny"]


def test_every_model_of_the_catalogue_is_found_by_all_its_names() -> None:
    names = {model.id: model.aliases for model in catalogue()}
    for model in catalogue():
        for name in (model.id, *model.aliases):
            assert meant(name.upper(), names) == [model.id]


TEXT = st.text("abc", max_size=7)


def slow(one: str, other: str) -> int:
    """Optimal string alignment, from its definition."""
    if not one or not other:
        return len(one) + len(other)
    best = min(slow(one[1:], other[1:]) + (one[0] != other[0]), slow(one[1:], other) + 1, slow(one, other[1:]) + 1)
    if len(one) > 1 and len(other) > 1 and (one[0], one[1]) == (other[1], other[0]):
        best = min(best, slow(one[2:], other[2:]) + 1)
    return best


@given(st.text("abc", max_size=5), st.text("abc", max_size=5), st.integers(0, 3))
def test_edits_are_those_of_the_definition(one: str, other: str, most: int) -> None:
    expected = slow(one, other)
    assert edits(one, other, most) == (expected if expected <= most else None)


@given(TEXT, TEXT)
def test_edits_are_the_same_in_both_directions(one: str, other: str) -> None:
    assert edits(one, other) == edits(other, one)

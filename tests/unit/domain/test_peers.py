from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import UsageError
from domain.permissions import PERMISSIONS
from domain.sharing.peers import DEFAULT_TYPES, NewPeer, full_type, matches, require_peer, travels

NEVER = [
    "assay.operation.performed.v1",
    "assay.predictor.trained.v1",
    "assay.predictor.chosen.v1",
    "assay.prediction.issued.v1",
    "assay.recommendation.issued.v1",
    "assay.snapshot.named.v1",
    "assay.baseline.named.v1",
    "assay.alert.raised.v1",
    "assay.alert.changed.v1",
    "assay.job.requested.v1",
    "assay.job.finished.v1",
    "assay.token.made.v9",
    "assay.predictor.chosen.v2",
]


def new(**parts: object) -> NewPeer:
    named = {"name": "lab", "url": "https://lab.example.org", "sources": ["urn:lab:*"], "types": list(DEFAULT_TYPES)}
    return NewPeer(**{**named, **parts})  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", NEVER)
def test_what_belongs_to_one_installation_never_travels(type_: str) -> None:
    assert not travels(type_)
    assert type_ not in DEFAULT_TYPES


def test_types_of_others_travel_and_samples_and_prices_only_by_name() -> None:
    assert travels("com.acme.note")
    more = {name for name in PERMISSIONS if travels(name)} - set(DEFAULT_TYPES)
    assert more == {"assay.samples.recorded.v1", "assay.price.published.v1"}


@given(st.text(min_size=1).filter(lambda text: not text.endswith("*")), st.text())
def test_pattern_matches_what_begins_so_and_nothing_else(begin: str, rest: str) -> None:
    assert matches([begin + "*"], begin + rest)
    assert matches([begin], begin)
    assert matches([begin], begin + rest) == (rest == "")


def test_short_words_name_types() -> None:
    assert full_type("measurement.recorded") == "assay.measurement.recorded.v1"
    assert full_type("com.acme.note") == "com.acme.note"


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"url": "ftp://lab"}, "url"),
        ({"url": "lab.example.org"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"url": "http://lab:99999"}, "url"),
        ({"url": "https://lab/?x=1"}, "url"),
        ({"url": "https://user:secret@lab"}, "url"),
        ({"sources": ["urn:*:x"]}, "sources"),
        ({"types": ["assay.snapshot.named.v1"]}, "types"),
    ],
)
def test_peer_that_makes_no_sense_names_the_field(parts: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_peer(new(**parts))
    assert refused.value.field == field
    assert refused.value.remedy


def test_peer_that_makes_sense_is_taken() -> None:
    require_peer(new())
    require_peer(new(url="http://10.0.0.7:8000", sources=["*"], types=["assay.price.published.v1"]))

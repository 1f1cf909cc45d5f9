"""The ranking of the search: what is named exactly stands first, what is misspelt is found, and nothing else changes the order."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dashboard.search.entries import first_entries, pages_index, row_entry
from dashboard.search.index import Entry, Index
from domain.catalogues import hardware, models


def device(name: str, measurements: int = 0) -> Entry:
    spec = hardware.require(name)
    return Entry(
        kind="hardware", id=spec.id, title=spec.name, page="hardware", params={"id": spec.id}, names=spec.aliases,
        keywords=f"{spec.vendor} {spec.kind}", measurements=measurements,
    )  # fmt: skip


def model(name: str, *names: str, measurements: int = 0) -> Entry:
    title = name.rpartition("/")[2]
    return Entry(
        kind="model", id=name, title=title, page="models", params={"id": name}, names=names, measurements=measurements
    )


DEVICES = [device(name) for name in hardware.catalogue()]
MODELS = [model(item.id, *item.aliases) for item in models.catalogue()]
EVERYTHING = Index(
    [*pages_index().entries.values(), *DEVICES, *MODELS],
    exact=lambda text: [spec.id for spec in [hardware.find(text)] if spec],
    several=hardware.choices,
)
LONG = [entry for entry in (*DEVICES, *MODELS) if sum(letter.isalnum() for letter in entry.title) >= 8]
"""Names of which six letters are left after two are gone: a text of fewer allows one edit."""


def ids(text: str, index: Index = EVERYTHING, most: int | None = 8) -> list[str]:
    return [hit.entry.id for hit in index.search(text, most)]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*EVERYTHING.entries.values()]), st.booleans())
def test_an_exact_id_is_first(entry: Entry, loud: bool) -> None:
    best = EVERYTHING.search(entry.id.upper() if loud else entry.id)[0]
    assert (best.entry.id, best.how) == (entry.id, "id")


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(LONG))
def test_a_typo_of_two_letters_still_finds(data: st.DataObject, entry: Entry) -> None:
    letters = list(entry.title)
    for _ in range(2):
        place = data.draw(st.integers(0, len(letters) - 1))
        if data.draw(st.booleans()):
            letters[place] = data.draw(st.sampled_from(string.ascii_lowercase))
        else:
            del letters[place]
    hits = EVERYTHING.search("".join(letters), None)
    # A text that names another entry exactly is no typo.
    assume(not any(hit.how in ("id", "title", "name") for hit in hits))
    assert entry.id in [hit.entry.id for hit in hits]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_gives_a_list_without_doubles_in_the_order_of_ranks(text: str) -> None:
    hits = EVERYTHING.search(text, None)
    assert len({hit.entry.key for hit in hits}) == len(hits)
    order = ["id", "title", "name", "begins", "words", "contains", "typo"]
    assert [order.index(hit.how) for hit in hits] == sorted(order.index(hit.how) for hit in hits)


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        ("4090", "nvidia-rtx-4090"),
        ("rtx4090", "nvidia-rtx-4090"),
        ("RTX 4090", "nvidia-rtx-4090"),
        ("l4", "nvidia-l4"),
        ("nvida l4", "nvidia-l4"),
        ("M4 Max", "apple-m4-max-gpu"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("bert bse uncasd", "google-bert/bert-base-uncased"),
        ("resnet50", "microsoft/resnet-50"),
        ("compare", "compare"),
        ("home", "overview"),
        ("sql", "query"),
        ("a billion pictures", "vit-offline"),
    ],
)
def test_what_people_type_finds_what_they_mean(text: str, id_: str) -> None:
    assert ids(text)[0] == id_


def test_of_the_same_rank_what_was_measured_most_is_first() -> None:
    index = Index([model("acme/swift-a"), model("acme/swift-b", measurements=9), model("acme/swift-c", measurements=3)])
    assert ids("swift", index) == ["acme/swift-b", "acme/swift-c", "acme/swift-a"]


def test_ranks_stand_before_counts() -> None:
    index = Index(
        [
            model("acme/tin", measurements=0),
            model("acme/tin-large", measurements=5),
            model("acme/big-tin", measurements=50),
            model("acme/satin", measurements=500),
        ]
    )
    assert ids("tin", index) == ["acme/tin", "acme/tin-large", "acme/big-tin", "acme/satin"]


def test_a_name_of_its_own_stands_before_an_alias() -> None:
    index = Index([model("acme/one", "two", measurements=90), model("acme/two")])
    assert ids("two", index) == ["acme/two", "acme/one"]


def test_nothing_is_found_for_nothing_and_for_what_is_like_nothing() -> None:
    assert ids("") == ids(" -/ ") == ids("zzqqxxyy") == []


def test_an_event_id_opens_its_row() -> None:
    event = "94404929-b0a8-5ccc-8b0f-064170a8f0c4"
    row = row_entry(f" {event.upper()} ")
    assert row is not None and (row.page, row.params) == ("runs", {"row": event})
    assert row_entry("94404929") is None


def test_saved_questions_lead_to_their_answers() -> None:
    entry = pages_index().entries["question:bert-service"]
    assert entry.page == "recommend"
    assert entry.params["max_ms"] == ["20"] and entry.params["model"] == ["bert-base-uncased"]
    assert pages_index().entries["question:Why it did not run"].page == "query"


def test_before_anything_is_typed_the_most_measured_is_offered() -> None:
    index = Index([*pages_index().entries.values(), model("acme/a"), model("acme/b", measurements=2), device("l4", 7)])
    assert [entry.id for entry in first_entries(index)][:2] == ["acme/b", "nvidia-l4"]

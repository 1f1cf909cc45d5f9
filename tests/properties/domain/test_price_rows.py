"""A row of a price list is an offer that can be published, or a refusal that names one of its fields; never else."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues.prices import COLUMNS, offer_from_row
from domain.errors import InvalidInput
from domain.events import decode_event, encode_event
from ingest.importers.tables.prices import price_event

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
amounts = st.floats().map(str) | st.integers(-5, 10**7).map(str)
good = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(["aws", "own", "A.b-c_1"]),
        "hardware": st.sampled_from(["l4", "NVIDIA H100 80GB HBM3", "amd-epyc-7763-4c"]),
        "usd_per_hour": st.floats(0, 1e6).map(str),
        "date": st.dates(date(1970, 1, 1), date(2200, 1, 1)).map(str),
    },
    optional={"count": st.integers(1, 16).map(str), "spot": st.sampled_from(["yes", "No", ""]), "region": words},
)
wrong = st.dictionaries(st.sampled_from(COLUMNS), words | amounts, max_size=len(COLUMNS))


@given(good)
def test_a_good_row_is_published_as_it_is_written(row: dict[str, str]) -> None:
    offer = offer_from_row(row)
    event = price_event(offer)
    assert decode_event(encode_event(event)).warnings == ()
    assert event == price_event(offer_from_row(dict(reversed(row.items()))))
    assert offer.usd_per_hour == float(row["usd_per_hour"])
    assert offer.date == row["date"]


@given(good, wrong)
def test_any_row_is_an_offer_or_a_refusal_of_a_field(row: dict[str, str], changed: dict[str, str]) -> None:
    offer = None
    try:
        offer = offer_from_row({**row, **changed})
    except InvalidInput as error:
        field = error.field
    if offer is None:
        assert field in COLUMNS
    else:
        assert 0 <= offer.usd_per_hour < 1e12
        assert decode_event(encode_event(price_event(offer))).warnings == ()


@given(words)
def test_no_price_is_guessed(currency: str) -> None:
    row = {"provider": "aws", "hardware": "l4", "price_per_hour": "2", "date": "2026-01-01", "currency": currency}
    if currency.strip().upper() in ("", "USD"):
        assert offer_from_row(row).usd_per_hour == 2
    else:
        with pytest.raises(InvalidInput):
            offer_from_row(row)

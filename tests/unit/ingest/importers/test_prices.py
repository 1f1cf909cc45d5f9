"""Price lists: each row is an event that is the same whenever it is read, or a refusal that names row and field."""

from __future__ import annotations

import pytest

import domain
from domain.catalogues.prices import COLUMNS
from domain.events import decode_event, encode_event
from ingest.importers import IMPORTERS, import_paths, sniff
from ingest.importers.files import File
from ingest.importers.refusals import Refused

HEADER = "provider,hardware,usd_per_hour,date,instance,count,region,spot,source\n"
LIST = (
    HEADER + "acme,NVIDIA L4,0.8,2026-11-01,small,1,eu,no,their page\n"
    "acme,l4,3.2,2026-11-01,big,4,eu,no,their page\n"
    "acme,l4,0.3,2026-11-01,small,1,eu,yes,their page\n"
    "own,NVIDIA GeForce RTX 4090,0.25,2026-10-01,,,,,\n"
)


@pytest.fixture
def write(tmp_path):
    def written(content, name="prices.csv"):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=True)

    return written


def split(file):
    items = list(import_paths("prices", [file.path], guarded=False))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    return events, [item for item in items if isinstance(item, Refused)]


def test_each_row_is_a_published_price(write):
    events, refused = split(write(LIST))
    assert refused == [] and len(events) == 4
    assert events[1]["data"] == {
        "hardware": {"id": "nvidia-l4", "kind": "gpu", "count": 4}, "provider": "acme", "usd_per_hour": 3.2,
        "date": "2026-11-01", "instance": "big", "region": "eu", "spot": False, "source": "their page",
    }  # fmt: skip
    assert {event["type"] for event in events} == {"assay.price.published.v1"}
    assert events[3]["time"] == "2026-10-01T00:00:00Z"
    assert events[3]["data"]["hardware"]["id"] == "nvidia-rtx-4090"


def test_a_list_is_recognised_and_read_again_gives_the_same_events(write):
    file = write(LIST)
    assert sniff(file, IMPORTERS).name == "prices"
    assert split(file) == split(write(LIST, "copy.csv"))
    assert sniff(write("model,hardware,ms\n"), IMPORTERS) is None


@pytest.mark.parametrize(
    ("row", "field", "said"),
    [
        ("acme,nvidia-l40x,1,2026-11-01,,,,,", "hardware", "nvidia-l40s"),
        ("acme,l4,-1,2026-11-01,,,,,", "usd_per_hour", "no amount"),
        ("acme,l4,1,,,,,,", "date", "missing"),
        (",l4,1,2026-11-01,,,,,", "provider", "missing"),
        ("acme,l4,0.9,2026-11-01,small,1,eu,no,", "usd_per_hour", "line 2 gives this offer another price"),
    ],
)
def test_a_bad_row_is_refused_alone_with_its_line_and_field(write, row, field, said):
    events, (refused,) = split(write(LIST + row + "\n"))
    assert len(events) == 4
    assert (refused.row, refused.field, refused.format) == (6, field, "prices")
    assert said in refused.reason
    assert refused.content == HEADER + row + "\n"


def test_a_repeated_row_is_one_event(write):
    twice = LIST + "acme,l4,3.2,2026-11-01,big,4,eu,no,their page\n"
    assert split(write(twice)) == split(write(LIST))


def test_a_currency_needs_its_rate(write):
    header = "provider,hardware,price_per_hour,currency,usd_rate,date\n"
    (event,), (refused,) = split(write(header + "acme,l4,2,EUR,1.25,2026-11-01\nacme,l4,2,EUR,,2026-11-02\n"))
    assert event["data"]["usd_per_hour"] == 2.5
    assert event["data"]["source"] == "2 EUR at 1.25 USD"
    assert refused.field == "currency"


@pytest.mark.parametrize(
    ("header", "said"),
    [("provider,hardware,usd_per_hour\n", "'date'"), ("provider,hardware,usd_per_hour,date,colour\n", "'colour'")],
)
def test_a_list_with_a_column_too_few_or_too_many_is_refused(write, header, said):
    events, (refused,) = split(write(header + "a,l4,1,2026-11-01,red\n"))
    assert events == [] and refused.row is None and said in refused.reason


def test_the_packaged_list_can_be_imported_but_for_what_has_no_date():
    from importlib.resources import files

    path = files(domain).joinpath("data/prices.csv")
    items = list(import_paths("auto", [str(path)]))
    assert {item.field for item in items if isinstance(item, Refused)} == {"date"}
    assert sum(not isinstance(item, Refused) for item in items) > 100


def test_every_column_is_documented():
    from pathlib import Path

    page = (Path(__file__).parents[4] / "docs" / "prices.md").read_text("utf-8")
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []

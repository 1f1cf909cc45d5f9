"""`assay price`, price lists that are imported, and `assay hardware show`, against a real service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli.ask.hardware import hardware
from assay.cli.ask.pricing import price
from assay.cli.keep.importing import import_
from assay.client import Client
from domain.errors import UnknownHardware, UsageError

HEADER = "provider,hardware,usd_per_hour,date,instance,region\n"


@pytest.fixture(scope="module")
def server(new_service: Any) -> Iterator[str]:
    with new_service() as url:
        yield url


def run(verb: Any, *words: str | Path, server: str, code: int = 0) -> str:
    result = CliRunner().invoke(verb, [*map(str, words), "--server", server], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return result.stdout


def listed(server: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
    return list(json.loads(run(price, "list", *words, "--json", server=server, code=code)))


def test_an_imported_list_takes_the_place_of_what_ships_and_a_second_import_of_nothing(
    server: str, tmp_path: Path
) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "lambda,h100,2.99,2026-11-20,gpu_1x_h100_sxm5,us-east-1\nlambda,nope,1,2026-11-20,,\n")
    before = listed(server, "--provider", "lambda", "--hardware", "h100")
    assert len(before) == 4
    told = json.loads(run(import_, "auto", path, "--dry-run", "--json", server=server, code=1))
    assert (told["read"], told["accepted"], told["refused"]) == ({"assay.price.published.v1": 1}, None, 1)
    assert listed(server, "--provider", "lambda", "--hardware", "h100") == before
    first = json.loads(run(import_, "prices", path, "--json", server=server, code=1))
    again = json.loads(run(import_, "prices", path, "--json", server=server, code=1))
    assert [(told["accepted"], told["duplicate"]) for told in (first, again)] == [(1, 0), (0, 1)]
    (row,) = listed(server, "--provider", "lambda", "--hardware", "h100")
    assert (row["usd_per_hour"], row["basis"]) == (2.99, "published by lambda, dated 2026-11-20")
    assert listed(server, "--provider", "lambda", "--hardware", "h100", "--as-of", str(row["position"] - 1)) == before


def test_the_cost_of_an_own_machine_is_published_with_its_formula(server: str) -> None:
    parts = (
        "--purchase-usd",
        "8760",
        "--years",
        "2",
        "--utilisation",
        "0.5",
        "--watts",
        "400",
        "--usd-per-kwh",
        "0.25",
    )
    run(price, "add", "rtx4090", *parts, "--date", "2026-11-01", server=server)
    (row,) = listed(server, "--provider", "own")
    assert (row["hardware"], row["date"]) == ("nvidia-rtx-4090", "2026-11-01")
    assert row["usd_per_hour"] == pytest.approx(1.1)
    assert row["source"] == "8760 USD / (2 years × 8760 h × 0.5) + 400 W × 0.25 USD/kWh"
    run(price, "add", "rtx4090", "--usd-per-hour", "0.9", "--date", "2026-11-01", server=server)
    assert [one["usd_per_hour"] for one in listed(server, "--provider", "own")] == [0.9]


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("nvidia-l40x", "--usd-per-hour", "1"), UnknownHardware, "nvidia-l40s"),
        (("l4", "--usd-per-hour", "-1"), UsageError, "no amount"),
        (("l4",), UsageError, "no price was typed"),
        (("l4", "--watts", "70"), UsageError, "--purchase-usd"),
        (("l4", "--usd-per-hour", "1", "--watts", "70"), UsageError, "one of the two"),
        (("l4", "--usd-per-hour", "1", "--date", "yesterday"), UsageError, "no day"),
    ],
)
def test_what_cannot_be_a_price_is_refused_and_nothing_published(
    server: str, words: tuple[str, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        run(price, "add", *words, server=server)
    assert all(row["hardware"] != "nvidia-l4" for row in listed(server, "--provider", "own"))


def test_a_filter_without_prices_answers_no(server: str) -> None:
    assert listed(server, "--provider", "nobody", code=1) == []
    spot = listed(server, "--hardware", "aws:g6.xlarge", "--spot")
    assert {(row["hardware"], row["spot"]) for row in spot} == {("nvidia-l4", True)}


def test_a_hardware_is_shown_with_prices_machines_and_siblings(server: str) -> None:
    shown = run(hardware, "show", "azure:nc40ads_h100_v5", server=server)
    assert "azure:NC40ads_H100_v5" in shown
    found = json.loads(run(hardware, "show", "nvidia-l4", "--json", server=server))
    assert (found["id"], found["known"]) == ("nvidia-l4", "catalogued")
    assert found["memory_bytes"]["source"] and found["siblings"]
    assert "aws:g6.xlarge" in {one["id"] for one in found["instances"]}
    slice_ = json.loads(run(hardware, "show", "aws:c7i.2xlarge", "--json", server=server))
    assert (slice_["id"], slice_["cores"]["value"]) == ("intel-xeon-platinum-8488c-4c", 4)
    with pytest.raises(UnknownHardware, match="nvidia-l40s"):
        run(hardware, "show", "nvidia-l40x", server=server)


def test_what_the_log_tells_of_is_listed_apart_from_the_catalogue(server: str, build: Any) -> None:
    with Client(server) as client:
        client.wait_for(client.post_events([build.measurement(model="acme/net")])["last_position"])
    (row,) = json.loads(run(hardware, "list", "--seen", "--kind", "cpu", "--json", server=server))
    assert (row["id"], row["known"], row["measurements"]) == ("acme-one", "detected", 1)
    assert "acme-one" in run(hardware, "list", "--seen", server=server)
    assert "acme-one" not in run(hardware, "list", server=server)

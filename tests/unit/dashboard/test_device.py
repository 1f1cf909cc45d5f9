from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dashboard.address import parameters
from dashboard.screens.hardware import words
from dashboard.screens.hardware.words import Device
from dashboard.tables.result_table import Column
from domain.answers.device import ComparedSibling, Environment, HardwareEntry, Price
from presentation import formatting


def figure(value: float, status: str = "sourced", **more: Any) -> dict[str, Any]:
    return {"value": value, "status": status, **more}


def row(**changes: Any) -> HardwareEntry:
    found = {
        "id": "acme-one", "name": "Acme One", "kind": "gpu", "vendor": "acme", "measurements": 3, "tests": 0,
        "known": "reported", "memory_bytes": figure(24e9), "memory_bandwidth_bytes_per_s": figure(9.36e11, "unverified"),
        "peak_flops": {"fp32": figure(3.56e13), "int8": figure(2.84e14, "derived", formula="2 × 142e12")},
    }  # fmt: skip
    return msgspec.convert(found | changes, HardwareEntry)


def of(columns: Sequence[Column]) -> dict[str, Any]:
    """A table's columns by their heads."""
    return {column.head: column for column in columns}


def plain(value: Any) -> str:
    return formatting.plain(str(value))


def test_an_address_is_restored_and_what_is_not_understood_is_named() -> None:
    asked = Device(id="acme-one", tab="siblings", platform="cuda", precision="fp16", mode="training", as_of=7)
    read = words.read_device(parameters(asked, everything=True))
    assert (read.asked, read.dropped) == (asked, [])
    listed = words.read_device({"search": ["rtx"], "kind": ["gpu"], "vendor": ["nvidia"], "known": ["all"]})
    assert listed.asked == Device(search="rtx", kind="gpu", vendor="nvidia", known="all")
    wrong = words.read_device({"tab": ["moon"], "colour": ["red"]})
    assert len(wrong.dropped) == 2 and "tab=moon" in wrong.dropped[0]


def test_a_specification_says_unit_and_how_each_figure_is_known() -> None:
    table = words.spec_table(row())
    told = {name: (plain(value), known) for name, value, known in table.itertuples(index=False)}
    assert told["Memory"] == ("24.0 GB", "sourced")
    assert told["Bandwidth"] == ("936 GB/s", "unverified")
    assert told["Power"] == (formatting.MISSING, "unknown")
    assert told["Peak int8"] == ("284 Top/s", "derived")
    assert told["Peak fp32"] == ("35.6 TFLOP/s", "sourced")
    assert "Clock" not in told, "only what everybody asks for is listed where nobody knows it"


def test_what_a_runner_read_of_the_machine_comes_before_the_catalogue() -> None:
    said = {
        "memory_bytes": figure(25e9, "measured", source="the system"),
        "sustained_flops": {"bf16": figure(1e12, "measured")},
    }
    table = words.spec_table(row(described_spec=said))
    told = {name: (plain(value), known) for name, value, known in table.itertuples(index=False)}
    assert told["Memory"] == ("25.0 GB", "measured")
    assert told["bf16, reached"] == ("1.00 TFLOP/s", "measured")
    sources = dict(
        zip(*(words.sources_table(row(described_spec=said))[name] for name in ("Figure", "From")), strict=True)
    )
    assert (sources["Memory"], sources["Peak int8"]) == ("the system", "2 × 142e12")
    assert sources["Bandwidth"] == "no document was at hand: unverified"


def test_siblings_tell_ratios_and_speed_and_nothing_where_nothing_is_shared() -> None:
    base = {"name": None, "alike": "architecture", "peak_precision": None, "peak_ratio": None, "bandwidth_ratio": None, "measured_models": 0,
            "shared_models": 0, "shared_configurations": 0, "speed_ratio": None}  # fmt: skip
    rows = [
        {**base, "id": "two", "alike": "models", "peak_ratio": 2.0, "peak_precision": "fp16", "speed_ratio": 1.5},
        {**base, "id": "three"},
    ]
    columns = of(words.siblings_columns(msgspec.convert(rows, list[ComparedSibling])))
    assert [plain(value) for value in columns["Speed"].shown] == ["50 % faster", formatting.MISSING]
    assert [plain(value) for value in columns["Peak"].shown] == ["× 2.00 fp16", formatting.MISSING]
    assert (columns["Peak"].values, columns["Hardware"].links[0]) == ([2.0, None], "hardware?id=two")


def test_prices_say_their_date_and_that_they_are_old() -> None:
    one = dict.fromkeys(Price.__struct_fields__) | {"provider": "aws", "instance": "p5", "count": 8, "region": None, "usd_per_hour": 98.32, "usd_per_device": 12.29,
           "hardware": "acme-one", "basis": "packaged price list, undated",
           "spot": False, "date": None, "stale": True}  # fmt: skip
    columns = of(words.prices_columns([msgspec.convert(one, Price)]))
    assert columns["$ an hour"].values == [98.32] and columns["$ an hour"].shown == ["$98.32"]
    assert columns["Machine"].values == ["aws:p5"] and columns["As of"].values == ["undated · stale"]
    assert columns["Region"].values == [None]


def test_environments_come_newest_first_without_empty_columns() -> None:
    empty = dict.fromkeys(("os", "kernel", "driver", "python", "cpu", "machine"))
    rows = [
        {**empty, "fingerprint": "a", "libraries": None},
        {**empty, "fingerprint": "b", "os": "Debian", "libraries": '{"torch":"2.13.0"}'},
    ]
    table = words.environments_table(msgspec.convert(rows, list[Environment]))
    assert list(table.columns) == ["Fingerprint", "Libraries", "System"]
    assert table.iloc[0].to_list() == ["b", "torch 2.13.0", "Debian"]


def test_a_list_sorts_by_what_is_known_and_leaves_gaps_open() -> None:
    rows = [row(), row(id="bare", name=None, vendor=None, memory_bytes=None, peak_flops={})]
    columns = of(words.listed(rows, catalogue=False))
    assert columns["Memory GB"].values == [24e9, None]
    assert [plain(value) for value in columns["Memory GB"].shown] == ["24.0", formatting.MISSING]
    assert (columns["Hardware"].values, columns["Hardware"].links) == (
        ["Acme One", "bare"],
        ["hardware?id=acme-one", "hardware?id=bare"],
    )
    assert of(words.listed(rows, catalogue=True))["Vendor"].values == ["acme", None]


def test_a_device_is_told_in_a_line_without_what_nobody_knows() -> None:
    assert plain(words.facts_line(row(year=2024))) == "GPU · 2024 · 24.0 GB · 3 measurements"
    assert plain(words.facts_line(row(kind=None, memory_bytes=None, measurements=1))) == "kind unknown · 1 measurement"


def test_the_best_number_names_the_model_its_size_and_how_it_is_known() -> None:
    best = {
        "model": "acme/tiny", "platform": "cuda", "precision": "fp16", "batch_size": 8, "throughput_per_s": 400.0, "image_size": 224,
        "basis": "imported", "origin": "imported", "n": None,
    }  # fmt: skip
    figure, how = words.headline([best, {**best, "model": "acme/other", "throughput_per_s": 3.0}])
    assert plain(figure) == "400 items/s with tiny"
    assert how == "Fastest of 2 models at image size 224: cuda · fp16 · batch 8 (○ imported, no interval)"

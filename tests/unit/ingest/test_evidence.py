"""The evidence that ships: every event passes the gate, says where it is from, and may be passed on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED, Decoded, decode_event
from ingest import evidence

LARGEST = 15_000_000
FREE = {"Apache-2.0", "MIT", "BSD-3-Clause", "Apache-2.0 OR BSD-3-Clause"}


@pytest.fixture(scope="module")
def shipped() -> list[Decoded]:
    return [decode_event(raw) for batch in evidence.events() for raw in batch]


def test_the_file_is_small_and_its_events_are_there_once(shipped: list[Decoded]) -> None:
    assert Path(evidence.__file__).with_name("shipped.parquet").stat().st_size < LARGEST
    assert len({event.id for event in shipped}) == len(shipped) == evidence.count()
    assert shipped[0].id == evidence.first_id()


def test_every_measurement_is_imported_and_free_and_names_its_publisher(shipped: list[Decoded]) -> None:
    said = [event.event["data"] for event in shipped if event.type == MEASUREMENT_RECORDED]
    assert {data["provenance"]["origin"] for data in said} == {"imported"}
    assert {data["provenance"]["licence"] for data in said} <= FREE
    assert all(data["provenance"]["source"] for data in said)
    assert {data["run_id"] for data in said} == evidence.runs()


def test_every_device_has_figures_or_a_reason(shipped: list[Decoded]) -> None:
    devices = {event.event["data"]["hardware"]["id"] for event in shipped if event.type == MEASUREMENT_RECORDED}
    unspecified = {name for name in devices if hardware.find(name) is None}
    assert unspecified == {"nvidia-a100", "nvidia-v100"}
    assert all(len(hardware.choices(name)) > 1 for name in unspecified)
    specs = [hardware.require(name) for name in devices - unspecified]
    assert {spec.id for spec in specs} == devices - unspecified
    assert all(spec.peak_flops or spec.note for spec in specs)


def test_sources_tell_how_much_they_hold_of_when_and_whose(shipped: list[Decoded]) -> None:
    assert sum(source.measurements for source in evidence.sources()) == sum(
        event.type == MEASUREMENT_RECORDED for event in shipped
    )
    for source in evidence.sources():
        assert all("/" in reference for reference in source.references), source.name
        assert source.licences
        assert (source.first is None) == (source.undated == source.measurements)
    assert {run for source in evidence.sources() for run in source.runs} == evidence.runs()


def test_events_of_a_source_are_its_own() -> None:
    (source,) = (source for source in evidence.sources() if source.name == "whisper-cpp")
    chosen = [msgspec.json.decode(raw) for batch in evidence.events(["whisper-cpp"]) for raw in batch]
    assert {event["data"]["run_id"] for event in chosen} == set(source.runs)
    assert sum(event["type"] == MEASUREMENT_RECORDED for event in chosen) == source.measurements

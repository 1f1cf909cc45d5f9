"""Memory over HTTP: recommend, fit and fleet go by one estimate, and nothing is ranked that a device hardly holds."""

from __future__ import annotations

from typing import Any

import pytest

MODEL = "acme/seven-billion"
SMALL, LARGE = "nvidia-v100-pcie-16gb", "nvidia-a100-pcie-80gb"
FLOOR = 2 * (7.0e9 + 32 * 43e6)
"""Weights and live activations in fp16 at batch 32, 16.8 GB of the 17.2 GB that the smaller device has."""
QUESTION: dict[str, Any] = {"platform": "cuda", "precision": "fp16", "batch_sizes": [32]}


@pytest.fixture(scope="module")
def traced(service: Any, build: Any) -> None:
    """A model of seven billion weights, traced and never measured, and prices."""
    work = {"flops": 1.4e13, "read_elements": 8e9, "write_elements": 1e9, "weight_elements": 7.0e9}
    operator = {"name": "aten.mm", "class": "mm", "count": 1, **work, "inner": 4096}
    trace = {
        "model": {
            "id": MODEL, "family": "acme", "category": "multimodal", "task": "test", "architecture": "7" * 64,
            "parameters": 7_000_000_000,
        },
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": None, "image_size": 336},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": [operator | {"kernel": None, "stride": None, "groups": None}],
        "totals": {**work, "parameters": 7.0e9, "peak_activation_elements": 43e6},
    }  # fmt: skip
    prices = [
        {
            "hardware": {"id": name, "kind": "gpu", "count": 1},
            "provider": "rooms",
            "usd_per_hour": usd,
            "date": "2026-11-01",
        }
        for name, usd in ((SMALL, 0.1), (LARGE, 9.0))
    ]
    with service.client() as client:
        events = [build.event("assay.model.traced.v1", trace)]
        events += [build.event("assay.price.published.v1", price) for price in prices]
        client.wait_for(client.post_events(events)["last_position"])


@pytest.mark.usefixtures("traced")
def test_every_answer_goes_by_one_estimate_with_room_to_spare(client: Any) -> None:
    devices = [SMALL, LARGE]
    answer = client.recommend(MODEL, objective="cost", hardware=devices, providers=["rooms"], **QUESTION)
    assert [entry["hardware"] for entry in answer["ranked"]] == [LARGE]
    first = answer["ranked"][0]
    assert first["peak_memory_bytes"] == pytest.approx(1e9 + 14e9 + 1.6 * 2 * 32 * 43e6, rel=1e-6)
    assert FLOOR < first["memory_low_bytes"] < first["peak_memory_bytes"] < first["memory_high_bytes"]
    assert first["chances"]["out_of_memory"] < 0.01
    (left,) = (item for item in answer["excluded"] if item["hardware"] == SMALL)
    assert (left["rule"], left["batch_sizes"]) == ("does not fit in memory", [32])
    fits = client.fit(MODEL, hardware=devices, platform="cuda", precision="fp16").fits
    largest = {entry.hardware: entry.largest_batch for entry in fits}
    assert largest[SMALL] < 32 < largest[LARGE]
    plan = client.fleet([{"model": MODEL, "items_per_s": 1.0, **QUESTION}], hardware=devices, providers=["rooms"])
    assert [(machine.hardware, machine.places[0].memory_bytes) for machine in plan.machines] == [
        (LARGE, first["memory_high_bytes"])
    ]
    limited = [
        client.recommend(MODEL, hardware=[LARGE], max_memory_mb=room / 1e6, **QUESTION)["ranked"]
        for room in (1.01 * FLOOR, 2 * first["memory_high_bytes"])
    ]
    assert [len(ranked) for ranked in limited] == [0, 1]


@pytest.mark.usefixtures("traced")
def test_what_is_free_on_the_devices_at_hand_decides_the_table_too(client: Any) -> None:
    answers = [
        client.recommend(MODEL, devices=[{"name": "cuda:0", "hardware": LARGE, "free_memory_mb": free}], **QUESTION)
        for free in (1.01 * FLOOR / 1e6, 60_000.0)
    ]
    assert [[entry["hardware"] for entry in answer["ranked"]] for answer in answers] == [[], [LARGE]]
    assert [answer["at_hand"]["use"] for answer in answers] == [None, "cuda:0"]
    assert [item["rule"] for item in answers[0]["excluded"]] == ["free_memory_mb"]

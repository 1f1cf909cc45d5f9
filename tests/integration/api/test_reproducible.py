"""An answer at a position is the same bytes in every format, whatever comes later."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.media import ARROW, CSV, FORMATS, JSON, PARQUET

GOLDEN = Path(__file__).parents[2] / "golden"
VALUES = {
    "model": "acme/tiny", "hardware": "nvidia-l4", "id": "acme/tiny", "run_id": "run-1", "view": "measurements",
    "platform": "cpu", "batch_size": 1, "metric": "latency_p50_ms", "hardware_id": "nvidia-l4",
}  # fmt: skip
SQL = (
    "SELECT avg(latency_p50_ms), stddev(latency_p50_ms), sum(latency_mean_ms) FROM measurements",
    "SELECT model_id, avg(latency_p50_ms) FROM best_measurements JOIN models USING (model_id) GROUP BY ALL ORDER BY ALL",
    "FROM measurements ORDER BY position",
    "FROM best_measurements ORDER BY position",
)


def before(build: Any) -> list[dict[str, Any]]:
    chance = random.Random(3)
    return [
        build.event("assay.run.started.v1", {"run_id": "run-1", "kind": "bench"}),
        *(
            build.measurement(p50=chance.lognormvariate(1, 2), batch_size=size, platform=platform, model=model, hardware="nvidia-l4")
            for size in range(1, 9)
            for platform in ("cpu", "cuda")
            for model in ("acme/tiny", "acme/large")
        ),
        traced(build), build.test(), build.failure(), build.test("failed", platform="cuda"), build.alias("tiny", "acme/tiny"),
        build.event("acme.unknown.v7", {"x": 1}), priced(build, 1.0),
        build.event("assay.model.described.v1", {"model": {"id": "acme/tiny", "category": "embedding"}}),
    ]  # fmt: skip


def traced(build: Any) -> dict[str, Any]:
    data = json.loads((GOLDEN / "assay.model.traced.v1.json").read_text())["data"]
    event: dict[str, Any] = build.event(
        "assay.model.traced.v1", {**data, "model": {**data["model"], "id": "acme/tiny"}}
    )
    return event


def priced(build: Any, usd: float) -> dict[str, Any]:
    told = {
        "hardware": {"id": "acme-one", "kind": "cpu", "count": 1}, "provider": "acme", "usd_per_hour": usd,
        "date": "2026-01-01", "source": "https://acme.example/prices",
    }  # fmt: skip
    event: dict[str, Any] = build.event("assay.price.published.v1", told)
    return event


def after(build: Any, first: list[dict[str, Any]]) -> list[dict[str, Any]]:
    chance = random.Random(4)
    return [
        *(
            build.measurement(p50=chance.lognormvariate(1, 3), batch_size=1 + number % 9, run_id=f"run-{number % 3}",
                              platform=("cpu", "cuda", "rocm")[number % 3], model=f"acme/{('tiny', 'large', 'new')[number % 3]}", hardware="nvidia-l4")
            for number in range(300)
        ),
        *(build.test("failed", batch_size=size) for size in range(1, 20)),
        *(build.failure(batch_size=size, platform="rocm") for size in range(1, 20)),
        build.retraction(first[3]["id"]), build.alias("acme/large", "acme/tiny"), priced(build, 2.0),
        build.event("acme.unknown.v7", {"x": 2}), build.event("acme.other.v1", {"x": 2}),
        build.event("assay.run.finished.v1", {"run_id": "run-1", "outcome": "completed"}),
        build.event("assay.model.described.v1", {"model": {"id": "acme/tiny", "category": "vision"}}),
    ]  # fmt: skip


def questions(service: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return every GET route that takes `as_of`, with values for what it needs."""
    paths = httpx.get(f"{service.url}/schema/openapi.json").json()["paths"]
    found = []
    for path, item in paths.items():
        told = {one["name"]: one for one in item.get("get", {}).get("parameters", [])}
        if "as_of" not in told or "alert_id" in told:
            continue  # Nobody can append an alert but the service; the list has the same rows.
        needed = {name: VALUES[name] for name, one in told.items() if one["required"] and one["in"] == "query"}
        inside = {name: VALUES.get(name, "acme/tiny") for name, one in told.items() if one["in"] == "path"}
        found.append((path.format(**inside), needed))
    return found


def answers(service: Any, at: int, formats: Sequence[str]) -> dict[tuple[str, str], tuple[int, bytes]]:
    found = {}
    with httpx.Client(base_url=service.url, timeout=60) as client:
        for path, needed in questions(service):
            for media in formats:
                answer = client.get(path, params={**needed, "as_of": at}, headers={"Accept": media})
                found[path, media] = (answer.status_code, answer.content)
                if media != JSON and not answer.headers["content-type"].startswith(media):
                    break  # A document, which is JSON for everybody.
        for sql, media in zip(SQL, (JSON, CSV, ARROW, PARQUET), strict=True):
            answer = client.post("/v1/query", json={"sql": sql, "as_of": at}, headers={"Accept": media})
            found[sql, media] = (answer.status_code, answer.content)
    return found


@pytest.mark.parametrize(
    "formats", [(JSON, ARROW), pytest.param(FORMATS, marks=pytest.mark.torture)], ids=["two", "all"]
)
def test_an_answer_at_a_position_is_the_same_bytes_after_later_events(formats, fresh_service, build):
    service = fresh_service()
    service.environment = {"ASSAY_RATE_LIMIT": "off"}
    service.start()
    first = before(build)
    with service.client() as client:
        at = int(client.post_events(first)["last_position"])
        client.summary(min_position=at)
        known = answers(service, at, formats)
        assert len(known) > 60
        assert {question[0]: told for question, (status, told) in known.items() if status not in (200, 406)} == {}
        last = int(client.post_events(after(build, first))["last_position"])
        assert last > at + 300
        service.stop()
        service.start()  # Answers that were kept are forgotten.
        client.summary(min_position=last)
        again = answers(service, at, formats)
    differing = [question for question in known if known[question] != again[question]]
    assert differing == []

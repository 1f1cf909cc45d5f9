"""Figures at the ends of what a number can hold: every route answers, and with numbers that JSON has."""

from __future__ import annotations

import json
from typing import Any

import httpx

EXTREMES = (5e-324, 1e-308, 1.5, 1.7e308)
NEEDED = {
    "model": "acme/extreme", "hardware": "nvidia-l4", "hardware_id": "nvidia-l4", "model_id": "acme/extreme",
    "view": "measurements", "run_id": "run-1",
}  # fmt: skip
METRICS = ("latency_ms", "latency_mean_ms", "throughput_per_s", "energy_j", "power_w", "ttft_ms")


def measured(build: Any, figure: float, version: int, **parts: Any) -> dict[str, Any]:
    event: dict[str, Any] = build.measurement(p50=figure, model="acme/extreme", hardware="nvidia-l4", **parts)
    event["data"]["execution"]["runtime"]["version"] = f"2.{version}"
    event["data"]["metrics"] = {
        "latency_ms": {"mean": figure, "p50": figure, "min": figure, "max": figure, "stddev": figure, "n": 60,
                       "ci95": {"p50": [figure, figure], "mean": [figure, figure]}},
        **dict.fromkeys(("throughput_per_s", "energy_j", "power_w", "ttft_ms", "energy_per_item_j", "tokens_per_s"), figure),
    }  # fmt: skip
    return event


def refused(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def questions(service: Any) -> list[tuple[str, dict[str, Any]]]:
    paths = httpx.get(f"{service.url}/schema/openapi.json").json()["paths"]
    found = []
    for path, item in paths.items():
        told = item.get("get", {}).get("parameters", [])
        if path.startswith("/v1/") and not path.endswith("/stream") and "{event_id}" not in path and "get" in item:
            query = {
                one["name"]: NEEDED.get(one["name"], "") for one in told if one["required"] and one["in"] == "query"
            }
            names = {one["name"]: NEEDED.get(one["name"], "x") for one in told if one["in"] == "path"}
            found.append((path.format(**names), query))
    model = {"model": NEEDED["model"]}
    found += [("/v1/trends", {**model, "metric": metric}) for metric in METRICS]
    found += [("/v1/comparisons/hardware", {**model, "metric": metric}) for metric in METRICS if metric != "latency_ms"]
    return found


def test_figures_at_the_ends_of_what_numbers_hold_break_no_route(fresh_service, build):
    service = fresh_service()
    service.environment = {"ASSAY_RATE_LIMIT": "off"}
    service.start()
    order = [a for one in EXTREMES for other in EXTREMES for a in (one, other)]
    events = [
        measured(build, figure, at // 8, platform=platform)
        for platform in ("cpu", "cuda", "tensorrt")
        for at, figure in enumerate(order)
    ]
    events += [measured(build, figure, 1, platform="cuda", batch_size=size) for size, figure in enumerate(EXTREMES, 2)]
    with service.client() as client:
        answer = client.post_events(events)
        assert not answer["rejected"]
        client.summary(min_position=answer["last_position"])
    half = answer["last_position"] // 2
    with httpx.Client(base_url=service.url, timeout=60) as http:
        states = ["worse", "unclear", "better", "same"]
        asked = [*questions(service), ("/v1/regressions", {"baseline": half, "changes": states})]
        broken = {}
        for path, query in asked:
            response = http.get(path, params=query)
            if response.status_code >= 500:
                broken[path, query.get("metric")] = (response.status_code, response.text[:300])
            elif response.headers["content-type"] == "application/json":
                json.loads(response.content, parse_constant=refused)
    assert broken == {}, [line["traceback"][-500:] for line in service.logged(level="error")][:5]

"""Served language models over HTTP: asked, recorded, and scored once they were measured."""

from __future__ import annotations

from typing import Any

MODEL = "mistralai/Mistral-7B-v0.1"
SIZES = {"input_tokens": 512, "output_tokens": 128, "concurrency": 8}
ASKED = {"hardware": "nvidia-l40s", "platform": "cuda", "precision": "bf16", **SIZES}


def test_a_served_prediction_is_given_recorded_and_scored_by_its_measurement(client: Any, build: Any) -> None:
    answer = client.predict(MODEL, **ASKED, record=True)
    assert answer["concurrency"] == 8
    assert 0 < answer["ttft_ms"] < answer["latency_ms"]
    ranked = client.recommend(MODEL, **{**ASKED, "hardware": ["nvidia-l40s", "nvidia-l4"]})["ranked"]
    assert {one["hardware"] for one in ranked} == {"nvidia-l40s", "nvidia-l4"}
    measured = build.measurement(1.0, model=MODEL, hardware="nvidia-l40s", platform="cuda", precision="bf16")
    workload = {"mode": "inference", "scenario": "serving", "batch_size": 4, **SIZES}
    measured["data"] |= {"workload": workload, "metrics": {"ttft_ms": 60.0, "tpot_ms": 20.0}}
    measured["data"]["execution"]["runtime"] = {"name": answer["runtime"]}
    client.wait_for(client.post_events([measured])["last_position"])
    rows = client.table("scored_predictions", model=MODEL).to_pylist()
    scored = {row["target"]: (row["predicted"], row["measured"]) for row in rows}
    assert scored == {"ttft": (answer["ttft_ms"], 60.0), "tpot": (answer["tpot_ms"], 20.0)}

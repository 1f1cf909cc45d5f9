"""Served language models over HTTP: asked, recorded, and scored once they were measured."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

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


CONFIG = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": None,
    "tie_word_embeddings": False, "vocab_size": 32000, "_name_or_path": "/home/somebody/secret",
}  # fmt: skip


def test_a_models_own_config_is_asked_by_its_sizes_and_recorded_without_the_rest(client: Any) -> None:
    answer = client.predict("acme/own", config={**CONFIG, "num_hidden_layers": 20}, **ASKED, record=True)
    assert answer["model"] == "acme/own"
    assert 0 < answer["tpot_ms"] < client.predict(MODEL, **ASKED)["tpot_ms"]
    issued = client.events(types=["assay.prediction.issued.v1"])
    (recorded,) = [event for event in issued if event["data"]["question"]["model"] == "acme/own"]
    assert "hidden_size" in str(recorded)
    assert "secret" not in str(recorded)
    longest = [
        client.fit("acme/own", config=CONFIG | {"sliding_window": window}, hardware=["nvidia-l4"], precision=["q8_0"])
        .fits[0]
        .longest.tokens
        for window in (None, 4096)
    ]
    assert longest[1] > 2 * longest[0]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"config": {**CONFIG, "num_hidden_layers": "many"}}, "config.num_hidden_layers"),
        ({"config": {**CONFIG, "model_type": "rwkv7"}}, "config.model_type"),
        ({"config": []}, "config"),
        ({"runtime": "acme-server"}, "runtime"),
        ({"host_memory_mb": 1000}, "host_memory_mb"),
        ({"offload": True, "host_bandwidth_gb_per_s": -1}, "host_bandwidth_gb_per_s"),
    ],
)
def test_a_wrong_member_is_refused_by_its_name(service: Any, asked: dict[str, Any], field: str) -> None:
    for path, more in (
        ("recommendations", {}),
        ("fits", {"hardware": ["nvidia-l4"]}),
        ("predictions", {"hardware": "nvidia-l4", "platform": "cuda", "precision": "bf16"}),
    ):
        response = httpx.post(f"{service.url}/v1/{path}", json={"model": "acme/own", **asked, **more})
        assert response.status_code in (400, 422), (path, response.text)
        problem = response.json()
        assert problem["field"] == field, (path, problem)
        assert problem["remedy"]

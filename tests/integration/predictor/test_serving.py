"""Served language models asked of a real log: times, rates, memory and what they rest on, without any operator trace."""

from __future__ import annotations

from typing import Any

import pytest

from domain.errors import UsageError
from predictor.answering.question import PredictQuestion, Question
from predictor.fleet.question import FleetQuestion, Load

MODEL = "meta-llama/Llama-3.1-8B"
LARGE = "meta-llama/Llama-3.1-70B"
H100 = "nvidia-h100-sxm"
SIZES = {"input_tokens": 1024, "output_tokens": 256, "concurrency": 16}


def predicted(service: Any, **asked: Any) -> dict[str, Any]:
    return service.answers.predict(
        PredictQuestion(**{"model": MODEL, "hardware": H100, "platform": "cuda", "precision": "bf16", **SIZES, **asked})
    )


@pytest.fixture
def measured(build: Any) -> Any:
    """A served measurement on an H100 under vLLM."""

    def made(model: str = MODEL, concurrency: int = 16, hardware: str = H100, **metrics: float) -> dict[str, Any]:
        data = build.measurement(1.0, model=model, hardware=hardware, platform="cuda", precision="bf16")
        workload = {"mode": "inference", "scenario": "serving", "batch_size": 1, **SIZES, "concurrency": concurrency}
        data["data"] |= {"workload": workload, "metrics": metrics}
        data["data"]["execution"]["runtime"] = {"name": "vllm", "version": "0.18.0"}
        return data

    return made


def test_a_language_model_without_a_trace_is_told_its_times_rate_and_memory(service: Any) -> None:
    answer = predicted(service)
    assert answer["concurrency"] == 16
    assert answer["latency_ms"] == pytest.approx(answer["ttft_ms"] + 255 * answer["tpot_ms"], rel=1e-4)
    assert answer["tokens_per_s"] == pytest.approx(16 * 256 / answer["latency_ms"] * 1e3, rel=1e-4)
    assert answer["throughput_per_s"] == pytest.approx(16 / answer["latency_ms"] * 1e3, rel=1e-4)
    # 8.03 billion weights of two bytes; 32 layers × 2 × 8 heads × 128 numbers of two bytes for each token kept.
    assert answer["memory_parts"]["weights_bytes"] == pytest.approx(16.06e9, rel=0.01)
    assert answer["memory_parts"]["kv_cache_bytes"] == pytest.approx(16 * 1280 * 32 * 2 * 8 * 128 * 2)
    assert answer["memory_floor_bytes"] < 80e9
    assert answer["method"] == "serving"


def test_what_is_learned_has_an_interval_for_each_figure(service: Any) -> None:
    answer = predicted(service)
    assert answer["basis"] == "predicted"
    for name in ("ttft_ms", "tpot_ms", "latency_ms", "tokens_per_s"):
        assert answer[f"{name}_low"] < answer[name] < answer[f"{name}_high"]
    assert answer["interval_covered"] is True
    strange = predicted(service, hardware="amd-radeon-rx-7900-xtx", platform="rocm", precision="fp16")
    assert strange["interval_covered"] is False
    assert strange["tpot_ms_high"] / strange["tpot_ms"] > answer["tpot_ms_high"] / answer["tpot_ms"]


def test_devices_share_a_model_only_where_the_question_says_how_many(service: Any) -> None:
    answer = predicted(service, model=LARGE)
    assert answer["basis"] == "abstained"
    (left,) = answer["excluded"]
    assert left["rule"] == "does not fit in memory"
    assert left["detail"].startswith("one device needs 145 GB (143 to 149)")
    assert left["detail"].endswith("count 2")
    question = {"model": LARGE, "hardware": [H100], "platform": "cuda", "precision": "bf16", **SIZES}
    (shared,) = service.answers.recommend(Question(**question, count=2))["ranked"]
    assert shared["hardware_count"] == 2
    assert shared["memory_parts"]["weights_bytes"] == pytest.approx(70.6e9, rel=0.01)
    assert service.answers.recommend(Question(**question, count=1))["ranked"] == []
    assert predicted(service, model=LARGE, precision="fp8")["hardware_count"] == 1
    hopeless = predicted(service, model="deepseek-ai/DeepSeek-V3", hardware="nvidia-l4")
    assert "8 devices that share the model do not" in hopeless["excluded"][0]["detail"]


def test_a_fleet_shares_a_model_over_the_fewest_devices_of_a_machine_that_hold_it(service: Any) -> None:
    load = Load(model=LARGE, requests_per_s=0.1, platform="cuda", precision="bf16", **SIZES)
    plan = service.answers.fleet(FleetQuestion(loads=[load], hardware=[H100]).checked())
    (machine,) = plan["machines"]
    assert [place["devices_each"] for place in machine["places"]] == [4]
    assert machine["places"][0]["memory_bytes"] < 0.9 * 85.9e9


def test_more_requests_at_once_take_longer_each_and_give_more_tokens_together(service: Any) -> None:
    few, many = (predicted(service, concurrency=count) for count in (1, 64))
    assert few["tpot_ms"] < many["tpot_ms"]
    assert few["tokens_per_s"] < many["tokens_per_s"]


def test_devices_and_limits_on_the_first_token_are_ranked_like_any_others(service: Any) -> None:
    question = {"model": MODEL, "hardware": [H100, "nvidia-l4", "nvidia-a100-sxm-80gb"], **SIZES}
    ranked = service.answers.recommend(Question(**question))["ranked"]
    assert {one["hardware"] for one in ranked} == {H100, "nvidia-l4", "nvidia-a100-sxm-80gb"}
    latencies = [one["latency_ms_high"] or one["latency_ms"] for one in ranked]
    assert latencies == sorted(latencies)
    limited = service.answers.recommend(Question(**question, max_tpot_ms=1e-3))
    assert limited["ranked"] == []
    assert {one["rule"] for one in limited["excluded"]} == {"max_tpot_ms"}


def test_what_was_measured_stands_with_its_times_in_the_place_of_the_prediction(
    service: Any, told: Any, measured: Any
) -> None:
    told(measured(ttft_ms=80.0, tpot_ms=9.0), measured(concurrency=64, ttft_ms=300.0, tpot_ms=20.0))
    answer = predicted(service)
    seen = answer["measured"]
    assert (seen["ttft_ms"], seen["tpot_ms"], seen["concurrency"]) == (80.0, 9.0, 16)
    assert seen["latency_ms"] == pytest.approx(80 + 255 * 9)
    assert seen["tokens_per_s"] == pytest.approx(16 * 256 / (80 + 255 * 9) * 1e3)
    ranked = service.answers.recommend(Question(model=MODEL, hardware=[H100], **SIZES))["ranked"]
    assert [one["basis"] for one in ranked] == ["measured"]


def test_a_few_measurements_of_a_device_calibrate_what_is_said_of_other_models(
    service: Any, told: Any, measured: Any
) -> None:
    card = "nvidia-rtx-4090"
    asked = {"model": "Qwen/Qwen2-7B", "hardware": card}
    before = predicted(service, **asked)
    others = [predicted(service, hardware=card, concurrency=count) for count in (1, 4, 8, 16, 32)]
    events = [
        measured(hardware=card, concurrency=one["concurrency"], ttft_ms=one["ttft_ms"] * 2, tpot_ms=one["tpot_ms"] * 2)
        for one in others
    ]
    told(*events)
    after = predicted(service, **asked)
    assert after["basis"] == "calibrated"
    assert set(after["evidence"]) <= {event["id"] for event in events}
    assert 1.4 < after["tpot_ms"] / before["tpot_ms"] < 2.2
    assert after["tpot_ms_high"] / after["tpot_ms"] < before["tpot_ms_high"] / before["tpot_ms"]


def test_what_may_not_teach_calibrates_nothing(service: Any, told: Any, measured: Any) -> None:
    event = measured(hardware="nvidia-rtx-4090", concurrency=4, ttft_ms=50.0, tpot_ms=90.0)
    event["data"]["validity"] = {"verdict": "suspect", "reasons": ["other load"]}
    before = predicted(service, hardware="nvidia-rtx-4090")
    told(event)
    after = predicted(service, hardware="nvidia-rtx-4090")
    assert after["basis"] == "predicted"
    assert after["evidence"] == []
    # The version of the engine that ran there is believed, its times are not.
    assert after["tpot_ms"] == pytest.approx(before["tpot_ms"], rel=0.02)


def test_a_request_without_numbers_of_tokens_has_the_usual_ones_and_says_so(service: Any) -> None:
    asked = service.answers.recommend(Question(model=MODEL, concurrency=8, output_tokens=10))
    assert (asked["workload"]["input_tokens"], asked["workload"]["output_tokens"]) == (1024, 10)
    plain = service.answers.recommend(Question(model=MODEL))
    assert (plain["workload"]["input_tokens"], plain["workload"]["output_tokens"]) == (1024, 128)
    assert plain["ranked"][0]["tpot_ms"] > 0


def test_a_quantisation_of_weights_is_read_from_memory_and_multiplied_in_16_bits(service: Any) -> None:
    def memory(precision: str) -> dict[str, Any]:
        asked = Question(model=MODEL, hardware=[H100], precision=[precision], count=8, **SIZES)
        return dict(service.answers.recommend(asked)["ranked"][0])

    wide, narrow = memory("fp16"), memory("Q4_K_M")
    assert (narrow["precision"], narrow["runtime"]) == ("q4_k_m", "llama.cpp")
    assert narrow["memory_parts"]["weights_bytes"] == pytest.approx(
        wide["memory_parts"]["weights_bytes"] * 4.89 / 16, rel=1e-3
    )
    assert narrow["tpot_ms"] < memory("q8_0")["tpot_ms"]


def test_a_published_row_without_the_length_of_its_answers_counts_at_the_usual_one(
    service: Any, told: Any, build: Any
) -> None:
    event = build.measurement(model="phi-4", hardware="intel-arc-b580", platform="openvino", precision="int4")
    event["data"]["provenance"] = {"origin": "imported", "source": "a page", "reference": "acme/page", "licence": "MIT"}
    event["data"]["workload"] = {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": 1,
        "input_tokens": 1024,
    }
    event["data"]["model"] = {"id": "microsoft/phi-4", "category": "text_generation"}
    event["data"]["metrics"] = {"ttft_ms": 100.0, "tpot_ms": 20.0}
    for name in ("observed", "environment"):
        event["data"].pop(name, None)
    told(event)
    first = service.answers.recommend(Question(model="Phi-4-GGUF", hardware=["intel-arc-b580"]))["ranked"][0]
    assert (first["basis"], first["latency_ms"]) == ("imported", pytest.approx(100 + 127 * 20))
    assert "output tokens not said" in first["why"]


def test_what_nobody_learned_of_serving_is_not_guessed(service: Any) -> None:
    answer = service.answers.recommend(Question(model=MODEL, hardware=[H100], percentile="p99", **SIZES))
    assert answer["ranked"] == []
    assert {one["rule"] for one in answer["excluded"]} == {"no tail prediction"}


def test_energy_is_told_where_power_was_measured_on_the_device_or_its_kind_and_nowhere_else(
    service: Any, told: Any, measured: Any
) -> None:
    assert predicted(service)["energy_j"] is None
    events = [measured(concurrency=count, ttft_ms=50.0, tpot_ms=8.0 + count, power_w=560.0) for count in (1, 2, 4, 8)]
    told(*events)
    answer = predicted(service)
    # 700 W is what an H100 is rated for; a request has a sixteenth of what the device draws.
    assert answer["energy_j"] == pytest.approx(560 * answer["latency_ms"] / 1e3 / 16, rel=0.1)
    assert "4 measurements of this device" in answer["why"]
    other = predicted(service, hardware="nvidia-l4")
    assert other["energy_j"] == pytest.approx(72 * 0.8 * other["latency_ms"] / 1e3 / 16, rel=0.15)
    assert "4 measurements of its kind" in other["why"]
    assert predicted(service, hardware="intel-core-i9-10940x", platform="cpu")["energy_j"] is None
    cheapest = service.answers.recommend(
        Question(model=MODEL, hardware=[H100, "nvidia-l4"], objective="energy", precision="bf16", count=1, **SIZES)
    )
    energies = [one["energy_j"] for one in cheapest["ranked"]]
    assert energies == sorted(energies)
    assert len(energies) == 2


def test_requests_to_what_is_not_known_to_be_served_are_refused_not_answered_as_calls(
    service: Any, told: Any, build: Any, make_trace: Any
) -> None:
    told(build.event("assay.model.traced.v1", make_trace("acme/net", "net", "vision", 3)))
    with pytest.raises(UsageError) as refused:
        service.answers.recommend(Question(model="acme/net", hardware=[H100], concurrency=8))
    assert refused.value.field == "concurrency"

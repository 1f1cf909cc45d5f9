"""A language model by its own config, under the engine that a question names, and with layers in the host's memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.errors import UnknownModel, UsageError
from predictor.answering.question import PredictQuestion, Question
from predictor.capacity.question import FitQuestion

MODEL = "meta-llama/Llama-3.1-8B"
LARGE = "meta-llama/Llama-3.1-70B"
CARD = "nvidia-rtx-4090"
MAC = "apple-m4-max-gpu"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": False,
    "vocab_size": 128256, "max_position_embeddings": 131072, "_name_or_path": "/home/somebody/secret",
}  # fmt: skip


def ranked(service: Any, **asked: Any) -> dict[str, Any]:
    return service.answers.recommend(Question(**{"model": MODEL, "hardware": [CARD], **asked}))


def best(service: Any, **asked: Any) -> dict[str, Any]:
    answer = ranked(service, **asked)
    assert answer["ranked"], answer["excluded"]
    return answer["ranked"][0]


@pytest.mark.parametrize(
    ("hardware", "precision", "runtime"),
    [
        (CARD, "fp16", "vllm"),
        (CARD, "q4_k_m", "llama.cpp"),
        (MAC, "fp16", "llama.cpp"),
        (MAC, "int4", "mlx"),
        (MAC, "q8_0", "llama.cpp"),
    ],
)
def test_without_an_engine_the_usual_one_of_platform_and_weights_answers(
    service: Any, hardware: str, precision: str, runtime: str
) -> None:
    first = best(service, hardware=[hardware], precision=precision)
    assert first["runtime"] == runtime
    assert f"under {runtime}" in first["why"]


def test_a_question_names_the_engine(service: Any) -> None:
    ours = best(service, precision="q4_k_m", runtime="Ollama")
    assert ours["runtime"] == "llama.cpp"
    vulkan = best(service, precision="q4_k_m", runtime="llama.cpp-vulkan")
    assert vulkan["runtime"] == "llama.cpp-vulkan"
    assert vulkan["tpot_ms"] != ours["tpot_ms"]
    assert vulkan["interval_covered"] is False
    assert "of the bandwidth" in vulkan["why"]
    mlx, gguf = (best(service, hardware=[MAC], precision="fp16", runtime=name) for name in ("mlx", "llama.cpp"))
    assert mlx["tpot_ms"] != gguf["tpot_ms"]


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ({"hardware": [MAC], "precision": "q4_k_m", "runtime": "mlx"}, "mlx does not run q4_k_m"),
        ({"platform": "cuda", "precision": "fp16", "runtime": "mlx"}, "mlx runs on mps, not on cuda"),
        ({"precision": "iq4_xs", "runtime": "vllm"}, "vllm does not run iq4_xs"),
    ],
)
def test_what_an_engine_does_not_run_is_excluded_and_says_so(service: Any, asked: dict[str, Any], detail: str) -> None:
    answer = ranked(service, **asked)
    assert answer["ranked"] == []
    assert answer["excluded"][0]["rule"] == "not supported"
    assert answer["excluded"][0]["detail"].startswith(detail)


def test_an_engine_that_nobody_knows_is_refused_with_those_that_are(service: Any) -> None:
    with pytest.raises(UsageError, match="no engine is known as") as refused:
        ranked(service, runtime="lama.cp")
    assert refused.value.field == "runtime"
    assert "llama.cpp" in (refused.value.remedy or "") and "sglang" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"runtime": "vllm"}, "runtime"), ({"offload": True}, "offload"), ({"precision": "q4_k_m"}, "precision")],
)
def test_a_model_that_no_engine_serves_is_refused_by_the_member_that_says_so(
    service: Any, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(UsageError, match="is not known as a language model") as refused:
        ranked(service, model="bert-base-uncased", **asked)
    assert refused.value.field == field


def test_the_precision_in_a_name_is_asked_for_and_another_one_is_noted(service: Any) -> None:
    answer = ranked(service, model="llama3.1:8b-instruct-q4_K_M")
    assert {one["precision"] for one in answer["ranked"]} == {"q4_k_m"}
    assert "the name says that the weights are q4_k_m: asked for so" in answer["notes"]
    other = ranked(service, model="llama3.1:8b-instruct-q4_K_M", precision="fp16")
    assert {one["precision"] for one in other["ranked"]} == {"fp16"}
    assert "the name says that the weights are q4_k_m; the question asks for fp16" in other["notes"]


def test_an_unknown_name_is_refused_with_served_models_near_it(service: Any) -> None:
    with pytest.raises(UnknownModel, match="no model is known as") as refused:
        ranked(service, model="Llama-3.1-9B")
    assert "meta-llama/Llama-3.1-8B" in (refused.value.remedy or "")


@pytest.mark.parametrize("model", ["llama-3.2-1b", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"])
def test_a_traced_language_model_is_served_where_its_weights_are_a_gguf_file(service: Any, model: str) -> None:
    first = best(service, model=model, precision="q4_k_m")
    assert (first["runtime"], first["precision"]) == ("llama.cpp", "q4_k_m")
    assert first["tpot_ms"] > 0


def test_a_config_of_a_known_model_is_answered_as_that_model(service: Any) -> None:
    by_name = best(service, precision="bf16", input_tokens=1024, output_tokens=256, concurrency=4)
    answer = ranked(
        service,
        model="my-finetune",
        config=CONFIG,
        precision="bf16",
        input_tokens=1024,
        output_tokens=256,
        concurrency=4,
    )
    first = answer["ranked"][0]
    assert first["tpot_ms"] == pytest.approx(by_name["tpot_ms"])
    assert any("meta-llama/Llama-3.1-8B" in note for note in answer["notes"])
    assert answer["question"]["config"]["num_hidden_layers"] == 32
    # What tells no size is not kept.
    assert "secret" not in json.dumps(answer)


def test_a_config_of_an_unknown_model_is_answered_by_its_sizes(service: Any) -> None:
    half = {**CONFIG, "num_hidden_layers": 16}
    full, fewer = (best(service, model="acme/own", config=config, precision="bf16") for config in (CONFIG, half))
    assert 1.6 < full["tpot_ms"] / fewer["tpot_ms"] < 2.1
    assert fewer["memory_parts"]["weights_bytes"] < 0.6 * full["memory_parts"]["weights_bytes"]
    quantised = {**half, "quantization_config": {"quant_method": "awq", "bits": 4}}
    assert best(service, model="acme/own", config=quantised)["precision"] == "int4"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"num_hidden_layers": None}, "config.num_hidden_layers"),
        ({"hidden_size": "4096"}, "config.hidden_size"),
        ({"model_type": "rwkv"}, "config.model_type"),
        ({"is_encoder_decoder": True}, "config.is_encoder_decoder"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused_by_its_member(
    service: Any, changed: dict[str, Any], field: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ranked(service, model="acme/own", config={**CONFIG, **changed})
    assert refused.value.field == field
    assert refused.value.remedy


def test_what_does_not_fit_says_how_many_layers_the_host_would_keep_and_how_to_ask(service: Any) -> None:
    answer = ranked(service, model=LARGE, precision="q4_k_m")
    assert answer["ranked"] == []
    (left,) = answer["excluded"]
    assert left["rule"] == "does not fit in memory"
    assert "of 80 layers in the host's memory" in left["detail"]
    assert left["detail"].endswith(
        f"assay recommend {LARGE} --hardware {CARD} --platform cuda --precision q4_k_m --offload"
    )


def test_layers_on_the_host_are_an_estimate_that_says_what_it_took(service: Any) -> None:
    first = best(service, model=LARGE, precision="q4_k_m", offload=True)
    assert 0 < first["offloaded_layers"] < 80
    assert first["host_memory_bytes"] > 10e9
    assert first["interval_covered"] is False
    assert first["memory_parts"]["weights_bytes"] < 24e9
    assert first["tpot_ms_high"] / first["tpot_ms"] == pytest.approx(2, rel=1e-3)
    assert first["why"].startswith("estimate under llama.cpp")
    assert "64 GB taken and 89.6 GB/s taken" in first["why"]
    fast = best(
        service, model=LARGE, precision="q4_k_m", offload=True, host_bandwidth_gb_per_s=300, host_memory_mb=128_000
    )
    assert fast["tpot_ms"] < first["tpot_ms"] / 2
    assert "taken" not in fast["why"]
    fetched = best(service, model=LARGE, precision="int4", offload=True, runtime="transformers")
    assert fetched["tpot_ms"] > first["tpot_ms"]
    assert "fetched for every pass" in fetched["why"]


def test_what_fits_is_answered_as_ever_where_offloading_is_allowed(service: Any) -> None:
    first = best(service, precision="q4_k_m", offload=True)
    assert first.get("offloaded_layers") is None


def test_unified_memory_and_a_host_without_room_offload_nothing(service: Any) -> None:
    mac = ranked(service, model=LARGE, hardware=["apple-m4-gpu"], precision="q4_k_m", offload=True)
    assert mac["ranked"] == []
    assert "host's memory" not in mac["excluded"][0]["detail"]
    small = ranked(service, model=LARGE, precision="q4_k_m", offload=True, host_memory_mb=4_000)
    assert small["ranked"] == []


def test_a_hosts_memory_says_nothing_without_offloading(service: Any) -> None:
    with pytest.raises(UsageError, match="says nothing without offload") as refused:
        ranked(service, host_memory_mb=64_000)
    assert refused.value.field == "host_memory_mb"


def test_predict_answers_one_configuration_under_an_engine_with_offloading(service: Any) -> None:
    question = PredictQuestion(
        model=LARGE, hardware=CARD, platform="cuda", precision="q4_k_m", runtime="llama.cpp", offload=True
    )
    answer = service.answers.predict(question)
    assert answer["offloaded_layers"] > 0
    assert answer["interval_covered"] is False


def fitted(service: Any, **asked: Any) -> dict[str, Any]:
    return service.answers.fit(FitQuestion(**{"model": MODEL, "hardware": [CARD], **asked}))


def test_fit_of_a_config_is_that_of_the_engine_and_its_weights(service: Any) -> None:
    answer = fitted(service, model="acme/own", config=CONFIG, precision="q4_k_m")
    (entry,) = answer["fits"]
    assert entry["runtime"] == "llama.cpp"
    assert entry["memory"]["weights_bytes"] == pytest.approx(8.03e9 * 4.89 / 8, rel=0.01)
    assert entry["longest"]["tokens"] < 131072
    assert "secret" not in json.dumps(answer)
    # The model was made for no longer sequences than its config says.
    short = fitted(service, model="acme/own", config={**CONFIG, "max_position_embeddings": 4096}, precision="q4_k_m")
    assert short["fits"][0]["longest"]["tokens"] == 4096
    (left,) = fitted(service, model="acme/own", config=CONFIG, runtime="vllm", precision="q4_k_m")["excluded"]
    assert left["detail"].startswith("vllm does not run q4_k_m")


def test_fit_follows_windows(service: Any) -> None:
    longest = {
        name: fitted(service, model=f"mistralai/Mistral-7B-{name}", precision="q8_0")["fits"][0]["longest"]["tokens"]
        for name in ("v0.1", "v0.3")
    }
    assert longest["v0.1"] > 2 * longest["v0.3"]


def test_fit_offloads_where_that_is_asked_and_says_how_where_not(service: Any) -> None:
    (parted,) = fitted(service, model=LARGE, precision="q4_k_m", offload=True)["fits"]
    assert 0 < parted["offloaded_layers"] < 80
    assert parted["largest_batch"] == 1
    assert parted["memory"]["weights_bytes"] < 24e9
    (whole,) = fitted(service, model=LARGE, precision="q4_k_m")["fits"]
    assert (whole["offloaded_layers"], whole["largest_batch"]) == (None, 0)
    assert whole["largest_basis"].endswith("of 80 layers in the host's memory it does: --offload")

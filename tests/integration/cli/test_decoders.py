"""`assay recommend`, `predict` and `fit` of a language model's own config.json, under an engine, with offloading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128, "hidden_size": 2560,
    "intermediate_size": 9728, "num_attention_heads": 32, "num_hidden_layers": 30, "num_key_value_heads": 8,
    "tie_word_embeddings": True, "vocab_size": 151936, "max_position_embeddings": 40960,
    "_name_or_path": "/home/somebody/secret",
}  # fmt: skip
CARD = ["--hardware", "nvidia-rtx-4090"]
ONE = [*CARD, "--platform", "cuda", "--precision", "bf16"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "own-model"
    folder.mkdir()
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.mark.parametrize("folder", [False, True], ids=["the file", "its folder"])
def test_a_config_is_read_here_and_its_sizes_are_asked_about(typed: Any, config: Path, folder: bool) -> None:
    name = str(config.parent if folder else config)
    answer = json.loads(typed("recommend", name, *CARD, "--json")[0])
    assert answer["model"] == "local/own-model"
    assert answer["ranked"][0]["runtime"] == "vllm"
    assert "secret" not in json.dumps(answer)
    one = json.loads(typed("predict", name, *ONE, "--json")[0])
    # 30 layers of 100.9 million weights, and one table of 388.9 million for embedding and output, of two bytes each.
    assert one["memory_parts"]["weights_bytes"] == pytest.approx(2 * (30 * 100.9e6 + 388.9e6), rel=0.01)
    capacity = json.loads(typed("fit", name, *CARD, "--precision", "q4_k_m", "--json")[0])
    assert capacity["fits"][0]["runtime"] == "llama.cpp"
    assert capacity["fits"][0]["longest"]["tokens"] == 40960


def test_it_is_told_in_words_too(typed: Any, config: Path) -> None:
    out, _ = typed("recommend", str(config), *CARD, "--runtime", "llama.cpp", "--precision", "q4_k_m", "--verbose")
    assert "llama.cpp" in out


def test_the_engine_and_offloading_are_flags(typed: Any) -> None:
    words = ["llama3.1:70b", *CARD, "--precision", "q4_k_m", "--json"]
    left = json.loads(typed("recommend", *words, code=1)[0])["excluded"][0]["detail"]
    assert left.endswith("--precision q4_k_m --offload")
    asked = left[left.index("assay recommend ") :].split()[1:]
    first = json.loads(typed(*asked, "--json")[0])["ranked"][0]
    assert first["offloaded_layers"] > 0
    faster = typed("recommend", *words, "--engine", "ollama", "--offload", "--host-bandwidth-gb-per-s", "300")[0]
    assert json.loads(faster)["ranked"][0]["tpot_ms"] < first["tpot_ms"]
    fits = json.loads(typed("fit", *words, "--offload", "--host-memory-mb", "96000")[0])["fits"]
    assert fits[0]["offloaded_layers"] > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{not json", "is no JSON"),
        (json.dumps({**CONFIG, "model_type": "brandnew", "num_hidden_layers": None}), "num_hidden_layers"),
        (
            json.dumps({**CONFIG, "model_type": "brandnew", "lru_width": 2560}),
            "lru_width tells of layers that are not known",
        ),
    ],
)
def test_a_config_that_is_neither_read_nor_traced_is_refused_by_its_member(
    typed: Any, config: Path, text: str, said: str
) -> None:
    config.write_text(text)
    _, err = typed("recommend", str(config), *CARD, code=2)
    assert said in err


def test_an_unknown_engine_is_refused_with_those_that_are(typed: Any) -> None:
    _, err = typed("predict", "llama3.1:8b", *ONE, "--runtime", "lama.cp", code=2)
    assert "Did you mean llama.cpp" in err


def test_a_folder_is_traced_where_what_is_asked_is_no_engines(typed: Any, tmp_path: Path) -> None:
    folder = tmp_path / "tiny-gpt"
    folder.mkdir()
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2,
        "n_positions": 128, "n_ctx": 128, "vocab_size": 500,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    out, _ = typed("recommend", str(folder), *CARD, "--mode", "training", "--sequence-length", "64", "--json")
    first = json.loads(out)["ranked"][0]
    assert first["latency_ms"] > 0
    assert first["ttft_ms"] is None
    out, _ = typed("recommend", str(folder / "config.json"), *CARD, "--call", "forward", "--json")
    assert json.loads(out)["ranked"][0]["ttft_ms"] is None

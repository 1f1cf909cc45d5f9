"""Generation with real decoders and encoder-decoders: the same tokens everywhere, prefill and decode apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domain.configuration import Workload
from domain.errors import UnsupportedWorkload
from domain.payloads import Metrics
from runner.campaign.event_payloads import _metrics
from runner.measure.generation import TorchGeneration, decode_step
from runner.models.build import build
from runner.models.inputs import generation_inputs
from runner.models.sources import resolve
from runner.platforms.torch_eager import Cpu
from tests.integration.runner.workbench import case, converted, failed, measured, verified

SIZES = {"input_tokens": 12, "output_tokens": 5}


def made(name: str, **sizes: Any) -> tuple[Any, dict[str, Any]]:
    built = build(resolve(name, "random"), purpose="generation")
    workload = Workload(mode="inference", batch_size=2, **{"output_tokens": 5, **sizes})
    return built.module, generation_inputs(built, workload)


def own_tokens(module: Any, inputs: dict[str, Any]) -> np.ndarray:
    steps = TorchGeneration(module, inputs)
    steps.prefill()
    tokens = [steps.tokens()]
    for _ in range(4):
        steps.decode()
        tokens.append(steps.tokens())
    return np.concatenate(tokens, axis=1)


@pytest.mark.parametrize("name", ["assay/gpt2-small", "assay/llava-small", "assay/bart-small"])
def test_the_steps_choose_what_generate_chooses(name: str) -> None:
    module, inputs = made(name, input_tokens=12)
    expected = module.generate(
        **inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False, num_beams=1, forced_bos_token_id=None,
        forced_eos_token_id=None, no_repeat_ngram_size=0, pad_token_id=0, eos_token_id=None,
    )  # fmt: skip
    assert own_tokens(module, inputs).tolist() == expected[:, -5:].tolist()


def test_decoding_with_a_cache_is_reading_the_whole_text_again() -> None:
    module, inputs = made("assay/gpt2-small", input_tokens=12)
    tokens = own_tokens(module, inputs)
    text = torch.cat([inputs["input_ids"], torch.as_tensor(tokens)], dim=1)
    with torch.inference_mode():
        logits = module(input_ids=text).logits
    assert logits[:, 11:-1].argmax(-1).tolist() == tokens.tolist()


def test_a_decode_step_can_be_repeated() -> None:
    module, inputs = made("assay/gpt2-small", input_tokens=12)
    step = decode_step(module, inputs)
    lengths, seen = [], []
    for _ in range(3):
        step()
        steps = step.__closure__[1].cell_contents  # type: ignore[attr-defined]
        lengths.append(steps.cache.get_seq_length())
        seen.append(steps.logits())
    assert len(set(lengths)) == 1
    assert np.array_equal(seen[0], seen[2])


def test_a_class_without_a_language_head_says_so() -> None:
    built = build(resolve("bert-tiny", "random"))
    with pytest.raises(UnsupportedWorkload) as caught:
        TorchGeneration(built.module, {})
    assert caught.value.field == "output_tokens" and caught.value.remedy


def test_prefill_and_decode_are_timed_apart_and_the_cache_is_counted() -> None:
    of = case("assay/gpt2-small", **SIZES)
    result = measured(of)
    calls = len(result["series"]["samples_ms"])
    assert len(result["parts"]["ttft_ms"]) == len(result["parts"]["token_ms"]) == calls == 5
    for whole, first, later in zip(
        result["series"]["samples_ms"], result["parts"]["ttft_ms"], result["parts"]["token_ms"], strict=True
    ):
        assert len(first) == 1 and len(later) == 4
        assert 0.7 * whole < sum(first) + sum(later) <= whole
    metrics: Metrics = _metrics(of.workload, result, result["series"]["samples_ms"])
    assert metrics.ttft_ms and metrics.tpot_ms and metrics.tokens_per_s and metrics.throughput_per_s
    assert metrics.tokens_per_s == pytest.approx(5 * metrics.throughput_per_s)
    config = build(resolve(of.model, "random")).config
    positions = 12 + 5 - 1
    assert metrics.kv_cache_bytes == 2 * config.n_layer * 2 * positions * config.n_embd * 4


@pytest.mark.parametrize(
    "name",
    [
        "assay/gpt2-small",
        pytest.param("assay/whisper-small", marks=pytest.mark.torture),
        pytest.param("assay/gptj-small", marks=pytest.mark.torture),
        pytest.param("assay/llava-small", marks=pytest.mark.torture),
    ],
)
def test_openvino_chooses_the_tokens_of_torch(name: str, tmp_path: Path) -> None:
    sizes = SIZES if name != "assay/whisper-small" else {"output_tokens": 5}
    of = case(name, "openvino", **sizes)
    folder = converted(of, tmp_path)
    result = verified(of, folder)
    assert failed(result) == []
    assert result["tokens"]["share"] == 1.0 and result["deterministic"]
    assert result["observed"]["precision"] == "fp32"
    if name == "assay/gpt2-small":
        again = measured(of, folder)
        assert len(again["parts"]["token_ms"][0]) == 4 and again["facts"]["kv_cache_bytes"] > 0
        assert again["times"]["convert_ms"] > 0 and again["times"]["compile_ms"] > 0


def test_a_wrong_token_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = case("assay/gpt2-small", **SIZES)
    plain = Cpu.generator

    def stuck(self: Cpu, inputs: Any, output_tokens: int) -> TorchGeneration:
        steps = plain(self, inputs, output_tokens)
        decode = steps.decode

        def forgetful() -> None:
            # As one that lost what it had written.
            steps._next = (steps._next + 7) % 50
            decode()

        monkeypatch.setattr(steps, "decode", forgetful)
        return steps

    monkeypatch.setattr(Cpu, "generator", stuck)
    assert [name for name, _ in failed(verified(of))] == ["tokens"]

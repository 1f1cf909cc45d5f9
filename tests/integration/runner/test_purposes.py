"""Generation and training: every small variant writes tokens or learns from its labels, or says why it cannot."""

from __future__ import annotations

import json

import pytest
import torch

from domain.catalogues.models import models_set
from domain.configuration import Workload
from domain.errors import UnsupportedWorkload, UsageError
from runner.models.build import build
from runner.models.heads import generates
from runner.models.inputs import generation_inputs, training_inputs
from runner.models.sources import resolve

SMALL = [model for model in models_set("small") if not model.requires]
WRITERS = [model for model in SMALL if generates(resolve(model.id, "random"))]
NOT_TRAINED = ("dpr", "dpt")
BY_GENERATE = ("blip",)
"""Families whose forward call keeps no cache; their own method drives their text decoder."""


def writing(**sizes) -> Workload:
    return Workload(mode="inference", **{"output_tokens": 3, **sizes})


def training(**sizes) -> Workload:
    return Workload(mode="training", optimizer="adamw", **sizes)


def next_tokens(built, inputs, steps: int) -> list[torch.Tensor]:
    """Greedy tokens, each step against the cache of the one before."""
    name = "decoder_input_ids" if built.config.is_encoder_decoder else "input_ids"
    output, found = built.module(**inputs, use_cache=True), []
    for _ in range(steps):
        found.append(output.logits[:, -1].argmax(-1, keepdim=True))
        kept = {name: found[-1], "past_key_values": output.past_key_values, "use_cache": True}
        if built.config.is_encoder_decoder:
            from transformers.modeling_outputs import BaseModelOutput

            kept["encoder_outputs"] = BaseModelOutput(last_hidden_state=output.encoder_last_hidden_state)
            kept |= {key: inputs[key] for key in ("attention_mask",) if key in inputs}
        output = built.module(**kept)
    return found


def test_the_writers_are_those_that_should_be() -> None:
    assert {model.family for model in WRITERS} == {
        "t5", "llama", "opt", "gpt2", "whisper", "llava", "llava_next", "qwen2", "qwen3", "qwen2_vl", "qwen3_vl", "gpt_neo",
        "gptj", "codegen", "bloom", "bart", "mt5", "mbart", "blenderbot", "blenderbot-small", "pegasus", "led", "musicgen",
        "blip",
    }  # fmt: skip


@pytest.mark.parametrize("model", WRITERS, ids=lambda model: model.id)
def test_a_writer_decodes_token_after_token_from_its_generation_inputs(model) -> None:
    built = build(resolve(model.id, "random"), purpose="generation")
    inputs = generation_inputs(built, writing(batch_size=2))
    with torch.inference_mode():
        if model.family in BY_GENERATE:
            text = built.module.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)
            assert text.shape[0] == 2
            return
        first, *_, last = next_tokens(built, inputs, 3)
    rows = 2 * (built.config.decoder.num_codebooks if model.family == "musicgen" else 1)
    assert first.shape == last.shape == (rows, 1)


def test_the_cache_gives_the_token_that_the_whole_text_gives() -> None:
    built = build(resolve("assay/llama-small", "random"), purpose="generation")
    inputs = generation_inputs(built, writing(input_tokens=7))
    with torch.inference_mode():
        cached = torch.cat(next_tokens(built, inputs, 3), dim=1)
        text = inputs["input_ids"]
        for _ in range(3):
            text = torch.cat([text, built.module(input_ids=text).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(cached, text[:, 7:])


def test_prompts_are_as_long_as_asked_for_and_repeat_with_the_seed() -> None:
    source = resolve("gpt2", "random")
    prompt = generation_inputs(source, writing(batch_size=2, input_tokens=5), seed=4)["input_ids"]
    assert prompt.shape == (2, 5)
    assert torch.equal(prompt, generation_inputs(source, writing(batch_size=2, input_tokens=5), seed=4)["input_ids"])
    started = generation_inputs(resolve("bart-base", "random"), writing(batch_size=2, input_tokens=5))
    assert started["decoder_input_ids"].tolist() == [[2], [2]]
    music = generation_inputs(resolve("musicgen-small", "random"), writing(batch_size=2))
    assert music["decoder_input_ids"].shape == (8, 1)
    assert generation_inputs(resolve("whisper-tiny", "random"), writing())["decoder_input_ids"].shape == (1, 4)


def test_what_does_not_write_says_so() -> None:
    with pytest.raises(UnsupportedWorkload, match="does not generate") as caught:
        generation_inputs(resolve("bert-tiny", "random"), writing())
    assert caught.value.field == "output_tokens"


@pytest.mark.parametrize("model", [m for m in SMALL if m.family not in NOT_TRAINED], ids=lambda model: model.id)
def test_a_training_step_has_a_finite_loss_and_reaches_the_weights(model) -> None:
    built = build(resolve(model.id, "random"), purpose="training")
    inputs = training_inputs(built, training(batch_size=2, **({"sequence_length": 16} if reads(model) else {})))
    loss = built.module(**inputs)["loss"]
    assert loss.shape == () and torch.isfinite(loss)
    loss.backward()
    reached = sum(p.numel() for p in built.module.parameters() if p.grad is not None and p.grad.abs().sum() > 0)
    # MusicGen learns with its text encoder's help and without its sound decoder.
    assert reached > (0.2 if model.family == "musicgen" else 0.6) * built.parameters


def reads(model) -> bool:
    return model.category in ("embedding", "text_generation", "text_to_text")


@pytest.mark.parametrize("name", ["assay/llama-small", "assay/bart-small", "bert-tiny"])
def test_a_few_steps_lower_the_loss(name: str) -> None:
    built = build(resolve(name, "random"), purpose="training")
    built.module.eval()  # without dropout the loss may only fall
    inputs = training_inputs(built, training(batch_size=2, sequence_length=8))
    optimizer = torch.optim.AdamW(built.module.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = built.module(**inputs)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_pictures_are_not_learned_by_heart() -> None:
    built = build(resolve("assay/llava-small", "random"), purpose="training")
    inputs = training_inputs(built, training(batch_size=1, sequence_length=16))
    pictures = inputs["input_ids"] == built.config.image_token_id
    assert (inputs["labels"][pictures] == -100).all()
    assert torch.equal(inputs["labels"][~pictures], inputs["input_ids"][~pictures])


def test_labels_repeat_with_the_seed_and_need_the_class_that_has_a_loss() -> None:
    built = build(resolve("bert-tiny", "random"), purpose="training")
    first, again = (training_inputs(built, training(batch_size=8), seed=3) for _ in range(2))
    assert torch.equal(first["labels"], again["labels"])
    assert first["labels"].shape == (8,)
    with pytest.raises(ValueError, match="built for inference"):
        training_inputs(build(resolve("bert-tiny", "random")), training())


def test_contrastive_training_pairs_each_text_with_one_image() -> None:
    built = build(resolve("assay/clip-small", "random"), purpose="training")
    with pytest.raises(UsageError, match="pairs each text") as caught:
        training_inputs(built, training(images=2))
    assert caught.value.field == "images"


def test_letters_leave_room_for_their_alignment(tmp_path) -> None:
    config = {**resolve("assay/wav2vec2-small", "random").config, "architectures": ["Wav2Vec2ForCTC"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    speech = build(resolve(str(tmp_path), "random"), purpose="training")
    inputs = training_inputs(speech, training(batch_size=2, audio_seconds=1.0))
    assert inputs["labels"].shape == (2, 15)
    assert torch.isfinite(speech.module(**inputs)["loss"])

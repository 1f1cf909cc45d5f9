"""Inputs: every small variant runs a forward call with them, and the sizes are those of the workload."""

from __future__ import annotations

import pytest
import torch

from domain.catalogues.models import catalogue, models_set
from domain.configuration import Workload
from domain.errors import UsageError
from runner.models.build import build
from runner.models.inputs import make_inputs, workload_defaults
from runner.models.sources import resolve

SMALL = models_set("small")


def workload(**sizes) -> Workload:
    return Workload(mode="inference", **sizes)


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.id)
def test_a_small_variant_runs_and_its_outputs_are_finite(model) -> None:
    built = build(resolve(model.id, "random"))
    inputs = make_inputs(built, workload(batch_size=3))
    with torch.inference_mode():
        output = built.module(**inputs)
    first = next(value for value in output.values() if isinstance(value, torch.Tensor) and value.is_floating_point())
    assert torch.isfinite(first).all()
    # MusicGen answers once for each of its codebooks.
    assert first.shape[0] % 3 == 0


@pytest.mark.parametrize("model", catalogue(), ids=lambda model: model.id)
def test_a_filled_workload_is_complete_and_filling_it_again_changes_nothing(model) -> None:
    source = resolve(model.id, "random")
    filled = workload_defaults(source)
    assert filled.batch_size == 1
    assert workload_defaults(source, filled) == filled
    sizes = (filled.sequence_length, filled.image_size, filled.audio_seconds, filled.frames)
    assert any(size is not None for size in sizes)


def test_sizes_that_a_model_has_not_are_left_out_of_its_key() -> None:
    vision = workload_defaults(resolve("resnet-50", "random"), workload(sequence_length=64))
    text = workload_defaults(resolve("bert-tiny", "random"), workload(image_size=64))
    assert (vision.sequence_length, vision.image_size) == (None, 224)
    assert (text.sequence_length, text.image_size) == (128, None)


def test_text_inputs_have_the_batch_and_length_asked_for_and_repeat_with_the_seed() -> None:
    source = resolve("bert-tiny", "random")
    inputs = make_inputs(source, workload(batch_size=3, sequence_length=17), seed=1)
    assert inputs["input_ids"].shape == inputs["attention_mask"].shape == (3, 17)
    again = make_inputs(source, workload(batch_size=3, sequence_length=17), seed=1)
    other = make_inputs(source, workload(batch_size=3, sequence_length=17), seed=2)
    assert torch.equal(inputs["input_ids"], again["input_ids"])
    assert not torch.equal(inputs["input_ids"], other["input_ids"])


def test_pixels_come_in_the_precision_the_model_was_built_in() -> None:
    built = build(resolve("assay/clip-small", "random"), dtype=torch.bfloat16)
    inputs = make_inputs(built, workload())
    assert inputs["pixel_values"].dtype == torch.bfloat16
    assert inputs["input_ids"].dtype == torch.int64


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("llava-1.5-7b-hf", 576), ("llava-v1.6-mistral-7b-hf", 24 * 24 + 24 * 24 + 24), ("qwen2-vl-2b-instruct", 16 * 16)],
)
def test_an_image_becomes_as_many_tokens_as_its_publisher_says(name: str, tokens: int) -> None:
    source = resolve(name, "random")
    config = source.config
    token = config.get("image_token_id", config.get("image_token_index"))
    inputs = make_inputs(source, workload(batch_size=2, sequence_length=16))
    assert (inputs["input_ids"] == token).sum(dim=1).tolist() == [tokens, tokens]


@pytest.mark.parametrize(
    ("name", "sizes", "field"),
    [
        ("bert-base-uncased", {"sequence_length": 513}, "sequence_length"),
        ("roberta-base", {"sequence_length": 513}, "sequence_length"),
        ("clip-vit-base-patch32", {"sequence_length": 78}, "sequence_length"),
        ("vit-base-patch16-224", {"image_size": 384}, "image_size"),
        ("qwen2-vl-2b", {"image_size": 100}, "image_size"),
        ("whisper-tiny", {"audio_seconds": 10.0}, "audio_seconds"),
        ("clap-htsat-unfused", {"audio_seconds": 11.0}, "audio_seconds"),
        ("wav2vec2-base", {"audio_seconds": 0.001}, "audio_seconds"),
        ("bert-tiny", {"batch_size": 0}, "batch_size"),
        ("bert-tiny", {"sequence_length": -3}, "sequence_length"),
        ("longformer-base-4096", {"sequence_length": 4097}, "sequence_length"),
        ("led-base-16384", {"sequence_length": 16385}, "sequence_length"),
        ("gpt2", {"input_tokens": 1000, "output_tokens": 25}, "output_tokens"),
        ("gpt2", {"input_tokens": 1025, "output_tokens": 1}, "input_tokens"),
        ("bart-base", {"output_tokens": 1024}, "output_tokens"),
        ("whisper-tiny", {"output_tokens": 445}, "output_tokens"),
        ("assay/llava-small", {"sequence_length": 4096}, "sequence_length"),
        ("blip", {"images": 2}, "images"),
        ("blip", {"image_size": 224}, "image_size"),
        ("videomae", {"frames": 8}, "frames"),
        ("xclip", {"frames": 16}, "frames"),
        ("musicgen-small", {"audio_seconds": 41.0}, "audio_seconds"),
        ("stable-diffusion", {"image_size": 500}, "image_size"),
    ],
)
def test_a_size_the_model_cannot_take_is_refused_with_its_field_and_a_remedy(name, sizes, field) -> None:
    with pytest.raises(UsageError) as caught:
        make_inputs(resolve(name, "random"), workload(**sizes))
    assert caught.value.field == field
    assert caught.value.remedy


def test_the_longest_sequence_allowed_really_runs() -> None:
    built = build(resolve("bert-tiny", "random"))
    with torch.inference_mode():
        output = built.module(**make_inputs(built, workload(sequence_length=512)))
    assert output.last_hidden_state.shape == (1, 512, 128)


def test_a_config_of_a_type_nobody_described_is_refused(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "fuyu"}')
    with pytest.raises(UsageError, match="fuyu"):
        make_inputs(resolve(str(tmp_path)), workload())


def test_the_words_of_a_page_come_with_their_boxes_from_corner_to_corner() -> None:
    boxes = make_inputs(resolve("layoutlm", "random"), workload(batch_size=2, sequence_length=9))["bbox"]
    assert boxes.shape == (2, 9, 4)
    assert (boxes[..., 0] <= boxes[..., 2]).all() and (boxes[..., 1] <= boxes[..., 3]).all()
    assert boxes.min() >= 0 and boxes.max() <= 1000


def test_music_has_a_row_for_each_codebook_and_fifty_steps_a_second() -> None:
    inputs = make_inputs(resolve("musicgen-small", "random"), workload(batch_size=2, audio_seconds=3.0))
    assert inputs["decoder_input_ids"].shape == (2 * 4, 150)
    assert inputs["input_ids"].shape == (2, 64)


def test_where_tokens_are_to_be_written_the_prompt_has_its_own_name() -> None:
    writes = workload_defaults(resolve("gpt2", "random"), workload(output_tokens=8))
    asked = workload_defaults(resolve("gpt2", "random"), workload(input_tokens=32, output_tokens=8))
    reads = workload_defaults(resolve("bert-tiny", "random"), workload(input_tokens=32, output_tokens=8))
    assert (writes.sequence_length, writes.input_tokens, writes.output_tokens) == (None, 128, 8)
    assert (asked.sequence_length, asked.input_tokens, asked.output_tokens) == (None, 32, 8)
    assert (reads.sequence_length, reads.input_tokens, reads.output_tokens) == (32, None, None)
    assert workload_defaults(resolve("gpt2", "random"), asked) == asked


def test_training_is_as_large_as_inference_and_has_no_scenario() -> None:
    source = resolve("bert-tiny", "random")
    filled = workload_defaults(source, Workload(mode="training", batch_size=4, optimizer="adamw"))
    assert filled == Workload(mode="training", batch_size=4, sequence_length=128, optimizer="adamw")

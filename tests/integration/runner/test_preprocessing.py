"""Processors that a checkpoint brings along, saved here and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from domain.configuration import Workload
from runner.campaign.execution import measure_case
from runner.measure.preprocessing import processing_times, processor_in, raw_items
from runner.protocol.tasks import Case, Measure
from tests.integration.runner.workbench import METHOD, Stages

TEXT = Workload(mode="inference", batch_size=2, sequence_length=8)


def save_tokenizer(folder: Path) -> None:
    # Each worker of a session collects this file, and one of them runs it.
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "measure": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(folder)


def test_a_checkpoint_with_a_tokenizer_is_timed_before_and_one_without_is_not(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    BertModel(config).save_pretrained(tmp_path / "bert")
    case = Case(
        model=str(tmp_path / "bert"), platform="cpu", precision="fp32", workload=TEXT, weights="pretrained", threads=1
    )
    bare = measure_case(Measure(case=case, method=METHOD), Stages())["times"]
    assert bare["preprocess_ms"] is None and bare["postprocess_ms"] is None
    save_tokenizer(tmp_path / "bert")
    full = measure_case(Measure(case=case, method=METHOD), Stages())["times"]
    assert full["preprocess_ms"] > 0 and full["postprocess_ms"] is None


def test_words_are_made_again_from_what_was_generated(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    workload = Workload(mode="inference", batch_size=2, input_tokens=8, output_tokens=16)
    found = processing_times(tmp_path, workload)
    assert found["preprocess_ms"] and found["postprocess_ms"]
    assert processing_times(None, workload) == {"preprocess_ms": None, "postprocess_ms": None}
    assert processing_times(tmp_path, Workload(mode="training"))["preprocess_ms"] is None


def test_a_batch_of_raw_items_becomes_what_the_model_takes(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    tokenizer = processor_in(tmp_path)
    assert tokenizer(**raw_items(tokenizer, TEXT))["input_ids"].shape == (2, 8)


@pytest.mark.parametrize(
    ("processor", "workload", "name", "shape"),
    [
        (
            ("ViTImageProcessor", {"size": {"height": 32, "width": 32}}),
            Workload(mode="inference", batch_size=2, image_size=32),
            "pixel_values",
            (2, 3, 32, 32),
        ),
        (
            ("Wav2Vec2FeatureExtractor", {"sampling_rate": 8000}),
            Workload(mode="inference", batch_size=2, audio_seconds=0.5),
            "input_values",
            (2, 4000),
        ),
    ],
)
def test_pictures_and_sound(
    tmp_path: Path, processor: tuple[str, dict[str, Any]], workload: Workload, name: str, shape: tuple[int, ...]
) -> None:
    import transformers

    class_, options = processor
    getattr(transformers, class_)(**options).save_pretrained(tmp_path)
    read = processor_in(tmp_path)
    assert read is not None
    assert read(**raw_items(read, workload))[name].shape == shape
    assert processing_times(tmp_path, workload)["preprocess_ms"]


def test_a_folder_without_any_has_none(tmp_path: Path) -> None:
    assert processor_in(tmp_path) is None
    (tmp_path / "processor_config.json").write_text("{}")
    assert processor_in(tmp_path) is None

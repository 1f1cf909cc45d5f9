"""Examples that the model cannot take are refused before any work, with the field and the remedy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import UsageError
from tests.unit.runner.compression.conftest import build_saved, carried_out, examples

PIXELS = np.zeros((40, 1, 8, 8), np.float32)
LABELS = np.zeros(40, np.int64)


@pytest.mark.parametrize(
    ("inputs", "targets", "field", "words"),
    [
        ({"pixels": PIXELS}, LABELS, "calibrate.pixels", "pixel_values"),
        ({}, LABELS, "calibrate.pixel_values", "needs"),
        ({"pixel_values": PIXELS[:, 0]}, LABELS, "calibrate.pixel_values", "3 dimensions"),
        ({"pixel_values": PIXELS.astype(np.int64)}, LABELS, "calibrate.pixel_values", "floating"),
        ({"pixel_values": PIXELS.astype("U")}, LABELS, "calibrate.pixel_values", "floating"),
        ({"pixel_values": PIXELS * np.nan}, LABELS, "calibrate.pixel_values", "finite"),
        ({"pixel_values": np.zeros((40, 1, 9, 9), np.float32)}, LABELS, "calibrate", "cannot take"),
        ({"pixel_values": np.zeros((40, 3, 8, 8), np.float32)}, LABELS, "calibrate", "cannot take"),
        ({"pixel_values": PIXELS[:31]}, LABELS[:31], "calibrate", "32 examples"),
        ({"pixel_values": PIXELS}, None, "calibrate.labels", "have none"),
        ({"pixel_values": PIXELS}, LABELS[:39], "calibrate.labels", "39 labels"),
        ({"pixel_values": PIXELS}, LABELS + 4, "calibrate.labels", "4 classes"),
        ({"pixel_values": PIXELS}, LABELS.astype("U"), "calibrate.labels", "whole numbers"),
    ],
)
def test_examples_of_another_kind_name_the_field(vit, tmp_path, inputs, targets, field, words):
    reference = examples({"pixel_values": PIXELS}).reference
    from runner.compression.contract import Examples

    data = Examples(reference=reference, inputs=inputs, targets=targets)
    with pytest.raises(UsageError) as error:
        carried_out("prune-70", vit, tmp_path, data, epochs=1)
    assert error.value.field == field
    assert words in str(error.value)
    assert error.value.remedy
    assert not any(tmp_path.iterdir())


@given(shape=st.lists(st.integers(0, 9), max_size=5), kind=st.sampled_from(["f4", "f8", "i8", "u1", "?", "U1", "O"]))
def test_no_array_gets_past_the_checks_or_breaks_them(vit, tmp_path_factory, shape, kind):
    data = {"pixel_values": np.zeros(shape, kind)}
    reference = examples({"pixel_values": PIXELS}).reference
    from runner.compression.contract import Examples

    with pytest.raises(UsageError):
        carried_out("prune-70", vit, tmp_path_factory.mktemp("out"), Examples(reference=reference, inputs=data))


def test_token_ids_beyond_the_vocabulary_and_texts_that_are_too_long_are_refused(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(
        num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=40, max_position_embeddings=8
    )  # fmt: skip
    built = build_saved(tmp_path / "small-bert", BertModel, config)
    for tokens, words in ((np.full((32, 4), 40), "40 tokens"), (np.ones((32, 9), np.int64), "cannot take")):
        with pytest.raises(UsageError, match=words):
            carried_out("int8-ptq", built, tmp_path / "out", examples({"input_ids": tokens}))
    unequal = {"input_ids": np.ones((32, 4), np.int64), "attention_mask": np.ones((31, 4), np.int64)}
    with pytest.raises(UsageError, match="different numbers"):
        carried_out("int8-ptq", built, tmp_path / "out", examples(unequal))

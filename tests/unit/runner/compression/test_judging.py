"""Which folder of a variant a command of the user's judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import UsageError
from domain.variants.lineage import Form, Variant
from runner.compression.judging import folder_for_command


def variant(*forms: tuple[str, str]) -> Variant:
    made = tuple(Form(kind=kind, precision=precision, files=()) for kind, precision in forms)
    return Variant(id="x+y.1", base="x", source="x", recipe="int8-dynamic", forms=made, digest="sha256:" + 64 * "0")


@pytest.mark.parametrize(
    ("forms", "within"),
    [
        ([("checkpoint", "fp32")], "checkpoint"),
        ([("onnx", "fp32"), ("checkpoint", "fp32")], "checkpoint"),
        ([("openvino", "int8")], "openvino"),
        ([("openvino", "int4"), ("checkpoint", "int4")], "openvino"),
    ],
)
def test_a_command_judges_the_checkpoint_or_the_graph(forms, within):
    assert folder_for_command(Path("out"), variant(*forms)) == Path("out") / within


def test_what_is_quantized_when_it_is_loaded_is_not_judged_by_its_wide_weights():
    with pytest.raises(UsageError, match="quantized") as refused:
        folder_for_command(Path("out"), variant(("checkpoint", "int8")))
    assert refused.value.field == "eval"

"""ONNX files: the same work as torch counts, sizes bound by what they are, and refusals that name the place."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from domain.configuration import Workload
from domain.errors import AssayError, UnsupportedWorkload, Untraceable, UsageError
from domain.payloads import ModelTraced
from domain.performance.roofline import OPERATOR_CLASSES
from runner.models.build import build
from runner.models.inputs import make_inputs
from runner.models.sources import resolve
from runner.tracing.onnx_trace import trace_onnx
from runner.tracing.trace import record, trace

Export = Callable[..., Path]


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 5, padding=2, groups=16), nn.Conv2d(16, 32, 1), nn.SiLU(),
            nn.Conv2d(32, 32, 3, padding=1, groups=4), nn.ConvTranspose2d(32, 8, 2, stride=2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Block(nn.Module):
    """A transformer's layer on token ids."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.table, self.before, self.after = nn.Embedding(1000, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids)
        items, rows, width = x.shape
        mixed = self.mixed(self.before(x)).view(items, rows, 3, self.heads, width // self.heads)
        attended = nn.functional.scaled_dot_product_attention(*mixed.permute(2, 0, 3, 1, 4))
        x = x + self.joined(attended.transpose(1, 2).reshape(items, rows, width))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


@pytest.fixture
def export(tmp_path: Path) -> Export:
    def write(module: nn.Module, example: Any, name: str = "model.onnx", opset: int = 20, **options: Any) -> Path:
        path = tmp_path / name
        with warnings.catch_warnings():
            # The exporter that needs no further package is deprecated, and says so in several ways.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.eval(), (example,), str(path), dynamo=False, input_names=["x"], opset_version=opset, **options
            )
        return path

    return write


def torch_rows(module: nn.Module, example: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return record(module.to("meta").eval(), (example.to("meta"),))


def by_class(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        found[row["class"]] = found.get(row["class"], 0) + row[key] * (1 if key == "count" else row["count"])
    return found


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], stored: tuple[Any, ...] = ()) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(stored))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def floats(name: str, *sides: int | str | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sides)


def ids(name: str, *sides: int | str | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.INT64, sides)


def weights(name: str, *sides: int) -> Any:
    return numpy_helper.from_array(np.zeros(sides, dtype=np.float32), name)


def test_convolutions_are_those_that_torch_counts(export: Export) -> None:
    example = torch.zeros(1, 3, 32, 32)
    found = trace_onnx(export(Convolutional(), example))
    rows, totals = torch_rows(Convolutional(), example)
    keys = ("class", "count", "flops", "weight_elements", "inner", "kernel", "stride", "groups")
    of = [{key: row[key] for key in keys} for row in found["operators"] if row["flops"]]
    assert of == [{key: row[key] for key in keys} for row in rows if row["flops"]]
    for key in ("read_elements", "write_elements", "operators", "parameters"):
        assert found["totals"][key] == pytest.approx(totals[key], rel=0.01)
    assert found["workload"]["image_size"] == 32
    assert found["model"]["category"] == "vision"


@pytest.mark.parametrize("opset", [14, 17, 20])
def test_a_transformer_block_is_that_which_torch_counts(export: Export, opset: int) -> None:
    varying = {"x": {0: "batch", 1: "sequence"}}
    path = export(Block(), torch.zeros(2, 16, dtype=torch.long), opset=opset, dynamic_axes=varying)
    found = trace_onnx(path, Workload(mode="inference", sequence_length=48))
    rows, totals = torch_rows(Block(), torch.zeros(1, 48, dtype=torch.long))
    for key in ("flops", "count", "read_elements", "write_elements", "weight_elements"):
        assert by_class(found["operators"], key) == by_class(rows, key)
    attention = next(row for row in found["operators"] if row["class"] == "attention")
    assert (attention["inner"], attention["flops"]) == (16, 2.0 * 4 * 48 * 48 * (16 + 16))
    assert found["workload"]["sequence_length"] == 48
    assert found["totals"]["peak_activation_elements"] == pytest.approx(totals["peak_activation_elements"], rel=0.5)


class Positional(nn.Module):
    """A model of keyword arguments as the exporter takes one: its first output alone."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs: Any) -> Any:
        return self.module(**dict(zip(self.names, inputs, strict=True)))[0]


@pytest.mark.parametrize(
    "name",
    ["prajjwal1/bert-tiny", "WinKawaks/vit-tiny-patch16-224", "microsoft/resnet-50", "assay/swin-small",
     "google/t5-efficient-tiny", "assay/gpt2-small"],
)  # fmt: skip
def test_an_export_does_the_work_of_the_model(name: str, tmp_path: Path) -> None:
    expected = trace(resolve(name, "random"))
    built = build(resolve(name, "random"))
    inputs = make_inputs(built, Workload(mode="inference", batch_size=1))
    axes = {key: {0: "batch"} | ({1: "sequence"} if value.ndim == 2 else {}) for key, value in inputs.items()}
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Positional(built.module.eval(), list(inputs)), tuple(inputs.values()), str(path), dynamo=False,
            input_names=list(inputs), opset_version=18, dynamic_axes=axes,
        )  # fmt: skip
    found = trace_onnx(path)
    assert found["totals"]["flops"] == pytest.approx(expected["totals"]["flops"], rel=0.001)
    of = by_class(expected["operators"], "count"), by_class(found["operators"], "count")
    assert of[0].get("attention") == of[1].get("attention")
    assert found["model"]["category"] in (expected["model"]["category"], "embedding")


def test_a_trace_is_a_valid_event_and_the_same_every_time(export: Export) -> None:
    path = export(Convolutional(), torch.zeros(1, 3, 32, 32))
    found = trace_onnx(path)
    msgspec.convert(found, ModelTraced)
    assert {row["class"] for row in found["operators"]} <= set(OPERATOR_CLASSES)
    assert found == trace_onnx(path)
    assert found["tracer"]["unknown"] == []


def test_another_file_of_the_same_name_is_another_model(export: Export) -> None:
    first = trace_onnx(export(nn.Linear(8, 8), torch.zeros(1, 8)))["model"]["id"]
    second = trace_onnx(export(nn.Linear(8, 16), torch.zeros(1, 8)))["model"]["id"]
    assert first.startswith("local/model-") and second.startswith("local/model-") and first != second


def test_the_size_asked_for_changes_the_trace_and_not_the_model(export: Export) -> None:
    varying = {"x": {0: "batch", 2: "height", 3: "width"}}
    path = export(Convolutional(), torch.zeros(1, 3, 32, 32), dynamic_axes=varying)
    usual = trace_onnx(path)
    small = trace_onnx(path, Workload(mode="inference", image_size=112))
    assert (usual["workload"]["image_size"], small["workload"]["image_size"]) == (224, 112)
    assert usual["model"] == small["model"]
    assert by_class(usual["operators"], "flops")["grouped"] == 4 * by_class(small["operators"], "flops")["grouped"]


def test_a_matrix_product_of_two_activations_is_no_linear_layer(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    path = save(
        tmp_path / "m.onnx", nodes, [floats("a", 1, 4, 8, 16), floats("b", 1, 4, 16, 8)], [floats("c", 1, 4, 8, 8)]
    )
    row = trace_onnx(path)["operators"][0]
    assert (row["class"], row["flops"], row["inner"]) == ("bmm", 2 * 4 * 8 * 8 * 16, 16)


def test_what_follows_from_weights_alone_is_done_when_the_file_is_loaded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("MatMul", ["x", "u"], ["y"]),
    ]  # fmt: skip
    path = save(
        tmp_path / "m.onnx", nodes, [floats("x", "batch", 8)], [floats("y", "batch", 16)], (weights("w", 16, 8),)
    )
    rows = trace_onnx(path)["operators"]
    assert [(row["class"], row["read_elements"], row["weight_elements"]) for row in rows] == [("mm", 8, 128)]


def test_a_branch_is_taken_where_its_condition_is_known(tmp_path: Path) -> None:
    def branch(op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x"], [f"{op} out"])], op, [], [floats(f"{op} out", 1, 8)])

    stored = numpy_helper.from_array(np.array(True), "yes")
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch("Relu"), else_branch=branch("Softmax"))
    path = save(tmp_path / "m.onnx", [node], [floats("x", 1, 8)], [floats("y", 1, 8)], (stored,))
    assert [row["name"] for row in trace_onnx(path)["operators"]] == ["onnx.Relu"]


@pytest.mark.parametrize("op", ["If", "Loop"])
def test_what_runs_by_values_is_not_counted_as_nothing(tmp_path: Path, op: str) -> None:
    def body(name: str, *inputs: Any) -> Any:
        outputs = [helper.make_tensor_value_info(f"{name} on", TensorProto.BOOL, [])] if inputs else []
        nodes = [helper.make_node("Relu", ["x"], [name])]
        if inputs:
            nodes.append(helper.make_node("Identity", ["go"], [f"{name} on"]))
        return helper.make_graph(nodes, name, list(inputs), [*outputs, floats(name, 1, 8)])

    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    if op == "If":
        node = helper.make_node("If", ["flag"], ["y"], name="fork", then_branch=body("a"), else_branch=body("b"))
    else:
        turn, go = ids("turn"), helper.make_tensor_value_info("go", TensorProto.BOOL, [])
        node = helper.make_node("Loop", ["", "flag"], ["y"], name="fork", body=body("a", turn, go))
    path = save(tmp_path / "m.onnx", [node], [floats("x", 1, 8), flag], [floats("y", None, 1, 8)])
    with pytest.raises(Untraceable, match=rf"node 'fork' \({op}\).*values of tensors.*x 1×8, flag one number"):
        trace_onnx(path)


def test_weights_that_stand_in_nodes_are_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weights("", 8, 16)), helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]  # fmt: skip
    found = trace_onnx(save(tmp_path / "m.onnx", nodes, [floats("x", "batch", 8)], [floats("y", "batch", 16)]))
    assert found["totals"]["parameters"] == 8 * 16
    assert [(row["class"], row["weight_elements"]) for row in found["operators"]] == [("mm", 128)]


@pytest.mark.parametrize("unnamed", [-1, "?", "", None])
def test_a_side_without_a_name_is_bound_by_where_it_stands(tmp_path: Path, unnamed: int | str | None) -> None:
    picture = floats("x", unnamed, 3, unnamed, unnamed)
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [picture], [floats("y", "a", 3, "b", "c")]
    )
    found = trace_onnx(path, Workload(mode="inference", image_size=64))
    assert found["totals"]["write_elements"] == 3 * 64 * 64
    assert found["workload"]["image_size"] == 64


def test_an_operator_nobody_knows_is_counted_by_its_elements_and_said(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["m"], domain="acme"), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "g", [floats("x", 1, 8)], [floats("y", 1, 4)], value_info=[floats("m", 1, 4)])
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=10), tmp_path / "m.onnx")
    found = trace_onnx(tmp_path / "m.onnx")
    row = found["operators"][0]
    assert (row["class"], row["read_elements"], row["write_elements"]) == ("other", 8, 4)
    assert found["tracer"]["unknown"] == ["acme.Mystery"]


def test_a_shape_that_does_not_follow_names_node_and_operator(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["m"], name="layer7", domain="acme")]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", 1, 8)], [floats("m", "batch", "some")])
    with pytest.raises(Untraceable, match=r"node 'layer7' \(acme\.Mystery\)") as caught:
        trace_onnx(path)
    assert caught.value.field == "model" and "fixed sizes" in str(caught.value.remedy)


def test_a_shape_that_follows_from_values_names_node_and_operator(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"], name="pick"),
        helper.make_node("Cast", ["found"], ["y"], to=1),
    ]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", 1, 8)], [floats("y", 2, "some")])
    with pytest.raises(Untraceable, match=r"node 'pick' \(NonZero\).*values of tensors"):
        trace_onnx(path)


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x0a\x12\x07pytorch" + b"\xff" * 64])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.onnx").write_bytes(content)
    with pytest.raises(UsageError, match=r"broken\.onnx cannot be read as an ONNX model") as caught:
        trace_onnx(tmp_path / "broken.onnx")
    assert caught.value.field == "model"


def test_a_file_that_ends_early_is_refused(export: Export) -> None:
    path = export(Convolutional(), torch.zeros(1, 3, 32, 32))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(UsageError, match="cannot be read as an ONNX model"):
        trace_onnx(path)


def test_a_damaged_file_is_traced_or_refused_and_nothing_else(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]), helper.make_node("Softmax", ["c"], ["s"]),
        helper.make_node("Reshape", ["s", "to"], ["r"]), helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]  # fmt: skip
    stored = (
        weights("w", 4, 3, 2, 2), weights("v", 64, 8),
        numpy_helper.from_array(np.array([1, 4, -1], dtype=np.int64), "to"),
    )  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, [floats("x", "n", 3, 16, 16)], [floats("y", "n", 4, 8)], stored)
    whole = path.read_bytes()
    refused: list[AssayError] = []
    assert trace_onnx(path)["totals"]["operators"] == 3
    random = np.random.default_rng(0)
    for place in random.integers(0, len(whole), 300):
        path.write_bytes(whole[:place] + bytes([int(random.integers(256))]) + whole[place + 1 :])
        try:
            assert trace_onnx(path)["operators"] is not None
        except AssayError as error:
            refused.append(error)
    assert len(refused) > 10
    assert all(error.field == "model" and error.remedy for error in refused)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        trace_onnx(tmp_path / "nothing.onnx")


def test_weights_beside_the_file_are_not_needed(export: Export) -> None:
    path = export(Block(), torch.zeros(1, 16, dtype=torch.long))
    inside = trace_onnx(path)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    (path.parent / "weights.bin").unlink()
    assert trace_onnx(path)["totals"] == inside["totals"]


def test_a_shape_kept_outside_of_the_file_is_asked_for_by_name(tmp_path: Path) -> None:
    target = numpy_helper.from_array(np.array([1, 2, 4], dtype=np.int64), "target")
    nodes = [helper.make_node("Reshape", ["x", "target"], ["y"], name="fold")]
    path = save(tmp_path / "m.onnx", nodes, [floats("x", 1, 8)], [floats("y", "a", "b", "c")], (target,))
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert trace_onnx(path)["operators"] == []
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(Untraceable, match=r"node 'fold' \(Reshape\).*weights\.bin"):
        trace_onnx(path)


def test_a_side_that_no_size_says_is_named(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [floats("x", 1, "mystery")],
        [floats("y", 1, "m")],
    )
    with pytest.raises(UsageError, match=r"'x' leaves its side 1 \(mystery\) open") as caught:
        trace_onnx(path)
    assert "Export the file with this side fixed" in str(caught.value.remedy)


def test_a_size_that_the_file_fixes_cannot_be_asked_for(tmp_path: Path) -> None:
    relu = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    path = save(tmp_path / "m.onnx", relu, [ids("x", "batch", 64)], [floats("y", "batch", 64)])
    with pytest.raises(UsageError, match="fixed to sequence length 64, and 128 is asked for") as caught:
        trace_onnx(path, Workload(mode="inference", sequence_length=128))
    assert caught.value.field == "sequence_length"


def test_a_fixed_batch_is_refused(tmp_path: Path) -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path / "m.onnx", relu, [floats("x", 8, 3, 32, 32)], [floats("y", 8, 3, 32, 32)])
    with pytest.raises(UsageError, match="'x' is fixed to a batch of 8"):
        trace_onnx(path)


def test_a_cache_is_empty_before_the_first_token(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["f"], to=1),
        helper.make_node("Concat", ["past", "f"], ["present"], axis=1),
    ]
    inputs = [ids("ids", "batch_size", "sequence_length"), floats("past", "batch_size", "past_sequence_length")]
    mask = ids("mask", "batch_size", "past_sequence_length + sequence_length")
    path = save(tmp_path / "m.onnx", nodes, [*inputs, mask], [floats("present", "batch_size", "total")])
    found = trace_onnx(path)
    assert found["workload"]["sequence_length"] == 128
    assert [row["write_elements"] for row in found["operators"]] == [128, 128]
    assert found["model"]["category"] == "text_generation"


def test_training_is_not_in_a_file(export: Export) -> None:
    with pytest.raises(UnsupportedWorkload, match="forward pass alone"):
        trace_onnx(export(nn.Linear(8, 8), torch.zeros(1, 8)), Workload(mode="training"))


def test_a_file_cannot_be_measured_and_says_what_it_can(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match="traced and predicted, not measured"):
        resolve(str(tmp_path / "m.onnx"))


def test_the_trace_needs_no_torch(export: Export) -> None:
    path = export(nn.Linear(8, 8), torch.zeros(1, 8))
    code = (
        "import json, sys; from pathlib import Path; from runner.tracing.onnx_trace import trace_onnx;"
        f"found = trace_onnx(Path({str(path)!r})); assert 'torch' not in sys.modules; print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["totals"]["flops"] == 2 * 8 * 8

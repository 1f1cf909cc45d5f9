"""Quantization for OpenVINO by NNCF, before or during a training, and for torch by torchao when a checkpoint is loaded."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from domain.errors import AssayError, UnsupportedWorkload
from runner.compression.contract import Made, MadeForm, OnStep, Work
from runner.compression.examples import Tensors, example_inputs, tensors_of
from runner.compression.exporting import (
    Flat,
    flat_module,
    openvino_graph,
    quiet_tools,
    save_checkpoint,
    save_openvino,
    tool_versions,
)
from runner.compression.training import label_loss, train
from runner.platforms import torch_precision
from runner.platforms.openvino import quantized

__all__ = ["compress_weights", "quantize_at_load", "quantize_openvino", "search_mixed", "train_quantized"]

_COMPILING_S = 600

_ROUNDING = 0.1
"""How far a graph that rounds to int8 may be from the same one in torch: values beside a step fall to either side."""
_TOOLS = ("nncf", "openvino", "torch", "transformers")


def quantize_openvino(work: Work, on_step: OnStep) -> Made:
    """Quantize weights and activations after training, with ranges that NNCF takes from the examples."""
    import nncf

    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"])
    graph, notes = _recorded(work, tensors, on_step)
    items = list(_arrays(tensors, settings["subset"], work.seed))
    on_step("calibrating and quantizing", None)
    with quiet_tools():
        graph = nncf.quantize(graph, nncf.Dataset(items), **_nncf_options(settings, len(items)))
    counts = _quantized_layers(graph, work)
    on_step("writing OpenVINO's form", None)
    save_openvino(graph, work.folder / "openvino")
    return _made(work, settings | counts, _openvino("int8", "nncf.quantize"), len(items), notes)


def _recorded(work: Work, tensors: Tensors | None, on_step: OnStep) -> tuple[Any, tuple[str, ...]]:
    on_step("converting to OpenVINO", None)
    return openvino_graph(flat_module(work.built.module, example_inputs(work, tensors)))


def _arrays(tensors: Tensors, count: int, seed: int) -> Iterator[dict[str, Any]]:
    for inputs in tensors.one_by_one(count, seed):
        yield {name: tensor.numpy() for name, tensor in inputs.items()}


def _nncf_options(settings: dict[str, Any], subset: int) -> dict[str, Any]:
    import nncf

    types = settings["ignored_types"]
    return {
        "preset": nncf.QuantizationPreset(settings["preset"]),
        "subset_size": subset,
        "model_type": nncf.ModelType(settings["model_type"]) if settings.get("model_type") else None,
        "fast_bias_correction": settings.get("fast_bias_correction", True),
        "ignored_scope": nncf.IgnoredScope(types=types, validate=False) if types else None,
    }


def _multiplying(graph: Any) -> list[Any]:
    """Return the layers of a graph that multiply with weights."""
    kinds = {"MatMul", "Convolution", "GroupConvolution"}
    return [node for node in graph.get_ops() if node.get_type_name() in kinds and _weight(node) is not None]


def _weight(node: Any) -> Any:
    """Return what a layer's weights come out of: a constant, or the operator that widens a quantized one."""
    port = node.input_value(1).get_node()
    seen = port
    while seen.get_input_size() and seen.get_type_name() in {
        "Convert", "FakeQuantize", "Multiply", "Subtract", "Reshape", "Transpose"
    }:  # fmt: skip
        seen = seen.input_value(0).get_node()
    return port if seen.get_type_name() == "Constant" else None


def _wide(graph: Any) -> list[str]:
    """Return the names of layers whose weights are constants of more than eight bits."""
    wide = []
    for node in _multiplying(graph):
        seen = node.input_value(1).get_node()
        while seen.get_input_size():
            seen = seen.input_value(0).get_node()
        if seen.get_output_element_type(0).bitwidth > 8:
            wide.append(node.get_friendly_name())
    return sorted(wide)


def _quantized_layers(graph: Any, work: Work) -> dict[str, Any]:
    """Return how many layers there are and how many of them have narrow weights; raises UnsupportedWorkload where none has."""
    total, wide = len(_multiplying(graph)), len(_wide(graph))
    if total == wide:
        raise UnsupportedWorkload(
            f"NNCF quantized none of the {total} layers of {work.built.id} that have weights.",
            field="recipe",
            remedy="Take a recipe that prunes (prune-50).",
        )
    return {"layers": total, "quantized_layers": total - wide}


def _openvino(precision: str, quantization: str) -> MadeForm:
    return MadeForm(kind="openvino", precision=precision, folder="openvino", quantization=quantization)


def _made(work: Work, parameters: dict[str, Any], form: MadeForm, used: int, notes: tuple[str, ...]) -> Made:
    parameters = {"seed": work.seed} | parameters
    return Made(forms=(form,), parameters=parameters, tools=tool_versions(*_TOOLS), used=used, notes=notes)


def search_mixed(work: Work, on_step: OnStep) -> Made:
    """Quantize, and take back to fp32 the layers that cost most on the examples until the rest costs less than the limit.

    NNCF ranks the layers by the outputs of each one taken back alone. With labels the limit is on accuracy, else on the
    mean cosine similarity to the outputs in fp32.
    """
    import nncf

    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"])
    graph, notes = _recorded(work, tensors, on_step)
    chosen = tensors.choice(settings["subset"], work.seed)
    items = [tensors.rows(slice(index, index + 1)) | {"row": index} for index in chosen]
    validate, limit = _validation(work, tensors, settings, chosen)
    options = _nncf_options(settings, len(items))
    dataset = nncf.Dataset(items, lambda item: {name: item[name].numpy() for name in tensors.inputs})
    on_step("searching for the layers that stay wide", None)
    with quiet_tools():
        graph = nncf.quantize_with_accuracy_control(
            graph,
            dataset,
            dataset,
            validate,
            max_drop=limit,
            drop_type=nncf.DropType.ABSOLUTE,
            advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(
                ranking_subset_size=min(settings["ranking_subset"], len(items)), num_ranking_workers=1
            ),
            **options,
        )
    wide = _wide(graph)
    measured = {"layers": len(_multiplying(graph)), "wide_layers": wide}
    if len(wide) == measured["layers"]:
        raise UnsupportedWorkload(
            "no layer can be quantized without passing the limit.",
            field="max_accuracy_drop" if tensors.targets is not None else "max_cosine_drop",
            remedy=f"Raise it above {limit}.",
        )
    on_step("writing OpenVINO's form", None)
    save_openvino(graph, work.folder / "openvino")
    criterion = {"criterion": "accuracy" if tensors.targets is not None else "cosine"}
    form = _openvino("int8", "nncf.quantize_with_accuracy_control")
    return _made(work, settings | measured | criterion, form, len(items), notes)


def _validation(
    work: Work, tensors: Tensors, settings: dict[str, Any], chosen: list[int]
) -> tuple[Callable[..., Any], float]:
    """Return what NNCF calls with a model and examples to judge it by, and how far that may fall."""
    if tensors.targets is not None and not tensors.targets.is_floating_point():
        labels = tensors.targets

        def accuracy(model: Any, data: Any) -> tuple[float, list[float]]:
            scores = []
            for item in data:
                outputs = model({name: item[name].numpy() for name in tensors.inputs})
                answer = torch.from_numpy(np.asarray(outputs[0])).argmax(-1)
                scores.append(float((answer == labels[item["row"]]).float().mean()))
            return float(np.mean(scores)), scores

        return accuracy, float(settings["max_accuracy_drop"])
    flat = flat_module(work.built.module, example_inputs(work, tensors))
    with torch.no_grad():
        expected = {i: flat.module(*tensors.rows(slice(i, i + 1)).values())[0].flatten() for i in chosen}

    def cosine(model: Any, data: Any) -> tuple[float, list[float]]:
        scores = []
        for item in data:
            outputs = model({name: item[name].numpy() for name in tensors.inputs})
            answer = torch.from_numpy(np.asarray(outputs[0])).flatten()
            scores.append(float(torch.nn.functional.cosine_similarity(answer, expected[item["row"]], dim=0)))
        return float(np.mean(scores)), scores

    return cosine, float(settings["max_cosine_drop"])


def train_quantized(work: Work, on_step: OnStep) -> Made:
    """Train with int8 rounding in the forward pass (NNCF's quantizers in torch), then convert to OpenVINO's int8."""
    import nncf

    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"])
    flat = flat_module(copy.deepcopy(work.built.module), example_inputs(work, tensors))
    _require_logits(flat, tensors)
    items = [tuple(inputs.values()) for inputs in tensors.one_by_one(settings["subset"], work.seed)]
    options = _nncf_options(settings, len(items))
    # The training itself corrects what these corrections of a quantization without training are for.
    options["advanced_parameters"] = nncf.AdvancedQuantizationParameters(
        disable_bias_correction=True,
        smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(convolution=-1, matmul=-1),
    )
    # The first use compiles an extension of NNCF's, for which a minute is not enough on a busy machine.
    os.environ.setdefault("NNCF_EXTENSION_LOAD_TIMEOUT", str(_COMPILING_S))
    on_step("placing quantizers", None)
    with quiet_tools():
        module = nncf.quantize(flat.module, nncf.Dataset(items), **options)
    place = flat.outputs.index("logits")

    def batch_loss(batch: Any) -> Any:
        return label_loss(module(*tensors.rows(batch).values())[place], tensors.targets[batch])

    with quiet_tools():
        trained = train(
            module, batch_loss, tensors.size, settings, seed=work.seed, what="training in int8", on_step=on_step
        )
        module = nncf.strip(module, example_input=tuple(flat.inputs.values()))
    on_step("converting to OpenVINO", None)
    with quiet_tools():
        graph, notes = openvino_graph(Flat(module, flat.inputs, flat.outputs), tolerance=_ROUNDING)
        graph = _narrow(graph)
    counts = _quantized_layers(graph, work)
    save_openvino(graph, work.folder / "openvino")
    form = _openvino("int8", "nncf.quantize, trained")
    return _made(work, settings | counts | trained.parameters(), form, tensors.size, notes)


def _require_logits(flat: Flat, tensors: Tensors) -> None:
    """Refuse before any work a model from whose outputs labels give no loss."""
    with torch.no_grad():
        outputs = dict(zip(flat.outputs, flat.module(*flat.inputs.values()), strict=True))
    label_loss(outputs.get("logits"), tensors.targets[: len(next(iter(flat.inputs.values())))])


def _narrow(graph: Any) -> Any:
    """Return the graph with weights stored in the eight bits to which the training rounded them."""
    from nncf.openvino.quantization.quantize_model import compress_quantize_weights_transformation

    compress_quantize_weights_transformation(graph)
    return graph


def compress_weights(work: Work, on_step: OnStep) -> Made:
    """Write weights in int4 groups for OpenVINO, and a checkpoint that torch quantizes to int4 at load; each where it can be."""
    forms = work.recipe.forms
    made: list[MadeForm] = []
    notes: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    if "openvino" in forms:
        graph, notes = _recorded(work, None, on_step)
        on_step("compressing weights", None)
        with quiet_tools():
            graph = quantized(graph, "int4", "generation", ())
        bits = Counter(str(node.get_element_type().get_type_name()) for node in _constants(graph))
        if not bits.keys() & {"i4", "u4"}:
            raise UnsupportedWorkload(
                f"NNCF keeps the weights of {work.built.id} in eight bits: it packs only matrices in four.",
                field="recipe",
                remedy="Take int8-ptq, which quantizes convolutions too.",
            )
        parameters = {"group_size": _group_size(graph), "weights": dict(sorted(bits.items()))}
        save_openvino(graph, work.folder / "openvino")
        made.append(_openvino("int4", "nncf.compress_weights int4_sym"))
    if "checkpoint" in forms:
        try:
            parameters |= _tried_at_load(work, on_step)
        except AssayError as error:
            if not made:
                raise
            notes = (*notes, f"No checkpoint for torch: {error.detail}")
        else:
            save_checkpoint(work.built.module, work.folder / "checkpoint")
            made.append(_at_load(work))
    return Made(forms=tuple(made), parameters=parameters, tools=tool_versions(*_TOOLS, "torchao"), notes=notes)


def _constants(graph: Any) -> list[Any]:
    """Return the constants of two dimensions or more with over 1,000 values: the weights."""
    return [
        node
        for node in graph.get_ops()
        if node.get_type_name() == "Constant"
        and len(node.get_output_shape(0)) > 1
        and int(np.prod(node.get_output_shape(0))) > 1000
    ]


def _group_size(graph: Any) -> int | None:
    narrow = [node for node in _constants(graph) if node.get_element_type().get_type_name() in ("i4", "u4")]
    return int(narrow[0].get_output_shape(0)[-1]) if narrow else None


def quantize_at_load(work: Work, on_step: OnStep) -> Made:
    """Write a checkpoint that torch's platforms quantize when they load it, after trying that on a copy."""
    parameters = _tried_at_load(work, on_step)
    on_step("writing the checkpoint", None)
    save_checkpoint(work.built.module, work.folder / "checkpoint")
    tools = tool_versions("torch", "torchao", "transformers")
    return Made(forms=(_at_load(work),), parameters=parameters, tools=tools)


def _at_load(work: Work) -> MadeForm:
    names = {"int8": "torchao.Int8DynamicActivationInt8Weight at load", "int4": "torchao int4 weights at load"}
    precision = work.recipe.precision
    return MadeForm(kind="checkpoint", precision=precision, folder="checkpoint", quantization=names[precision])


def _tried_at_load(work: Work, on_step: OnStep) -> dict[str, Any]:
    """Quantize a copy as a platform will, run it, and return what was done; raises UnsupportedPrecision where it cannot be."""
    precision = work.recipe.precision
    on_step(f"trying {precision} at load", None)
    dtype = getattr(torch, torch_precision.DTYPES[precision])
    inputs = example_inputs(work)
    inputs = {name: each.to(dtype) if each.is_floating_point() else each for name, each in inputs.items()}
    with quiet_tools(), torch.no_grad():
        module = copy.deepcopy(work.built.module).to(dtype)
        before = {id(each): each.data_ptr() for each in module.parameters()}
        options = torch_precision.quantize(module, precision, "cpu")
        module(**inputs)
    layers = [each for each in module.modules() if isinstance(each, torch.nn.Linear)]
    changed = sum(type(layer.weight.data) is not torch.Tensor or id(layer.weight) not in before for layer in layers)
    return options | {"linear_layers": len(layers), "quantized_layers": changed}

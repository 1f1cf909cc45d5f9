"""Write a compressed module down: as a checkpoint, as OpenVINO's graph, as an ONNX graph; the batch stays free."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from domain.errors import UnsupportedWorkload
from runner.models.quiet import quiet
from runner.platforms.openvino_recording import recorded, settled
from runner.platforms.outputs import FlatOutputs, flatten

__all__ = [
    "FLOAT32",
    "RESULT",
    "Flat",
    "flat_module",
    "free_dimensions",
    "free_shapes",
    "openvino_graph",
    "quiet_tools",
    "save_checkpoint",
    "save_onnx",
    "save_openvino",
    "strip_metadata",
    "tool_versions",
    "write_onnx",
]

RESULT = "result/"
"""Before the names of outputs, as the platforms have it: a graph has each name once."""
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}
_NUMBERED = re.compile(r"^[A-Za-z0-9]+_\d+$")
_TOLERANCE = 1e-3


class Flat(NamedTuple):
    """A module that takes tensors by position and returns a tuple, the inputs by name, and the names of its outputs."""

    module: Any
    inputs: dict[str, Any]
    outputs: list[str]


def flat_module(module: Any, inputs: Mapping[str, Any]) -> Flat:
    """Return the module with its inputs in a fixed order, as graphs are recorded from it."""
    with torch.no_grad():
        free, fixed = settled(module, inputs)
        names = [name for name, _ in flatten(module(**inputs))]
    return Flat(FlatOutputs(module, list(free), fixed).eval(), free, names)


def free_dimensions(tensor: Any) -> tuple[int, ...]:
    """Return which dimensions of an input stay free: the batch, and the length of a text (whole numbers in two dimensions)."""
    return (0, 1) if tensor.ndim == 2 and not tensor.is_floating_point() else (0,)


def free_shapes(inputs: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the shape of each input, -1 for a free dimension."""
    return {
        name: [-1 if index in free_dimensions(tensor) else size for index, size in enumerate(tensor.shape)]
        for name, tensor in inputs.items()
    }


def openvino_graph(flat: Flat, tolerance: float = _TOLERANCE) -> tuple[Any, tuple[str, ...]]:
    """Return OpenVINO's fp32 graph of the module and notes on its shapes.

    Batch and text length stay free where the graph then gives what the module gives, within `tolerance` of its norm; else
    the shapes are those of the inputs.
    """
    with torch.no_grad(), warnings.catch_warnings(), quiet():
        # Tracing warns of branches that are fixed on purpose.
        warnings.simplefilter("ignore")
        graph = recorded(flat.module, tuple(flat.inputs.values()))
    ports = list(graph.inputs)
    if len(ports) != len(flat.inputs):
        raise UnsupportedWorkload(
            f"the conversion to OpenVINO kept {len(ports)} of {len(flat.inputs)} inputs.",
            field="recipe",
            remedy="Leave inputs that the model does not read out of the examples, or take a recipe of another form.",
        )
    for port, name in zip(ports, flat.inputs, strict=True):
        port.get_node().set_friendly_name(name)
        port.get_tensor().set_names({name})
    for port, name in zip(graph.outputs, flat.outputs, strict=True):
        port.get_node().set_friendly_name(RESULT + name)
    shapes = free_shapes(flat.inputs)
    graph.reshape(dict(zip(ports, shapes.values(), strict=True)))
    if _agrees(graph, flat, tolerance):
        return graph, ()
    graph.reshape({port: list(tensor.shape) for port, tensor in zip(ports, flat.inputs.values(), strict=True)})
    sizes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in flat.inputs.items())
    return graph, (f"The graph takes no other batch or length than {sizes}: with free shapes its outputs differ.",)


def _agrees(graph: Any, flat: Flat, tolerance: float) -> bool:
    """Return whether the graph gives the module's outputs for one example and for three."""
    import openvino as ov

    for rows in ([0], [0, 0, 0]):
        inputs = {name: tensor[rows] for name, tensor in flat.inputs.items()}
        with torch.no_grad():
            expected = flat.module(*inputs.values())
        try:
            compiled = ov.Core().compile_model(graph, "CPU", FLOAT32)
            actual = compiled({name: tensor.numpy() for name, tensor in inputs.items()})
        except RuntimeError:
            return False
        for index, tensor in enumerate(expected):
            given = torch.from_numpy(actual[index].copy())
            if given.shape != tensor.shape or float((given - tensor).norm()) > tolerance * float(tensor.norm()):
                return False
    return True


def save_openvino(graph: Any, folder: Path) -> None:
    """Write model.xml and model.bin; numbers that OpenVINO counts up in a process are replaced, so that bytes repeat."""
    import openvino as ov

    graph.set_friendly_name("model")
    for index, node in enumerate(graph.get_ordered_ops()):
        if _NUMBERED.match(node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{index}")
    folder.mkdir(parents=True)
    ov.save_model(graph, str(folder / "model.xml"), compress_to_fp16=False)


def save_onnx(flat: Flat, path: Path) -> tuple[str, ...]:
    """Write the module as an ONNX graph with a free batch and text length and return notes on its shapes."""
    from torch.export import Dim

    names = {"input_names": list(flat.inputs), "output_names": [RESULT + name for name in flat.outputs]}
    values = tuple(flat.inputs.values())
    shapes = tuple(dict.fromkeys(free_dimensions(tensor), Dim.AUTO) for tensor in values)
    notes: tuple[str, ...] = ()
    with torch.no_grad(), warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                flat.module, values, dynamo=True, verbose=False, dynamic_shapes={"inputs": shapes}, **names
            )
        except Exception:
            program = torch.onnx.export(flat.module, values, dynamo=True, verbose=False, **names)
            sizes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in flat.inputs.items())
            notes = (f"The graph takes no other batch or length than {sizes}: the exporter does not leave them free.",)
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(str(path))
    strip_metadata(path)
    return notes


def strip_metadata(path: Path) -> None:
    """Drop what the exporter notes of each node: stack traces with the paths of this machine."""
    import onnx

    model = onnx.load(str(path))
    del model.metadata_props[:]
    parts = [model.graph, *model.functions]
    for part in parts:
        del part.metadata_props[:]
        for item in (*part.node, *part.value_info, *(part.initializer if part is model.graph else ())):
            del item.metadata_props[:]
            item.doc_string = ""
    for item in (*model.graph.input, *model.graph.output):
        del item.metadata_props[:]
    write_onnx(model, path)


def write_onnx(model: Any, path: Path) -> None:
    """Write an ONNX model in one file, or with its weights beside it where that file would pass protobuf's 2 GB."""
    import onnx

    large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > 1_800_000_000
    onnx.save(model, str(path), save_as_external_data=large, location=f"{path.stem}.data" if large else None)


def save_checkpoint(module: Any, folder: Path) -> None:
    """Write config.json and model.safetensors as transformers does, in one file whatever their size."""
    folder.mkdir(parents=True)
    with quiet():
        module.eval().save_pretrained(folder, max_shard_size="1000GB")


def tool_versions(*packages: str) -> dict[str, str]:
    """Return the installed version of each distribution that is there."""
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package).split("+")[0]
        except PackageNotFoundError:
            continue
    return versions


@contextmanager
def quiet_tools() -> Iterator[None]:
    """Keep the bars, warnings and logs of compression tools off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

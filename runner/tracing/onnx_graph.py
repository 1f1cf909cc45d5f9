"""An ONNX graph at fixed sizes: the shape of every tensor, and which follow from the weights alone.

Nodes are taken in order and each is given the shapes that ONNX's own rules say. What follows from constants and shapes
alone is computed on the way, because later shapes depend on it. Weights are never read: only their shapes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from domain.errors import PartMissing, Untraceable, UsageError

__all__ = ["Graph", "Node", "load", "shaped", "unreadable"]

SMALL = 4096
"""Constants of at most so many elements are read and computed with: shapes, axes and scalars are among them."""
_SAME_SHAPE = (
    "BiasGelu FastGelu Gelu QuickGelu BiasDropout SkipLayerNormalization SimplifiedLayerNormalization "
    "SkipSimplifiedLayerNormalization RotaryEmbedding MultiHeadAttention"
)
_LIKE_FIRST_INPUT = frozenset(_SAME_SHAPE.split())
"""Operators of onnxruntime's own domain whose first output is shaped as their first input."""

_BODIES = frozenset({"If", "Loop", "Scan"})
"""Operators that run other operators, which are counted only where it is known which."""

Shape = tuple[int, ...]


class Node(NamedTuple):
    """One operator call: its name in the file, its domain (empty for ONNX's own), its tensors by name, its attributes."""

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"node {self.name!r} ({f'{self.domain}.' if self.domain else ''}{self.op})"


class Graph(NamedTuple):
    """The nodes that are left to compute, in order; shapes by tensor; names of the tensors that never change.

    `values` are the small constants; `weights` the elements of each stored tensor that is not an index.
    """

    nodes: tuple[Node, ...]
    shapes: Mapping[str, Shape]
    constants: frozenset[str]
    values: Mapping[str, Any]
    outputs: tuple[str, ...]
    weights: Mapping[str, int]


def load(path: Path) -> Any:
    """Return the file's model without the weights that lie outside of it.

    Raises UsageError for a file that is absent or no ONNX model, PartMissing where the package onnx is not installed.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise PartMissing(
            f"ONNX files are read with the package onnx, which cannot be imported here: {error}.",
            field="model",
            remedy="Install it beside Assay: pip install onnx.",
        ) from error
    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise unreadable(path, str(error) or type(error).__name__) from error
    if not model.graph.node or not model.opset_import:
        raise unreadable(path, "it holds no operators or names no operator set")
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    return model


def unreadable(path: Path, reason: str) -> UsageError:
    """Return the error for a file that is no ONNX model, or a damaged one."""
    return UsageError(
        f"{path} cannot be read as an ONNX model: {reason.rstrip('.')}.",
        field="model",
        remedy="Export it again, or fetch the whole file; `onnx.checker.check_model` says more.",
    )


def shaped(model: Any, sizes: Mapping[str, Shape], symbols: Mapping[str, int], folder: Path) -> Graph:
    """Return the graph with every shape known, its inputs having `sizes`.

    `symbols` are the values of named dimensions, which shapes that the exporter wrote down may use; `folder` is where
    weights outside of the file lie. Raises Untraceable naming the node where a shape does not follow.
    """
    walk = _Walk(model, symbols, folder)
    for name, shape in sizes.items():
        walk.give(name, shape, _element_type(model, name))
    walk.take(model.graph.node)
    return walk.graph(tuple(value.name for value in model.graph.output))


def _element_type(model: Any, name: str) -> int:
    return next(int(value.type.tensor_type.elem_type) for value in model.graph.input if value.name == name)


class _Walk:
    """Goes through nodes in order and keeps what is known of each tensor."""

    def __init__(self, model: Any, symbols: Mapping[str, int], folder: Path) -> None:
        self.opsets = {entry.domain or "": entry.version for entry in model.opset_import}
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.types: dict[str, Any] = {}
        self.shapes: dict[str, Shape] = {"": ()}
        self.values: dict[str, Any] = {}
        self.constants: set[str] = {""}
        self.weights: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.absent: dict[str, str] = {}
        self._written = {value.name: _static(value.type, symbols) for value in model.graph.value_info}
        self._written |= {value.name: _static(value.type, symbols) for value in model.graph.output}
        self._store(model.graph.initializer, folder)

    def give(self, name: str, shape: Shape, element_type: int) -> None:
        """Note the shape of a tensor."""
        import onnx

        self.types[name] = onnx.helper.make_tensor_type_proto(element_type, shape)
        self.shapes[name] = shape

    def graph(self, outputs: tuple[str, ...]) -> Graph:
        """Return what was found."""
        return Graph(tuple(self.nodes), self.shapes, frozenset(self.constants), self.values, outputs, self.weights)

    def take(self, protos: Iterable[Any]) -> None:
        """Go through nodes in order."""
        for proto in protos:
            node = _node(proto)
            if node.op == "If" and node.inputs[0] in self.values:
                self._branch(proto, node)
            elif node.op in _BODIES and not node.domain:
                raise self._unshaped(node, "what it runs follows from the values of tensors")
            elif node.op == "Constant":
                self._constant(proto, node)
            elif node.op == "Shape" and not node.domain:
                start, end = node.attributes.get("start", 0), node.attributes.get("end")
                self._know(node, [np.array(self.shapes[node.inputs[0]][start:end], dtype=np.int64)])
            elif all(name in self.values for name in node.inputs if name) and self._compute(proto, node):
                continue
            else:
                self._shape(proto, node)

    def _store(self, tensors: Iterable[Any], folder: Path) -> None:
        import onnx

        for tensor in tensors:
            shape = tuple(int(side) for side in tensor.dims)
            self.give(tensor.name, shape, tensor.data_type)
            self.constants.add(tensor.name)
            if tensor.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.BOOL):
                self.weights[tensor.name] = prod(shape)
            if prod(shape) > SMALL:
                continue
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
                try:
                    onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
                except (OSError, onnx.checker.ValidationError):
                    self.absent[tensor.name] = location
                    continue
            self.values[tensor.name] = onnx.numpy_helper.to_array(tensor)

    def _constant(self, proto: Any, node: Node) -> None:
        """Keep a constant that stands in a node: some exporters store weights so."""
        tensor = next((entry.t for entry in proto.attribute if entry.name == "value"), None)
        if tensor is None:
            self._compute(proto, node)
            return
        named = type(tensor)()
        named.CopyFrom(tensor)
        named.name = node.outputs[0]
        self._store([named], Path())
        if prod(tensor.dims) == 1:
            self.weights.pop(named.name, None)

    def _know(self, node: Node, values: Sequence[Any]) -> None:
        import onnx

        for name, value in zip([name for name in node.outputs if name], values, strict=False):
            self.values[name] = value
            self.give(name, tuple(value.shape), onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
            self.constants.add(name)

    def _branch(self, proto: Any, node: Node) -> None:
        """Go into the branch that a condition which is known takes, and give its results the node's names."""
        wanted = "then_branch" if bool(np.all(self.values[node.inputs[0]])) else "else_branch"
        branch = next(entry.g for entry in proto.attribute if entry.name == wanted)
        self._store(branch.initializer, Path())
        self.take(branch.node)
        for output, result in zip(node.outputs, branch.output, strict=True):
            self.nodes.append(Node(node.name, "Identity", "", (result.name,), (output,), {}))
            self.types[output], self.shapes[output] = self.types[result.name], self.shapes[result.name]
            if result.name in self.constants:
                self.constants.add(output)
            if result.name in self.values:
                self.values[output] = self.values[result.name]

    def _compute(self, proto: Any, node: Node) -> bool:
        """Compute a node whose inputs are all small constants; say whether its outputs are known now."""
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        value_infos = [helper.make_value_info(name, self.types[name]) for name in dict.fromkeys(node.inputs) if name]
        wanted = [helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
        try:
            reference_evaluator = ReferenceEvaluator(
                helper.make_graph([proto], "one", value_infos, wanted), opsets=self.opsets
            )
            result = reference_evaluator.run(None, {info.name: self.values[info.name] for info in value_infos})
        except Exception:  # An operator that the reference does not have keeps its shape, and loses its values.
            return False
        arrays = [np.asarray(value) for value in result]
        if any(value.dtype == object or value.size > SMALL for value in arrays):
            return False
        self._know(node, arrays)
        return True

    def _shape(self, proto: Any, node: Node) -> None:
        for name, (shape, element_type) in self._inferred(proto, node).items():
            self.give(name, shape, element_type)
        if all(name in self.constants for name in node.inputs) and node.op not in ("RandomNormal", "RandomUniform"):
            # Every runtime computes this once, when it loads the model.
            self.constants.update(node.outputs)
        else:
            self.nodes.append(node)

    def _inferred(self, proto: Any, node: Node) -> dict[str, tuple[Shape, int]]:
        import onnx

        row: dict[str, Any] = {}
        reason = f"operator set {node.domain or 'ai.onnx'!r} has no rule for it here"
        try:
            schema = onnx.defs.get_schema(node.op, self.opsets.get(node.domain, 1), node.domain)
            data = {
                name: onnx.numpy_helper.from_array(self.values[name]) for name in node.inputs if name in self.values
            }
            types = {name: self.types[name] for name in node.inputs if name in self.types}
            row = onnx.shape_inference.infer_node_outputs(
                schema, proto, types, data, opset_imports=self.imports, ir_version=self.ir_version
            )
            reason = "it depends on the values of tensors"
        except onnx.defs.SchemaError:
            pass
        except (onnx.shape_inference.InferenceError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
        shapes: dict[str, tuple[Shape, int]] = {}
        for place, name in enumerate(node.outputs):
            document = row.get(name)
            shape = _static(document, {}) if document is not None else None
            element_type = int(document.tensor_type.elem_type) if document is not None else 1
            if shape is None:
                shape = self._written.get(name)
            if shape is None and place == 0 and node.op in _LIKE_FIRST_INPUT:
                shape = self.shapes[node.inputs[0]]
            if shape is not None:
                shapes[name] = shape, element_type
            elif name and place == 0:
                raise self._unshaped(node, reason)
        return shapes

    def _unshaped(self, node: Node, reason: str) -> Untraceable:
        away = {self.absent[name] for name in node.inputs if name in self.absent}
        if away:
            return Untraceable(
                f"the shape that {node} gives follows from values in {', '.join(sorted(away))}, which is not beside the file.",
                field="model",
                remedy="Put the file with the weights into the same folder.",
            )
        return Untraceable(
            f"the shape that {node} gives is not known: {reason.removeprefix('[ShapeInferenceError] ').rstrip('.')}.",
            field="model",
            remedy="Export the model with fixed sizes and without this step, or run onnx.shape_inference over the file.",
        )


def _node(proto: Any) -> Node:
    import onnx

    attributes = {
        entry.name: onnx.helper.get_attribute_value(entry)
        for entry in proto.attribute
        if entry.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    }
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    name = proto.name or (proto.output[0] if proto.output else "")
    return Node(name, proto.op_type, domain, tuple(proto.input), tuple(proto.output), attributes)


def _static(document: Any, symbols: Mapping[str, int]) -> Shape | None:
    """Return a shape whose sides are numbers, or names whose values are known; else None."""
    if not document.HasField("tensor_type") or not document.tensor_type.HasField("shape"):
        return None
    sides: list[int] = []
    for side in document.tensor_type.shape.dim:
        if side.HasField("dim_value"):
            sides.append(int(side.dim_value))
        elif side.dim_param in symbols:
            sides.append(symbols[side.dim_param])
        else:
            return None
    return tuple(sides)

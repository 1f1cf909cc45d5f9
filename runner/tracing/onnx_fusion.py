"""Operators that are written as several in an ONNX graph and run as one: attention, norms, activations, biases."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runner.tracing.onnx_graph import Graph, Node
from runner.tracing.operator_rows import Operator

__all__ = ["POINTWISE", "Joins", "elements"]

POINTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu "
    "Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu "
    "Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor "
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu "
    "BiasGelu FastGelu QuickGelu BiasAdd BiasDropout BiasSplitGelu RotaryEmbedding"
)
_POINTWISE = frozenset(POINTWISE.split())
_SCALING = "Add Sub Mul Div Where Cast Clip Max Min IsNaN Dropout Identity"
_BESIDE_SOFTMAX = frozenset(_SCALING.split())
"""What scales and masks scores."""
_DEEPEST = 8
"""Steps of the longest activation that is written out, GELU by tanh, and some more."""


def elements(graph: Graph, names: Sequence[str]) -> tuple[int, int]:
    """Return (activation elements, constant elements) of the distinct tensors among these."""
    distinct = [name for name in dict.fromkeys(names) if name and name in graph.shapes]
    constant = sum(prod(graph.shapes[name]) for name in distinct if name in graph.constants)
    return sum(prod(graph.shapes[name]) for name in distinct) - constant, constant


class Joins:
    """What is left of a graph's nodes, in `kept`, when those that run as one are one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(node)
        self._within: set[tuple[str, ...]] = set()
        self._rewritten: dict[tuple[str, ...], Node] = {}
        self._joined: dict[tuple[str, ...], Operator] = {}
        for node in graph.nodes:
            if node.op in ("Softmax", "QLinearSoftmax"):
                self._join(node)
            elif node.op == "Div":
                self._normalize(node)
        for node in graph.nodes:
            if node.op in ("MatMul", "MatMulInteger") and node.inputs[1] in graph.constants:
                self._take_bias(node)
            elif node.op == "Mul" and node.outputs not in self._within:
                self._activate(node)
        self.kept = [
            self._rewritten.get(node.outputs, node) for node in graph.nodes if node.outputs not in self._within
        ]

    def joined(self, node: Node) -> Operator | None:
        """Return the attention, norm or activation that ends with this node."""
        return self._joined.get(node.outputs)

    def _only_reader(self, name: str) -> Node | None:
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._graph.outputs else None

    def _take_bias(self, node: Node) -> None:
        after = self._only_reader(node.outputs[0])
        if after is None or after.op != "Add":
            return
        other = next((name for name in after.inputs if name != node.outputs[0]), "")
        if other in self._graph.constants and len(self._graph.shapes[other]) <= 1:
            self._rewritten[node.outputs] = node._replace(inputs=(*node.inputs, other), outputs=after.outputs)
            self._within.add(after.outputs)

    def _normalize(self, divided: Node) -> None:
        """Take (x − mean) ÷ √(variance + ε) with its scale and shift for one norm, as older exporters write LayerNorm."""
        inside: list[Node] = []
        name = divided.inputs[1]
        for wanted in (("Sqrt",), ("Add",), ("ReduceMean",), ("Pow", "Mul"), ("Sub",)):
            node = self._makers.get(name)
            if node is None or node.op not in wanted:
                return
            inside.append(node)
            name = next((item for item in node.inputs if item not in self._graph.constants), "")
        centred, mean = inside[-1], self._makers.get(inside[-1].inputs[1])
        alone = all(node in (divided, inside[-2]) for node in self._readers[centred.outputs[0]])
        if divided.inputs[0] != centred.outputs[0] or mean is None or mean.op != "ReduceMean" or not alone:
            return
        outputs, weights = divided.outputs, []
        for op in ("Mul", "Add"):
            after = self._only_reader(outputs[0])
            other = "" if after is None else next((item for item in after.inputs if item != outputs[0]), "")
            if after is None or after.op != op or other not in self._graph.constants:
                break
            self._within.add(after.outputs)
            outputs = after.outputs
            weights.append(other)
        size = prod(self._graph.shapes[outputs[0]])
        weight = elements(self._graph, weights)[1]
        self._joined[outputs] = Operator("onnx.norm", "norm", 0.0, size, size, weight)
        self._rewritten[divided.outputs] = divided._replace(inputs=(centred.inputs[0], *weights), outputs=outputs)
        self._within.update(node.outputs for node in (*inside, mean))

    def _activate(self, node: Node) -> None:
        """Take x · f(x) for one activation, as SiLU and GELU are written out."""
        for own, other in (node.inputs, node.inputs[::-1]):
            inside = self._of(other, own, depth=_DEEPEST)
            if inside and own not in self._graph.constants:
                size = prod(self._graph.shapes[own])
                outputs = self._scaled(node)
                self._joined[outputs] = Operator("onnx.activation", "elementwise", 0.0, size, size, 0)
                self._rewritten[node.outputs] = node._replace(inputs=(own,), outputs=outputs)
                self._within.update(part.outputs for part in inside)
                return

    def _scaled(self, node: Node) -> tuple[str, ...]:
        """Take a factor that follows into the activation, and return the outputs that it then has."""
        after = self._only_reader(node.outputs[0])
        if after is None or after.op != "Mul":
            return node.outputs
        other = next((name for name in after.inputs if name != node.outputs[0]), "")
        if other not in self._graph.constants or prod(self._graph.shapes[other]) != 1:
            return node.outputs
        self._within.add(after.outputs)
        return after.outputs

    def _of(self, name: str, own: str, depth: int) -> list[Node]:
        """Return the pointwise nodes that make one tensor of another and of single numbers alone; none if others do."""
        node = self._makers.get(name)
        fits = node is not None and node.op in _POINTWISE and self._only_reader(name) is not None
        if node is None or not fits or not depth:
            return []
        inside = [node]
        for item in node.inputs:
            if item == own or (item in self._graph.constants and prod(self._graph.shapes[item]) == 1):
                continue
            result = self._of(item, own, depth - 1)
            if not result:
                return []
            inside += result
        return inside

    def _join(self, softmax: Node) -> None:
        """Take scores, softmax and the product with the values for one attention, where that is what they are."""
        before, between = self._scores(softmax.inputs[0])
        after, beyond = self._values(softmax.outputs[0])
        if before is None or after is None:
            return
        query, query_scale = self._unscaled(before.inputs[0])
        key, key_scale = self._unscaled(before.inputs[1])
        shapes = self._graph.shapes
        rows, width = shapes[before.inputs[0]][-2:]
        value_shape, out = shapes[after.inputs[1]], shapes[after.outputs[0]]
        flops = 2.0 * prod(out[:-2]) * rows * value_shape[-2] * (width + value_shape[-1])
        masks = [
            name
            for node in between
            for name in node.inputs
            if name not in self._graph.constants and self._makers.get(name) not in (*between, before)
        ]
        inputs = [query, key, after.inputs[1], *masks]
        read, weight = elements(self._graph, inputs)
        self._joined[after.outputs] = Operator("onnx.attention", "attention", flops, read, prod(out), weight, width)
        self._rewritten[after.outputs] = after._replace(inputs=tuple(inputs))
        self._within.update(node.outputs for node in (before, softmax, *between, *beyond, *query_scale, *key_scale))

    def _scores(self, name: str) -> tuple[Node | None, list[Node]]:
        """Walk back from a softmax to the product of two activations that it is of."""
        between: list[Node] = []
        while (node := self._makers.get(name)) is not None and self._only_reader(name) is not None:
            if node.op in ("MatMul", "FusedMatMul"):
                fits = len(self._graph.shapes[name]) >= 3 and not self._constant(node.inputs[:2])
                return (node, between) if fits else (None, [])
            if node.op not in _BESIDE_SOFTMAX:
                break
            between.append(node)
            size = prod(self._graph.shapes[name])
            name = next((item for item in node.inputs if self._is_score(item, size)), "")
        return None, []

    def _is_score(self, name: str, size: int) -> bool:
        return name in self._makers and prod(self._graph.shapes[name]) == size and self._only_reader(name) is not None

    def _values(self, name: str) -> tuple[Node | None, list[Node]]:
        """Walk on from a softmax to its product with the values."""
        beyond: list[Node] = []
        while True:
            readers = self._readers.get(name, [])
            products = [node for node in readers if node.op == "MatMul" and node.inputs[0] == name]
            if len(readers) == 1 and products and products[0].inputs[1] not in self._graph.constants:
                return products[0], beyond
            # A softmax of nothing but minus infinity is put right by a test beside it.
            beyond += [node for node in readers if node.op == "IsNaN"]
            onward = [node for node in readers if node.op in _BESIDE_SOFTMAX and node.op != "IsNaN"]
            if len(onward) != 1 or len(readers) > 2:
                return None, []
            beyond.append(onward[0])
            name = onward[0].outputs[0]

    def _unscaled(self, name: str) -> tuple[str, list[Node]]:
        """Walk back through what only turns a factor around or multiplies it by one number."""
        passed: list[Node] = []
        while (node := self._makers.get(name)) is not None and self._only_reader(name) is not None:
            if node.op == "Transpose":
                name = node.inputs[0]
                continue
            others = [item for item in node.inputs[1:] if item]
            if node.op not in ("Mul", "Div") or not all(prod(self._graph.shapes[other]) == 1 for other in others):
                break
            passed.append(node)
            name = node.inputs[0]
        return name, passed

    def _constant(self, names: Sequence[str]) -> bool:
        return any(name in self._graph.constants for name in names)

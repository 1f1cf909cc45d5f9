"""What the operators of an ONNX graph do, in the classes of a trace: FLOPs, elements moved, kernel, stride, groups.

The graph is counted as runtimes run it: constants are folded, reshapes and transposes move nothing, a bias belongs to
its matrix product, and a matrix product, softmax and matrix product in a row are one attention, as in a torch trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from runner.tracing.onnx_fusion import POINTWISE, Joins, elements
from runner.tracing.onnx_graph import Graph, Node
from runner.tracing.operator_rows import Operator

__all__ = ["Counted", "count"]

_NAMES = {
    "softmax": "Softmax LogSoftmax Hardmax QLinearSoftmax",
    "norm": (
        "LayerNormalization BatchNormalization InstanceNormalization GroupNormalization RMSNormalization LRN "
        "LpNormalization MeanVarianceNormalization SimplifiedLayerNormalization SkipLayerNormalization "
        "SkipSimplifiedLayerNormalization EmbedLayerNormalization GroupNorm SkipGroupNorm"
    ),
    "elementwise": POINTWISE,
    "reduce": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare ArgMax ArgMin AveragePool MaxPool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool TopK "
        "CumSum CumProd QLinearAveragePool QLinearGlobalAveragePool"
    ),
    "copy": (
        "Concat QLinearConcat Pad GatherElements GatherND Scatter ScatterElements ScatterND Tile Resize Upsample "
        "DepthToSpace SpaceToDepth Cast CastLike OneHot ConstantOfShape Range Trilu EyeLike ReverseSequence Compress "
        "Col2Im CenterCropPad RandomNormalLike RandomUniformLike"
    ),
}
_CLASS_OF = {name: op_class for op_class, names in _NAMES.items() for name in names.split()}
_RENAMING = (
    "Reshape Flatten Squeeze Unsqueeze Identity Transpose Slice Split Expand Dropout Shape Size Constant "
    "SequenceAt SplitToSequence SequenceConstruct Optional OptionalGetElement"
)
_VIEWS = frozenset(_RENAMING.split())
"""What renames memory: kernels read it in place, or the runtime leaves it out."""
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "FusedConv": 1, "NhwcConv": 1, "ConvTranspose": 1}
"""Where the weights of a convolution stand among its inputs."""
_PRODUCTS = {
    "MatMul": (0, 1),
    "Gemm": (0, 1),
    "FusedMatMul": (0, 1),
    "MatMulInteger": (0, 1),
    "QLinearMatMul": (0, 3),
    "QGemm": (0, 3),
    "FusedGemm": (0, 1),
    "MatMulIntegerToFloat": (0, 1),
    "DynamicQuantizeMatMul": (0, 1),
}
"""Where the two factors of a matrix product stand among its inputs."""
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ATTENTIONS = frozenset({"Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"})


class Counted(NamedTuple):
    """Operators with their numbers of calls, the most elements that live at once, and the operators not understood."""

    operators: Mapping[Operator, int]
    peak_activation_elements: int
    unknown: tuple[str, ...]


def count(graph: Graph) -> Counted:
    """Return what one call of the graph does."""
    plan = Joins(graph)
    counter: Counter[Operator] = Counter()
    unknown: dict[str, None] = {}
    for node in plan.kept:
        if node.op in _VIEWS:
            continue
        operator = plan.joined(node) or _operator(graph, node)
        counter[operator] += 1
        if operator.op_class == "other":
            unknown[f"{node.domain}.{node.op}" if node.domain else node.op] = None
    return Counted(dict(counter), _peak(graph, plan.kept), tuple(unknown))


def _operator(graph: Graph, node: Node) -> Operator:
    read, weight = elements(graph, node.inputs)
    outputs = node.outputs[:1] if _CLASS_OF.get(node.op) == "norm" else node.outputs
    written = sum(prod(graph.shapes[name]) for name in outputs if name in graph.shapes and name)
    name = f"onnx.{node.op}"
    if node.op in _CONVOLUTIONS:
        return _convolution(graph, node, Operator(name, "conv", 0.0, read, written, weight))
    if node.op == "Gather":
        return _lookup(graph, node, Operator(name, "copy", 0.0, read, written, weight))
    op_class, flops, inner = _arithmetic(graph, node)
    if op_class == "reduce" and written:
        inner = max(prod(graph.shapes[item]) for item in node.inputs if item) // written
    return Operator(name, op_class, flops, read, written, weight, inner)


def _arithmetic(graph: Graph, node: Node) -> tuple[str, float, int | None]:
    """Return class, FLOPs and inner length of what is no convolution."""
    shapes = graph.shapes
    if node.op in _PRODUCTS:
        left, right = (node.inputs[place] for place in _PRODUCTS[node.op])
        across = node.op in ("Gemm", "FusedGemm", "QGemm") and node.attributes.get("transA", 0)
        inner = shapes[left][0 if across else -1]
        linear = right in graph.constants or len(shapes[right]) <= 2
        return "mm" if linear else "bmm", 2.0 * prod(shapes[node.outputs[0]]) * inner, inner
    if node.op in _GATES:
        steps, items, width = shapes[node.inputs[0]]
        directions, rows, _ = shapes[node.inputs[1]]
        hidden = rows // _GATES[node.op]
        return "mm", 2.0 * steps * items * directions * rows * (width + hidden), width + hidden
    if node.op == "Einsum":
        return _einsum(graph, node)
    if node.op in _ATTENTIONS:
        return _fused_attention(graph, node)
    return _CLASS_OF.get(node.op, "other"), 0.0, None


def _einsum(graph: Graph, node: Node) -> tuple[str, float, int | None]:
    equation = node.attributes["equation"].decode().replace(" ", "")
    terms, _, out = equation.partition("->")
    sides: dict[str, int] = {}
    for term, name in zip(terms.split(","), node.inputs, strict=True):
        if "." in term:
            return "other", 0.0, None
        sides |= dict(zip(term, graph.shapes[name], strict=True))
    inner = prod(side for letter, side in sides.items() if letter not in out)
    linear = any(name in graph.constants for name in node.inputs)
    return "mm" if linear else "bmm", 2.0 * prod(sides.values()), inner


def _fused_attention(graph: Graph, node: Node) -> tuple[str, float, int | None]:
    """FLOPs of an attention that the file holds as one operator; that of onnxruntime projects its input as well."""
    shapes = [graph.shapes[name] for name in node.inputs]
    if node.op in ("Attention", "QAttention") and node.domain == "com.microsoft":
        (items, rows, width), (_, packed) = shapes[0], shapes[1]
        hidden = packed // 3
        projected = 2.0 * items * rows * width * packed
        return "attention", projected + 4.0 * items * rows * rows * hidden, hidden // _heads(node, "num_heads")
    query, key, value = shapes[0], shapes[1], shapes[2]
    columns = key[-2]
    if len(query) == 3:
        return "attention", 2.0 * prod(query) * columns * (1 + value[-1] / key[-1]), query[-1] // _heads(node)
    return "attention", 2.0 * prod(query[:-1]) * columns * (query[-1] + value[-1]), query[-1]


def _heads(node: Node, first: str = "q_num_heads") -> int:
    return int(node.attributes.get(first) or node.attributes.get("num_heads") or 1)


def _convolution(graph: Graph, node: Node, plain: Operator) -> Operator:
    weight = graph.shapes[node.inputs[_CONVOLUTIONS[node.op]]]
    source, out = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    kernel = weight[2:]
    groups, channels = int(node.attributes.get("group", 1)), source[1]
    if groups > 1:
        op_class = "depthwise" if groups == channels else "grouped"
    else:
        op_class = "conv1x1" if all(side == 1 for side in kernel) else "conv"
    spread = out if node.op != "ConvTranspose" else source
    stride = max(node.attributes.get("strides", [1]))
    return plain._replace(
        op_class=op_class,
        flops=2.0 * prod(spread) * weight[1] * prod(kernel),
        inner=channels // groups * prod(kernel),
        kernel=max(kernel),
        stride=int(stride),
        groups=groups,
    )


def _lookup(graph: Graph, node: Node, plain: Operator) -> Operator:
    """A lookup reads the rows it takes, not the table; in a table of weights it is an embedding."""
    table, indexes = node.inputs[:2]
    taken = prod(graph.shapes[node.outputs[0]])
    read, weight = elements(graph, [indexes])
    op_class = "embedding" if table in graph.constants and len(graph.shapes[table]) == 2 else "copy"
    return plain._replace(op_class=op_class, read_elements=read + taken, weight_elements=weight)


def _peak(graph: Graph, kept: Sequence[Node]) -> int:
    """Return the most activation elements that live at once: from the node that writes them to the last that reads."""
    owner = _owners(graph, kept)
    last: dict[str, int] = {}
    for place, node in enumerate(kept):
        last |= {owner[name]: place for name in (*node.inputs, *node.outputs) if name in owner}
    last |= {owner[name]: len(kept) for name in graph.outputs if name in owner}
    made = {name for node in kept for name in node.outputs}
    live = {name: prod(graph.shapes[name]) for name in set(owner.values()) if name not in made}
    peak = sum(live.values())
    for place, node in enumerate(kept):
        live |= {name: prod(graph.shapes[name]) for name in node.outputs if owner.get(name) == name}
        peak = max(peak, sum(live.values()))
        for name in [name for name in live if last[name] <= place]:
            del live[name]
    return peak


def _owners(graph: Graph, kept: Sequence[Node]) -> dict[str, str]:
    """Return the tensor whose memory each one lies in: what a view gives lies in what it was given."""
    owner: dict[str, str] = {}
    for node in kept:
        for name in (*node.inputs, *node.outputs):
            if name in graph.constants or name not in graph.shapes or name in owner:
                continue
            viewed = name in node.outputs and node.op in _VIEWS and node.inputs and node.inputs[0] in owner
            owner[name] = owner[node.inputs[0]] if viewed else name
    return owner

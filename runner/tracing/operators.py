"""What one call does, operator by operator, seen by running it on torch's meta device."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from runner.tracing.operator_rows import Operator, rows_of

__all__ = ["STOPPED_AT", "Recorder"]

STOPPED_AT = "while tracing operator "
"""How the note on an error begins that names the operator which raised it."""

_NAMES = {
    "mm": "mm addmm linear mv addmv dot _int_mm _grouped_mm",
    "bmm": "bmm baddbmm",
    "softmax": "_softmax _log_softmax _safe_softmax _softmax_backward_data _log_softmax_backward_data",
    "norm": (
        "native_layer_norm native_batch_norm native_group_norm cudnn_batch_norm _fused_rms_norm "
        "_native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update "
        "native_layer_norm_backward native_batch_norm_backward native_group_norm_backward "
        "_fused_rms_norm_backward batch_norm_backward"
    ),
    "embedding": "embedding _embedding_bag _embedding_bag_forward_only embedding_dense_backward",
    "elementwise": (
        "floor_divide floor_divide_ hardswish hardswish_ mish_ prelu _prelu_kernel glu log_sigmoid_forward dropout "
        "_weight_norm_interface _weight_norm_interface_backward native_dropout native_dropout_backward glu_backward "
        "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward"
    ),
    "reduce": (
        "mean sum amax amin aminmax max min var var_mean std std_mean prod any all argmax argmin cumsum cumprod "
        "_is_all_true _is_any_true equal topk sort linalg_vector_norm norm logsumexp "
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d "
        "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d"
    ),
    "copy": (
        "clone copy_ _to_copy cat stack constant_pad_nd roll index index_put index_put_ gather scatter scatter_ "
        "index_select _unsafe_index repeat repeat_interleave flip fill_ zero_ im2col col2im tril triu contiguous "
        "masked_scatter masked_scatter_ slice_scatter select_scatter pixel_shuffle pixel_unshuffle channel_shuffle "
        "reflection_pad1d reflection_pad2d replication_pad2d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "arange zeros ones full eye linspace scalar_tensor zeros_like ones_like full_like new_zeros new_ones new_full"
    ),
}
_CLASS_OF = {name: op_class for op_class, names in _NAMES.items() for name in names.split()}
"""By name; convolutions go by their shapes, and what torch calls pointwise is elementwise."""
_CONVOLUTIONS = frozenset({"convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution"})
_TABLE_LOOKUPS = frozenset({"embedding", "index", "_unsafe_index", "index_select", "gather"})
_ALLOCATIONS = (
    "empty empty_like empty_strided new_empty new_empty_strided _unsafe_view _reshape_alias lift_fresh alias detach "
    "sym_size sym_stride sym_numel is_same_size resize_ set_ as_strided_ unsafe_split unsafe_split_with_sizes "
    "unsafe_chunk _has_compatible_shallow_copy_type _assert_async _local_scalar_dense"
)
_NO_WORK = frozenset(_ALLOCATIONS.split())
"""What allocates or renames memory and moves none; views are known by their schema."""


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Counts the operators that run while it is active.

    Enter it (with `recording()`) around one forward call of a module whose parameters lie on the meta device.
    Integer inputs may be real: they are computed with as long as they stay among themselves, so that shapes
    which follow from values (image grids, token positions) come out right.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        """Take the parameters and buffers of `module` for its weights."""
        super().__init__()
        self._module = module
        self.counts: dict[Operator, int] = {}
        self.peak_activation_elements = 0
        self.stopped_at: str | None = None
        self._live_elements = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._constants: weakref.WeakSet[Any] = weakref.WeakSet()
        self._exceptions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._writers: weakref.WeakKeyDictionary[Any, list[Operator]] = weakref.WeakKeyDictionary()
        self._sizes: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._weights = [t.untyped_storage() for t in (*module.parameters(), *module.buffers())]
        self._constants.update(self._weights)

    @contextmanager
    def recording(self, *, gradients: bool = False) -> Iterator[Recorder]:
        """Record what runs inside, scaled-dot-product attention as one operator. Not for use from two threads.

        With `gradients` the backward pass may run inside as well. What it writes into the gradients of parameters
        counts among the elements that do not grow with the batch, and not among the activations.
        """
        functional: Any = torch.nn.functional
        original = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = self._attend
        hooks = [
            parameter.register_post_accumulate_grad_hook(self._settle)
            for parameter in self._module.parameters()
            if gradients and parameter.requires_grad
        ]
        try:
            # In inference mode composite operators would arrive whole: aten.conv2d, aten.linear.
            with torch.inference_mode(False), torch.set_grad_enabled(gradients), self:
                yield self
        except Exception as error:
            if self.stopped_at:
                error.add_note(f"{STOPPED_AT}{self.stopped_at}")
            raise
        finally:
            functional.scaled_dot_product_attention = original
            for hook in hooks:
                hook.remove()

    def rows(self) -> list[dict[str, Any]]:
        """Every operator in order of first appearance."""
        return rows_of(self.counts)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and note what it moved."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense" and args[0].is_meta and args[0].dtype == torch.bool:
            # Masks are all ones and values finite here: what asks whether all are hears yes, whether any is not, no.
            return args[0].untyped_storage() not in self._exceptions
        if name == "_to_copy":
            # Real integers stay real, so that shapes may follow from them; meta tensors have nothing to copy out.
            kwargs = {**kwargs, "device": args[0].device}
        elif name in ("index", "index_put", "index_put_"):
            args = (args[0], _positions(args[1]), *args[2:])
        args, kwargs = _on_one_device(args, kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.stopped_at = f"aten.{name}"
            raise
        outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        if name == "any":
            self._exceptions.update(t.untyped_storage() for t in outputs)
        if name not in _NO_WORK and not func.is_view:
            inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            self._track([t for t in inputs if not self._is_constant(t)])
            self._note(func, name, args, inputs, outputs)
        self._track(outputs)
        return result

    def _note(self, func: Any, name: str, args: Any, inputs: list[Any], outputs: list[Any]) -> None:
        constant = [self._is_constant(t) for t in inputs]
        op_class, flops, inner, shape = _cost(func, name, args, inputs, outputs)
        # Norms also give back their statistics, which inference kernels do not store.
        forward_norm = op_class == "norm" and not name.endswith("_backward")
        write = _distinct(outputs[0]) if forward_norm else sum(_distinct(t) for t in outputs)
        if name in _TABLE_LOOKUPS and outputs:
            # A lookup reads the rows it takes, not the table.
            table_read = outputs[0].numel()
            others = [(t, c) for t, c in zip(inputs[1:], constant[1:], strict=True)]
            read = sum(_distinct(t) for t, c in others if not c) + (0 if all(constant) else table_read)
            weight = sum(_distinct(t) for t, c in others if c) + (table_read if all(constant) else 0)
        else:
            read = sum(_distinct(t) for t, c in zip(inputs, constant, strict=True) if not c)
            weight = sum(_distinct(t) for t, c in zip(inputs, constant, strict=True) if c)
        if name == "_grouped_mm" and inputs[1].dim() == 3:
            # Each row goes to one expert, so that few rows read few of them.
            experts, rows = inputs[1].shape[0], inputs[0].shape[0]
            weight -= _distinct(inputs[1]) * max(0, experts - rows) // experts
        if all(constant):
            # What follows from the weights alone is the same at every batch size.
            weight, write = weight + write, 0
            self._constants.update(t.untyped_storage() for t in outputs)
        else:
            for t in outputs:
                self._constants.discard(t.untyped_storage())
        operator = Operator(f"aten.{name}", op_class, flops, read, write, weight, inner, *shape)
        self._count(operator)
        call = [operator]
        for t in outputs:
            self._writers[t.untyped_storage()] = call

    def _settle(self, parameter: Any) -> None:
        """Take a parameter's gradient for a constant: it is as large as the parameter at every batch size."""
        if parameter.grad is None or (storage := parameter.grad.untyped_storage()) in self._constants:
            return
        self._constants.add(storage)
        if (cell := self._sizes.get(storage)) is not None:
            self._live_elements -= cell[0]
            cell[0] = 0
        call = self._writers.pop(storage, None)
        if call is None:
            return
        operator = call[0]
        elements = min(operator.write_elements, parameter.grad.numel())
        self.counts[operator] -= 1
        if self.counts[operator] == 0:
            del self.counts[operator]
        call[0] = operator._replace(
            write_elements=operator.write_elements - elements,
            weight_elements=operator.weight_elements + elements,
        )
        self._count(call[0])

    def _attend(self, query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any) -> Any:
        """Stand in for scaled-dot-product attention: shapes as the fused kernels give them, noted as one operator."""
        if torch.is_grad_enabled():
            return _Attention.apply(self, query, key, value, attn_mask)
        return self.attend(query, key, value, attn_mask)

    def attend(self, query: Any, key: Any, value: Any, attn_mask: Any) -> Any:
        """Note one attention and return its empty output."""
        *lead, rows, width = query.shape
        columns, value_width = value.shape[-2:]
        if len(lead) == 2:
            # The fused kernels write (batch, row, head, width), so that joining the heads is free.
            out = query.new_empty(lead[0], rows, lead[1], value_width).transpose(1, 2)
        else:
            out = query.new_empty(*lead, rows, value_width)
        flops = 2.0 * prod(lead) * rows * columns * (width + value_width)
        self._note_attention("", (query, key, value, attn_mask), out.numel(), flops, width)
        return out

    def attend_backward(self, gradient: Any, out: Any, query: Any, key: Any, value: Any) -> tuple[Any, ...]:
        """Note the backward pass of one attention and return the empty gradients of query, key and value.

        As fused kernels do it: the scores again, then the products that give dV, dP, dQ and dK.
        """
        *lead, rows, width = query.shape
        columns, value_width = value.shape[-2:]
        flops = 2.0 * prod(lead) * rows * columns * (3 * width + 2 * value_width)
        empty_likes = tuple(torch.empty_like(t) for t in (query, key, value))
        written = sum(t.numel() for t in empty_likes)
        self._note_attention("_backward", (gradient, out, query, key, value), written, flops, width)
        self._track(list(empty_likes))
        return empty_likes

    def _note_attention(self, suffix: str, taken: tuple[Any, ...], written: int, flops: float, width: int) -> None:
        inputs = [t for t in taken if isinstance(t, torch.Tensor)]
        constant = [self._is_constant(t) for t in inputs]
        read = sum(_distinct(t) for t, c in zip(inputs, constant, strict=True) if not c)
        weight = sum(_distinct(t) for t, c in zip(inputs, constant, strict=True) if c)
        name = f"aten.scaled_dot_product_attention{suffix}"
        self._count(Operator(name, "attention", flops, read, written, weight, width))

    def _count(self, operator: Operator) -> None:
        self.counts[operator] = self.counts.get(operator, 0) + 1

    def _is_constant(self, tensor: Any) -> bool:
        return tensor.untyped_storage() in self._constants

    def _track(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage in self._seen or storage in self._constants:
                continue
            elements = storage.nbytes() // tensor.element_size()
            self._seen.add(storage)
            self._live_elements += elements
            self.peak_activation_elements = max(self.peak_activation_elements, self._live_elements)
            cell = [elements]
            self._sizes[storage] = cell
            weakref.finalize(storage, self._release, cell)

    def _release(self, cell: list[int]) -> None:
        self._live_elements -= cell[0]


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    """Attention that can be differentiated: what it and its backward pass do is noted by a recorder."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, query: Any, key: Any, value: Any, attn_mask: Any) -> Any:
        """Return the output of `Recorder.attend`."""
        out = recorder.attend(query, key, value, attn_mask)
        ctx.recorder = recorder
        ctx.save_for_backward(out, query, key, value)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradients of `Recorder.attend_backward`."""
        attend_backward = ctx.recorder.attend_backward(gradients[0], *ctx.saved_tensors)
        return None, *attend_backward, None


def _positions(indices: Any) -> list[Any]:
    """Turn real masks into the positions they select, whose number the meta device could not know."""
    values: list[Any] = []
    for index in indices:
        if isinstance(index, torch.Tensor) and not index.is_meta and index.dtype == torch.bool:
            values.extend(index.nonzero().unbind(1))
        else:
            values.append(index)
    return values


def _on_one_device(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Move real tensors to meta where an operator mixes them with meta tensors; numbers wrapped as tensors stay."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if len({t.device.type for t in tensors}) < 2:
        return args, kwargs

    def to_meta(leaf: Any) -> Any:
        return leaf.to("meta") if isinstance(leaf, torch.Tensor) and not leaf.is_meta else leaf

    moved: tuple[Any, Any] = tree_map(to_meta, (args, kwargs))
    return moved


def _distinct(tensor: Any) -> int:
    """Elements of the tensor that lie apart in memory: what `expand` repeats is counted once."""
    return prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)


_Shape = tuple[int | None, int | None, int | None]


def _cost(
    func: Any, name: str, args: Any, inputs: list[Any], outputs: list[Any]
) -> tuple[str, float, int | None, _Shape]:
    """Class, FLOPs, inner length and (kernel, stride, groups) of one call."""
    no_convolution: _Shape = (None, None, None)
    if name in _CONVOLUTIONS:
        return _convolution_cost(args, outputs[0])
    if name == "convolution_backward":
        gradient, source, weight, _, *rest = args
        cost = _convolution_cost((source, weight, None, *rest), gradient)
        # One pass for the gradient of the input, one for that of the weights, each as dear as the forward one.
        return cost[0], cost[1] * sum(args[10][:2]), *cost[2:]
    op_class = _CLASS_OF.get(name)
    if op_class in ("mm", "bmm"):
        left = inputs[1] if name in ("addmm", "baddbmm", "addmv") else inputs[0]
        inner = int(left.shape[-1])
        return op_class, 2.0 * outputs[0].numel() * inner, inner, no_convolution
    if op_class in ("reduce", "norm", "softmax"):
        written = max((t.numel() for t in outputs), default=0)
        read = max((t.numel() for t in inputs), default=0)
        return op_class, 0.0, (read // written if op_class == "reduce" and written else None), no_convolution
    if op_class is None:
        op_class = "elementwise" if torch.Tag.pointwise in func.tags else "other"
    return op_class, 0.0, None, no_convolution


def _convolution_cost(args: Any, output: Any) -> tuple[str, float, int | None, _Shape]:
    source, weight, stride, transposed, groups = args[0], args[1], args[3], args[6], int(args[8])
    kernel = tuple(int(k) for k in weight.shape[2:])
    channels = int(source.shape[1])
    if groups > 1:
        op_class = "depthwise" if groups == channels else "grouped"
    else:
        op_class = "conv1x1" if all(k == 1 for k in kernel) else "conv"
    inner = channels // groups * prod(kernel)
    per_element = int(weight.shape[1]) * prod(kernel)
    flops = 2.0 * (source.numel() if transposed else output.numel()) * per_element
    return op_class, flops, inner, (max(kernel), max(int(s) for s in stride), groups)

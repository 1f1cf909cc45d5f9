"""Generation in OpenVINO: the graphs that a decoder is converted to, and the requests that step through them.

A decoder becomes one graph for any number of new tokens, whose keys and values are states of the runtime. Where a
prompt is more than tokens (pixels, sound, an encoder's text) a second graph of fixed shapes reads it once, and hands
its keys and values to the first as states; those of cross-attention stay inputs, because they never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, EncoderDecoderCache

from runner.measure.generation import TorchGeneration, cache_tensors, text_input
from runner.platforms.openvino_recording import choose_text, recorded, settled
from runner.platforms.openvino_work import fill

__all__ = ["DecoderCard", "StatefulGeneration", "convert_decoder", "read_card", "write_card"]

_PREFILL, _DECODE, _CARD = "prefill.xml", "model.xml", "decoder.json"
_EXAMPLE_LENGTH, _EXAMPLE_PAST = 3, 5
_FLAT_MASKS = frozenset({"bloom"})
"""Families that compute positions from the mask itself."""


class DecoderCard(msgspec.Struct, frozen=True, kw_only=True):
    """What stepping needs to know: the tokens' input, whether a prefill graph is there, and where positions begin.

    `batch` counts the items of the cache and `rows` those of the tokens, of which MusicGen has one for each codebook.
    `prompt_length` counts the positions of the prompt in the cache; `position_offset` is added to them, and
    `position_rows` is 3 where a position has three coordinates. `positions` says whether they are an input; `mask_rank`
    is 0 for no mask, 2 for one of past and new tokens, 4 for one that says which each new token sees.
    """

    ids: str
    prefill: bool
    prompt_length: int
    batch: int
    rows: int
    positions: bool
    mask_rank: int
    position_offset: int = 0
    position_rows: int = 1


class _Decode(torch.nn.Module):  # type: ignore[misc]
    """One step: tokens, their mask and positions, the order of the batch, and past keys and values."""

    def __init__(self, module: Any, card: DecoderCard, cache: Any, memory: Mapping[str, Any]) -> None:
        super().__init__()
        self.module = module
        self.card = card
        self.memory = dict(memory)
        self.cross = hasattr(cache, "self_attention_cache")
        self.count = len(list(cache_tensors(cache.self_attention_cache if self.cross else cache)))

    def forward(self, ids: Any, beams: Any, *rest: Any) -> tuple[Any, ...]:
        """Return the last logits and the keys and values with the new ones behind."""
        names = [
            name
            for name, there in (("attention_mask", self.card.mask_rank), ("position_ids", self.card.positions))
            if there
        ]
        extra = dict(zip(names, rest, strict=False))
        past = rest[len(names) :]
        # The runtime keeps a cache of its own where it sees keys and values chosen by an order of the batch.
        own = _filled([each.index_select(0, beams) for each in past[: self.count]])
        cache = own
        if self.cross:
            cache = EncoderDecoderCache(own, _filled(list(past[self.count :])))
            cache.is_updated = dict.fromkeys(range(len(own.layers)), True)
        output = self.module(**{self.card.ids: ids}, **self.memory, **extra, past_key_values=cache, use_cache=True)
        return (output.logits[:, -1], *cache_tensors(own))


class _Prefill(torch.nn.Module):  # type: ignore[misc]
    """The whole prompt: every input once."""

    def __init__(self, module: Any, names: list[str], fixed: Mapping[str, Any]) -> None:
        super().__init__()
        self.module, self.names, self.fixed = module, names, dict(fixed)
        self.crossing = text_input(module) != "input_ids"

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the last logits, then all keys and values."""
        # Made here, because while a module is recorded it makes no cache of its own.
        cache = EncoderDecoderCache(_filled([]), _filled([])) if self.crossing else _filled([])
        value = dict(zip(self.names, inputs, strict=True))
        output = self.module(**value, **self.fixed, past_key_values=cache, use_cache=True)
        return (output.logits[:, -1], *cache_tensors(output.past_key_values))


class _Layer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, without joining the first ones to an empty tensor, which cannot be converted."""

    is_initialized: bool

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Keep the first, append what follows."""
        if self.is_initialized:
            joined: tuple[Any, Any] = super().update(key_states, value_states, *args, **kwargs)
            return joined
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        self.keys, self.values = key_states, value_states
        return key_states, value_states


def _filled(tensors: list[Any]) -> Any:
    """Return a growing cache that holds keys and values, alternating."""
    cache = DynamicCache()
    cache.layer_class_to_replicate = _Layer
    for index, (keys, values) in enumerate(zip(tensors[::2], tensors[1::2], strict=True)):
        cache.update(keys, values, index)
    return cache


def convert_decoder(module: Any, inputs: dict[str, Any]) -> tuple[dict[str, Any], DecoderCard]:
    """Return the graphs by file name, and their card."""
    with torch.no_grad():
        steps = TorchGeneration(module, inputs, context=torch.no_grad)
        steps.prefill()
        card = _card(module, inputs, steps)
        for part in module.modules():
            choose_text(getattr(part, "config", None))
        graphs = {_DECODE: _decode_graph(module, steps, card)}
        if card.prefill:
            graphs[_PREFILL] = _prefill_graph(module, inputs, len(list(cache_tensors(steps.cache))))
    return graphs, card


def _card(module: Any, inputs: Mapping[str, Any], steps: TorchGeneration) -> DecoderCard:
    import inspect

    ids = text_input(module)
    encoder = ids != "input_ids"
    deltas = next(
        (each.rope_deltas for each in module.modules() if getattr(each, "rope_deltas", None) is not None), None
    )
    parameters = inspect.signature(module.forward).parameters
    return DecoderCard(
        ids=ids,
        prefill=encoder or bool(set(inputs) - {"input_ids", "attention_mask"}),
        prompt_length=int(steps.cache.get_seq_length()),
        batch=int(next(cache_tensors(steps.cache)).shape[0]),
        rows=int(inputs[ids].shape[0]),
        positions="position_ids" in parameters and not encoder,
        mask_rank=0 if encoder else 2 if module.config.model_type in _FLAT_MASKS else 4,
        position_offset=0 if deltas is None else int(deltas.flatten()[0]),
        position_rows=1 if deltas is None else 3,
    )


def _decode_graph(module: Any, steps: TorchGeneration, card: DecoderCard) -> Any:
    cache = steps.cache
    own = list(cache_tensors(getattr(cache, "self_attention_cache", cache)))
    cross = list(cache_tensors(cache.cross_attention_cache)) if hasattr(cache, "cross_attention_cache") else []
    # Decoders beside an encoder add one token at a time; fixed at 1, others meet a wrong layout in the fused layer.
    new, grown = (1, 1) if card.ids != "input_ids" else (_EXAMPLE_LENGTH, -1)
    # Other lengths than 1 and other than each other, so that the recording cannot take one for the other.
    past = [torch.randn(each.shape[0], each.shape[1], _EXAMPLE_PAST, each.shape[3]) for each in own]
    examples: dict[str, Any] = {
        card.ids: torch.ones(card.rows, new, dtype=torch.long),
        "beams": torch.arange(card.batch, dtype=torch.int32),
    }
    if card.mask_rank:
        examples["attention_mask"] = _mask(card, new, _EXAMPLE_PAST)
    if card.positions:
        examples["position_ids"] = _positions(card, new, _EXAMPLE_PAST)
    names = [
        *examples,
        *(f"past.{index}" for index in range(len(own))),
        *(f"cross.{index}" for index in range(len(cross))),
    ]
    values = (*examples.values(), *past, *cross)
    model = recorded(_Decode(module, card, cache, steps.memory).eval(), values)
    _name(model, names, ["logits", *(f"present.{index}" for index in range(len(own)))])
    shapes = {name: list(value.shape) for name, value in zip(names, values, strict=True)}
    shapes[card.ids][1] = grown
    if card.mask_rank:
        shapes["attention_mask"][1:] = [-1] if card.mask_rank == 2 else [1, grown, -1]
    if card.positions:
        shapes["position_ids"][-1] = grown
    for index in range(len(own)):
        shapes[f"past.{index}"][2] = -1
    kept = {port.get_any_name() for port in model.inputs}
    model.reshape({name: shape for name, shape in shapes.items() if name in kept})
    _make_stateful(model, {f"past.{index}": f"present.{index}" for index in range(len(own))})
    return model


def _make_stateful(model: Any, pairs: dict[str, str]) -> None:
    import openvino as ov
    from openvino._offline_transformations import apply_make_stateful_transformation

    shapes = {name: model.input(name).get_partial_shape() for name in pairs}
    types = {name: model.input(name).get_element_type() for name in pairs}
    apply_make_stateful_transformation(model, pairs)
    # The runtime joins attention and cache into one layer only where a state says what it begins as: nothing.
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            name = next(each for each in pairs if node.get_variable_id().startswith(each + "present."))
            empty = [size.get_length() if size.is_static else 0 for size in shapes[name]]
            node.set_arguments([ov.op.Constant(types[name], ov.Shape(empty), [])])
    model.validate_nodes_and_infer_types()


def _prefill_graph(module: Any, inputs: dict[str, Any], kept: int) -> Any:
    free, fixed = settled(module, inputs)
    model = recorded(_Prefill(module, list(free), fixed).eval(), tuple(free.values()))
    _name(model, list(free), ["logits", *(f"present.{index}" for index in range(kept))])
    model.reshape({port: list(free[port.get_any_name()].shape) for port in model.inputs})
    return model


def _name(model: Any, inputs: list[str], outputs: list[str]) -> None:
    """Give the ports their names; a graph keeps all of its inputs, used or not."""
    if len(model.inputs) != len(inputs) or len(model.outputs) != len(outputs):
        raise ValueError(f"the conversion kept {len(model.inputs)} of {len(inputs)} inputs")
    for port, name in (*zip(model.inputs, inputs, strict=True), *zip(model.outputs, outputs, strict=True)):
        port.get_tensor().set_names({name})
        port.get_node().set_friendly_name(name)


def _mask(card: DecoderCard, new: int, past: int) -> Any:
    """Return what is added to the scores of past and new positions for each new one: float [batch, 1, new, past + new].

    Zero where it is seen; added, because families without a fused attention add it. Of rank 2, ones for all positions.
    """
    if card.mask_rank == 2:
        return torch.ones(card.batch, past + new, dtype=torch.long)
    hidden = torch.full((new, past + new), torch.finfo(torch.float32).min).triu(past + 1)
    return hidden.expand(card.batch, 1, new, past + new).clone()


def _positions(card: DecoderCard, new: int, past: int) -> Any:
    row = torch.arange(past, past + new).expand(card.batch, new)
    return (row if card.position_rows == 1 else row.expand(card.position_rows, card.batch, new)).clone()


class StatefulGeneration:
    """Steps through the compiled graphs of one batch; `inputs` are name → array of the whole prompt."""

    def __init__(self, decode: Any, prefill: Any, card: DecoderCard, inputs: Mapping[str, Any]) -> None:
        self._card = card
        self._request = decode.create_infer_request()
        # By friendly names and places: names of tensors move when the runtime simplifies what lies between.
        self._ports = {port.get_node().get_friendly_name(): port for port in decode.inputs}
        self._reader: Any = None
        self._prompt = dict(inputs)
        self._states = {state.name: state for state in self._request.query_state()}
        self._length = 0
        self._logits: Any = None
        self._next: Any = None
        if prefill is not None:
            self._reader = prefill.create_infer_request()
            for port in prefill.inputs:
                fill(self._reader, port, inputs[port.get_node().get_friendly_name()])

    def prefill(self) -> None:
        """Read the prompt into fresh states and choose the first tokens."""
        import numpy as np

        self._request.reset_state()
        if self._reader is None:
            self._length = 0
            self._step(np.ascontiguousarray(np.asarray(self._prompt[self._card.ids], dtype=np.int64)))
            return
        self._reader.infer()
        self._take(self._reader)
        for name, state in self._states.items():
            state.state = self._reader.get_output_tensor(1 + _index(name))
        for name, port in self._crossing():
            self._request.set_tensor(port, self._reader.get_output_tensor(1 + len(self._states) + _index(name)))
        self._length = self._card.prompt_length

    def _crossing(self) -> list[tuple[str, Any]]:
        return [(name, port) for name, port in self._ports.items() if name.startswith("cross.")]

    def decode(self) -> None:
        """Give the last tokens back and choose the next."""
        self._step(self._next)

    def _step(self, ids: Any) -> None:
        import numpy as np
        import openvino as ov

        new = ids.shape[1]
        values = {self._card.ids: ids, "beams": np.arange(self._card.batch, dtype=np.int32)}
        if self._card.mask_rank:
            values["attention_mask"] = _mask(self._card, new, self._length).numpy()
        if self._card.positions:
            first = self._length + (self._card.position_offset if self._card.prefill else 0)
            values["position_ids"] = _positions(self._card, new, first).numpy()
        for name in self._ports.keys() & values.keys():
            self._request.set_tensor(self._ports[name], ov.Tensor(values[name]))
        self._request.infer()
        self._length += new
        self._take(self._request)

    def _take(self, request: Any) -> None:
        self._logits = request.get_output_tensor(0).data
        self._next = self._logits.argmax(-1)[:, None]

    def tokens(self) -> Any:
        """Return the tokens chosen last, int64 [batch, 1]."""
        return self._next

    def logits(self) -> Any:
        """Return the last step's logits, float32 [batch, vocabulary]."""
        return self._logits.astype("float32")

    def cache_bytes(self) -> int | None:
        """Return the bytes of the states, and of the keys and values of cross-attention."""
        crossing = (self._request.get_tensor(port) for _, port in self._crossing())
        held = [*(state.state for state in self._states.values()), *crossing]
        return sum(tensor.get_byte_size() for tensor in held) or None


def _index(name: str) -> int:
    """Return which of the keys and values a state or an input of cross-attention holds: its name ends with it."""
    return int(name.rsplit(".", 1)[1])


def write_card(card: DecoderCard, folder: Path) -> None:
    """Write the card beside the graphs."""
    (folder / _CARD).write_bytes(msgspec.json.encode(card))


def read_card(folder: Path) -> DecoderCard:
    """Read it back."""
    return msgspec.json.decode((folder / _CARD).read_bytes(), type=DecoderCard)

"""Greedy generation with a torch module, step by step: prefill, then one token at a time against the cache.

The loop is that of `generate` without its search, stopping and sampling: the module's own forward pass with its own
cache. Tokens stay on the device; nothing but the arg max happens between the steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from domain.errors import UnsupportedWorkload

__all__ = ["TorchGeneration", "cache_tensors", "decode_step", "require_generation", "text_input"]

_DECODER_IDS = "decoder_input_ids"


def require_generation(module: Any) -> None:
    """Raise UnsupportedWorkload for a class that cannot decode against a cache of keys and values."""
    parameters = inspect.signature(module.forward).parameters
    if "past_key_values" not in parameters or module.get_output_embeddings() is None:
        raise UnsupportedWorkload(
            f"{type(module).__name__} cannot decode token by token: "
            "it has no language head, or its forward pass takes no cache of keys and values.",
            field="output_tokens",
            remedy="Leave --output-tokens out, or choose a model that generates (gpt2, t5-small, whisper).",
        )


def text_input(module: Any) -> str:
    """Return the name of the input that holds the decoder's tokens."""
    return _DECODER_IDS if getattr(module.config, "is_encoder_decoder", False) else "input_ids"


class TorchGeneration:
    """Steps of one batch. `call` is the module or what it was compiled to; `context` surrounds each step.

    `fixed_tokens` asks for a cache of fixed size for so many tokens after the prompt, which the graphs of a compiled
    decoder need to keep their shapes; without it the module makes its own, which grows.
    """

    def __init__(
        self,
        module: Any,
        inputs: Mapping[str, Any],
        *,
        call: Callable[..., Any] | None = None,
        context: Callable[[], AbstractContextManager[Any]] | None = None,
        fixed_tokens: int | None = None,
    ) -> None:
        import torch

        require_generation(module)
        self._call = module if call is None else call
        self._inputs = dict(inputs)
        self._context = context or torch.inference_mode
        self._ids = text_input(module)
        self._kept = _fixed_cache(module, self._inputs[self._ids].shape[1] + fixed_tokens) if fixed_tokens else None
        self.memory: dict[str, Any] = {}
        self.last_output: Any = None
        self._next: Any = None
        self.cache: Any = None

    def prefill(self) -> None:
        """Read the prompt: the encoder's part too, where there is one."""
        with self._context():
            if self._kept is not None:
                self._kept.reset()
            self.last_output = self._call(**self._inputs, past_key_values=self._kept, use_cache=True)
            self._take()
            if self._ids == _DECODER_IDS:
                self.memory = self._encoded(self.last_output)

    def _encoded(self, output: Any) -> dict[str, Any]:
        from transformers.modeling_outputs import BaseModelOutput

        encoded = BaseModelOutput(last_hidden_state=output.encoder_last_hidden_state)
        mask = {name: self._inputs[name] for name in ("attention_mask",) if name in self._inputs}
        return {"encoder_outputs": encoded, **mask}

    def decode(self) -> None:
        """Give the last token back and choose the next."""
        with self._context():
            self.last_output = self._call(
                **{self._ids: self._next}, **self.memory, past_key_values=self.cache, use_cache=True
            )
            self._take()

    def _take(self) -> None:
        self.cache = self.last_output.past_key_values
        self._next = self.last_output.logits[:, -1].argmax(-1, keepdim=True)

    def tokens(self) -> Any:
        """Return the tokens chosen last, int64 [batch, 1]."""
        return self._next.cpu().numpy()

    def logits(self) -> Any:
        """Return the last step's logits, float32 [batch, vocabulary]."""
        return self.last_output.logits[:, -1].detach().float().cpu().numpy()

    def cache_bytes(self) -> int | None:
        """Return the bytes of all keys and values."""
        return sum(tensor.numel() * tensor.element_size() for tensor in cache_tensors(self.cache)) or None


def _fixed_cache(module: Any, length: int) -> Any:
    """Return an empty cache of that length; None for encoder-decoders, whose cross-attention has another one."""
    if getattr(module.config, "is_encoder_decoder", False):
        return None
    from transformers.cache_utils import StaticCache

    return StaticCache(config=module.config.get_text_config(decoder=True), max_cache_len=length)


def cache_tensors(cache: Any) -> Iterator[Any]:
    """Yield keys and values, layer by layer; of self-attention first where a cache holds cross-attention too."""
    import torch

    for part in (getattr(cache, "self_attention_cache", None), getattr(cache, "cross_attention_cache", None)):
        if part is not None:
            yield from cache_tensors(part)
    if not hasattr(cache, "self_attention_cache"):
        for layer in cache.layers:
            yield from (each for each in (layer.keys, layer.values) if isinstance(each, torch.Tensor))


def decode_step(module: Any, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """Return a function that decodes one token against the prompt's cache, the same each time it is called."""
    steps = TorchGeneration(module, inputs)
    steps.prefill()
    first = steps._next

    def step() -> None:
        steps._next = first
        steps.decode()
        steps.cache.crop(-1)

    return step

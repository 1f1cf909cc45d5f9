"""Facts of language models: the sizes of a published architecture, and the work of a token that follows from them.

The figures live in `data/language_models.json`, each entry with its source. Parameters are counted from the sizes
(matrices and embeddings, without norms and biases), so that they can never disagree with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

__all__ = ["LanguageModel", "catalogue", "find", "names_of"]


class LanguageModel(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Sizes of a decoder. `head_size` is that of queries and keys, `value_size` that of values where it differs.

    Keys and values are kept per head (`kv_heads`), or compressed to `latent_rank` numbers and `rope_size` more.
    `experts` of `expert_size` stand in all layers but the first `dense_layers`; `shared_size` is the width of those
    that every token passes. `window_layers` layers look back `window` tokens; `linear_layers` keep a state of
    `linear_state` numbers in place of keys and values, with `linear_size` columns of weights; `sparse_tokens` is how
    many tokens sparse attention picks. `gated` feed-forward layers have three matrices, others two. `licence` is that of
    the weights published under this id, as its model card tags it; None where we are not sure.
    """

    id: str
    family: str
    source: str
    layers: int
    hidden_size: int
    heads: int
    head_size: int
    vocabulary: int
    aliases: tuple[str, ...] = ()
    kv_heads: int = 0
    value_size: int | None = None
    query_rank: int = 0
    latent_rank: int = 0
    rope_size: int = 0
    intermediate_size: int = 0
    gated: bool = True
    experts: int = 0
    experts_per_token: int = 0
    expert_size: int = 0
    shared_size: int = 0
    dense_layers: int = 0
    tied: bool = False
    window: int = 0
    window_layers: int = 0
    linear_layers: int = 0
    linear_size: int = 0
    linear_state: int = 0
    output_gate: bool = False
    sparse_tokens: int = 0
    licence: str | None = None

    @cached_property
    def architecture(self) -> str:
        """What makes two models the same work: family and sizes, whatever weights they carry."""
        widths = f"{self.layers}x{self.hidden_size}x{self.heads}"
        experts = f"-{self.experts}x{self.expert_size}" if self.experts else f"-{self.intermediate_size}"
        return f"{self.family}-{widths}{experts}-{self.vocabulary}"

    @property
    def expert_layers(self) -> int:
        """Layers that choose among experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert of one layer."""
        return self._matrices * self.hidden_size * self.expert_size

    @cached_property
    def attention_parameters(self) -> int:
        """Parameters of the attention of all layers."""
        full = self.layers - self.linear_layers
        return full * self._attention + self.linear_layers * self.hidden_size * self.linear_size

    @cached_property
    def dense_parameters(self) -> int:
        """Parameters that every token passes: attention, dense and shared feed-forward layers, router and output."""
        plain = self.layers - self.expert_layers
        feed_forward = plain * self._matrices * self.hidden_size * self.intermediate_size
        shared = self.expert_layers * (
            self._matrices * self.hidden_size * self.shared_size + self.hidden_size * self.experts
        )
        return self.attention_parameters + feed_forward + shared + self.hidden_size * self.vocabulary

    @cached_property
    def parameters(self) -> int:
        """All parameters, with the embedding."""
        embedding = 0 if self.tied else self.hidden_size * self.vocabulary
        return self.dense_parameters + self.expert_layers * self.experts * self.expert_parameters + embedding

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token is multiplied with; looking up an embedding is none."""
        return self.dense_parameters + self.expert_layers * self.experts_per_token * self.expert_parameters

    @cached_property
    def kv_elements(self) -> int:
        """Numbers kept per token and layer of full attention."""
        if self.latent_rank:
            return self.latent_rank + self.rope_size
        return self.kv_heads * (self.head_size + (self.value_size or self.head_size))

    def kv_read(self, context: float) -> float:
        """Return the numbers of keys and values that one new token reads after `context` tokens, in all layers."""
        return self.kv_elements * self._tokens_seen(context) + 2.0 * self.linear_layers * self.linear_state

    def kv_kept(self, context: float) -> float:
        """Return the numbers that are kept of a sequence of `context` tokens, in all layers."""
        full = self.layers - self.window_layers - self.linear_layers
        tokens = full * context + self.window_layers * min(context, self.window)
        return self.kv_elements * tokens + float(self.linear_layers * self.linear_state)

    def attention_flops(self, context: float, *, prefill: bool = False) -> float:
        """Return the FLOPs by which one token attends to `context` tokens, in all layers.

        A decoder of compressed keys and values attends to them as they are, but unfolds them for a prompt.
        """
        width = self.head_size + (self.value_size or self.head_size)
        if self.latent_rank and not prefill:
            width = 2 * self.latent_rank + self.rope_size
        return 2.0 * self.heads * width * self._tokens_seen(context) + 4.0 * self.linear_layers * self.linear_state

    def _tokens_seen(self, context: float) -> float:
        """Tokens that one token looks back at, summed over the layers."""
        seen = min(context, self.sparse_tokens) if self.sparse_tokens else context
        full = self.layers - self.window_layers - self.linear_layers
        return full * seen + self.window_layers * min(context, self.window)

    @property
    def _matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def _attention(self) -> int:
        value = self.value_size or self.head_size
        if self.latent_rank:
            rising = self.query_rank * self.heads * self.head_size
            rising += self.latent_rank * self.heads * (self.head_size - self.rope_size + value)
            falling = self.hidden_size * (self.query_rank + self.latent_rank + self.rope_size)
            return rising + falling + self.heads * value * self.hidden_size
        queries = self.heads * self.head_size * (2 if self.output_gate else 1)
        keys = self.kv_heads * (self.head_size + value)
        return self.hidden_size * (queries + keys + self.heads * value)


@cache
def catalogue() -> Mapping[str, LanguageModel]:
    """Return the packaged models by id, in the file's order; read once."""
    document = msgspec.json.decode(files("domain").joinpath("data/language_models.json").read_bytes())
    sources: dict[str, str] = document["sources"]
    models = [_model(entry, sources) for entry in document["models"]]
    return MappingProxyType({model.id: model for model in models})


def _model(entry: dict[str, Any], sources: Mapping[str, str]) -> LanguageModel:
    return msgspec.convert({**entry, "source": sources[entry["source"]]}, LanguageModel)


@cache
def _names() -> Mapping[str, LanguageModel]:
    return {name.lower(): model for model in catalogue().values() for name in (*model.aliases, model.id)}


def find(name: str) -> LanguageModel | None:
    """Return the model of this id or alias, else the one that it spells, or None.

    A spelling may lack the owner and what tells no size: `instruct`, `chat`, `gguf`, a quantisation. One that could be
    two models is none.
    """
    return _names().get(name.lower()) or _spellings().get(_spelled(name))


def names_of(name: str) -> tuple[str, ...]:
    """Return every id under which this architecture is published, `name` first; only it where it is no language model."""
    model = _names().get(name.lower())
    return (name,) if model is None else tuple(dict.fromkeys((name, model.id, *model.aliases)))


_TELLS_NO_SIZE = frozenset(
    [
        "meta",
        "instruct",
        "instruction",
        "it",
        "pt",
        "chat",
        "hf",
        "base",
        "gguf",
        "ggml",
        "mlx",
        "awq",
        "gptq",
        "exl2",
        "bnb",
        "fp8",
        "fp16",
        "bf16",
        "f16",
        "f32",
        "int8",
        "int4",
        "nvfp4",
        "8bit",
        "4bit",
    ]
)
_QUANTISED = re.compile(r"i?q[2-8](_[0-9a-z]+)*|w[48]a(8|16)|[0-9]+bit")


def _spelled(name: str) -> str:
    """The letters and digits of a name that tell its size and generation."""
    last = name.strip().lower().rsplit("/", 1)[-1].removesuffix(".gguf")
    # The last hyphen may be before a quantisation whose own parts have underscores.
    words = [word for word in re.split(r"[-: ]+", last) if not _QUANTISED.fullmatch(word)]
    words = [part for word in words for part in word.split("_")]
    letters = "".join(word for word in words if word not in _TELLS_NO_SIZE)
    return re.sub(r"[^a-z0-9.]+", "", letters)


@cache
def _spellings() -> Mapping[str, LanguageModel | None]:
    """Each spelling's model; None where two models share it."""
    result: dict[str, LanguageModel | None] = {}
    for name, model in _names().items():
        key = _spelled(name)
        result[key] = model if result.get(key, model) is model else None
    return result

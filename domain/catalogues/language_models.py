"""Facts of language models: the sizes of a published architecture, and the work of a token that follows from them.

The figures live in `data/language_models.json`, each entry with its source; `language_config` reads the same sizes from a
model's own `config.json`. Parameters are counted from the sizes (matrices and embeddings, without norms and biases), so
that they can never disagree with them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

import domain
from domain.catalogues.language_names import letters_of

__all__ = ["LanguageModel", "catalogue", "find", "names_of", "nearest", "twin"]


class LanguageModel(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Sizes of a decoder. `head_size` is that of queries and keys, `value_size` that of values where it differs.

    Keys and values are kept per head (`kv_heads`), or compressed to `latent_rank` numbers and `rope_size` more.
    `experts` of `expert_size` stand in all layers but the first `dense_layers`; `shared_size` is the width of those
    that every token passes. `window_layers` layers look back `window` tokens; `window_heads`, `window_kv_heads` and
    `window_head_size` are theirs where they differ. `linear_layers` keep a state of `linear_state` numbers in place of
    keys and values, with `linear_parameters` weights each; `sparse_tokens` is how many tokens sparse attention picks.
    `gated` feed-forward layers have three matrices, others two.

    All layers but the linear ones attend, and all have a feed-forward part, unless `attention_layers` and
    `feed_forward_layers` say how many. `sharing_layers` of those that attend, `sharing_window_layers` of them with a
    window, read the keys and values of an earlier layer. Where `keys_as_values`, layers without a window have no values
    of their own. `other_parameters` are multiplied with every token, `looked_up_parameters` with none: tables of
    positions, and embeddings of each layer. `licence` is that of the weights published under this id, as its model card
    tags it; None where we are not sure.
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
    window_heads: int = 0
    window_kv_heads: int = 0
    window_head_size: int = 0
    linear_layers: int = 0
    linear_parameters: int = 0
    linear_state: int = 0
    output_gate: bool = False
    sparse_tokens: int = 0
    attention_layers: int | None = None
    feed_forward_layers: int | None = None
    sharing_layers: int = 0
    sharing_window_layers: int = 0
    keys_as_values: bool = False
    other_parameters: int = 0
    looked_up_parameters: int = 0
    licence: str | None = None

    @cached_property
    def architecture(self) -> str:
        """What makes two models the same work: family and sizes, whatever weights they carry."""
        widths = f"{self.layers}x{self.hidden_size}x{self.heads}"
        experts = f"-{self.experts}x{self.expert_size}" if self.experts else f"-{self.intermediate_size}"
        return f"{self.family}-{widths}{experts}-{self.vocabulary}"

    @property
    def full_layers(self) -> int:
        """Layers that attend to every token."""
        attending = self.layers - self.linear_layers if self.attention_layers is None else self.attention_layers
        return attending - self.window_layers

    @property
    def expert_layers(self) -> int:
        """Layers that choose among experts."""
        return self._feed_forward_layers - self.dense_layers if self.experts else 0

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert of one layer."""
        return self._matrices * self.hidden_size * self.expert_size

    @property
    def output_parameters(self) -> int:
        """Parameters of the matrix from the last layer to the vocabulary."""
        return self.hidden_size * self.vocabulary

    @cached_property
    def attention_parameters(self) -> int:
        """Parameters of the attention of all layers, and of what stands in its place in the linear ones."""
        windowed = self.window_layers * self._attention(windowed=True) if self.window_layers else 0
        own = self.full_layers * self._attention() + windowed - self._shared_parameters
        return own + self.linear_layers * self.linear_parameters

    @cached_property
    def dense_parameters(self) -> int:
        """Parameters that every token passes: attention, dense and shared feed-forward layers, router and output."""
        plain = self._feed_forward_layers - self.expert_layers
        feed_forward = plain * self._matrices * self.hidden_size * self.intermediate_size
        shared = self.expert_layers * (
            self._matrices * self.hidden_size * self.shared_size + self.hidden_size * self.experts
        )
        return self.attention_parameters + feed_forward + shared + self.output_parameters + self.other_parameters

    @cached_property
    def parameters(self) -> int:
        """All parameters, with the embedding."""
        embedding = 0 if self.tied else self.hidden_size * self.vocabulary
        experts = self.expert_layers * self.experts * self.expert_parameters
        return self.dense_parameters + experts + embedding + self.looked_up_parameters

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

    @property
    def kv_written(self) -> int:
        """Numbers that one token leaves in all layers that keep keys and values of their own, windows not yet cut."""
        return self._kept_full * self.kv_elements + self._kept_windows * self._window_elements

    def kv_read(self, context: float) -> float:
        """Return the numbers of keys and values that one new token reads after `context` tokens, in all layers."""
        seen = self.kv_elements * self.full_layers * self._picked(context)
        seen += self._window_elements * self.window_layers * min(context, self.window)
        return seen + 2.0 * self.linear_layers * self.linear_state

    def kv_kept(self, context: float) -> float:
        """Return the numbers that are kept of a sequence of `context` tokens, in all layers."""
        kept = self.kv_elements * self._kept_full * context
        kept += self._window_elements * self._kept_windows * min(context, self.window)
        return kept + float(self.linear_layers * self.linear_state)

    def attention_flops(self, context: float) -> float:
        """Return the FLOPs by which one new token attends to `context` tokens, in all layers.

        Compressed keys and values are attended to as they are.
        """
        width = 2 * self.latent_rank + self.rope_size if self.latent_rank else self._width
        return self._flops(width, self._picked(context), min(context, self.window))

    def prompt_flops(self, tokens: float) -> float:
        """Return the FLOPs by which a token of a prompt of `tokens` tokens attends to those before it, in the mean.

        Compressed keys and values are unfolded for a prompt.
        """
        return self._flops(self._width, _mean_seen(tokens, self.sparse_tokens), _mean_seen(tokens, self.window))

    def _flops(self, width: int, seen: float, seen_in_window: float) -> float:
        full = self.heads * width * self.full_layers * seen
        window_width = 2 * self.window_head_size if self.window_head_size else width
        windowed = (self.window_heads or self.heads) * window_width * self.window_layers * seen_in_window
        return 2.0 * (full + windowed) + 4.0 * self.linear_layers * self.linear_state

    def _picked(self, context: float) -> float:
        return min(context, self.sparse_tokens) if self.sparse_tokens else context

    @property
    def _width(self) -> int:
        return self.head_size + (self.value_size or self.head_size)

    @property
    def _feed_forward_layers(self) -> int:
        return self.layers if self.feed_forward_layers is None else self.feed_forward_layers

    @property
    def _kept_full(self) -> int:
        return self.full_layers - (self.sharing_layers - self.sharing_window_layers)

    @property
    def _kept_windows(self) -> int:
        return self.window_layers - self.sharing_window_layers

    @property
    def _window_elements(self) -> int:
        if not self.window_head_size and not self.window_kv_heads:
            return self.kv_elements
        return 2 * (self.window_kv_heads or self.kv_heads) * (self.window_head_size or self.head_size)

    @property
    def _matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def _shared_parameters(self) -> int:
        """Projections of keys and values that layers which read another's do not have."""
        full = self.sharing_layers - self.sharing_window_layers
        return self.hidden_size * (full * self.kv_elements + self.sharing_window_layers * self._window_elements)

    def _attention(self, *, windowed: bool = False) -> int:
        """Parameters of the attention of one layer."""
        value = self.value_size or self.head_size
        if self.latent_rank:
            rising = (self.query_rank or self.hidden_size) * self.heads * self.head_size
            rising += self.latent_rank * self.heads * (self.head_size - self.rope_size + value)
            falling = self.hidden_size * (self.query_rank + self.latent_rank + self.rope_size)
            return rising + falling + self.heads * value * self.hidden_size
        heads, size, keys = self.heads, self.head_size, self.kv_elements
        if windowed:
            heads, size = self.window_heads or heads, self.window_head_size or size
            value, keys = self.window_head_size or value, self._window_elements
        elif self.keys_as_values:
            keys //= 2
        return self.hidden_size * (heads * size * (2 if self.output_gate else 1) + keys + heads * value)


def _mean_seen(tokens: float, most: int) -> float:
    """Tokens that a token of a prompt sees in the mean where it looks back at `most`; 0 for all."""
    if not most or tokens <= most:
        return tokens / 2
    return most * (1 - most / (2 * tokens))


@cache
def catalogue() -> Mapping[str, LanguageModel]:
    """Return the packaged models by id, in the file's order; read once."""
    document = msgspec.json.decode(files(domain).joinpath("data/language_models.json").read_bytes())
    sources: dict[str, str] = document["sources"]
    models = [_model(entry, sources) for entry in document["models"]]
    return MappingProxyType({model.id: model for model in models})


def _model(entry: dict[str, Any], sources: Mapping[str, str]) -> LanguageModel:
    return msgspec.convert({**entry, "source": sources[entry["source"]]}, LanguageModel)


@cache
def _tags() -> Mapping[str, LanguageModel]:
    document = msgspec.json.decode(files(domain).joinpath("data/language_models.json").read_bytes())
    return {tag: catalogue()[id_] for id_, tags in document["tags"].items() for tag in tags}


@cache
def _names() -> Mapping[str, LanguageModel]:
    return {name.lower(): model for model in catalogue().values() for name in (*model.aliases, model.id)}


def find(name: str) -> LanguageModel | None:
    """Return the model of this id or alias, else the one that it spells, or None.

    A spelling may lack the owner and what tells no size: `instruct`, `chat`, `gguf`, a quantisation. One that could be
    two models is none. A tag of Ollama's library is the model that it downloads: `deepseek-r1:8b`.
    """
    return _names().get(name.lower()) or _tagged(name) or _spellings().get(letters_of(name))


def _tagged(name: str) -> LanguageModel | None:
    """The model of an Ollama tag, of which a runner's words may follow: `mixtral:8x7b-instruct-v0.1-q4_0`."""
    library, colon, tag = name.strip().lower().rsplit("/", 1)[-1].partition(":")
    words = tag.split("-")
    starts = ("-".join(words[:count]) for count in range(len(words), 0, -1)) if colon else ()
    return next((known for start in starts if (known := _tags().get(f"{library}:{start}")) is not None), None)


def names_of(name: str) -> tuple[str, ...]:
    """Return every id under which this architecture is published, `name` first; only it where it is no language model."""
    model = _names().get(name.lower())
    return (name,) if model is None else tuple(dict.fromkeys((name, model.id, *model.aliases)))


def nearest(name: str, n: int = 3) -> tuple[str, ...]:
    """Return up to `n` ids whose spelling looks most like `name`, best first."""
    letters = letters_of(name)
    close = difflib.get_close_matches(letters, _spellings(), n=n * 4, cutoff=0.6) if letters else []
    models = [model for spelling in close if (model := _spellings()[spelling]) is not None]
    return tuple(dict.fromkeys(model.id for model in models))[:n]


def twin(model: LanguageModel) -> LanguageModel | None:
    """Return the packaged model that does the same work, layer by layer, or None."""
    return next((other for other in catalogue().values() if _sizes(other) == _sizes(model)), None)


def _sizes(model: LanguageModel) -> tuple[Any, ...]:
    apart = ("id", "family", "source", "aliases", "licence")
    return tuple(getattr(model, name) or 0 for name in model.__struct_fields__ if name not in apart)


@cache
def _spellings() -> Mapping[str, LanguageModel | None]:
    """Each spelling's model; None where two models share it."""
    result: dict[str, LanguageModel | None] = {}
    for name, model in _names().items():
        key = letters_of(name)
        result[key] = model if result.get(key, model) is model else None
    return result

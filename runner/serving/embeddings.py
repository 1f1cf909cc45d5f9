"""`/v1/embeddings`: texts or token ids to vectors, as the OpenAI API has it."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import InvalidInput, MalformedBody, NotFound, PartMissing
from runner.serving.contract import Tensor
from runner.serving.exchange import Loaded, TensorSpec

__all__ = [
    "EmbeddingRequest",
    "Tokens",
    "arrays",
    "embeds",
    "read_embedding_request",
    "require_embeddings",
    "tokens_of",
    "vectors",
]

_STATES = "last_hidden_state"
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_DEFAULT_LENGTH = 512
_TOKENIZERS: dict[str, Any] = {}
_LOADING = threading.Lock()


class EmbeddingRequest(msgspec.Struct):
    """The JSON of a request for embeddings."""

    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: str = "float"


class Tokens(msgspec.Struct, frozen=True):
    """One item: its token ids, as many as it really has."""

    ids: list[int]


def read_embedding_request(body: bytes) -> EmbeddingRequest:
    """Return the request; MalformedBody where it is none."""
    try:
        request = msgspec.convert(msgspec.json.decode(body), _Loose)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise MalformedBody(
            f"the request cannot be read: {error}.", field="body", remedy="Send model and input."
        ) from None
    if request.encoding_format not in ("float", "base64"):
        raise InvalidInput(
            f"{request.encoding_format!r} is no format.", field="encoding_format", remedy="Ask for float or base64."
        )
    return EmbeddingRequest(request.model, request.input, request.encoding_format)


class _Loose(msgspec.Struct):
    model: str
    input: Any
    encoding_format: str = "float"


def embeds(loaded: Loaded) -> bool:
    """Return whether a model takes tokens alone and gives a state for each of them."""
    return {spec.name for spec in loaded.inputs} <= _INPUTS and any(spec.name == _STATES for spec in loaded.outputs)


def require_embeddings(name: str, loaded: Loaded) -> None:
    """Raise NotFound for a model that gives no embeddings."""
    if not embeds(loaded):
        raise NotFound(
            f"{name} gives no embeddings: it has no output {_STATES} for tokens.",
            field="model",
            remedy=f"Call it at /v2/models/{name}/infer.",
        )


def tokens_of(given: Any, loaded: Loaded) -> list[Tokens]:
    """Return the items of `input`: texts by the checkpoint's own tokenizer, or token ids as they are."""
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        given = [given]
    if not isinstance(given, list) or not given or not all(_is_item(item) for item in given):
        raise InvalidInput(
            "is neither texts nor token ids.",
            field="input",
            remedy="Send a text, a list of texts, or lists of token ids.",
        )
    longest = _longest(loaded)
    items = []
    for item in given:
        ids = _encoded(item, loaded) if isinstance(item, str) else item
        if not ids or len(ids) > longest:
            raise InvalidInput(
                f"an item has {len(ids)} tokens.", field="input", remedy=f"Send 1 to {longest} tokens an item."
            )
        items.append(Tokens(ids))
    return items


def _is_item(item: Any) -> bool:
    return isinstance(item, str) or (
        isinstance(item, list) and all(isinstance(token, int) and 0 <= token < 2**31 for token in item)
    )


def _longest(loaded: Loaded) -> int:
    spec = next(spec for spec in loaded.inputs if spec.name == "input_ids")
    return spec.shape[1] if spec.shape[1] > 0 else _DEFAULT_LENGTH


def _encoded(text: str, loaded: Loaded) -> list[int]:
    if loaded.checkpoint is None or not any(Path(loaded.checkpoint).glob("*token*")):
        raise PartMissing(
            "the model has no tokenizer beside its weights.",
            field="input",
            remedy="Send token ids, or serve a folder that holds the tokenizer's files.",
        )
    with _LOADING:
        if loaded.checkpoint not in _TOKENIZERS:
            from transformers import AutoTokenizer

            _TOKENIZERS[loaded.checkpoint] = AutoTokenizer.from_pretrained(loaded.checkpoint)
        ids: list[int] = _TOKENIZERS[loaded.checkpoint](text, truncation=True, max_length=_longest(loaded))["input_ids"]
    return ids


def arrays(item: Tokens, specs: tuple[TensorSpec, ...]) -> list[Tensor]:
    """Return the inputs of one item, padded where the model takes one length."""
    import numpy as np

    tensors = []
    for spec in specs:
        length = spec.shape[1] if spec.shape[1] > 0 else len(item.ids)
        row = np.zeros((1, length), np.int64)
        if spec.name == "input_ids":
            row[0, : len(item.ids)] = item.ids
        elif spec.name == "attention_mask":
            row[0, : len(item.ids)] = 1
        tensors.append(Tensor(name=spec.name, array=row))
    return tensors


def vectors(items: list[Tokens], results: list[list[Tensor]], encoding: str) -> list[dict[str, Any]]:
    """Return the mean of the states of each item's own tokens, as entries of the answer."""
    import numpy as np

    entries = []
    for index, (item, outputs) in enumerate(zip(items, results, strict=True)):
        states = next(tensor.array for tensor in outputs if tensor.name == _STATES)
        vector = states[0, : len(item.ids)].mean(axis=0).astype(np.float32)
        value = base64.b64encode(vector.tobytes()).decode() if encoding == "base64" else vector.tolist()
        entries.append({"object": "embedding", "index": index, "embedding": value})
    return entries

"""The longest sequence or context that fits at batch 1: by keys and values, or by how activations grew over the lengths
that were traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from domain.answers import Longest
from domain.catalogues.language_models import LanguageModel
from domain.performance.roofline import activation_bytes_per_element, weight_bytes_per_element
from predictor.features.traces import Trace
from predictor.llm_serving.deployment import Storage, Workers
from predictor.llm_serving.needs import activations_bytes, language_model_needs
from predictor.llm_serving.physics import holding
from predictor.memory.needs import Needs

__all__ = ["CONFIDENCE", "context_bytes", "context_needs", "longest_context", "longest_sequence"]

CONFIDENCE = 0.9
"""What fits does so with this probability."""
FARTHEST = 8
"""So many times the longest traced length is the farthest that is answered."""
MOST_TOKENS = 2**24
_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def position_limit(config: Mapping[str, Any] | None) -> int | None:
    """Return how many positions a model has by its config; None where it does not say."""
    return next((int(config[name]) for name in _LIMITS if config and config.get(name)), None)


def context_bytes(facts: LanguageModel, storage: Storage, tokens: float) -> tuple[float, float]:
    """Return the bytes of weights, and of keys and values of one sequence."""
    held = holding(facts, Workers(), storage, tokens)
    return held.weights_bytes, held.sequence_bytes


def context_needs(
    facts: LanguageModel, storage: Storage, tokens: int, sequences: Sequence[int], room_bytes: float
) -> Needs:
    """Return what so many sequences of `tokens` tokens need side by side, in bytes; one entry a number of sequences."""
    weights, each = context_bytes(facts, storage, tokens)
    kept = [number * each for number in sequences]
    return language_model_needs(weights, kept, activations_bytes(facts, tokens), room_bytes)


def longest_context(facts: LanguageModel, storage: Storage, room_bytes: float, limit: int | None) -> Longest:
    """Return the longest context of a language model whose keys and values fit beside its weights and a runtime."""
    low, high = 0, MOST_TOKENS
    while high - low > 1:
        middle = (low + high) // 2
        fits = context_needs(facts, storage, middle, [1], room_bytes).fits[0] >= CONFIDENCE
        low, high = (middle, high) if fits else (low, middle)
    if low == 0:
        weights, _ = context_bytes(facts, storage, 0)
        why = f"weights of {weights / 1e9:.3g} GB and a runtime leave no room of {room_bytes / 1e9:.3g} GB"
        return Longest(tokens=None, why=why)
    return _limited(
        low, limit, f"weights, keys and values, one pass and a runtime fit with a probability of {CONFIDENCE:g}"
    )


def longest_sequence(
    traces: Sequence[Trace], precision: str, room_bytes: float, scale: float, limit: int | None
) -> Longest:
    """Return the longest sequence by the peak activations of traces at several lengths.

    `scale` is how many times the least need was measured or is expected at the length that was asked for.
    """
    existing = {
        int(trace.sequence_length): float(trace.totals["peak_activation_elements"])
        for trace in traces
        if trace.sequence_length and trace.totals.get("peak_activation_elements")
    }
    parameters = next((trace.parameters or trace.totals.get("parameters") for trace in traces), None)
    if not existing or parameters is None:
        return Longest(tokens=None, why="its items have no sequence length, or its trace says nothing of memory")
    if len(existing) < 2:
        (only,) = existing
        return Longest(
            tokens=None,
            why=f"it is traced at {only} tokens only: how activations grow is not known; trace another length",
        )
    lengths = np.array(sorted(existing), dtype=np.float64)
    activations = np.array([existing[int(length)] for length in lengths])
    # Beyond the last two lengths growth is taken to go on as a power of the length, at least linear, at most square.
    power = float(np.clip(np.log(activations[-1] / activations[-2]) / np.log(lengths[-1] / lengths[-2]), 1.0, 2.0))
    weights = float(parameters) * weight_bytes_per_element(precision)
    left = room_bytes / scale - weights
    if left <= 0:
        return Longest(tokens=None, why=f"its weights of {weights / 1e9:.3g} GB leave no room")
    each = activation_bytes_per_element(precision)
    tokens = int(lengths[-1] * (left / (activations[-1] * each)) ** (1 / power))
    far = int(FARTHEST * lengths[-1])
    text = f"by traces at {', '.join(str(int(length)) for length in lengths)} tokens"
    if tokens > far:
        return _limited(far, limit, f"at least: {text}, and no farther than {FARTHEST} times the longest")
    return _limited(tokens, limit, f"at most: {text}")


def _limited(tokens: int, limit: int | None, why: str) -> Longest:
    if limit is not None and tokens >= limit:
        return Longest(tokens=limit, why="the model has no more positions; memory would hold more")
    unlimited = "; how many positions the model has is not known" if limit is None else ""
    return Longest(tokens=tokens, why=f"{why}{unlimited}")

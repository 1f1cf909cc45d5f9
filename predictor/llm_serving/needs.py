"""What a language model needs of each device that holds it: weights, keys and values, one pass, and a runtime."""

from __future__ import annotations

from collections.abc import Sequence

from domain.catalogues.language_models import LanguageModel
from predictor.memory.needs import Needs, unmeasured

__all__ = ["activations_bytes", "language_model_needs"]

CHUNK = 8192
"""Tokens of prompts that an engine takes in one pass at the most."""


def activations_bytes(model: LanguageModel, tokens: float, tensor: int = 1) -> float:
    """Return what one pass over prompts keeps alive: a few rows of the hidden size, and the widest layer's share."""
    wide = max(model.intermediate_size, model.experts_per_token * model.expert_size + model.shared_size)
    return 2.0 * min(tokens, CHUNK) * (6 * model.hidden_size + 2 * wide / tensor)


def language_model_needs(
    weights_bytes: float,
    kept_bytes: Sequence[float],
    activations: float,
    room_bytes: float,
    nominal: float = 0.8,
) -> Needs:
    """Return the needs of one device, in bytes, one entry for each size of its keys and values."""
    cases = len(kept_bytes)
    return unmeasured(
        [weights_bytes + kept for kept in kept_bytes], [activations] * cases, [room_bytes] * cases, "inference", nominal
    )

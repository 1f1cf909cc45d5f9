"""The calls of which generation consists, and a training step, made on the meta device for tracing."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch

from domain.configuration import Workload
from domain.errors import UnsupportedWorkload
from runner.models.build import Built
from runner.models.inputs import generation_inputs, training_inputs

__all__ = ["PHASES", "Phase", "cache_of", "decode_step", "kv_elements_per_token", "on_meta", "prefill", "training_step"]

Phase = Literal["forward", "prefill", "decode", "training", "text_encoder", "vae_decoder"]
PHASES = get_args(Phase)


def on_meta(inputs: dict[str, Any]) -> dict[str, Any]:
    """Move floating tensors to the meta device; integers stay real, because some models compute shapes from them."""
    return {name: _on_meta(value) for name, value in inputs.items()}


def _on_meta(value: Any) -> Any:
    if isinstance(value, dict):
        return on_meta(value)
    return value.to("meta") if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def prefill(built: Built, workload: Workload) -> dict[str, Any]:
    """Return the keyword arguments of the call that reads the prompt and fills the attention cache.

    Raises UnsupportedWorkload for a model that generates through another method than its forward call.
    """
    inputs = on_meta(generation_inputs(built, workload))
    if built.config.model_type == "blip":
        raise UnsupportedWorkload(
            f"the forward call of {built.id} keeps no attention cache.",
            field="output_tokens",
            remedy="Trace its forward call.",
        )
    return {**inputs, "use_cache": True}


def decode_step(built: Built, inputs: dict[str, Any], outputs: Any) -> dict[str, Any]:
    """Return the keyword arguments of the call that writes the first token after a prefill with these outputs."""
    kept = {"past_key_values": outputs.past_key_values, "use_cache": True}
    if getattr(built.config, "is_encoder_decoder", False):
        from transformers.modeling_outputs import BaseModelOutput

        encoded = BaseModelOutput(last_hidden_state=outputs.encoder_last_hidden_state)
        # Some decoders ask for the mask of what was heard.
        encoded.attention_mask = None
        step = {"encoder_outputs": encoded, "decoder_input_ids": inputs["decoder_input_ids"][:, -1:]}
        mask = {"attention_mask": inputs["attention_mask"]} if "attention_mask" in inputs else {}
        return {**step, **mask, **kept}
    # Without a mask every token of the cache is attended to, and positions follow from its length.
    return {"input_ids": inputs["input_ids"][:, -1:], **kept}


def training_step(built: Built, workload: Workload) -> dict[str, Any]:
    """Return the keyword arguments, labels among them, of a call whose result begins with the loss.

    Raises UnsupportedWorkload where the loss needs the values of the outputs, which nothing on this device has.
    """
    name = type(built.module).__name__
    if name.endswith(("ForObjectDetection", "ForCTC")):
        raise UnsupportedWorkload(
            f"the loss of {built.id} follows from the values of its outputs, which a trace has not.",
            field="mode",
            remedy="Trace its forward call.",
        )
    if name == "UperNetForSemanticSegmentation":
        raise UnsupportedWorkload(
            f"{built.id} normalizes over the batch, which a trace at batch 1 cannot.",
            field="mode",
            remedy="Trace its forward call.",
        )
    if workload.gradient_checkpointing:
        _recompute_activations(built)
    return on_meta(training_inputs(built, workload))


def _recompute_activations(built: Built) -> None:
    if not getattr(built.module, "supports_gradient_checkpointing", False):
        raise UnsupportedWorkload(
            f"{type(built.module).__name__} has no gradient checkpointing.",
            field="gradient_checkpointing",
            remedy="Train it without.",
        )
    # Older releases of transformers know it by its older name alone.
    enable = getattr(built.module, "activation_checkpointing_enable", None)
    (enable or built.module.gradient_checkpointing_enable)({"use_reentrant": False})


def cache_of(built: Built, outputs: Any) -> Any:
    """Return the attention cache that a prefill filled. Raises UnsupportedWorkload for a model that keeps none."""
    cache = getattr(outputs, "past_key_values", None)
    if cache is None:
        raise UnsupportedWorkload(
            f"{built.id} keeps no attention cache.", field="output_tokens", remedy="Trace its forward call."
        )
    return cache


def kv_elements_per_token(cache: Any) -> float:
    """Return how many numbers an attention cache keeps of one token, over all layers; batch 1.

    Of an encoder-decoder those of the decoder's own tokens: what it keeps of the encoder's does not grow.
    """
    own = getattr(cache, "self_attention_cache", cache)
    layers = [layer for layer in own.layers if layer.keys is not None]
    return float(sum((layer.keys.numel() + layer.values.numel()) / layer.keys.shape[-2] for layer in layers))

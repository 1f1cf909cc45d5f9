"""The four models that the measurer is measured on: full size, random weights, batch 1."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from transformers import (
    BertConfig,
    BertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTModel,
    WhisperConfig,
    WhisperModel,
)
from transformers.cache_utils import DynamicLayer

PAST_TOKENS = 128


class Subject(NamedTuple):
    """A module in eval mode with one set of inputs."""

    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]


class DecodeStep(torch.nn.Module):
    """One token against a cache of keys and values of a given length, which stays as it is from call to call."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, **past: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next token (1 × 1 × vocabulary); `past` is key_0, value_0, key_1 …"""
        cache = DynamicCache()
        for layer in range(self.model.config.n_layer):
            cache.layers.append(_filled(past[f"key_{layer}"], past[f"value_{layer}"]))
        return self.model(input_ids=input_ids, past_key_values=cache, use_cache=True).logits


def _filled(keys: torch.Tensor, values: torch.Tensor) -> DynamicLayer:
    """A layer that holds these already: made by `update` it would join them to an empty tensor, which no trace needs."""
    layer = DynamicLayer()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


def bert() -> Subject:
    model = BertModel(BertConfig(), add_pooling_layer=True)
    tokens = torch.randint(0, model.config.vocab_size, (1, 128))
    return Subject(model.eval(), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})


def vit() -> Subject:
    return Subject(ViTModel(ViTConfig()).eval(), {"pixel_values": torch.rand(1, 3, 224, 224)})


def gpt2_decode() -> Subject:
    config = GPT2Config()
    shape = (1, config.n_head, PAST_TOKENS, config.n_embd // config.n_head)
    past = {f"{part}_{layer}": torch.rand(shape) for layer in range(config.n_layer) for part in ("key", "value")}
    token = torch.randint(0, config.vocab_size, (1, 1))
    return Subject(DecodeStep(GPT2LMHeadModel(config)).eval(), {"input_ids": token, **past})


def whisper_encoder() -> Subject:
    sizes: dict[str, Any] = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6}
    heads = {
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "decoder_ffn_dim": 2048,
    }
    encoder = WhisperModel(WhisperConfig(**sizes, **heads)).get_encoder()
    return Subject(encoder.eval(), {"input_features": torch.rand(1, 80, 3000)})


SUBJECTS = {
    "BERT-base, 128 tokens": bert,
    "ViT-base, 224 × 224": vit,
    f"GPT-2 decode, {PAST_TOKENS} tokens of cache": gpt2_decode,
    "Whisper-base encoder, 30 s": whisper_encoder,
}

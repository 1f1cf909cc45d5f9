"""Configs of small models of every kind, as somebody's own folder has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["CLIP_TEXT", "SAMPLE_CONFIGS", "write_config", "write_pipeline"]

_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
_IMAGE = {"image_size": 32, "patch_size": 8, "num_channels": 3}
CLIP_TEXT = {
    **_SMALL,
    "model_type": "clip_text_model",
    "vocab_size": 500,
    "max_position_embeddings": 77,
    "projection_dim": 32,
}
_SPEECH = {
    "d_model": 32,
    "vocab_size": 600,
    "decoder_start_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}

SAMPLE_CONFIGS: dict[str, dict[str, Any]] = {
    "text": {**_SMALL, "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 500},
    "vision": {**_SMALL, **_IMAGE, "architectures": ["ViTForImageClassification"], "model_type": "vit"},
    "unlisted-vision": {**_SMALL, **_IMAGE, "architectures": ["IJepaForImageClassification"], "model_type": "ijepa"},
    "speech": {
        **_SPEECH,
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "num_mel_bins": 80,
        **dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 2),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    },
    "ctc": {
        **_SMALL,
        "architectures": ["Wav2Vec2ForCTC"],
        "model_type": "wav2vec2",
        "vocab_size": 32,
        "conv_dim": [16] * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    },
    "unlisted-speech": {
        **_SPEECH,
        "architectures": ["Speech2TextForConditionalGeneration"],
        "model_type": "speech_to_text",
        "is_encoder_decoder": True,
        "conv_channels": 32,
        **dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 2),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    },
    "multimodal": {
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "projection_dim": 32,
        "text_config": {**CLIP_TEXT, "bos_token_id": 498, "eos_token_id": 499},
        "vision_config": {**_SMALL, **_IMAGE, "projection_dim": 32},
    },
    "reads-pictures": {
        "architectures": ["PaliGemmaForConditionalGeneration"],
        "model_type": "paligemma",
        "image_token_index": 499,
        "projection_dim": 32,
        "hidden_size": 32,
        "text_config": {
            **_SMALL,
            "model_type": "gemma",
            "vocab_size": 500,
            "head_dim": 16,
            "num_key_value_heads": 1,
            "num_image_tokens": 16,
        },
        "vision_config": {**_SMALL, **_IMAGE, "model_type": "siglip_vision_model", "projection_dim": 32},
    },
    "experts": {
        **_SMALL,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "vocab_size": 500,
        "num_key_value_heads": 1,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
}
_UNET = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 1,
    "block_out_channels": [16, 32],
    "attention_head_dim": 4,
    "cross_attention_dim": 32,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "norm_num_groups": 8,
}
_VAE = {
    "_class_name": "AutoencoderKL",
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [8, 8, 16, 16],
    "latent_channels": 4,
    "norm_num_groups": 4,
}


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    """Write a folder that holds a config alone, and return it."""
    folder.mkdir(parents=True)
    told = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(told))
    return folder


def write_pipeline(folder: Path) -> Path:
    """Write a pipeline of diffusers without weights: an index, and the configs of its modules."""
    write_config(folder / "unet", _UNET)
    write_config(folder / "vae", _VAE)
    write_config(folder / "text_encoder", CLIP_TEXT)
    index = {
        "_class_name": "StableDiffusionPipeline",
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "scheduler": ["diffusers", "PNDMScheduler"],
        "safety_checker": [None, None],
    }
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder

"""Speech, image and diffusion architectures that transformers and diffusers build, at the sizes of their publishers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from research.traced.entry import Entry, Made, image, tokens

__all__ = ["entries"]

WHISPER = {
    # name: width, encoder layers, decoder layers, heads, mel bands, vocabulary
    "tiny": (384, 4, 4, 6, 80, 51865),
    "base": (512, 6, 6, 8, 80, 51865),
    "small": (768, 12, 12, 12, 80, 51865),
    "medium": (1024, 24, 24, 16, 80, 51865),
    "large-v2": (1280, 32, 32, 20, 80, 51865),
    "large-v3": (1280, 32, 32, 20, 128, 51866),
    "large-v3-turbo": (1280, 32, 4, 20, 128, 51866),
    "medium-dis": (1024, 24, 2, 16, 80, 51865),
    "large-v2-dis": (1280, 32, 2, 20, 80, 51865),
}
CACHED = 127
"""Tokens already decoded before the step: half of the 256 that whisper.cpp's bench decodes."""


class Decoder(nn.Module):  # type: ignore[misc]
    """A decoder with its scores over the vocabulary: one step after some cached tokens."""

    def __init__(self, decoder: nn.Module, scores: nn.Module) -> None:
        super().__init__()
        self.decoder, self.scores = decoder, scores

    def forward(self, **inputs: Any) -> Any:
        return self.scores(self.decoder(**inputs).last_hidden_state)


def _whisper_config(name: str) -> Any:
    width, encoder, decoder, heads, mel, vocabulary = WHISPER[name]
    return hf.WhisperConfig(
        d_model=width,
        encoder_layers=encoder,
        decoder_layers=decoder,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        num_mel_bins=mel,
        vocab_size=vocabulary,
    )


def _whisper_encoder(name: str) -> Made:
    config = _whisper_config(name)
    return WhisperEncoder(config), {"input_features": torch.empty(1, config.num_mel_bins, 3000)}


def _whisper_decoder(name: str) -> Made:
    config = _whisper_config(name)
    model = hf.WhisperForConditionalGeneration(config)
    module = Decoder(model.model.decoder, model.proj_out).eval()
    encoded = torch.empty(1, 1500, config.d_model)
    first = module.decoder(input_ids=tokens(CACHED), encoder_hidden_states=encoded, use_cache=True)
    step = {"encoder_hidden_states": encoded, "past_key_values": first.past_key_values, "use_cache": True}
    return module, {"input_ids": tokens(1), **step}


def _marian_encoder() -> Made:
    sizes = {f"{side}_layers": 6 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": 8 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": 2048 for side in ("encoder", "decoder")}
    config = hf.MarianConfig(vocab_size=65001, d_model=512, pad_token_id=65000, decoder_start_token_id=65000, **sizes)
    return hf.MarianMTModel(config).model.encoder, {"input_ids": tokens(256)}


def _marian_decoder() -> Made:
    """Marian's decoder layer for layer in TrOCR's class, which can be traced with a filled cache."""
    config = hf.TrOCRConfig(
        vocab_size=65001,
        d_model=512,
        decoder_layers=6,
        decoder_attention_heads=8,
        decoder_ffn_dim=2048,
        cross_attention_hidden_size=512,
        activation_function="silu",
        use_learned_position_embeddings=False,
        layernorm_embedding=False,
    )
    return _step(hf.TrOCRForCausalLM(config), cached=255, encoded=torch.empty(1, 256, 512))


def _step(model: Any, cached: int, encoded: torch.Tensor) -> Made:
    """Return one step of a decoder after some cached tokens."""
    module = Decoder(model.model.decoder, model.output_projection).eval()
    first = module.decoder(input_ids=tokens(cached), encoder_hidden_states=encoded, use_cache=True)
    step = {"encoder_hidden_states": encoded, "past_key_values": first.past_key_values, "use_cache": True}
    return module, {"input_ids": tokens(1), **step}


def _trocr_encoder() -> Made:
    sizes = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
    return hf.DeiTModel(hf.DeiTConfig(image_size=384, **sizes), add_pooling_layer=True), (image(384),)


def _trocr_decoder() -> Made:
    config = hf.TrOCRConfig(
        vocab_size=64044,
        d_model=256,
        decoder_layers=6,
        decoder_attention_heads=8,
        decoder_ffn_dim=1024,
        cross_attention_hidden_size=384,
        activation_function="relu",
        scale_embedding=True,
        use_learned_position_embeddings=True,
        layernorm_embedding=True,
    )
    return _step(hf.TrOCRForCausalLM(config), cached=19, encoded=torch.empty(1, 578, 384))


def _detr(cls: str, backbone: str, side: int, *, dilation: bool = False) -> Made:
    config = getattr(hf, cls.replace("ForObjectDetection", "Config"))
    depths = {"resnet50": [3, 4, 6, 3], "resnet101": [3, 4, 23, 3]}[backbone]
    resnet = hf.ResNetConfig(layer_type="bottleneck", depths=depths, out_features=["stage4"])
    sizes: dict[str, Any] = {"backbone_config": resnet}
    model = getattr(hf, cls)(config(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, **sizes))
    if dilation:
        _dilate(model)
    return model, {"pixel_values": image(side), "pixel_mask": torch.ones(1, side, side)}


def _dilate(model: nn.Module) -> None:
    """Let the last stage keep its resolution, as the DC5 variants do: stride 1, and 3 x 3 kernels two pixels apart."""
    for name, part in model.named_modules():
        if "stages.3" in name and isinstance(part, nn.Conv2d):
            part.stride = (1, 1)
            if part.kernel_size == (3, 3):
                part.dilation, part.padding = (2, 2), (2, 2)


def _clip() -> Made:
    vision = {"patch_size": 16}
    model = hf.CLIPModel(hf.CLIPConfig(vision_config=vision))
    return model, {"input_ids": tokens(77), "pixel_values": image(224)}


def _sam2_encoder() -> Made:
    model = hf.Sam2Model(hf.Sam2Config())
    return Sam2Encoder(model), (image(1024),)


class Sam2Encoder(nn.Module):  # type: ignore[misc]
    """The image side of SAM 2: Hiera, its neck, and the narrowed feature maps that the decoder reads."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision = model.vision_encoder
        self.narrow = nn.ModuleList([model.mask_decoder.conv_s0, model.mask_decoder.conv_s1])

    def forward(self, pixels: torch.Tensor) -> Any:
        maps = self.vision(pixels).fpn_hidden_states
        return [narrow(part) for narrow, part in zip(self.narrow, maps, strict=False)], maps[-1]


def _stable_diffusion(part: str, version: str) -> Made:
    import diffusers

    wide = version == "2.1"
    context = 1024 if wide else 768
    if part == "text_encoder":
        sizes: dict[str, Any] = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
        if wide:
            sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23, "num_attention_heads": 16}
        else:
            sizes["num_attention_heads"] = 12
        return hf.CLIPTextModel(hf.CLIPTextConfig(vocab_size=49408, **sizes)), {"input_ids": tokens(77)}
    if part == "vae":
        vae = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            latent_channels=4,
        )
        return Painter(vae), (torch.empty(1, 4, 64, 64),)
    heads = (5, 10, 20, 20) if wide else 8
    given = {"cross_attention_dim": context, "attention_head_dim": heads, "use_linear_projection": wide}
    latents, step = torch.empty(1, 4, 64, 64), torch.ones(1)
    inputs = {"sample": latents, "timestep": step, "encoder_hidden_states": torch.empty(1, 77, context)}
    if part == "controlnet":
        module = diffusers.ControlNetModel(**given)
        return module, {**inputs, "controlnet_cond": image(512), "return_dict": False}
    return diffusers.UNet2DConditionModel(sample_size=64, **given), {**inputs, "return_dict": False}


class Painter(nn.Module):  # type: ignore[misc]
    """The half of an autoencoder that makes an image of latents."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.narrow, self.decoder = vae.post_quant_conv, vae.decoder

    def forward(self, latents: torch.Tensor) -> Any:
        return self.decoder(self.narrow(latents))


def _wav2vec2(large: bool) -> Made:
    sizes: dict[str, Any] = {"apply_spec_augment": False, "layerdrop": 0.0}
    if large:
        sizes |= {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
        sizes |= {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
    return hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**sizes)), {"input_values": torch.empty(1, 16_000 * 15)}


OTHERS: dict[str, tuple[str, str, str, dict[str, Any], Callable[[], Made]]] = {
    # trace: category, family, task, sizes, how it is built
    "architecture/detr-resnet50": (
        "vision",
        "detr",
        "object-detection",
        {"image_size": 480},
        lambda: _detr("DetrForObjectDetection", "resnet50", 480),
    ),
    "architecture/detr-resnet101": (
        "vision",
        "detr",
        "object-detection",
        {"image_size": 480},
        lambda: _detr("DetrForObjectDetection", "resnet101", 480),
    ),
    "architecture/detr-resnet50-dc5": (
        "vision",
        "detr",
        "object-detection",
        {"image_size": 480},
        lambda: _detr("DetrForObjectDetection", "resnet50", 480, dilation=True),
    ),
    "architecture/detr-resnet101-dc5": (
        "vision",
        "detr",
        "object-detection",
        {"image_size": 480},
        lambda: _detr("DetrForObjectDetection", "resnet101", 480, dilation=True),
    ),
    "architecture/conditional-detr-resnet50": (
        "vision",
        "conditional_detr",
        "object-detection",
        {"image_size": 480},
        lambda: _detr("ConditionalDetrForObjectDetection", "resnet50", 480),
    ),
    "architecture/depth-anything-small": (
        "vision",
        "depth_anything",
        "depth-estimation",
        {"image_size": 518},
        lambda: (
            hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig()),
            (image(518),),
        ),
    ),
    "architecture/segformer-b0": (
        "vision",
        "segformer",
        "image-segmentation",
        {"image_size": 512},
        lambda: (hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_labels=150)), (image(512),)),
    ),
    "architecture/videomae-base": (
        "video",
        "videomae",
        "video-classification",
        {"image_size": 224, "frames": 16},
        lambda: (
            hf.VideoMAEForVideoClassification(hf.VideoMAEConfig(num_labels=400)),
            (torch.empty(1, 16, 3, 224, 224),),
        ),
    ),
    "openai/clip-vit-base-patch16": (
        "multimodal",
        "clip",
        "zero-shot-image-classification",
        {"image_size": 224},
        _clip,
    ),
    "architecture/opus-mt/encoder": (
        "text_to_text",
        "marian",
        "translation",
        {"sequence_length": 256},
        _marian_encoder,
    ),
    "architecture/opus-mt/decoder": ("text_to_text", "marian", "translation", {}, _marian_decoder),
    "architecture/trocr-small/encoder": ("vision", "vision-encoder-decoder", "image-to-text", {}, _trocr_encoder),
    "architecture/trocr-small/decoder": ("vision", "vision-encoder-decoder", "image-to-text", {}, _trocr_decoder),
    "architecture/sam2.1-hiera-tiny/encoder": (
        "vision",
        "sam2",
        "mask-generation",
        {"image_size": 1024},
        _sam2_encoder,
    ),
    "microsoft/wavlm-base-plus": (
        "audio",
        "wavlm",
        "feature-extraction",
        {"audio_seconds": 20.0},
        lambda: (
            hf.WavLMModel(hf.WavLMConfig(apply_spec_augment=False)),
            {"input_values": torch.empty(1, 320_000)},
        ),
    ),
    "microsoft/layoutlmv3-base": (
        "multimodal",
        "layoutlmv3",
        "token-classification",
        {"sequence_length": 512},
        lambda: (
            hf.LayoutLMv3ForTokenClassification(hf.LayoutLMv3Config(vocab_size=50265)),
            {
                "input_ids": tokens(512),
                "bbox": torch.ones(1, 512, 4, dtype=torch.long, device="cpu"),
                "pixel_values": image(224),
            },
        ),
    ),
}


def entries() -> Iterator[Entry]:
    """Yield Whisper's halves, the parts of Stable Diffusion, and the others."""
    speech = "automatic-speech-recognition"
    for name in WHISPER:
        yield Entry(
            f"openai/whisper-{name}/encoder",
            "audio",
            "whisper",
            lambda name=name: _whisper_encoder(name),
            speech,
            {"audio_seconds": 30.0},
        )
        yield Entry(
            f"openai/whisper-{name}/decoder", "audio", "whisper", lambda name=name: _whisper_decoder(name), speech
        )
    for version in ("1.5", "2.1"):
        parts = ("text_encoder", "unet", "vae", "controlnet") if version == "1.5" else ("text_encoder", "unet", "vae")
        for part in parts:
            yield Entry(
                f"architecture/stable-diffusion-{version}/{part}",
                "diffusion",
                "stable-diffusion",
                lambda part=part, version=version: _stable_diffusion(part, version),
                "text-to-image",
                {"sequence_length": 77} if part == "text_encoder" else {"image_size": 512},
            )
    for name, (category, family, task, sizes, make) in OTHERS.items():
        yield Entry(name, category, family, make, task, sizes)
    for size in ("base", "large"):
        yield Entry(
            f"architecture/wav2vec2-{size}",
            "audio",
            "wav2vec2",
            lambda size=size: _wav2vec2(size == "large"),
            speech,
            {"audio_seconds": 15.0},
            True,
        )

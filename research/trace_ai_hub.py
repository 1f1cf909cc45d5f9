"""Trace those models of Qualcomm AI Hub whose architecture torchvision, timm or transformers builds.

    python -m research.trace_ai_hub OUT.ndjson.gz

One line a model: the data of an `assay.model.traced.v1` event under the name that `assay import ai-hub` gives it. Sizes
are those of the model cards (224 pixels and 384 tokens where they say nothing); what AI Hub changes for its devices is
not traced. Some minutes; needs torch, transformers, timm and a torchvision that belongs to the installed torch.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torchvision
import transformers
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from domain.catalogues import models
from runner.models import timm
from runner.tracing.trace import architecture_digest, record, traced_data

Made = tuple[Any, Any]

TORCHVISION = {
    "densenet121": ("densenet121", 224), "efficientnet_b0": ("efficientnet_b0", 224), "efficientnet_b4": ("efficientnet_b4", 380),
    "efficientnet_v2_s": ("efficientnet_v2_s", 384), "googlenet": ("googlenet", 224), "inception_v3": ("inception_v3", 224),
    "mnasnet05": ("mnasnet0_5", 224), "mobilenet_v2": ("mobilenet_v2", 224), "mobilenet_v3_large": ("mobilenet_v3_large", 224),
    "mobilenet_v3_small": ("mobilenet_v3_small", 224), "resnet18": ("resnet18", 224), "resnet50": ("resnet50", 224),
    "resnet101": ("resnet101", 224), "resnext50": ("resnext50_32x4d", 224), "resnext101": ("resnext101_32x8d", 224),
    "shufflenet_v2": ("shufflenet_v2_x0_5", 224), "squeezenet1_1": ("squeezenet1_1", 224), "vit": ("vit_b_16", 224),
    "wideresnet50": ("wide_resnet50_2", 224), "convnext_base": ("convnext_base", 224), "convnext_tiny": ("convnext_tiny", 224),
    "fcn_resnet50": ("fcn_resnet50", 520), "deeplabv3_plus_mobilenet": ("deeplabv3_mobilenet_v3_large", 513),
}  # fmt: skip
VIDEO = {"resnet_3d": "r3d_18", "resnet_mixed": "mc3_18", "resnet_2plus1d": "r2plus1d_18"}
TIMM = {
    "dla102x": ("dla102x", 224), "levit": ("levit_128s", 224), "efficientformer": ("efficientformer_l1", 224),
    "efficientvit_b2_cls": ("efficientvit_b2", 224), "efficientvit_l2_cls": ("efficientvit_l2", 224),
    "beit": ("beit_base_patch16_224", 224), "sequencer2d": ("sequencer2d_s", 224), "mobile_vit": ("mobilevit_s", 256),
    "nasnet": ("nasnetalarge", 331), "regnet": ("regnetx_032", 224), "regnet_y_800mf": ("regnety_008", 224),
}  # fmt: skip
WHISPER = {
    "whisper_tiny": (384, 4, 6, 1536, 80), "whisper_base": (512, 6, 8, 2048, 80), "whisper_small": (768, 12, 12, 3072, 80),
    "whisper_small_quantized": (768, 12, 12, 3072, 80), "whisper_large_v3_turbo": (1280, 32, 20, 5120, 128),
}  # fmt: skip
COMPONENTS = {
    "resnet_mixed": "ResNet-Mixed-Convolution", "whisper_tiny": "HfWhisperEncoder", "whisper_base": "HfWhisperEncoder", "whisper_small": "HfWhisperEncoder",
    "whisper_small_quantized": "WhisperSmallEncoderQuantizable", "whisper_large_v3_turbo": "HfWhisperEncoder",
}  # fmt: skip


def _pixels(side: int) -> dict[str, Any]:
    return {"pixel_values": torch.empty(1, 3, side, side)}


def _tokens(count: int) -> dict[str, Any]:
    ones = torch.ones(1, count, dtype=torch.long)
    return {"input_ids": ones, "attention_mask": ones}


def _vision(name: str, side: int) -> Made:
    given: dict[str, Any] = {"aux_logits": True, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if name.startswith(("fcn", "deeplab")):
        given["weights_backbone"] = None
    return torchvision.models.get_model(name, weights=None, **given), (torch.empty(1, 3, side, side),)


def _whisper(width: int, layers: int, heads: int, inner: int, mel: int) -> Made:
    config = transformers.WhisperConfig(
        d_model=width, encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=inner, num_mel_bins=mel
    )
    return WhisperEncoder(config), {"input_features": torch.empty(1, mel, 3000)}


def _detr(depths: list[int]) -> Made:
    backbone = transformers.ResNetConfig(layer_type="bottleneck", depths=depths, out_features=["stage4"])
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone_config=backbone, use_pretrained_backbone=False, backbone=None
    )
    return transformers.DetrForObjectDetection(config), {**_pixels(480), "pixel_mask": torch.ones(1, 480, 480)}


def _electra() -> Made:
    config = transformers.ElectraConfig(
        embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072
    )
    return transformers.ElectraForPreTraining(config), _tokens(384)


def _albert() -> Made:
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    return transformers.AlbertForMaskedLM(config), _tokens(384)


def _depth() -> Made:
    return transformers.DepthAnythingForDepthEstimation(transformers.DepthAnythingConfig()), _pixels(518)


LANGUAGE_AND_REST: dict[str, Callable[[], Made]] = {
    "albert_base_v2_hf": _albert,
    "bert_base_uncased_hf": lambda: (transformers.BertForMaskedLM(transformers.BertConfig()), _tokens(384)),
    "distil_bert_base_uncased_hf": lambda: (
        transformers.DistilBertForMaskedLM(transformers.DistilBertConfig()),
        _tokens(384),
    ),
    "electra_bert_base_discrim_google": _electra,
    "mobile_bert_uncased_google": lambda: (
        transformers.MobileBertForMaskedLM(transformers.MobileBertConfig()),
        _tokens(384),
    ),
    "huggingface_wavlm_base_plus": lambda: (
        transformers.WavLMModel(transformers.WavLMConfig()),
        {"input_values": torch.empty(1, 320_000)},
    ),
    "depth_anything": _depth,
    "depth_anything_v2": _depth,
    "segformer_base": lambda: (
        transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig()),
        _pixels(512),
    ),
    "video_mae": lambda: (
        transformers.VideoMAEForVideoClassification(transformers.VideoMAEConfig()),
        {"pixel_values": torch.empty(1, 16, 3, 224, 224)},
    ),
    "openai_clip": lambda: (
        transformers.CLIPModel(transformers.CLIPConfig()),
        {"input_ids": torch.ones(1, 77, dtype=torch.long), **_pixels(224)},
    ),
    "detr_resnet50": lambda: _detr([3, 4, 6, 3]),
    "detr_resnet101": lambda: _detr([3, 4, 23, 3]),
}


def named() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yield each model's AI Hub name and how it is built, on the meta device."""
    for name, (architecture, side) in TORCHVISION.items():
        yield name, lambda architecture=architecture, side=side: _vision(architecture, side)
    for name, architecture in VIDEO.items():
        yield (
            name,
            lambda architecture=architecture: (
                torchvision.models.get_model(architecture, weights=None),
                (torch.empty(1, 3, 16, 112, 112),),
            ),
        )
    for name, (architecture, side) in TIMM.items():
        yield (
            name,
            lambda architecture=architecture, side=side: (
                timm.create(architecture, side),
                (torch.empty(1, 3, side, side),),
            ),
        )
    for name, sizes in WHISPER.items():
        yield name, lambda sizes=sizes: _whisper(*sizes)
    yield from LANGUAGE_AND_REST.items()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m research.trace_ai_hub",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with gzip.open(options.out, "wt") as out:
        for name, make in named():
            with torch.device("meta"):
                module, inputs = make()
                rows, totals = record(module.eval(), inputs)
            known = models.find(name) or models.find(name.replace("_", "-"))
            slug = known.id if known else f"ai-hub/{name}" + (f"/{COMPONENTS[name]}" if name in COMPONENTS else "")
            model = {
                "id": slug, "family": name.split("_")[0], "architecture": architecture_digest(rows),
                "parameters": totals["parameters"],
            }  # fmt: skip
            out.write(json.dumps(traced_data(model, {}, rows, totals), separators=(",", ":")) + "\n")
            print(f"{slug} {totals['flops'] / 2e9:.2f} GMACs", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

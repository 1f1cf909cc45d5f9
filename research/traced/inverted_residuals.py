"""Classifiers of inverted residual blocks: GPUNet, and NVIDIA's EfficientNet with wide squeeze-and-excitation.

GPUNet: Wang, Li et al., "Searching the Deployable Convolution Neural Networks for GPUs", CVPR 2022, with the layer lists of
NVIDIA/DeepLearningExamples (PyTorch/Classification/GPUNet/configs). EfficientNet: Tan and Le, 2019; the wide variant takes
a quarter of the widened channels, not of the block's, as the squeezed width (PyTorch/Classification/ConvNets/efficientnet).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any, NamedTuple

from torch import nn

from research.traced.blocks import InvertedResidual, conv, divisible
from research.traced.entry import Entry, Made, image

__all__ = ["entries"]


class Layer(NamedTuple):
    """Blocks of one kind in a row; the stride is that of the first."""

    kind: str
    outputs: int
    stride: int = 1
    expansion: float = 1
    kernel: int = 3
    act: str = "relu"
    squeeze: bool = False
    count: int = 1


class GPUNet(NamedTuple):
    """Image size, width of the stem and its activation, the layers, and the widths of the end."""

    side: int
    stem: tuple[int, ...]
    stem_act: str
    layers: tuple[Layer, ...]
    tail: int
    distilled: bool = False


def _mixed(kernels: str, outputs: int, stride: int, expansions: str) -> tuple[Layer, ...]:
    """Return inverted residual blocks of one width, whose kernels and expansions change from block to block."""
    pairs = zip(kernels, expansions, strict=True)
    return tuple(
        Layer("irb", outputs, stride if number == 0 else 1, int(expansion), int(kernel))
        for number, (kernel, expansion) in enumerate(pairs)
    )


GPUNETS = {
    "gpunet-0": GPUNet(
        320,
        (32,),
        "silu",
        (
            Layer("conv", 32, count=2),
            Layer("fused", 32, 2, 5, count=2),
            Layer("fused", 64, 2, 5, count=3),
            Layer("irb", 256, 2, 5, act="silu", count=3),
            Layer("irb", 704, 2, 5, squeeze=True, count=2),
        ),
        1280,
    ),
    "gpunet-1": GPUNet(
        288,
        (24,),
        "silu",
        (
            Layer("conv", 24),
            Layer("fused", 64, 2, 4, act="silu", count=2),
            Layer("fused", 96, 2, 4, act="silu", count=2),
            Layer("irb", 160, 2, 2, act="silu", squeeze=True),
            Layer("irb", 288, 1, 5, count=4),
            Layer("irb", 448, 2, 4, squeeze=True, count=4),
        ),
        1280,
    ),
    "gpunet-2": GPUNet(
        384,
        (32,),
        "silu",
        (
            Layer("conv", 32, count=3),
            Layer("fused", 32, 2, 6, 5, "silu", squeeze=True),
            Layer("fused", 112, 2, 3, act="silu", count=3),
            Layer("irb", 144, 2, 6, act="silu", count=6),
            Layer("irb", 160, 1, 3, 5, count=4),
            Layer("irb", 224, 2, 3, act="silu", squeeze=True, count=8),
            Layer("irb", 832, 1, 2, 5, count=7),
        ),
        1280,
    ),
    "gpunet-p0": GPUNet(
        224,
        (32,),
        "relu",
        (
            Layer("conv", 32, count=2),
            Layer("conv", 64, 2),
            Layer("irb", 96, 2, 8),
            Layer("irb", 96, 1, 7.67, count=2),
            Layer("irb", 256, 2, 7.67),
            Layer("irb", 256, 1, 4.25, 5),
            Layer("irb", 256, 1, 4.75),
            Layer("irb", 704, 2, 8),
            Layer("irb", 704, 1, 3.82, 5),
            Layer("irb", 704, 1, 3.36),
            Layer("irb", 704, 1, 2.55),
            Layer("irb", 704, 2, 5.73),
        ),
        1984,
    ),
    "gpunet-p1": GPUNet(
        224,
        (32,),
        "relu",
        (
            Layer("conv", 32, count=2),
            Layer("conv", 64, 2, kernel=5),
            Layer("irb", 64, 1, 8, count=2),
            Layer("irb", 96, 2, 8, 5, count=2),
            Layer("irb", 256, 2, 8, 5),
            Layer("irb", 256, 1, 7.5, 5),
            Layer("irb", 256, 1, 7.88),
            Layer("irb", 704, 2, 7.88, 5),
            Layer("irb", 704, 1, 8, 5),
            Layer("irb", 704, 1, 7.41),
            Layer("irb", 704, 1, 8, 5),
            Layer("irb", 704, 2, 7.95, 5),
        ),
        1984,
    ),
    "gpunet-d1": GPUNet(
        456,
        (33,),
        "relu",
        (
            *_mixed("3", 33, 1, "1"),
            *_mixed("353", 44, 2, "343"),
            *_mixed("5535", 67, 2, "4463"),
            *_mixed("7535", 134, 2, "6634"),
            *_mixed("3573", 190, 1, "6664"),
            *_mixed("335333", 268, 2, "666333"),
        ),
        1984,
        True,
    ),
    "gpunet-d2": GPUNet(
        528,
        (48, 48, 48),
        "relu",
        (
            *_mixed("3", 48, 1, "1"),
            *_mixed("353", 64, 2, "343"),
            *_mixed("5535", 96, 2, "4463"),
            *_mixed("75355", 192, 2, "66344"),
            *_mixed("35753", 272, 1, "66664"),
            *_mixed("3353333", 384, 2, "6663333"),
        ),
        1984,
        True,
    ),
}

EFFICIENTNETS = {"b0": (1.0, 1.0, 224), "b4": (1.4, 1.8, 380)}
"""Width, depth and image size."""
EFFICIENTNET_STAGES = (
    # blocks, kernel, stride, expansion, width
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def _blocks(inputs: int, layer: Layer, distilled: bool) -> tuple[list[nn.Module], int]:
    made: list[nn.Module] = []
    for number in range(layer.count):
        stride = layer.stride if number == 0 else 1
        if layer.kind == "conv":
            made.append(conv(inputs, layer.outputs, layer.kernel, stride, layer.act))
        else:
            wide = inputs * int(layer.expansion) if distilled else divisible(inputs * layer.expansion)
            inner = round(wide * 0.25 / layer.expansion) if layer.squeeze else 0
            sizes: dict[str, Any] = {"wide": wide, "act": layer.act, "inner": inner, "fused": layer.kind == "fused"}
            made.append(InvertedResidual(inputs, layer.outputs, layer.kernel, stride, **sizes))
        inputs = layer.outputs
    return made, inputs


def _gpunet(name: str) -> Made:
    net = GPUNETS[name]
    parts: list[nn.Module] = []
    inputs = 3
    for number, width in enumerate(net.stem):
        parts.append(conv(inputs, width, 3, 2 if number == 0 else 1, net.stem_act))
        inputs = width
    for layer in net.layers:
        blocks, inputs = _blocks(inputs, layer, net.distilled)
        parts += blocks
    if net.distilled:
        parts += [conv(inputs, 1152, 1), nn.AdaptiveAvgPool2d(1)]
        parts += [nn.Conv2d(1152, net.tail, 1, bias=False), nn.ReLU()]
    else:
        parts += [conv(inputs, net.tail, 1), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(net.tail, 1000)), (image(net.side),)


def _wide_efficientnet(name: str) -> Made:
    width, depth, side = EFFICIENTNETS[name]
    inputs = divisible(32 * width)
    parts: list[nn.Module] = [conv(3, inputs, 3, 2, "silu")]
    for count, kernel, stride, expansion, outputs in EFFICIENTNET_STAGES:
        for number in range(ceil(count * depth)):
            wide = inputs * expansion
            sizes: dict[str, Any] = {"wide": wide, "act": "silu", "inner": wide // 4}
            parts.append(
                InvertedResidual(inputs, divisible(outputs * width), kernel, stride if number == 0 else 1, **sizes)
            )
            inputs = divisible(outputs * width)
    last = divisible(1280 * width)
    parts += [conv(inputs, last, 1, act="silu"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000)]
    return nn.Sequential(*parts), (image(side),)


def entries() -> Iterator[Entry]:
    """Yield the seven GPUNets and the two wide EfficientNets."""
    task = "image-classification"
    for name, net in GPUNETS.items():
        training = name in ("gpunet-0", "gpunet-1", "gpunet-2", "gpunet-d1")
        sizes = {"image_size": net.side}
        yield Entry(f"architecture/{name}", "vision", "gpunet", lambda name=name: _gpunet(name), task, sizes, training)
    # Qualcomm AI Hub compiles GPUNet-0 for images of 224 pixels.
    yield Entry(
        "architecture/gpunet-0",
        "vision",
        "gpunet",
        lambda: (_gpunet("gpunet-0")[0], (image(224),)),
        task,
        {"image_size": 224},
    )
    for name, (_, _, side) in EFFICIENTNETS.items():
        yield Entry(
            f"architecture/efficientnet-widese-{name}",
            "vision",
            "efficientnet",
            lambda name=name: _wide_efficientnet(name),
            task,
            {"image_size": side},
            True,
        )

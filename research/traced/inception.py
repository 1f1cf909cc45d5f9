"""Inception v2, ResNet v1, and the convolutional networks of the ONNX model zoo and of Caffe that no library here has.

Ioffe and Szegedy, "Batch Normalization", 2015, as tensorflow/models (slim) lays it out; He et al., 2015; AlexNet's two-group forms
(Krizhevsky et al., 2012, with the layer order of BVLC CaffeNet); Zeiler and Fergus, 2013 (ZFNet-512); Wang et al., "Pelee",
2018; He et al.'s improved residual units in ArcFace (Deng et al., 2019); Barsoum et al., "FER+", 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Bottleneck, Module, conv
from research.traced.entry import Entry, image

__all__ = ["InceptionV2", "entries"]


class Mixed(Module):
    """Branches side by side, joined along the channels."""

    def __init__(self, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _mixed(
    inputs: int, one: int, three: tuple[int, int], double: tuple[int, int], pooled: int, *, largest: bool = False
) -> nn.Module:
    pool = nn.MaxPool2d(3, 1, 1) if largest else nn.AvgPool2d(3, 1, 1)
    return Mixed(
        [
            conv(inputs, one, 1),
            nn.Sequential(conv(inputs, three[0], 1), conv(*three)),
            nn.Sequential(conv(inputs, double[0], 1), conv(*double), conv(double[1], double[1])),
            nn.Sequential(pool, conv(inputs, pooled, 1)),
        ]
    )


def _reduced(inputs: int, three: tuple[int, int], double: tuple[int, int]) -> nn.Module:
    return Mixed(
        [
            nn.Sequential(conv(inputs, three[0], 1), conv(*three, 3, 2)),
            nn.Sequential(conv(inputs, double[0], 1), conv(*double), conv(double[1], double[1], 3, 2)),
            nn.MaxPool2d(3, 2, 1),
        ]
    )


class InceptionV2(Module):
    """Inception with batch norms, every 5 x 5 convolution replaced by two of 3 x 3."""

    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(nn.Conv2d(3, 24, 7, 2, 3, groups=3, bias=False), conv(24, 64, 1))
        self.stem = nn.ModuleList([first, nn.MaxPool2d(3, 2, 1), conv(64, 64, 1), conv(64, 192), nn.MaxPool2d(3, 2, 1)])
        self.blocks = nn.ModuleList(
            [
                _mixed(192, 64, (64, 64), (64, 96), 32),
                _mixed(256, 64, (64, 96), (64, 96), 64),
                _reduced(320, (128, 160), (64, 96)),
                _mixed(576, 224, (64, 96), (96, 128), 128),
                _mixed(576, 192, (96, 128), (96, 128), 128),
                _mixed(576, 160, (128, 160), (128, 160), 96),
                _mixed(576, 96, (128, 192), (160, 192), 96),
                _reduced(576, (128, 192), (192, 256)),
                _mixed(1024, 352, (192, 320), (160, 224), 128),
                _mixed(1024, 352, (192, 320), (192, 224), 128, largest=True),
            ]
        )
        self.classify = nn.Linear(1024, 1001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        for part in (*self.stem, *self.blocks):
            x = part(x)
        return self.classify(x.mean((2, 3)))


class ResNetV1(Module):
    """ResNet as it was first published, with the strides at the first convolution of a block."""

    def __init__(self, depths: Sequence[int]) -> None:
        super().__init__()
        parts: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for index, depth in enumerate(depths):
            for number in range(depth):
                stride = 2 if index and number == 0 else 1
                parts.append(Bottleneck(inputs, 64 * 2**index, stride, early=True))
                inputs = 256 * 2**index
        self.body, self.classify = nn.Sequential(*parts), nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.body(x).mean((2, 3)))


def _alexnet() -> nn.Module:
    """CaffeNet and Caffe's AlexNet: groups of two in three convolutions; they differ in the order of pooling alone."""
    return nn.Sequential(
        conv(3, 96, 11, 4, norm=False, padding=0),
        nn.MaxPool2d(3, 2),
        nn.LocalResponseNorm(5),
        conv(96, 256, 5, groups=2, norm=False),
        nn.MaxPool2d(3, 2),
        nn.LocalResponseNorm(5),
        conv(256, 384, norm=False),
        conv(384, 384, groups=2, norm=False),
        conv(384, 256, groups=2, norm=False),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(256 * 36, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    )


def _zfnet() -> nn.Module:
    return nn.Sequential(
        conv(3, 96, 7, 2, norm=False, padding=1),
        nn.LocalResponseNorm(5),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        conv(96, 256, 5, 2, norm=False, padding=0),
        nn.LocalResponseNorm(5),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        conv(256, 512, norm=False),
        conv(512, 1024, norm=False),
        conv(1024, 512, norm=False),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(512 * 36, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    )


class TwoWay(Module):
    """PeleeNet's dense layer: two branches of different reach, joined to the input."""

    def __init__(self, inputs: int, inner: int) -> None:
        super().__init__()
        self.near = nn.Sequential(conv(inputs, inner, 1), conv(inner, 16))
        self.far = nn.Sequential(conv(inputs, inner, 1), conv(inner, 16), conv(16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((x, self.near(x), self.far(x)), 1)


class PeleeStem(Module):
    """PeleeNet's first layers: a convolution and a pooling side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.join = conv(3, 32, 3, 2), conv(64, 32, 1)
        self.left, self.pool = nn.Sequential(conv(32, 16, 1), conv(16, 32, 3, 2)), nn.MaxPool2d(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.join(torch.cat((self.left(x), self.pool(x)), 1))


def _peleenet() -> nn.Module:
    parts: list[nn.Module] = [PeleeStem()]
    width = 32
    for number, (count, inner) in enumerate(((3, 16), (4, 32), (8, 64), (6, 64))):
        for _ in range(count):
            parts.append(TwoWay(width, inner))
            width += 32
        parts.append(conv(width, width, 1))
        if number < 3:
            parts.append(nn.AvgPool2d(2, 2))
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


class ArcUnit(Module):
    """The improved residual unit of ArcFace: norm, convolution, norm, PReLU, convolution with the stride, norm."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.PReLU(outputs),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = conv(inputs, outputs, 1, stride, None) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.skip(x)


def _arcface() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64)]
    inputs = 64
    for count, outputs in ((3, 64), (13, 128), (30, 256), (3, 512)):
        for number in range(count):
            parts.append(ArcUnit(inputs, outputs, 2 if number == 0 else 1))
            inputs = outputs
    return nn.Sequential(*parts, nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 49, 512), nn.BatchNorm1d(512))


def _ferplus() -> nn.Module:
    parts: list[nn.Module] = []
    inputs = 1
    for count, outputs in ((2, 64), (2, 128), (3, 256), (3, 256)):
        for _ in range(count):
            parts.append(conv(inputs, outputs, norm=False))
            inputs = outputs
        parts.append(nn.MaxPool2d(2, 2))
    hidden = [nn.Linear(256 * 16, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)]
    return nn.Sequential(*parts, nn.Flatten(), *hidden)


NETS: dict[str, tuple[str, int, int, Any]] = {
    # trace: family, image size, channels, how it is built
    "architecture/resnet50-v1": ("resnet", 224, 3, lambda: ResNetV1((3, 4, 6, 3))),
    "architecture/resnet101-v1": ("resnet", 224, 3, lambda: ResNetV1((3, 4, 23, 3))),
    "architecture/resnet152-v1": ("resnet", 224, 3, lambda: ResNetV1((3, 8, 36, 3))),
    "architecture/inception-v2": ("inception", 224, 3, InceptionV2),
    "architecture/caffenet": ("alexnet", 227, 3, _alexnet),
    "architecture/zfnet-512": ("zfnet", 224, 3, _zfnet),
    "architecture/peleenet": ("peleenet", 224, 3, _peleenet),
    "architecture/arcface-resnet100": ("arcface", 112, 3, _arcface),
    "architecture/emotion-ferplus": ("vgg", 64, 1, _ferplus),
}


def entries() -> Iterator[Entry]:
    """Yield the classifiers of this module."""
    for name, (family, side, channels, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, side=side, channels=channels: (build(), (image(side, channels=channels),)),
            "image-classification",
            {"image_size": side},
        )

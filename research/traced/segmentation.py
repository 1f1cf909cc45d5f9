"""Segmentation networks: U-Net in five layouts, DeepLabv3+ on two backbones, PSPNet.

Ronneberger et al., "U-Net", 2015; Isensee et al., "nnU-Net", 2021, with NVIDIA's layout for the brain tumour data; Chen et al.,
"DeepLabv3+", 2018, on Xception as SegmenTron has it; Zhao et al., "PSPNet", 2017. Sizes are those of openvinotoolkit,
NVIDIA/DeepLearningExamples and quic/ai-hub-models.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import InvertedResidual, Module, ResNet, conv, resize
from research.traced.entry import Entry, image

__all__ = ["UNet", "entries"]


class UNet(Module):
    """The network of 2015: pairs of convolutions, pooling down, transposed convolutions up, maps joined across.

    `valid` convolutions lose their margin, as the original ones did, and the maps are cropped.
    """

    def __init__(
        self,
        classes: int,
        *,
        channels: int = 3,
        width: int = 64,
        depth: int = 4,
        norm: bool = True,
        valid: bool = False,
    ) -> None:
        super().__init__()
        widths = [width * 2**n for n in range(depth + 1)]
        margin = 0 if valid else None
        self.downs = nn.ModuleList(
            [self._pair(channels if n == 0 else widths[n - 1], w, norm, margin) for n, w in enumerate(widths)]
        )
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1])])
        self.joins = nn.ModuleList([self._pair(2 * w, w, norm, margin) for w in reversed(widths[:-1])])
        self.pool, self.out = nn.MaxPool2d(2, 2), nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int, norm: bool, margin: int | None) -> nn.Module:
        return nn.Sequential(
            conv(inputs, outputs, norm=norm, padding=margin), conv(outputs, outputs, norm=norm, padding=margin)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of each pixel."""
        kept = []
        for number, part in enumerate(self.downs):
            x = part(self.pool(x) if number else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.ups, self.joins, strict=True):
            x, skip = up(x), kept.pop()
            height, width = x.shape[-2:]
            top, left = (skip.shape[-2] - height) // 2, (skip.shape[-1] - width) // 2
            x = join(torch.cat((skip[..., top : top + height, left : left + width], x), 1))
        return self.out(x)


class NormalizedUNet(Module):
    """nnU-Net in two or three dimensions: strided convolutions, instance norms and leaky ReLUs."""

    def __init__(self, dimensions: int, widths: Sequence[int], channels: int = 4, classes: int = 4) -> None:
        super().__init__()
        self.kinds = (nn.Conv2d, nn.ConvTranspose2d, nn.InstanceNorm2d)
        if dimensions == 3:
            self.kinds = (nn.Conv3d, nn.ConvTranspose3d, nn.InstanceNorm3d)
        pairs = list(zip((channels, *widths[:-1]), widths, strict=True))
        self.downs = nn.ModuleList(
            [nn.Sequential(self._conv(a, b, 1 if n == 0 else 2), self._conv(b, b)) for n, (a, b) in enumerate(pairs)]
        )
        ups = [(b, a) for a, b in itertools.pairwise(widths)][::-1]
        self.ups = nn.ModuleList([self.kinds[1](a, b, 2, 2, bias=False) for a, b in ups])
        self.joins = nn.ModuleList([nn.Sequential(self._conv(2 * b, b), self._conv(b, b)) for _, b in ups])
        self.out = self.kinds[0](widths[0], classes, 1)

    def _conv(self, inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        plain, _, norm = self.kinds
        return nn.Sequential(
            plain(inputs, outputs, 3, stride, 1, bias=False), norm(outputs, affine=True), nn.LeakyReLU(0.01, True)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for part in self.downs:
            x = part(x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(torch.cat((up(x), kept.pop()), 1))
        return self.out(x)


class Pyramid(Module):
    """Atrous spatial pyramid pooling: convolutions of several dilations and the image's mean, joined."""

    def __init__(self, inputs: int, rates: Sequence[int], outputs: int = 256) -> None:
        super().__init__()
        self.parts = nn.ModuleList([conv(inputs, outputs, 1)])
        for rate in rates:
            self.parts.append(conv(inputs, outputs, 3, dilation=rate))
        self.mean, self.join = conv(inputs, outputs, 1), conv((len(rates) + 2) * outputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [part(x) for part in self.parts]
        maps.append(resize(self.mean(x.mean((2, 3), keepdim=True)), x))
        return self.join(torch.cat(maps, 1))


class MobileDeepLab(Module):
    """DeepLabv3+ on MobileNetV2 at stride 16, with the decoder that reads a fine map."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 1), (6, 320, 1, 1))

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        blocks, inputs = [], 32
        for expansion, outputs, count, stride in self.STAGES:
            for number in range(count):
                step = stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, outputs, 3, step, wide=inputs * expansion, act="relu6"))
                inputs = outputs
        self.stem, self.blocks = conv(3, 32, 3, 2, "relu6"), nn.ModuleList(blocks)
        self.pyramid, self.narrow = Pyramid(320, (6, 12, 18)), conv(24, 48, 1)
        self.decode = nn.Sequential(conv(304, 256), conv(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, fine = x, x
        x = self.stem(x)
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index == 2:
                fine = x
        x = torch.cat((resize(self.pyramid(x), fine), self.narrow(fine)), 1)
        return resize(self.decode(x), size)


def _separable(inputs: int, outputs: int, dilation: int = 1) -> nn.Module:
    return nn.Sequential(conv(inputs, inputs, 3, groups=inputs, dilation=dilation), conv(inputs, outputs, 1))


class XceptionDeepLab(Module):
    """DeepLabv3+ on Xception-65 at stride 16, with separable convolutions in pyramid and decoder, as SegmenTron has it."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        import timm

        self.backbone = timm.create_model("xception65", features_only=True, output_stride=16)
        self.parts = nn.ModuleList([conv(2048, 256, 1), *[_separable(2048, 256, rate) for rate in (6, 12, 18)]])
        self.mean, self.join = conv(2048, 256, 1), conv(1280, 256, 1)
        self.narrow = conv(256, 48, 1)
        self.decode = nn.Sequential(_separable(304, 256), _separable(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, maps = x, self.backbone(x)
        fine, x = maps[1], maps[-1]
        joined = [*(part(x) for part in self.parts), resize(self.mean(x.mean((2, 3), keepdim=True)), x)]
        x = resize(self.join(torch.cat(joined, 1)), fine)
        return resize(self.decode(torch.cat((x, self.narrow(fine)), 1)), size)


class Scene(Module):
    """PSPNet: a dilated ResNet-101 with the deep stem, pooling at four scales, and two convolutions."""

    def __init__(self, classes: int = 150) -> None:
        super().__init__()
        whole = ResNet((3, 4, 23, 3), strides=(1, 2, 1, 1), dilations=(1, 1, 2, 4))
        self.stages = whole
        self.bins = (1, 2, 3, 6)
        self.parts = nn.ModuleList([conv(2048, 512, 1) for _ in self.bins])
        self.out = nn.Sequential(conv(4096, 512), nn.Conv2d(512, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x
        x = self.stages(x)[-1]
        maps = [x]
        for side, part in zip(self.bins, self.parts, strict=True):
            maps.append(resize(part(nn.functional.adaptive_avg_pool2d(x, side)), x))
        return resize(self.out(torch.cat(maps, 1)), size)


def _volume(*sides: int, channels: int) -> torch.Tensor:
    return torch.empty(1, channels, *sides)


Built = tuple[str, dict[str, Any], Any, bool]
NETS: dict[str, Built] = {
    # trace: family, sizes, module and input, training
    "architecture/unet-camvid": ("unet", {}, lambda: (UNet(12), image(368, 480)), False),
    "architecture/unet-carvana": ("unet", {}, lambda: (UNet(2), image(640, 1280)), False),
    "architecture/unet-medical": (
        "unet",
        {"image_size": 572},
        lambda: (UNet(2, channels=1, norm=False, valid=True), image(572, channels=1)),
        True,
    ),
    "architecture/nnunet-2d": (
        "nnunet",
        {},
        lambda: (NormalizedUNet(2, (32, 64, 128, 256, 512, 512), channels=5), _volume(192, 160, channels=5)),
        False,
    ),
    "architecture/nnunet-3d": (
        "nnunet",
        {},
        lambda: (NormalizedUNet(3, (32, 64, 128, 256, 320, 320), channels=5), _volume(128, 128, 128, channels=5)),
        False,
    ),
    "architecture/deeplabv3plus-mobilenetv2": (
        "deeplab",
        {"image_size": 513},
        lambda: (MobileDeepLab(), image(513)),
        False,
    ),
    "architecture/deeplabv3plus-xception65": ("deeplab", {}, lambda: (XceptionDeepLab(), image(480, 520)), False),
    "architecture/pspnet-resnet101": ("pspnet", {"image_size": 473}, lambda: (Scene(), image(473)), False),
}


def _made(build: Any) -> Any:
    module, inputs = build()
    return module, (inputs,)


def entries() -> Iterator[Entry]:
    """Yield the segmentation networks."""
    for name, (family, sizes, build, training) in NETS.items():
        yield Entry(name, "vision", family, lambda build=build: _made(build), "image-segmentation", sizes, training)

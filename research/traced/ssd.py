"""Single-shot detectors: SSD on MobileNet and ResNet, and EfficientDet-D0.

Liu et al., "SSD", 2016, as the TensorFlow object detection zoo (MobileNet v1 and v2, ResNet-50 v1 with a feature pyramid),
MLPerf inference (ResNet-34 at 1200 pixels) and NVIDIA/DeepLearningExamples (ResNet-50 at 300 pixels) configure it; Tan et
al., "EfficientDet", 2020. Parameters and operations agree with openvinotoolkit/open_model_zoo (models/public). What comes
after the network (decoding, non-maximum suppression) is not traced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import InvertedResidual, Module, ResNet, conv, resize
from research.traced.entry import Entry, image

__all__ = ["MobileNetV1", "entries"]

Maps = list[torch.Tensor]


class MobileNetV1(Module):
    """Depthwise and pointwise convolutions in turn; returns the maps after the 11th and the 13th."""

    LAYERS = (
        # width, stride
        *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
        *((512, 1),) * 5,
        *((1024, 2), (1024, 1)),
    )

    def __init__(self, *, act: str = "relu6", last_stride: int = 2) -> None:
        super().__init__()
        self.stem, inputs, blocks = conv(3, 32, 3, 2, act), 32, []
        for outputs, stride in self.LAYERS:
            step = last_stride if (outputs, stride) == (1024, 2) else stride
            dilation = 2 if last_stride == 1 and outputs == 1024 and step == stride else 1
            depthwise = conv(inputs, inputs, 3, step, act, groups=inputs, dilation=dilation)
            blocks.append(nn.Sequential(depthwise, conv(inputs, outputs, 1, act=act)))
            inputs = outputs
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> Maps:
        """Return the maps after the 11th and the 13th layer."""
        x, maps = self.stem(x), []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in (10, 12):
                maps.append(x)
        return maps


class MobileNetV2(Module):
    """Inverted residuals; returns the widened map of the first block at stride 32 and the last map."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        self.stem, inputs, blocks = conv(3, 32, 3, 2, "relu6"), 32, []
        for expansion, outputs, count, stride in self.STAGES:
            for number in range(count):
                step = stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, outputs, 3, step, wide=inputs * expansion, act="relu6"))
                inputs = outputs
        self.blocks, self.last = nn.ModuleList(blocks), conv(320, 1280, 1, act="relu6")

    def forward(self, x: torch.Tensor) -> Maps:
        x, maps = self.stem(x), []
        for index, block in enumerate(self.blocks):
            if index == 13:
                widen, *rest = block.body
                wide = widen(x)
                maps.append(wide)
                for part in rest:
                    wide = part(wide)
                x = wide
            else:
                x = block(x)
        return [*maps, self.last(x)]


class MobileSSD(Module):
    """A backbone of two maps, four smaller ones after it, and a 1 x 1 (or 3 x 3) box predictor on each."""

    def __init__(self, backbone: nn.Module, widths: tuple[int, int], *, classes: int = 91, kernel: int = 1) -> None:
        super().__init__()
        self.backbone, inputs, extra = backbone, widths[1], []
        for inner, outputs in ((256, 512), (128, 256), (128, 256), (64, 128)):
            extra.append(nn.Sequential(conv(inputs, inner, 1, act="relu6"), conv(inner, outputs, 3, 2, "relu6")))
            inputs = outputs
        self.extra = nn.ModuleList(extra)
        every = (*widths, 512, 256, 256, 128)
        anchors = (3, 6, 6, 6, 6, 6)
        self.boxes = nn.ModuleList([_predictor(w, 4 * a, kernel) for w, a in zip(every, anchors, strict=True)])
        self.classes = nn.ModuleList([_predictor(w, classes * a, kernel) for w, a in zip(every, anchors, strict=True)])
        self.count = classes

    def forward(self, x: torch.Tensor) -> Any:
        maps = self.backbone(x)
        for part in self.extra:
            maps.append(part(maps[-1]))
        return _predictions(maps, self.boxes, self.classes, self.count)


def _predictor(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)


def _predictions(maps: Maps, boxes: Sequence[nn.Module], classes: Sequence[nn.Module], count: int) -> Any:
    placed = [part(x).permute(0, 2, 3, 1).reshape(1, -1, 4) for part, x in zip(boxes, maps, strict=True)]
    named = [part(x).permute(0, 2, 3, 1).reshape(1, -1, count) for part, x in zip(classes, maps, strict=True)]
    return torch.cat(placed, 1), torch.cat(named, 1).sigmoid()


class ResNetSSD(Module):
    """A ResNet up to its third stage, whose stride is left out, and five smaller maps after it."""

    def __init__(
        self,
        backbone: nn.Module,
        widths: Sequence[int],
        inner: Sequence[int],
        *,
        steps: Sequence[tuple[int, int]],
        predictor_strides: Sequence[int] = (1,) * 6,
        norm: bool,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        extra = []
        for index, (stride, margin) in enumerate(steps):
            narrow = conv(widths[index], inner[index], 1, norm=norm, bias=not norm)
            wide = conv(inner[index], widths[index + 1], 3, stride, norm=norm, bias=not norm, padding=margin)
            extra.append(nn.Sequential(narrow, wide))
        self.extra = nn.ModuleList(extra)
        sizes = list(zip(widths, (4, 6, 6, 6, 4, 4), predictor_strides, strict=True))
        self.boxes = nn.ModuleList([_predictor(w, 4 * a, 3, s) for w, a, s in sizes])
        self.classes = nn.ModuleList([_predictor(w, 81 * a, 3, s) for w, a, s in sizes])

    def forward(self, x: torch.Tensor) -> Any:
        maps = [self.backbone(x)[-1]]
        for part in self.extra:
            maps.append(part(maps[-1]))
        return _predictions(maps, self.boxes, self.classes, 81)


def _ssd_resnet34() -> nn.Module:
    backbone = ResNet((3, 4, 6), bottleneck=False, strides=(1, 2, 1))
    return ResNetSSD(
        backbone,
        (256, 512, 512, 256, 256, 256),
        (256, 256, 128, 128, 128),
        steps=((2, 1), (2, 1), (2, 1), (2, 1), (2, 1)),
        predictor_strides=(3, 3, 2, 2, 2, 2),
        norm=False,
    )


def _ssd_resnet50() -> nn.Module:
    backbone = ResNet((3, 4, 6), strides=(1, 2, 1))
    return ResNetSSD(
        backbone,
        (1024, 512, 512, 256, 256, 256),
        (256, 256, 128, 128, 128),
        steps=((2, 1), (2, 1), (2, 1), (1, 0), (1, 0)),
        norm=True,
    )


class PyramidSSD(Module):
    """ResNet-50, a feature pyramid of five levels, and heads of four convolutions each, the same on every level."""

    def __init__(self, *, classes: int = 90, anchors: int = 6) -> None:
        super().__init__()
        self.backbone = ResNet((3, 4, 6, 3))
        self.across = nn.ModuleList([nn.Conv2d(width, 256, 1) for width in (512, 1024, 2048)])
        self.smooth = nn.ModuleList([conv(256, 256, act="relu6") for _ in range(2)])
        self.down = nn.ModuleList([conv(256, 256, 3, 2, "relu6") for _ in range(2)])
        self.towers = nn.ModuleList([nn.Sequential(*[conv(256, 256, act="relu6") for _ in range(4)]) for _ in range(2)])
        self.boxes, self.classes = _predictor(256, 4 * anchors), _predictor(256, classes * anchors)
        self.count = classes

    def forward(self, x: torch.Tensor) -> Any:
        c3, c4, c5 = self.backbone(x)[1:]
        p5 = self.across[2](c5)
        p4 = self.across[1](c4) + resize(p5, c4, "nearest")
        p3 = self.across[0](c3) + resize(p4, c3, "nearest")
        p6 = self.down[0](p5)
        maps = [self.smooth[0](p3), self.smooth[1](p4), p5, p6, self.down[1](p6)]
        placed = [self.boxes(self.towers[0](level)).flatten(2) for level in maps]
        named = [self.classes(self.towers[1](level)).flatten(2) for level in maps]
        return torch.cat(placed, 2), torch.cat(named, 2).sigmoid()


class Separable(Module):
    """A depthwise convolution, a pointwise one, and a batch norm."""

    def __init__(self, inputs: int, outputs: int, *, norm: bool = True, act: bool = False) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1)
        self.norm = nn.BatchNorm2d(outputs) if norm else nn.Identity()
        self.act = nn.SiLU() if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.pointwise(self.depthwise(x))))


class Fusion(Module):
    """Add maps with weights of their own, activate, and convolve."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(count))
        self.conv = Separable(width, width)

    def forward(self, *maps: torch.Tensor) -> torch.Tensor:
        weights = nn.functional.relu(self.weights)
        weights = weights / (weights.sum() + 1e-4)
        mixed = torch.stack([x * weight for x, weight in zip(maps, weights.unbind(), strict=True)]).sum(0)
        return self.conv(nn.functional.silu(mixed))


class BiFPN(Module):
    """One layer of the weighted bidirectional pyramid: down from coarse to fine, then up again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.ModuleList([Fusion(width, 2) for _ in range(4)])
        self.up = nn.ModuleList([Fusion(width, 3 if level < 3 else 2) for level in range(4)])
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, maps: Maps) -> Maps:
        middle = [maps[4]]
        for level in (3, 2, 1, 0):
            middle.insert(0, self.down[level](maps[level], resize(middle[0], maps[level], "nearest")))
        outputs = [middle[0]]
        for level in (1, 2, 3, 4):
            below = self.pool(outputs[-1])
            parts = (maps[level], middle[level], below) if level < 4 else (maps[4], below)
            outputs.append(self.up[level - 1](*parts))
        return outputs


class EfficientDet(Module):
    """EfficientDet-D0: EfficientNet-B0, three BiFPN layers of 64 channels, and separable heads shared by the levels."""

    STAGES = (
        # blocks, kernel, stride, expansion, width
        (1, 3, 1, 1, 16),
        (2, 3, 2, 6, 24),
        (2, 5, 2, 6, 40),
        (3, 3, 2, 6, 80),
        (3, 5, 1, 6, 112),
        (4, 5, 2, 6, 192),
        (1, 3, 1, 6, 320),
    )

    def __init__(self, width: int = 64, layers: int = 3, classes: int = 90) -> None:
        super().__init__()
        self.stem, inputs, stages = conv(3, 32, 3, 2, "silu"), 32, []
        for count, kernel, stride, expansion, outputs in self.STAGES:
            blocks = []
            for number in range(count):
                sizes: dict[str, Any] = {"wide": inputs * expansion, "act": "silu", "inner": max(1, inputs // 4)}
                blocks.append(InvertedResidual(inputs, outputs, kernel, stride if number == 0 else 1, **sizes))
                inputs = outputs
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        self.across = nn.ModuleList([conv(w, width, 1, act=None, bias=True) for w in (40, 112, 320, 320)])
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.pyramid = nn.ModuleList([BiFPN(width) for _ in range(layers)])
        self.towers = nn.ModuleList(
            [nn.ModuleList([Separable(width, width, norm=False) for _ in range(3)]) for _ in range(2)]
        )
        self.norms = nn.ModuleList([nn.ModuleList([nn.BatchNorm2d(width) for _ in range(15)]) for _ in range(2)])
        self.outputs = nn.ModuleList([Separable(width, 9 * 4, norm=False), Separable(width, 9 * classes, norm=False)])

    def forward(self, x: torch.Tensor) -> Any:
        x, kept = self.stem(x), []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in (2, 4, 6):
                kept.append(x)
        maps = [part(level) for part, level in zip(self.across[:3], kept, strict=True)]
        maps.append(self.pool(self.across[3](kept[-1])))
        maps.append(self.pool(maps[-1]))
        for layer in self.pyramid:
            maps = layer(maps)
        return [torch.cat([self._head(part, number, x) for number, x in enumerate(maps)], 2) for part in (0, 1)]

    def _head(self, part: int, level: int, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.towers[part]):
            x = nn.functional.silu(self.norms[part][3 * level + number](layer(x)))
        return self.outputs[part](x).flatten(2)


NETS: dict[str, tuple[str, int, Any, bool]] = {
    # trace: family, image size, how it is built, training
    "architecture/ssd-mobilenet-v1": ("ssd", 300, lambda: MobileSSD(MobileNetV1(), (512, 1024)), False),
    "architecture/ssd-mobilenet-v2": ("ssd", 300, lambda: MobileSSD(MobileNetV2(), (576, 1280), kernel=3), False),
    "architecture/ssd-resnet34-1200": ("ssd", 1200, _ssd_resnet34, False),
    "architecture/ssd300-resnet50": ("ssd", 300, _ssd_resnet50, True),
    "architecture/ssd-resnet50-v1-fpn": ("ssd", 640, PyramidSSD, False),
    "architecture/efficientdet-d0": ("efficientdet", 512, EfficientDet, True),
}


def entries() -> Iterator[Entry]:
    """Yield the detectors of this module."""
    for name, (family, side, build, training) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, side=side: (build(), (image(side),)),
            "object-detection",
            {"image_size": side},
            training,
        )

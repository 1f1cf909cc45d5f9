"""Two-stage detectors: Faster and Mask R-CNN with the proposals of their published configurations.

Ren et al., 2015, and He et al., 2017, as the configurations of the TensorFlow object detection zoo say (tensorflow/models,
research/object_detection/samples/configs: 300 proposals, crops of 14 x 14 pooled to 7 x 7, 100 detections with masks of
33 x 33), and with a feature pyramid as torchvision and NVIDIA/DeepLearningExamples have it (1000 proposals). How many
proposals a picture leaves depends on its content; the configured number counts. Cropping is traced as the copy of a
crop's pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Bottleneck, Module, ResNet, conv, resize
from research.traced.entry import Entry, image
from research.traced.inception import InceptionV2

__all__ = ["crops", "entries"]


def crops(x: torch.Tensor, count: int, side: int) -> torch.Tensor:
    """Return crops of a map, each of this side: as many values are copied as crops have."""
    pixels = x.flatten(2)
    where = torch.zeros(count * side * side, dtype=torch.long, device="cpu")
    return pixels[0].index_select(1, where).view(x.shape[1], count, side, side).permute(1, 0, 2, 3).contiguous()


class Stage5(Module):
    """The last stage of a ResNet, on crops."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Bottleneck(1024, 512, stride), Bottleneck(2048, 512), Bottleneck(2048, 512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


class InceptionEnd(Module):
    """The last three blocks of Inception v2, on crops."""

    def __init__(self, whole: InceptionV2) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*whole.blocks[-3:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


class TwoStage(Module):
    """A backbone at one stride, proposals from it, and a second stage on each; masks where `masks` is their depth."""

    def __init__(
        self,
        backbone: nn.Module,
        second: nn.Module,
        widths: tuple[int, int],
        *,
        atrous: int = 1,
        proposals: int = 300,
        masks: int = 0,
        layers: int = 4,
        side: int = 33,
        classes: int = 90,
    ) -> None:
        super().__init__()
        self.backbone, self.second = backbone, second
        self.propose = nn.Conv2d(widths[0], 512, 3, padding=atrous, dilation=atrous)
        self.places, self.chances = nn.Conv2d(512, 48, 1), nn.Conv2d(512, 24, 1)
        self.named, self.placed = nn.Linear(widths[1], classes + 1), nn.Linear(widths[1], 4 * classes)
        self.proposals, self.side, self.pool = proposals, side, nn.MaxPool2d(2, 2)
        sizes = [widths[1], *[masks] * (layers - 1)]
        drawn = [conv(a, b, norm=False) for a, b in itertools.pairwise(sizes)]
        self.masks = nn.Sequential(*drawn, nn.Conv2d(masks, classes, 1)) if masks else None

    def forward(self, x: torch.Tensor) -> Any:
        features = self.backbone(x)
        features = features[-1] if isinstance(features, list) else features
        hidden = nn.functional.relu6(self.propose(features))
        found: list[torch.Tensor] = [self.places(hidden), self.chances(hidden).softmax(1)]
        second = self._second(features, self.proposals)
        mean = second.mean((2, 3))
        found += [self.named(mean).softmax(-1), self.placed(mean)]
        if self.masks is not None:
            detections = self._second(features, 100)
            found.append(self.masks(resize(detections, (self.side, self.side))).sigmoid())
        return found

    def _second(self, features: torch.Tensor, count: int) -> torch.Tensor:
        return self.second(self.pool(crops(features, count, 14)))


def _resnet(depths: tuple[int, ...], *, atrous: bool = False) -> nn.Module:
    return ResNet(depths, strides=(1, 2, 1 if atrous else 2), dilations=(1, 1, 2 if atrous else 1))


def _mask_resnet50() -> nn.Module:
    return TwoStage(_resnet((3, 4, 6), atrous=True), Stage5(), (1024, 2048), atrous=2, masks=314)


def _mask_inception() -> nn.Module:
    whole = InceptionV2()
    first = nn.Sequential(*whole.stem, *whole.blocks[:-3])
    return TwoStage(first, InceptionEnd(whole), (576, 1024), masks=256, layers=2, side=15)


class PyramidRCNN(Module):
    """ResNet-50 with a feature pyramid, proposals on five levels, box and mask heads of their own."""

    def __init__(self, *, proposals: int = 1000, detections: int = 100, masks: bool = True, classes: int = 91) -> None:
        super().__init__()
        self.backbone = ResNet((3, 4, 6, 3))
        self.across = nn.ModuleList([nn.Conv2d(width, 256, 1) for width in (256, 512, 1024, 2048)])
        self.smooth = nn.ModuleList([nn.Conv2d(256, 256, 3, padding=1) for _ in range(4)])
        self.propose, self.chances, self.places = (
            conv(256, 256, norm=False),
            nn.Conv2d(256, 3, 1),
            nn.Conv2d(256, 12, 1),
        )
        self.hidden = nn.Sequential(nn.Linear(256 * 49, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        self.named, self.placed = nn.Linear(1024, classes), nn.Linear(1024, 4 * classes)
        self.proposals, self.detections = proposals, detections
        drawn = [conv(256, 256, norm=False) for _ in range(4)]
        up = [nn.ConvTranspose2d(256, 256, 2, 2), nn.ReLU(), nn.Conv2d(256, classes, 1)]
        self.masks = nn.Sequential(*drawn, *up) if masks else None

    def forward(self, x: torch.Tensor) -> Any:
        levels = [across(part) for across, part in zip(self.across, self.backbone(x), strict=True)]
        for index in (2, 1, 0):
            levels[index] = levels[index] + resize(levels[index + 1], levels[index], "nearest")
        levels = [smooth(part) for smooth, part in zip(self.smooth, levels, strict=True)]
        found: list[torch.Tensor] = []
        for level in (*levels, nn.functional.max_pool2d(levels[-1], 1, 2)):
            hidden = self.propose(level)
            found += [self.chances(hidden).sigmoid(), self.places(hidden)]
        hidden = self.hidden(crops(levels[0], self.proposals, 7).flatten(1))
        found += [self.named(hidden).softmax(-1), self.placed(hidden)]
        if self.masks is not None:
            found.append(self.masks(crops(levels[0], self.detections, 14)).sigmoid())
        return found


NETS: dict[str, tuple[str, tuple[int, int], Any, bool]] = {
    # trace: family, height and width, how it is built, training
    "architecture/mask-rcnn-resnet50-atrous": ("mask_rcnn", (800, 1365), _mask_resnet50, False),
    "architecture/mask-rcnn-inception-v2": ("mask_rcnn", (800, 1365), _mask_inception, False),
    "architecture/mask-rcnn-resnet50-fpn": ("mask_rcnn", (800, 1344), PyramidRCNN, True),
    "architecture/faster-rcnn-resnet50": (
        "faster_rcnn",
        (600, 1024),
        lambda: TwoStage(_resnet((3, 4, 6)), Stage5(), (1024, 2048)),
        False,
    ),
    "architecture/faster-rcnn-resnet101": (
        "faster_rcnn",
        (600, 1024),
        lambda: TwoStage(_resnet((3, 4, 23)), Stage5(), (1024, 2048)),
        False,
    ),
    "architecture/faster-rcnn-resnet50-fpn": (
        "faster_rcnn",
        (800, 1088),
        lambda: PyramidRCNN(masks=False),
        False,
    ),
}


class Proposals(Module):
    """The part of a detector on the fourth stage that looks at the whole picture."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.propose = _resnet((3, 4, 6)), conv(1024, 1024, norm=False)
        self.places, self.chances = nn.Conv2d(1024, 60, 1), nn.Conv2d(1024, 15, 1)

    def forward(self, x: torch.Tensor) -> Any:
        features = self.backbone(x)[-1]
        hidden = self.propose(features)
        return features, self.places(hidden), self.chances(hidden)


class Heads(Module):
    """The part of it that looks at 200 crops."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.named, self.placed = Stage5(2), nn.Linear(2048, 81), nn.Linear(2048, 320)

    def forward(self, features: torch.Tensor) -> Any:
        mean = self.second(crops(features, 200, 14)).mean((2, 3))
        return self.named(mean).softmax(-1), self.placed(mean)


def entries() -> Iterator[Entry]:
    """Yield the two-stage detectors."""
    for name, (family, sides, build, training) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, sides=sides: (build(), (image(*sides),)),
            "object-detection",
            {"image_size": sides[0]},
            training,
        )
    name = "architecture/faster-rcnn-resnet50-c4"
    yield Entry(f"{name}/proposals", "vision", "faster_rcnn", lambda: (Proposals(), (image(800),)), "object-detection")
    yield Entry(
        f"{name}/heads",
        "vision",
        "faster_rcnn",
        lambda: (Heads(), (torch.empty(1, 1024, 50, 50),)),
        "object-detection",
    )

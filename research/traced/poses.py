"""Poses, faces, depth and writing: HRNet, PoseNet, IR-SE, MiDaS small, CRAFT and its reader.

Sun et al., "HRNet", 2019; Papandreou et al., "PersonLab", 2018, on MobileNet v1; Deng et al., "ArcFace", 2019, with squeeze
and excitation; Ranftl et al., "MiDaS", 2020; Baek et al., "CRAFT", 2019, and Shi et al., "CRNN", 2015, as EasyOCR reads
English. Sizes are those of quic/ai-hub-models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Basic, Bottleneck, InvertedResidual, Module, SqueezeExcite, conv, resize
from research.traced.entry import Entry, image
from research.traced.ssd import MobileNetV1

__all__ = ["entries"]

Maps = list[torch.Tensor]


class Exchange(Module):
    """One module of HRNet: four residual blocks on each branch, then every branch reads all others."""

    def __init__(self, widths: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Sequential(*[Basic(w, w) for _ in range(4)]) for w in widths])
        self.paths = nn.ModuleList(
            [
                nn.ModuleList([self._path(widths, source, target) for source in range(len(widths))])
                for target in range(outputs)
            ]
        )

    @staticmethod
    def _path(widths: Sequence[int], source: int, target: int) -> nn.Module:
        if source == target:
            return nn.Identity()
        if source > target:
            return conv(widths[source], widths[target], 1, act=None)
        steps = []
        for step in range(source, target):
            last = step == target - 1
            steps.append(conv(widths[source], widths[target if last else source], 3, 2, None if last else "relu"))
        return nn.Sequential(*steps)

    def forward(self, maps: Maps) -> Maps:
        maps = [branch(x) for branch, x in zip(self.branches, maps, strict=True)]
        outputs = []
        for target, paths in enumerate(self.paths):
            total = maps[target]
            for source, (path, x) in enumerate(zip(paths, maps, strict=True)):
                if source != target:
                    read = path(x)
                    total = total + (resize(read, maps[target], "nearest") if source > target else read)
            outputs.append(nn.functional.relu(total))
        return outputs


class HRNet(Module):
    """Branches of four resolutions side by side; the finest gives heat maps, or with `joins` all of them together."""

    def __init__(self, width: int, points: int, *, joins: bool) -> None:
        super().__init__()
        widths = [width * 2**n for n in range(4)]
        self.stem = nn.Sequential(conv(3, 64, 3, 2), conv(64, 64, 3, 2))
        self.first = nn.Sequential(Bottleneck(64, 64), *[Bottleneck(256, 64) for _ in range(3)])
        self.splits = nn.ModuleList(
            [
                nn.ModuleList([conv(256, widths[0]), conv(256, widths[1], 3, 2)]),
                conv(widths[1], widths[2], 3, 2),
                conv(widths[2], widths[3], 3, 2),
            ]
        )
        stages = []
        for branches, count in ((2, 1), (3, 4), (4, 3)):
            modules: list[nn.Module] = []
            for number in range(count):
                alone = branches == 4 and number == count - 1 and not joins
                modules.append(Exchange(widths[:branches], 1 if alone else branches))
            stages.append(nn.Sequential(*modules))
        self.stages, self.joins = nn.ModuleList(stages), joins
        total = sum(widths)
        joined = [conv(total, total, 1, bias=True), nn.Conv2d(total, points, 1)]
        self.out = nn.Sequential(*joined) if joins else nn.Conv2d(width, points, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(self.stem(x))
        maps = self.stages[0]([part(x) for part in self.splits[0]])
        for number in (1, 2):
            maps = self.stages[number]([*maps, self.splits[number](maps[-1])])
        if self.joins:
            maps = [torch.cat([maps[0], *(resize(part, maps[0]) for part in maps[1:])], 1)]
        return self.out(maps[0])


class PoseNet(Module):
    """MobileNet v1 at stride 16, with heat maps, offsets and displacements, and the largest value of each window."""

    def __init__(self) -> None:
        super().__init__()
        self.net = MobileNetV1(last_stride=1)
        self.outputs = nn.ModuleList([nn.Conv2d(1024, count, 1) for count in (17, 34, 32, 32)])
        self.window = nn.MaxPool2d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.net(x)[-1]
        heat, *rest = [part(x) for part in self.outputs]
        heat = heat.sigmoid()
        return heat, *rest, self.window(heat)


class FaceUnit(Module):
    """ArcFace's unit with squeeze and excitation."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.PReLU(outputs),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            SqueezeExcite(outputs, outputs // 16),
        )
        self.skip = conv(inputs, outputs, 1, stride, None) if inputs != outputs else nn.MaxPool2d(1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.skip(x)


def _face_embedding() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64)]
    inputs = 64
    for count, outputs in ((3, 64), (13, 128), (30, 256), (3, 512)):
        for number in range(count):
            parts.append(FaceUnit(inputs, outputs, 2 if number == 0 else 1))
            inputs = outputs
    return nn.Sequential(*parts, nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 49, 512), nn.BatchNorm1d(512))


class Refined(Module):
    """MiDaS' fusion: residual units on a map and on the one below it, then twice the size and half of the channels."""

    def __init__(self, width: int, outputs: int, *, reads: bool) -> None:
        super().__init__()
        self.units = nn.ModuleList([self._unit(width) for _ in range(2 if reads else 1)])
        self.out = nn.Conv2d(width, outputs, 1)

    @staticmethod
    def _unit(width: int) -> nn.Module:
        return nn.Sequential(nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))

    def forward(self, x: torch.Tensor, skip: torch.Tensor | None = None) -> torch.Tensor:
        if skip is not None:
            x = x + skip + self.units[0](skip)
        x = x + self.units[-1](x)
        return self.out(resize(x, (2 * x.shape[-2], 2 * x.shape[-1])))


class MidasSmall(Module):
    """EfficientNet-Lite3 and four fusions."""

    STAGES = (
        # blocks, kernel, stride, expansion, width
        (1, 3, 1, 1, 24),
        (3, 3, 2, 6, 32),
        (3, 5, 2, 6, 48),
        (5, 3, 2, 6, 96),
        (5, 5, 1, 6, 136),
        (6, 5, 2, 6, 232),
        (1, 3, 1, 6, 384),
    )

    def __init__(self) -> None:
        super().__init__()
        self.stem, inputs, stages = conv(3, 32, 3, 2, "relu6"), 32, []
        for count, kernel, stride, expansion, outputs in self.STAGES:
            blocks = []
            for number in range(count):
                step = stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, outputs, kernel, step, wide=inputs * expansion, act="relu6"))
                inputs = outputs
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        widths = (64, 128, 256, 512)
        pairs = zip((32, 48, 136, 384), widths, strict=True)
        self.across = nn.ModuleList([nn.Conv2d(a, b, 3, 1, 1, bias=False) for a, b in pairs])
        self.fuse = nn.ModuleList([Refined(w, max(w // 2, 64), reads=w < 512) for w in widths])
        self.out = nn.ModuleList([nn.Conv2d(64, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 1, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, maps = self.stem(x), []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in (1, 2, 4, 6):
                maps.append(x)
        maps = [across(part) for across, part in zip(self.across, maps, strict=True)]
        x = self.fuse[3](maps[3])
        for level in (2, 1, 0):
            x = self.fuse[level](x, maps[level])
        x = self.out[0](x)
        x = nn.functional.relu(self.out[1](resize(x, (2 * x.shape[-2], 2 * x.shape[-1]))))
        return nn.functional.relu(self.out[2](x)).squeeze(1)


class Craft(Module):
    """VGG-16 with batch norms down, and four double convolutions up to a map of characters and gaps."""

    def __init__(self) -> None:
        super().__init__()
        stages, inputs = [], 3
        for widths in ((64, 64, -1, 128, 128), (-1, 256, 256), (256, -1, 512, 512), (512, -1, 512, 512)):
            parts: list[nn.Module] = []
            for width in widths:
                if width < 0:
                    parts.append(nn.MaxPool2d(2, 2))
                else:
                    parts.append(conv(inputs, width, act="relu"))
                    inputs = width
            stages.append(nn.Sequential(*parts))
        self.stages = nn.ModuleList(stages)
        self.wide = nn.Sequential(
            nn.MaxPool2d(3, 1, 1), nn.Conv2d(512, 1024, 3, 1, 6, dilation=6), nn.Conv2d(1024, 1024, 1)
        )
        sizes = ((1536, 512, 256), (768, 256, 128), (384, 128, 64), (192, 64, 32))
        self.up = nn.ModuleList([nn.Sequential(conv(a, b, 1), conv(b, c)) for a, b, c in sizes])
        last = [conv(a, b, kernel, norm=False) for a, b, kernel in ((32, 32, 3), (32, 32, 3), (32, 16, 3), (16, 16, 1))]
        self.out = nn.Sequential(*last, nn.Conv2d(16, 2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        x = self.up[0](torch.cat((self.wide(x), x), 1))
        for number, skip in enumerate(reversed(maps[:-1]), 1):
            x = self.up[number](torch.cat((resize(x, skip), skip), 1))
        return self.out(x).permute(0, 2, 3, 1)


class Reader(Module):
    """EasyOCR's second generation: a small VGG, two bidirectional LSTMs, and scores of 97 characters."""

    def __init__(self) -> None:
        super().__init__()
        plain = [conv(1, 32, norm=False), nn.MaxPool2d(2, 2), conv(32, 64, norm=False), nn.MaxPool2d(2, 2)]
        plain += [conv(64, 128, norm=False), conv(128, 128, norm=False), nn.MaxPool2d((2, 1), (2, 1))]
        plain += [
            conv(128, 256),
            conv(256, 256),
            nn.MaxPool2d((2, 1), (2, 1)),
            conv(256, 256, 2, norm=False, padding=0),
        ]
        self.body = nn.Sequential(*plain)
        self.reads = nn.ModuleList([nn.LSTM(256, 256, bidirectional=True, batch_first=True) for _ in range(2)])
        self.narrow, self.out = nn.ModuleList([nn.Linear(512, 256) for _ in range(2)]), nn.Linear(256, 97)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x).permute(0, 3, 1, 2).mean(-1)
        for read, narrow in zip(self.reads, self.narrow, strict=True):
            x = narrow(read(x)[0])
        return self.out(x)


NETS: dict[str, tuple[str, tuple[int, int], int, str, Any]] = {
    # trace: family, height and width, channels, task, how it is built
    "architecture/hrnet-w32-pose": ("hrnet", (256, 192), 3, "keypoint-detection", lambda: HRNet(32, 17, joins=False)),
    "architecture/hrnet-w18-face": ("hrnet", (256, 256), 3, "keypoint-detection", lambda: HRNet(18, 29, joins=True)),
    "architecture/posenet-mobilenet": ("posenet", (513, 257), 3, "keypoint-detection", PoseNet),
    "architecture/ir-se-100": ("arcface", (112, 112), 3, "feature-extraction", _face_embedding),
    "architecture/midas-small": ("midas", (256, 256), 3, "depth-estimation", MidasSmall),
    "architecture/craft": ("craft", (608, 800), 3, "object-detection", Craft),
    "architecture/crnn-english": ("crnn", (64, 800), 1, "image-to-text", Reader),
}


def entries() -> Iterator[Entry]:
    """Yield the networks of this module."""
    for name, (family, sides, channels, task, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, sides=sides, channels=channels: (build(), (image(*sides, channels=channels),)),
            task,
        )

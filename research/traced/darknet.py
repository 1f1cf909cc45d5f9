"""YOLOv3 and its tiny variants, YOLOv6 nano and YOLOv7 tiny: detectors whose backbones are their own.

Redmon and Farhadi, "YOLOv3", 2018; Li et al., "YOLOv6 v3.0", 2023 (re-parameterised: one convolution a block);
Wang et al., "YOLOv7", 2022. Written from the papers and the published layer lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Module, conv
from research.traced.entry import Entry, image
from research.traced.yolo import Anchored, Decoupled, Residual

__all__ = ["Darknet53", "entries"]


def _leaky(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Module:
    return conv(inputs, outputs, kernel, stride, "leaky")


class Darknet53(Module):
    """The backbone of YOLOv3: residual blocks at five strides; returns the last three maps."""

    def __init__(self) -> None:
        super().__init__()
        stages, inputs = [], 32
        for count in (1, 2, 8, 8, 4):
            outputs = 2 * inputs
            blocks = [Residual(outputs, outputs, (1, 3), inputs, skips=True, act="leaky") for _ in range(count)]
            stages.append(nn.Sequential(_leaky(inputs, outputs, 3, 2), *blocks))
            inputs = outputs
        self.stem, self.stages = _leaky(3, 32, 3), nn.ModuleList(stages)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the maps at strides 8, 16 and 32."""
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps[-3:]


class YoloV3(Module):
    """Darknet-53 and three levels of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Darknet53()
        self.bodies = nn.ModuleList(
            [self._five(inputs, inner) for inputs, inner in ((1024, 512), (768, 256), (384, 128))]
        )
        self.narrow = nn.ModuleList([_leaky(512, 256), _leaky(256, 128)])
        self.widen = nn.ModuleList([_leaky(inner, 2 * inner, 3) for inner in (512, 256, 128)])
        self.head = Anchored((1024, 512, 256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    @staticmethod
    def _five(inputs: int, inner: int) -> nn.Module:
        return nn.Sequential(
            _leaky(inputs, inner),
            _leaky(inner, 2 * inner, 3),
            _leaky(2 * inner, inner),
            _leaky(inner, 2 * inner, 3),
            _leaky(2 * inner, inner),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine, middle, coarse = self.backbone(x)
        found, x = [], coarse
        for index, skip in enumerate((None, middle, fine)):
            if skip is not None:
                x = torch.cat((self.up(self.narrow[index - 1](x)), skip), 1)
            x = self.bodies[index](x)
            found.append(self.widen[index](x))
        return self.head(found)


class YoloV3Tiny(Module):
    """Six convolutions with max-pooling between them, and two levels of heads: of their time, or those of YOLOv8."""

    def __init__(self, head: nn.Module | None = None, act: str = "leaky") -> None:
        super().__init__()
        widths = (3, 16, 32, 64, 128, 256)
        parts: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            parts += [conv(inputs, outputs, act=act), nn.MaxPool2d(2, 2)]
        self.first = nn.Sequential(*parts[:-1])
        self.rest = nn.Sequential(
            parts[-1],
            conv(256, 512, act=act),
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.MaxPool2d(2, 1),
            conv(512, 1024, act=act),
            conv(1024, 256, 1, act=act),
        )
        self.coarse = conv(256, 512, act=act)
        self.narrow, self.fine = conv(256, 128, 1, act=act), conv(384, 256, act=act)
        self.up, self.head = nn.Upsample(scale_factor=2, mode="nearest"), head or Anchored((256, 512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = self.first(x)
        x = self.rest(middle)
        fine = self.fine(torch.cat((self.up(self.narrow(x)), middle), 1))
        return self.head([fine, self.coarse(x)])


class Elan(Module):
    """YOLOv7 tiny's block: two ways in, two convolutions on one of them, all four joined."""

    def __init__(self, inputs: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.left, self.right = _leaky(inputs, inner), _leaky(inputs, inner)
        self.first, self.second = _leaky(inner, inner, 3), _leaky(inner, inner, 3)
        self.join = _leaky(4 * inner, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.left(x), self.right(x)
        first = self.first(right)
        return self.join(torch.cat((self.second(first), first, right, left), 1))


class YoloV7Tiny(Module):
    """Four ELAN stages, pooling at three sizes, the way up and down, three levels of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_leaky(3, 32, 3, 2), _leaky(32, 64, 3, 2), Elan(64, 32, 64))
        self.stages = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2, 2), Elan(w, w, 2 * w)) for w in (64, 128, 256)])
        self.before, self.beside = _leaky(512, 256), _leaky(512, 256)
        self.pools = nn.ModuleList([nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13)])
        self.after, self.join = _leaky(1024, 256), _leaky(512, 256)
        self.narrow = nn.ModuleList([_leaky(256, 128), _leaky(128, 64)])
        self.skip = nn.ModuleList([_leaky(256, 128), _leaky(128, 64)])
        self.up_blocks = nn.ModuleList([Elan(256, 64, 128), Elan(128, 32, 64)])
        self.down = nn.ModuleList([_leaky(64, 128, 3, 2), _leaky(128, 256, 3, 2)])
        self.down_blocks = nn.ModuleList([Elan(256, 64, 128), Elan(512, 128, 256)])
        self.last = nn.ModuleList([_leaky(w, 2 * w, 3) for w in (64, 128, 256)])
        self.head, self.up = Anchored((128, 256, 512)), nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        fine, middle, coarse = maps
        pooled = self.before(coarse)
        pooled = self.after(torch.cat([*(pool(pooled) for pool in self.pools), pooled], 1))
        top = self.join(torch.cat((pooled, self.beside(coarse)), 1))
        mid = self.up_blocks[0](torch.cat((self.skip[0](middle), self.up(self.narrow[0](top))), 1))
        low = self.up_blocks[1](torch.cat((self.skip[1](fine), self.up(self.narrow[1](mid))), 1))
        mid = self.down_blocks[0](torch.cat((self.down[0](low), mid), 1))
        top = self.down_blocks[1](torch.cat((self.down[1](mid), top), 1))
        return self.head([last(part) for last, part in zip(self.last, (low, mid, top), strict=True)])


def _rep(inputs: int, outputs: int, count: int) -> nn.Module:
    """Re-parameterised blocks: a 3 x 3 convolution with bias and ReLU each."""
    widths = [inputs, *[outputs] * count]
    return nn.Sequential(*[conv(a, b, norm=False) for a, b in itertools.pairwise(widths)])


class Fusion(Module):
    """YOLOv6's join of three neighbouring levels."""

    def __init__(self, same: int, finer: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(outputs, outputs, 2, 2)
        self.same, self.finer = conv(same, outputs, 1), conv(finer, outputs, 1)
        self.down, self.join = conv(outputs, outputs, 3, 2), conv(3 * outputs, outputs, 1)

    def forward(self, coarse: torch.Tensor, same: torch.Tensor, finer: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat((self.up(coarse), self.same(same), self.down(self.finer(finer))), 1))


class YoloV6Nano(Module):
    """YOLOv6 3.0 nano as it is deployed."""

    def __init__(self) -> None:
        super().__init__()
        widths, counts = (16, 32, 64, 128, 256), (2, 4, 6, 2)
        self.stem = conv(3, widths[0], 3, 2, norm=False)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(
                    conv(widths[i], widths[i + 1], 3, 2, norm=False), _rep(widths[i + 1], widths[i + 1], count)
                )
                for i, count in enumerate(counts)
            ]
        )
        self.left = nn.Sequential(conv(256, 128, 1), conv(128, 128), conv(128, 128, 1))
        self.right, self.pool = conv(256, 128, 1), nn.MaxPool2d(5, 1, 2)
        self.after, self.join = nn.Sequential(conv(512, 128, 1), conv(128, 128)), conv(256, 256, 1)
        self.narrow = nn.ModuleList([conv(256, 64, 1), conv(64, 32, 1)])
        self.fuse = nn.ModuleList([Fusion(128, 64, 64), Fusion(64, 32, 32)])
        self.up_blocks = nn.ModuleList([_rep(64, 64, 4), _rep(32, 32, 4)])
        self.down = nn.ModuleList([conv(32, 32, 3, 2), conv(64, 64, 3, 2)])
        self.down_blocks = nn.ModuleList([_rep(64, 64, 4), _rep(128, 128, 4)])
        self.heads = nn.ModuleList([self._head(width) for width in (32, 64, 128)])

    @staticmethod
    def _head(width: int) -> nn.Module:
        parts = [conv(width, width, 1, act="silu"), conv(width, width, act="silu"), conv(width, width, act="silu")]
        return nn.ModuleList([*parts, nn.Conv2d(width, 80, 1), nn.Conv2d(width, 4, 1)])

    def forward(self, x: torch.Tensor) -> Any:
        maps, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        finest, fine, middle, coarse = maps
        left = [self.left(coarse)]
        for _ in range(3):
            left.append(self.pool(left[-1]))
        coarse = self.join(torch.cat((self.right(coarse), self.after(torch.cat(left, 1))), 1))
        top = self.narrow[0](coarse)
        mid = self.up_blocks[0](self.fuse[0](top, middle, fine))
        mid_narrow = self.narrow[1](mid)
        low = self.up_blocks[1](self.fuse[1](mid_narrow, fine, finest))
        mid = self.down_blocks[0](torch.cat((self.down[0](low), mid_narrow), 1))
        top = self.down_blocks[1](torch.cat((self.down[1](mid), top), 1))
        return torch.cat([self._found(head, part) for head, part in zip(self.heads, (low, mid, top), strict=True)], 2)

    @staticmethod
    def _found(head: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
        stem, named, placed, label, box = head
        x = stem(x)
        distances, scores = box(placed(x)).flatten(2), label(named(x)).sigmoid().flatten(2)
        anchors = distances.new_empty(1, 2, distances.shape[-1])
        near, far = anchors - distances[:, :2], anchors + distances[:, 2:]
        return torch.cat(((near + far) / 2, far - near, scores), 1)


NETS: dict[str, tuple[str, int, Any]] = {
    "architecture/yolov3": ("yolov3", 416, YoloV3),
    "architecture/yolov3-tiny": ("yolov3", 416, YoloV3Tiny),
    "architecture/yolov3-tinyu": ("yolov3", 416, lambda: YoloV3Tiny(Decoupled((256, 512)), "silu")),
    "architecture/yolov6n": ("yolov6", 640, YoloV6Nano),
    "architecture/yolov7-tiny": ("yolov7", 640, YoloV7Tiny),
}


def entries() -> Iterator[Entry]:
    """Yield the detectors of this module."""
    for name, (family, side, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, side=side: (build(), (image(side),)),
            "object-detection",
            {"image_size": side},
        )

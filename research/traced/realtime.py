"""Networks that segment street scenes at their full size: FFNet, DDRNet, PIDNet and BiSeNet.

Mehta et al., "Simple and efficient architectures for semantic segmentation", 2022; Hong et al., "Deep dual-resolution
networks", 2021; Xu et al., "PIDNet", 2023; Yu et al., "BiSeNet", 2018. Layers and widths are those of their authors'
published code; sizes those of quic/ai-hub-models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from research.traced.blocks import Basic, Module, conv, resize
from research.traced.entry import Entry, image

__all__ = ["entries"]


class FFNet(Module):
    """A slim ResNet and a head that adds the maps from coarse to fine, then joins them all."""

    def __init__(
        self,
        depths: Sequence[int],
        strides: Sequence[int],
        widths: Sequence[int],
        *,
        head: str,
    ) -> None:
        super().__init__()
        stem = [conv(3, 32, 3, 2), conv(32, 64, 3, 2)]
        self.narrow = len(depths) == 3
        self.stem = nn.Sequential(*stem, conv(64, 64))
        stages, inputs = [], 64
        for depth, stride, width in zip(depths, strides, widths[-len(depths) :], strict=True):
            blocks = [Basic(inputs if n == 0 else width, width, stride if n == 0 else 1) for n in range(depth)]
            stages.append(nn.Sequential(*blocks))
            inputs = width
        self.stages = nn.ModuleList(stages)
        base = {"B": (64, 128, 128, 256), "C": (128, 128, 128, 128)}[head]
        out = {"B": (96, 96, 64, 32), "C": (128, 16, 16, 16)}[head]
        self.adapt = nn.ModuleList([conv(a, b, 1) for a, b in zip(widths, base, strict=True)])
        self.smooth = nn.ModuleList([conv(a, b) for a, b in zip(base, out, strict=True)])
        self.ups = nn.ModuleList([conv(base[n + 1], base[n], 1) for n in range(3)])
        middle, kernel = (256, 3) if head == "B" else (128, 1)
        self.out = nn.Sequential(
            conv(sum(out), middle, kernel, bias=True), nn.Conv2d(middle, 19, kernel, 1, kernel // 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        maps = [x] if self.narrow else []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        maps = [adapt(part) for adapt, part in zip(self.adapt, maps, strict=True)]
        smooth = [self.smooth[3](maps[3])]
        x = maps[3]
        for level in (2, 1, 0):
            x = resize(self.ups[level](x), maps[level], "nearest") + maps[level]
            smooth.insert(0, self.smooth[level](x))
        joined = torch.cat([smooth[0], *(resize(part, smooth[0], "nearest") for part in smooth[1:])], 1)
        return self.out(joined)


class Plain(Module):
    """A residual block of two convolutions whose last activation may be left out."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, *, act: bool = True) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs, act=None))
        changes = stride != 1 or inputs != outputs
        self.skip, self.act = conv(inputs, outputs, 1, stride, None) if changes else nn.Identity(), act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x) + self.skip(x)
        return functional.relu(x) if self.act else x


class Wide(Module):
    """A bottleneck that doubles the width, without the last activation."""

    def __init__(self, inputs: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, planes, 1), conv(planes, planes, 3, stride), conv(planes, 2 * planes, 1, act=None)
        )
        changes = stride != 1 or inputs != 2 * planes
        self.skip = conv(inputs, 2 * planes, 1, stride, None) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.skip(x)


def _layer(inputs: int, outputs: int, count: int, stride: int = 1) -> nn.Module:
    blocks = [
        Plain(inputs if n == 0 else outputs, outputs, stride if n == 0 else 1, act=n == 0 or n < count - 1)
        for n in range(count)
    ]
    return nn.Sequential(*blocks)


def _before(inputs: int, outputs: int, kernel: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a norm, an activation and a convolution, in this order."""
    return [
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2, groups=groups, bias=False),
    ]


class PyramidPooling(Module):
    """Context from pooling at five scales: one after the other (`serial`), or side by side in groups."""

    def __init__(self, inputs: int, inner: int, outputs: int, *, serial: bool) -> None:
        super().__init__()
        pools = [nn.AvgPool2d(k, s, k // 2) for k, s in ((5, 2), (9, 4), (17, 8))] + [nn.AdaptiveAvgPool2d(1)]
        self.scales = nn.ModuleList([nn.Sequential(*_before(inputs, inner))])
        for pool in pools:
            self.scales.append(nn.Sequential(pool, *_before(inputs, inner)))
        if serial:
            self.steps = nn.ModuleList([nn.Sequential(*_before(inner, inner, 3)) for _ in range(4)])
        else:
            self.steps = nn.ModuleList([nn.Sequential(*_before(4 * inner, 4 * inner, 3, 4))])
        self.join, self.skip = nn.Sequential(*_before(5 * inner, outputs)), nn.Sequential(*_before(inputs, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [self.scales[0](x)]
        scaled = [resize(scale(x), x) for scale in self.scales[1:]]
        if len(self.steps) > 1:
            for step, part in zip(self.steps, scaled, strict=True):
                maps.append(step(part + maps[-1]))
        else:
            maps.append(self.steps[0](torch.cat([part + maps[0] for part in scaled], 1)))
        return self.join(torch.cat(maps, 1)) + self.skip(x)


def _head(inputs: int, inner: int, classes: int) -> nn.Module:
    return nn.Sequential(*_before(inputs, inner, 3), nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, classes, 1))


class DualResNet(Module):
    """DDRNet-23 slim: two branches of different resolution that exchange their maps twice."""

    def __init__(self, width: int = 32, classes: int = 19) -> None:
        super().__init__()
        w = width
        self.stem = nn.Sequential(conv(3, w, 3, 2, bias=True), conv(w, w, 3, 2, bias=True))
        self.layers = nn.ModuleList(
            [_layer(w, w, 2), _layer(w, 2 * w, 2, 2), _layer(2 * w, 4 * w, 2, 2), _layer(4 * w, 8 * w, 2, 2)]
        )
        self.fine = nn.ModuleList([_layer(2 * w, 2 * w, 2), _layer(2 * w, 2 * w, 2)])
        self.narrow = nn.ModuleList([conv(4 * w, 2 * w, 1, act=None), conv(8 * w, 2 * w, 1, act=None)])
        self.down = nn.ModuleList(
            [conv(2 * w, 4 * w, 3, 2, None), nn.Sequential(conv(2 * w, 4 * w, 3, 2), conv(4 * w, 8 * w, 3, 2, None))]
        )
        self.last, self.fine_last = Wide(8 * w, 8 * w, 2), Wide(2 * w, 2 * w)
        self.pool, self.head = PyramidPooling(16 * w, 128, 4 * w, serial=True), _head(4 * w, 2 * w, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        relu = functional.relu
        x = self.layers[1](relu(self.layers[0](self.stem(x))))
        fine = self.fine[0](relu(x))
        x = self.layers[2](relu(x))
        x, fine = x + self.down[0](relu(fine)), fine + resize(self.narrow[0](relu(x)), fine)
        x, fine = self.layers[3](relu(x)), self.fine[1](relu(fine))
        x, fine = x + self.down[1](relu(fine)), fine + resize(self.narrow[1](relu(x)), fine)
        fine = self.fine_last(relu(fine))
        x = resize(self.pool(self.last(relu(x))), fine)
        return self.head(x + fine)


class Attend(Module):
    """PIDNet's choice, pixel by pixel, between the detailed and the coarse map."""

    def __init__(self, inputs: int, inner: int) -> None:
        super().__init__()
        self.fine, self.coarse = conv(inputs, inner, 1, act=None), conv(inputs, inner, 1, act=None)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        alike = (self.fine(x) * resize(self.coarse(y), x)).sum(1, keepdim=True).sigmoid()
        return (1 - alike) * x + alike * resize(y, x)


class PIDNet(Module):
    """PIDNet small: three branches, of detail, context and boundaries."""

    def __init__(self, width: int = 32, classes: int = 19) -> None:
        super().__init__()
        w = width
        self.stem = nn.Sequential(conv(3, w, 3, 2, bias=True), conv(w, w, 3, 2, bias=True))
        self.layers = nn.ModuleList(
            [_layer(w, w, 2), _layer(w, 2 * w, 2, 2), _layer(2 * w, 4 * w, 3, 2), _layer(4 * w, 8 * w, 3, 2)]
        )
        self.context = nn.Sequential(Wide(8 * w, 8 * w, 2), nn.ReLU(), Wide(16 * w, 8 * w))
        self.narrow = nn.ModuleList([conv(4 * w, 2 * w, 1, act=None), conv(8 * w, 2 * w, 1, act=None)])
        self.attend = nn.ModuleList([Attend(2 * w, w), Attend(2 * w, w)])
        self.detail = nn.ModuleList([_layer(2 * w, 2 * w, 2), _layer(2 * w, 2 * w, 2), Wide(2 * w, 2 * w)])
        self.border = nn.ModuleList([Plain(2 * w, w, act=False), Wide(w, w), Wide(2 * w, 2 * w)])
        self.differ = nn.ModuleList([conv(4 * w, w, act=None), conv(8 * w, 2 * w, act=None)])
        self.pool = PyramidPooling(16 * w, 96, 4 * w, serial=False)
        self.mix = nn.ModuleList([conv(4 * w, 4 * w, 1, act=None) for _ in range(2)])
        self.head, self.extra = (
            _head(4 * w, 128, classes),
            nn.ModuleList([_head(2 * w, 128, classes), _head(2 * w, w, 1)]),
        )

    def forward(self, x: torch.Tensor) -> Any:
        relu = functional.relu
        x = relu(self.layers[1](relu(self.layers[0](self.stem(x)))))
        detail, border = self.detail[0](x), self.border[0](x)
        x = relu(self.layers[2](x))
        detail = self.attend[0](detail, self.narrow[0](x))
        border = border + resize(self.differ[0](x), border)
        shown = detail
        x = relu(self.layers[3](x))
        detail, border = self.detail[1](relu(detail)), self.border[1](relu(border))
        detail = self.attend[1](detail, self.narrow[1](x))
        border = border + resize(self.differ[1](x), border)
        edges = border
        detail, border = self.detail[2](relu(detail)), self.border[2](relu(border))
        x = resize(self.pool(self.context(x)), detail)
        edge = border.sigmoid()
        x = self.mix[0]((1 - edge) * x + detail) + self.mix[1](x + edge * detail)
        return self.extra[0](shown), self.head(x), self.extra[1](edges)


class Refine(Module):
    """BiSeNet's attention refinement: a convolution scaled by its own means."""

    def __init__(self, inputs: int, outputs: int = 128) -> None:
        super().__init__()
        self.conv, self.gate = conv(inputs, outputs), conv(outputs, outputs, 1, act="sigmoid")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return x * self.gate(x.mean((2, 3), keepdim=True))


class BiSeNet(Module):
    """BiSeNet v1 on ResNet-18: a path of detail beside a path of context."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.detail = nn.Sequential(conv(3, 64, 7, 2), conv(64, 64, 3, 2), conv(64, 64, 3, 2), conv(64, 128, 1))
        self.stem = nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        stages, inputs = [], 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            stages.append(nn.Sequential(Basic(inputs, width, stride), Basic(width, width)))
            inputs = width
        self.stages, self.refine = nn.ModuleList(stages), nn.ModuleList([Refine(256), Refine(512)])
        self.mean, self.smooth = conv(512, 128, 1), nn.ModuleList([conv(128, 128) for _ in range(2)])
        self.fuse = conv(256, 256, 1)
        self.gate = nn.Sequential(
            conv(256, 64, 1, norm=False, bias=False), conv(64, 256, 1, act="sigmoid", norm=False, bias=False)
        )
        self.out = nn.Sequential(conv(256, 256), nn.Conv2d(256, classes, 1, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, detail = x, self.detail(x)
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        coarse = self.refine[1](maps[3]) + resize(self.mean(maps[3].mean((2, 3), keepdim=True)), maps[3], "nearest")
        coarse = self.smooth[1](resize(coarse, maps[2], "nearest"))
        coarse = self.smooth[0](resize(self.refine[0](maps[2]) + coarse, detail, "nearest"))
        x = self.fuse(torch.cat((detail, coarse), 1))
        x = x + x * self.gate(x.mean((2, 3), keepdim=True))
        return resize(self.out(x), size)


SLIM, NARROW = (64, 128, 192, 320), (64, 64, 128, 256)
NETS: dict[str, tuple[str, tuple[int, int], Any]] = {
    # trace: family, height and width, how it is built
    "architecture/ffnet-40s": ("ffnet", (1024, 2048), lambda: FFNet((4, 5, 6, 4), (2, 2, 2, 2), SLIM, head="B")),
    "architecture/ffnet-54s": ("ffnet", (1024, 2048), lambda: FFNet((5, 8, 8, 5), (2, 2, 2, 2), SLIM, head="B")),
    "architecture/ffnet-78s": ("ffnet", (1024, 2048), lambda: FFNet((6, 12, 12, 8), (2, 2, 2, 2), SLIM, head="B")),
    "architecture/ffnet-78s-lowres": (
        "ffnet",
        (512, 1024),
        lambda: FFNet((6, 12, 12, 8), (1, 2, 2, 2), SLIM, head="C"),
    ),
    "architecture/ffnet-122ns-lowres": ("ffnet", (512, 1024), lambda: FFNet((16, 24, 20), (2, 2, 2), NARROW, head="C")),
    "architecture/ddrnet23-slim": ("ddrnet", (1024, 2048), DualResNet),
    "architecture/pidnet-s": ("pidnet", (1024, 2048), PIDNet),
    "architecture/bisenet-resnet18": ("bisenet", (720, 960), BiSeNet),
}


def entries() -> Iterator[Entry]:
    """Yield the networks of this module."""
    for name, (family, sides, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, sides=sides: (build(), (image(*sides),)),
            "image-segmentation",
        )

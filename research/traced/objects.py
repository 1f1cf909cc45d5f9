"""Networks that cut out one thing: SINet (portraits) and BGNet (camouflaged animals); and DeepBox' angles.

Park et al., "SINet", 2020; Sun et al., "Boundary-guided camouflaged object detection", 2022; Mousavian et al., 2017. Layers
are those of their authors' published code, sizes those of quic/ai-hub-models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from research.traced.blocks import Module, conv, resize
from research.traced.entry import Entry, image

__all__ = ["entries"]


def _prelu(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    margin = kernel // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, margin, bias=False), nn.BatchNorm2d(outputs), nn.PReLU(outputs)
    )


class Squeeze(Module):
    """Scale the channels by one or two dense layers over their means."""

    def __init__(self, width: int, divisor: int) -> None:
        super().__init__()
        inner = width // divisor
        layers = [nn.Linear(width, inner), nn.PReLU(inner), nn.Linear(inner, width), nn.PReLU(width)]
        self.dense = nn.Sequential(*(layers if divisor > 1 else [nn.Linear(width, width), nn.PReLU(width)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x.mean((2, 3)))[..., None, None] * x


def _separable(inputs: int, outputs: int, divisor: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, 2, 1, groups=inputs, bias=False),
        Squeeze(inputs, divisor),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.PReLU(outputs),
    )


class Squeezed(Module):
    """A depthwise and a pointwise convolution, at a smaller size where `pool` says so."""

    def __init__(self, width: int, outputs: int, kernel: int, pool: int) -> None:
        super().__init__()
        self.pool = pool
        self.conv = nn.Sequential(
            nn.Conv2d(width, width, kernel, 1, kernel // 2, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.PReLU(width),
            nn.Conv2d(width, outputs, 1, bias=False),
        )
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.conv(functional.avg_pool2d(x, self.pool) if self.pool > 1 else x)
        return self.norm(resize(made, x) if self.pool > 1 else made)


class Spatial(Module):
    """SINet's module: a grouped convolution, shuffled channels, two squeezed branches."""

    def __init__(self, inputs: int, outputs: int, branches: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        width = outputs // 2
        self.adds = inputs == outputs
        self.narrow = nn.Conv2d(inputs, width, 1, groups=2, bias=False)
        self.branches = nn.ModuleList([Squeezed(width, width, kernel, pool) for kernel, pool in branches])
        self.norm, self.act = nn.BatchNorm2d(outputs), nn.PReLU(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = self.narrow(x)
        batch, width, *sides = narrow.shape
        mixed = narrow.view(batch, 2, width // 2, *sides).transpose(1, 2).reshape(narrow.shape)
        joined = torch.cat([branch(mixed) for branch in self.branches], 1)
        return self.act(self.norm(x + joined if self.adds else joined))


class SINet(Module):
    """An encoder of ten spatial modules, and a decoder that looks again where the first guess is unsure."""

    FINE = (((3, 1), (5, 1)), ((3, 1), (3, 1)))
    COARSE = (
        ((3, 1), (5, 1)),
        ((3, 1), (3, 1)),
        ((5, 1), (3, 2)),
        ((5, 2), (3, 4)),
        ((3, 1), (3, 1)),
        ((5, 1), (5, 1)),
        ((3, 2), (3, 4)),
        ((3, 1), (5, 2)),
    )

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.stem = nn.Sequential(_prelu(3, 12, 3, 2), _separable(12, 16, 1))
        self.fine = nn.Sequential(*[Spatial(16 if n == 0 else 48, 48, item) for n, item in enumerate(self.FINE)])
        self.between, self.down = nn.Sequential(nn.BatchNorm2d(64), nn.PReLU(64)), _separable(64, 48, 2)
        self.coarse = nn.Sequential(*[Spatial(48 if n == 0 else 96, 96, item) for n, item in enumerate(self.COARSE)])
        self.last = nn.Sequential(nn.BatchNorm2d(144), nn.PReLU(144), nn.Conv2d(144, classes, 1, bias=False))
        self.norms = nn.ModuleList([nn.BatchNorm2d(classes) for _ in range(2)])
        self.again, self.out = _prelu(48, classes, 1), nn.Conv2d(classes, classes, 3, 1, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, first = x, self.stem(x)
        fine = self.fine(first)
        down = self.down(self.between(torch.cat((first, fine), 1)))
        guess = self.norms[0](resize(self.last(torch.cat((down, self.coarse(down)), 1)), fine))
        unsure = 1 - guess.softmax(1).amax(1, keepdim=True)
        x = self.again(fine) * unsure + guess
        x = self.norms[1](resize(x, (2 * x.shape[-2], 2 * x.shape[-1])))
        return self.out(resize(x, size))


class Guided(Module):
    """BGNet's map under the attention of the edges, with weights of its channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.weigh = conv(width, width), nn.Conv1d(1, 1, 5, padding=2, bias=False)

    def forward(self, x: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
        x = self.conv(x * resize(edge, x) + x)
        means = x.mean((2, 3)).unsqueeze(1)
        return x * self.weigh(means).sigmoid().transpose(1, 2).unsqueeze(-1)


class Context(Module):
    """BGNet's join of two levels: four dilated convolutions that hand on to each other."""

    def __init__(self, coarse: int, width: int) -> None:
        super().__init__()
        self.first, self.last = conv(coarse + width, width, 1), conv(width, width)
        self.parts = nn.ModuleList([conv(width // 4, width // 4, dilation=rate) for rate in (1, 2, 3, 4)])
        self.join = conv(width, width, 1)

    def forward(self, x: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
        x = self.first(torch.cat((x, resize(coarse, x)), 1))
        a, b, c, d = x.chunk(4, 1)
        first = self.parts[0](a + b)
        second = self.parts[1](b + first + c)
        third = self.parts[2](c + second + d)
        joined = torch.cat((first, second, third, self.parts[3](d + third)), 1)
        return self.last(x + self.join(joined))


class BGNet(Module):
    """Res2Net-50, the edges seen from its first and last maps, and three joins."""

    def __init__(self) -> None:
        super().__init__()
        import timm

        self.backbone = timm.create_model("res2net50d", features_only=True, out_indices=(1, 2, 3, 4))
        self.near, self.far = conv(256, 64, 1, bias=True), conv(2048, 256, 1, bias=True)
        self.edge = nn.Sequential(conv(320, 256), conv(256, 256), nn.Conv2d(256, 1, 1))
        widths, narrow = (256, 512, 1024, 2048), (64, 128, 256, 256)
        self.guided = nn.ModuleList([Guided(width) for width in widths])
        self.narrow = nn.ModuleList([conv(a, b, 1, bias=True) for a, b in zip(widths, narrow, strict=True)])
        self.joins = nn.ModuleList([Context(128, 64), Context(256, 128), Context(256, 256)])
        self.outputs = nn.ModuleList([nn.Conv2d(width, 1, 1) for width in (64, 128, 256)])

    def forward(self, x: torch.Tensor) -> Any:
        size, maps = x, self.backbone(x)
        edge = self.edge(torch.cat((resize(self.far(maps[3]), maps[0]), self.near(maps[0])), 1)).sigmoid()
        maps = [narrow(guided(part, edge)) for narrow, guided, part in zip(self.narrow, self.guided, maps, strict=True)]
        found, x = [], maps[3]
        for level in (2, 1, 0):
            x = self.joins[level](maps[level], x)
            found.append(resize(self.outputs[level](x), size))
        return found, resize(edge, size)


class BoxAngles(Module):
    """VGG-19 with batch norms, and what it says of one object: angle bins, their confidence, its dimensions."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        inputs = 3
        for count, outputs in ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512)):
            for _ in range(count):
                parts.append(conv(inputs, outputs, bias=True))
                inputs = outputs
            parts.append(nn.MaxPool2d(2, 2))
        self.body = nn.Sequential(*parts)
        self.heads = nn.ModuleList([self._head(inner, outputs) for inner, outputs in ((256, 4), (256, 2), (512, 3))])

    @staticmethod
    def _head(inner: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(512 * 49, inner), nn.ReLU(), nn.Linear(inner, inner), nn.ReLU(), nn.Linear(inner, outputs)
        )

    def forward(self, x: torch.Tensor) -> Any:
        x = self.body(x).flatten(1)
        return [head(x) for head in self.heads]


NETS: dict[str, tuple[str, int, Any]] = {
    # trace: family, image size, how it is built
    "architecture/sinet": ("sinet", 224, SINet),
    "architecture/bgnet": ("bgnet", 416, BGNet),
    "architecture/deepbox-vgg19": ("vgg", 224, BoxAngles),
}


def entries() -> Iterator[Entry]:
    """Yield the networks of this module."""
    for name, (family, side, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, side=side: (build(), (image(side),)),
            "object-detection" if family == "vgg" else "image-segmentation",
            {"image_size": side},
        )

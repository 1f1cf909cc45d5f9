"""Super-resolution and in-painting networks.

Wang et al., "ESRGAN", 2018, and "Real-ESRGAN", 2021; Bhardwaj et al., "SESR", 2022; Ayazoglu, "XLSR", 2021; Berger et al.,
"QuickSRNet", 2023; Ledig et al. 2017. Sizes are those of quic/aimet-model-zoo and quic/ai-hub-models: images of 128 pixels,
enlarged four times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from research.traced.blocks import Module
from research.traced.entry import Entry, image

__all__ = ["entries"]


def _conv(inputs: int, outputs: int, kernel: int = 3, *, groups: int = 1, bias: bool = True) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2, groups=groups, bias=bias)


class Dense(Module):
    """Five convolutions, each reading all before it."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        outputs = (*(growth,) * 4, width)
        self.convs = nn.ModuleList([_conv(width + n * growth, count) for n, count in enumerate(outputs)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x]
        for conv in self.convs[:4]:
            parts.append(functional.leaky_relu(conv(torch.cat(parts, 1)), 0.2, inplace=True))
        return self.convs[4](torch.cat(parts, 1)) * 0.2 + x


class Nested(Module):
    """Three dense blocks inside a residual."""

    def __init__(self, width: int = 64, growth: int = 32) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[Dense(width, growth) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x) * 0.2 + x


class Esrgan(Module):
    """23 nested blocks, and two times twice the size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.last = _conv(3, 64), nn.Sequential(*[Nested() for _ in range(23)]), _conv(64, 64)
        self.ups, self.fine, self.out = nn.ModuleList([_conv(64, 64) for _ in range(2)]), _conv(64, 64), _conv(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = x + self.last(self.body(x))
        for up in self.ups:
            x = functional.leaky_relu(up(functional.interpolate(x, scale_factor=2, mode="nearest")), 0.2, inplace=True)
        return self.out(functional.leaky_relu(self.fine(x), 0.2, inplace=True))


class Compact(Module):
    """Real-ESRGAN's compact network: 32 convolutions in a row, shuffled into pixels beside the enlarged image."""

    def __init__(self, width: int = 64, count: int = 32) -> None:
        super().__init__()
        parts: list[nn.Module] = [_conv(3, width), nn.PReLU(width)]
        for _ in range(count):
            parts += [_conv(width, width), nn.PReLU(width)]
        self.body, self.shuffle = nn.Sequential(*parts, _conv(width, 48)), nn.PixelShuffle(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shuffle(self.body(x)) + functional.interpolate(x, scale_factor=4, mode="nearest")


class QuickSR(Module):
    """Convolutions with clipped activations, shuffled into pixels; the large one adds the input."""

    def __init__(self, width: int, count: int, *, adds: bool) -> None:
        super().__init__()
        parts: list[nn.Module] = [_conv(3, width), nn.Hardtanh(0.0, 1.0)]
        for _ in range(count):
            parts += [_conv(width, width), nn.Hardtanh(0.0, 1.0)]
        self.body, self.last = nn.Sequential(*parts), _conv(width, 48)
        self.anchor = nn.Conv2d(3, 48, 1, bias=False) if adds else None
        self.clip, self.shuffle = nn.Hardtanh(0.0, 1.0), nn.PixelShuffle(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.last(self.body(x))
        if self.anchor is not None:
            made = made + self.anchor(x)
        return self.shuffle(self.clip(made))


class Linear(Module):
    """SESR's linear block as it is trained: wide, then narrow, and an activation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, act: bool = True, adds: bool = False) -> None:
        super().__init__()
        self.wide, self.narrow = _conv(inputs, 256, kernel, bias=False), nn.Conv2d(256, outputs, 1)
        self.act, self.adds = nn.ReLU() if act else nn.Identity(), adds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.narrow(self.wide(x))
        return self.act(made + x if self.adds else made)


class Sesr(Module):
    """SESR-M5: five residual blocks of 16 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = nn.Conv2d(3, 48, 1, bias=False)
        self.first = Linear(3, 16, 5)
        self.body = nn.Sequential(*[Linear(16, 16, 3, adds=True) for _ in range(5)])
        self.last, self.shuffle = Linear(16, 48, 5, act=False), nn.PixelShuffle(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        return self.shuffle(self.last(self.body(first) + first) + self.anchor(x))


class Grouped(Module):
    """XLSR's block: four convolutions side by side, and one across them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(32, 32, groups=4), nn.ReLU(), _conv(32, 32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Xlsr(Module):
    """Three grouped blocks beside one convolution of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.side = _conv(3, 16)
        self.body = nn.Sequential(_conv(3, 32), nn.ReLU(), _conv(32, 32, 1), Grouped(), Grouped(), Grouped())
        self.tail = nn.Sequential(_conv(48, 32, 1), nn.ReLU(), _conv(32, 48))
        self.clip, self.shuffle = nn.Hardtanh(0.0, 1.0), nn.PixelShuffle(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.clip(self.shuffle(self.tail(torch.cat((self.body(x), self.side(x)), 1))))


class Aggregate(Module):
    """AOT-GAN's block: four dilated convolutions joined, and a gate between them and the input."""

    def __init__(self, width: int = 256, rates: tuple[int, ...] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            [
                nn.Sequential(nn.ReflectionPad2d(rate), nn.Conv2d(width, width // 4, 3, dilation=rate), nn.ReLU(True))
                for rate in rates
            ]
        )
        self.fuse = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3))
        self.gate = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        joined = self.fuse(torch.cat([part(x) for part in self.parts], 1))
        mask = self.gate(x)
        mask = (2 * (mask - mask.mean((2, 3), keepdim=True)) / mask.std((2, 3), keepdim=True) - 1).sigmoid()
        return x * (1 - mask) + joined * mask


class AotGan(Module):
    """Zeng et al., "AOT-GAN", 2021: eight aggregating blocks at a quarter of the size."""

    def __init__(self) -> None:
        super().__init__()
        relu = nn.ReLU(True)
        down = [nn.ReflectionPad2d(3), nn.Conv2d(4, 64, 7), relu]
        down += [nn.Conv2d(64, 128, 4, 2, 1), relu, nn.Conv2d(128, 256, 4, 2, 1), relu]
        self.down, self.body = nn.Sequential(*down), nn.Sequential(*[Aggregate() for _ in range(8)])
        self.ups, self.out = nn.ModuleList([_conv(256, 128), _conv(128, 64)]), _conv(64, 3)

    def forward(self, picture: torch.Tensor, hole: torch.Tensor) -> torch.Tensor:
        x = self.body(self.down(torch.cat((picture, hole), 1)))
        for up in self.ups:
            x = functional.relu(up(functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)))
        return self.out(x).tanh()


NETS: dict[str, tuple[str, int, Any]] = {
    # trace: family, image size, how it is built
    "architecture/esrgan-x4": ("esrgan", 128, Esrgan),
    "architecture/real-esrgan-general-x4": ("esrgan", 128, Compact),
    "architecture/quicksrnet-small": ("quicksrnet", 128, lambda: QuickSR(32, 2, adds=False)),
    "architecture/quicksrnet-medium": ("quicksrnet", 128, lambda: QuickSR(32, 5, adds=False)),
    "architecture/quicksrnet-large": ("quicksrnet", 128, lambda: QuickSR(64, 11, adds=True)),
    "architecture/sesr-m5": ("sesr", 128, Sesr),
    "architecture/xlsr": ("xlsr", 128, Xlsr),
}


def entries() -> Iterator[Entry]:
    """Yield the networks that enlarge, and the one that fills holes."""
    for name, (family, side, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            family,
            lambda build=build, side=side: (build(), (image(side),)),
            "image-to-image",
            {"image_size": side},
        )
    yield Entry(
        "architecture/aot-gan",
        "vision",
        "aot-gan",
        lambda: (AotGan(), (image(512), image(512, channels=1))),
        "image-to-image",
        {"image_size": 512},
    )

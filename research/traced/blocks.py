"""Building blocks that several architectures share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = [
    "ACTIVATIONS",
    "Basic",
    "Bottleneck",
    "InvertedResidual",
    "Module",
    "ResNet",
    "SqueezeExcite",
    "conv",
    "divisible",
    "resize",
]

Module: Any = nn.Module
"""`torch.nn.Module`, typed as Any: the checker sees no types of torch."""

ACTIVATIONS: dict[str | None, Callable[[], nn.Module]] = {
    None: nn.Identity,
    "relu": lambda: nn.ReLU(inplace=True),
    "relu6": lambda: nn.ReLU6(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.1, inplace=True),
    "silu": lambda: nn.SiLU(inplace=True),
    "hswish": lambda: nn.Hardswish(inplace=True),
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "hsigmoid": nn.Hardsigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
}


def conv(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, ...] = 3,
    stride: int | tuple[int, ...] = 1,
    act: str | None = "relu",
    *,
    groups: int = 1,
    dilation: int = 1,
    norm: bool = True,
    bias: bool | None = None,
    padding: int | tuple[int, ...] | None = None,
    dimensions: int = 2,
) -> nn.Sequential:
    """Return a convolution that keeps the size (over the stride), its batch norm, and its activation."""
    sides = (kernel,) * dimensions if isinstance(kernel, int) else kernel
    margin = tuple(dilation * (side - 1) // 2 for side in sides) if padding is None else padding
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    normal = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dimensions - 1]
    with_bias = not norm if bias is None else bias
    parts: list[nn.Module] = [
        kind(inputs, outputs, sides, stride, margin, dilation=dilation, groups=groups, bias=with_bias)
    ]
    if norm:
        parts.append(normal(outputs))
    if act is not None:
        parts.append(ACTIVATIONS[act]())
    return nn.Sequential(*parts)


def resize(x: torch.Tensor, size: Sequence[int] | torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
    """Return an image at the size of another one, or at a size that is given."""
    sides = tuple(size.shape[-2:]) if isinstance(size, torch.Tensor) else tuple(size)
    corners = None if mode == "nearest" else False
    return functional.interpolate(x, size=sides, mode=mode, align_corners=corners)


def divisible(value: float, by: int = 8) -> int:
    """Return the multiple nearest to a width, never more than a tenth below it."""
    rounded = max(by, int(value + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * value else rounded


class SqueezeExcite(Module):
    """Scale the channels by what their means say."""

    def __init__(self, channels: int, inner: int, act: str = "relu", gate: str = "sigmoid") -> None:
        super().__init__()
        self.reduce, self.act = nn.Conv2d(channels, inner, 1), ACTIVATIONS[act]()
        self.expand, self.gate = nn.Conv2d(inner, channels, 1), ACTIVATIONS[gate]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the channels of `x`, scaled."""
        mean = x.mean((2, 3), keepdim=True)
        return x * self.gate(self.expand(self.act(self.reduce(mean))))


class InvertedResidual(Module):
    """Widen, convolve by channel (or in full, `fused`), narrow; squeeze and excite where `inner` says how far."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        wide: int,
        act: str = "relu",
        inner: int = 0,
        fused: bool = False,
        gate: str = "sigmoid",
    ) -> None:
        super().__init__()
        self.skips = inputs == outputs and stride == 1
        if fused:
            parts = [conv(inputs, wide, kernel, stride, act)]
        else:
            parts = [conv(inputs, wide, 1, act=act)] if wide != inputs else []
            parts.append(conv(wide, wide, kernel, stride, act, groups=wide))
        if inner:
            parts.append(SqueezeExcite(wide, inner, act, gate))
        self.body = nn.Sequential(*parts, conv(wide, outputs, 1, act=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's map."""
        return x + self.body(x) if self.skips else self.body(x)


class Basic(Module):
    """The residual block of two 3 x 3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, planes, 3, stride, dilation=dilation), conv(planes, planes, act=None, dilation=dilation)
        )
        changes = stride != 1 or inputs != planes
        self.skip = conv(inputs, planes, 1, stride, act=None) if changes else nn.Identity()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's map."""
        return self.act(self.body(x) + self.skip(x))


class Bottleneck(Module):
    """The residual block that narrows, convolves and widens.

    The stride is at the 3 x 3 convolution (v1.5), or with `early` at the first one (v1).
    """

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int = 1, dilation: int = 1, *, early: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, planes, 1, stride if early else 1),
            conv(planes, planes, 3, 1 if early else stride, dilation=dilation),
            conv(planes, 4 * planes, 1, act=None),
        )
        changes = stride != 1 or inputs != 4 * planes
        self.skip = conv(inputs, 4 * planes, 1, stride, act=None) if changes else nn.Identity()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's map."""
        return self.act(self.body(x) + self.skip(x))


class ResNet(Module):
    """The stages of a ResNet without its classifier; returns the map of each stage that is built."""

    def __init__(
        self,
        depths: Sequence[int],
        *,
        bottleneck: bool = True,
        strides: Sequence[int] = (1, 2, 2, 2),
        dilations: Sequence[int] = (1, 1, 1, 1),
        width: int = 64,
        channels: int = 3,
    ) -> None:
        super().__init__()
        block: Any = Bottleneck if bottleneck else Basic
        self.stem = nn.Sequential(conv(channels, width, 7, 2), nn.MaxPool2d(3, 2, 1))
        inputs, stages = width, []
        for index, (depth, stride, dilation) in enumerate(zip(depths, strides, dilations, strict=False)):
            planes = width * 2**index
            blocks = []
            for number in range(depth):
                blocks.append(block(inputs, planes, stride if number == 0 else 1, dilation))
                inputs = planes * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        self.outputs = inputs

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the map of each stage."""
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

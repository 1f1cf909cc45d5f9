"""The YOLO detectors from the third to the eleventh, with the decoding of their boxes.

Structures: Redmon and Farhadi, "YOLOv3", 2018 (and its tiny variant in darknet); Ultralytics' published model tables of
YOLOv5, v8 and 11; Ge et al., "YOLOX", 2021; Wang et al., "YOLOv7", 2022 (tiny) and "YOLOR", 2021 (P6);
Li et al., "YOLOv6", 2022 (nano); Wang et al., "YOLOv10", 2024. Written from those, without their code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Module, conv, divisible
from research.traced.entry import Entry, Made, image

__all__ = ["Pyramid", "entries"]

CLASSES = 80
BINS = 16


def _silu(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, groups: int = 1, act: str | None = "silu"
) -> Any:
    return conv(inputs, outputs, kernel, stride, act, groups=groups)


class Residual(Module):
    """Two convolutions, added to the input where `skips`."""

    def __init__(
        self, inputs: int, outputs: int, kernels: tuple[int, int], inner: int, *, skips: bool, act: str
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(inputs, inner, kernels[0], act=act), conv(inner, outputs, kernels[1], act=act))
        self.skips = skips and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.skips else self.body(x)


class C3(Module):
    """The cross-stage block of YOLOv5: residuals on one half of the channels, the other half passed by."""

    def __init__(
        self, inputs: int, outputs: int, count: int, *, skips: bool = True, kernels: tuple[int, int] = (1, 3)
    ) -> None:
        super().__init__()
        inner = outputs // 2
        self.left, self.right = _silu(inputs, inner), _silu(inputs, inner)
        blocks = [Residual(inner, inner, kernels, inner, skips=skips, act="silu") for _ in range(count)]
        self.blocks, self.join = nn.Sequential(*blocks), _silu(2 * inner, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat((self.blocks(self.left(x)), self.right(x)), 1))


class C2f(Module):
    """The block of YOLOv8: every residual's output is kept and joined; of YOLO11 with `deep` blocks or narrow ones."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        count: int,
        *,
        skips: bool = True,
        ratio: float = 0.5,
        kind: str = "plain",
    ) -> None:
        super().__init__()
        self.inner = int(outputs * ratio)
        self.split = _silu(inputs, 2 * self.inner)
        self.join = _silu((2 + count) * self.inner, outputs)
        self.blocks = nn.ModuleList([self._block(kind, skips) for _ in range(count)])

    def _block(self, kind: str, skips: bool) -> nn.Module:
        inner = self.inner
        if kind == "c3":
            return C3(inner, inner, 2, skips=skips, kernels=(3, 3))
        if kind == "mixer":
            return Mixer(inner)
        narrow = inner // 2 if kind == "narrow" else inner
        return Residual(inner, inner, (3, 3), narrow, skips=skips, act="silu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.split(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Mixer(Module):
    """YOLOv10's compact inverted block: depthwise and pointwise convolutions in turn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _silu(width, width, 3, groups=width),
            _silu(width, 2 * width),
            _silu(2 * width, 2 * width, 7, groups=2 * width),
            _silu(2 * width, width),
            _silu(width, width, 3, groups=width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class SPPF(Module):
    """Three max-poolings in a row, all joined."""

    def __init__(self, inputs: int, outputs: int, act: str = "silu") -> None:
        super().__init__()
        self.narrow = conv(inputs, inputs // 2, 1, act=act)
        self.join = conv(2 * inputs, outputs, 1, act=act)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.narrow(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.join(torch.cat(parts, 1))


class SPP(Module):
    """Max-poolings of three sizes side by side."""

    def __init__(self, inputs: int, outputs: int, sizes: Sequence[int] = (5, 9, 13)) -> None:
        super().__init__()
        self.narrow, self.join = _silu(inputs, inputs // 2), _silu(2 * inputs, outputs)
        self.pools = nn.ModuleList([nn.MaxPool2d(size, 1, size // 2) for size in sizes])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.narrow(x)
        return self.join(torch.cat([x, *(pool(x) for pool in self.pools)], 1))


class Attention(Module):
    """Self-attention over the pixels of a map with a depthwise position term, and a feed-forward part after it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.key, self.value = 32, 64
        self.qkv = _silu(width, self.heads * (2 * self.key + self.value), act=None)
        self.project = _silu(width, width, act=None)
        self.position = _silu(width, width, 3, groups=width, act=None)
        self.feed = nn.Sequential(_silu(width, 2 * width), _silu(2 * width, width, act=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, height, length = x.shape
        qkv = self.qkv(x).view(batch, self.heads, 2 * self.key + self.value, height * length)
        query, key, value = qkv.split([self.key, self.key, self.value], 2)
        scores = (query.transpose(2, 3) @ key * self.key**-0.5).softmax(-1)
        mixed = (value @ scores.transpose(2, 3)).view(batch, width, height, length)
        x = x + self.project(mixed + self.position(value.reshape(batch, width, height, length)))
        return x + self.feed(x)


class C2PSA(Module):
    """Attention on one half of the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.split, self.join = _silu(width, width), _silu(width, width)
        self.attention = Attention(width // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.split(x).chunk(2, 1)
        return self.join(torch.cat((left, self.attention(right)), 1))


class Down(Module):
    """YOLOv10's way down: a pointwise convolution, then a depthwise one with the stride."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_silu(inputs, outputs), _silu(outputs, outputs, 3, 2, groups=outputs, act=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Pyramid(Module):
    """A backbone of five levels, the way up and the way down again, and the heads: v5, v8, v10 and 11 alike."""

    def __init__(
        self, backbone: Sequence[nn.Module], neck: Sequence[nn.Module], head: nn.Module, taps: Sequence[int]
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.head = nn.ModuleList(backbone), nn.ModuleList(neck), head
        self.taps = tuple(taps)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: torch.Tensor) -> Any:
        """Return what the heads find."""
        kept = []
        for index, part in enumerate(self.backbone):
            x = part(x)
            if index in self.taps:
                kept.append(x)
        small, middle = kept
        narrow1, up1, narrow2, up2, down1, back1, down2, back2 = self.neck
        top = narrow1(x)
        mid = up1(torch.cat((self.up(top), middle), 1))
        mid_narrow = narrow2(mid)
        fine = up2(torch.cat((self.up(mid_narrow), small), 1))
        mid_out = back1(torch.cat((down1(fine), mid_narrow), 1))
        top_out = back2(torch.cat((down2(mid_out), top), 1))
        return self.head([fine, mid_out, top_out])


class Decoupled(Module):
    """The heads of YOLOv8 and later: distances as distributions over bins, classes apart; `light` classes by depth.

    The second set of heads with which YOLOv10 is trained is no part of inference and left out.

    With `masks`, the coefficients and the prototypes of instance segmentation.
    """

    def __init__(self, widths: Sequence[int], *, light: bool = False, masks: int = 0) -> None:
        super().__init__()
        near, far = max(16, widths[0] // 4, 4 * BINS), max(widths[0], min(CLASSES, 100))
        self.boxes = nn.ModuleList([self._branch(width, near, 4 * BINS) for width in widths])
        if light:
            self.classes = nn.ModuleList([self._light(width, far) for width in widths])
        else:
            self.classes = nn.ModuleList([self._branch(width, far, CLASSES) for width in widths])
        self.masks = masks
        if masks:
            inner = max(widths[0] // 4, 32)
            self.coefficients = nn.ModuleList([self._branch(width, inner, 32) for width in widths])
            self.prototypes = nn.Sequential(
                _silu(widths[0], masks, 3),
                nn.ConvTranspose2d(masks, masks, 2, 2),
                _silu(masks, masks, 3),
                _silu(masks, 32),
            )
        self.bins = nn.Conv2d(BINS, 1, 1, bias=False)

    @staticmethod
    def _branch(width: int, inner: int, outputs: int) -> nn.Module:
        return nn.Sequential(_silu(width, inner, 3), _silu(inner, inner, 3), nn.Conv2d(inner, outputs, 1))

    @staticmethod
    def _light(width: int, inner: int) -> nn.Module:
        return nn.Sequential(
            _silu(width, width, 3, groups=width),
            _silu(width, inner),
            _silu(inner, inner, 3, groups=inner),
            _silu(inner, inner),
            nn.Conv2d(inner, CLASSES, 1),
        )

    def forward(self, maps: list[torch.Tensor]) -> Any:
        boxes = torch.cat([part(x).flatten(2) for part, x in zip(self.boxes, maps, strict=True)], 2)
        scores = torch.cat([part(x).flatten(2) for part, x in zip(self.classes, maps, strict=True)], 2).sigmoid()
        count = boxes.shape[-1]
        spread = boxes.view(1, 4, BINS, count).transpose(2, 1).softmax(1)
        distances = self.bins(spread).view(1, 4, count)
        anchors, strides = boxes.new_empty(2, count), boxes.new_empty(1, count)
        near, far = anchors - distances[:, :2], anchors + distances[:, 2:]
        found = torch.cat(((near + far) / 2, far - near), 1) * strides
        if not self.masks:
            return found, scores
        coefficients = [part(x).flatten(2) for part, x in zip(self.coefficients, maps, strict=True)]
        return found, scores, torch.cat(coefficients, 2), self.prototypes(maps[0])


class Anchored(Module):
    """The heads of YOLOv3, v5 and v7: one convolution a level, then boxes out of offsets to three anchors."""

    def __init__(self, widths: Sequence[int], anchors: int = 3, classes: int = CLASSES) -> None:
        super().__init__()
        self.anchors, self.outputs = anchors, classes + 5
        self.parts = nn.ModuleList([nn.Conv2d(width, anchors * self.outputs, 1) for width in widths])

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        found = []
        for part, x in zip(self.parts, maps, strict=True):
            x = part(x)
            height, width = x.shape[-2:]
            values = x.view(1, self.anchors, self.outputs, height, width).permute(0, 1, 3, 4, 2).sigmoid()
            centre, size, rest = values.split((2, 2, self.outputs - 4), 4)
            grid, anchors = x.new_empty(1, 1, height, width, 2), x.new_empty(1, self.anchors, 1, 1, 2)
            found.append(torch.cat(((centre * 2 + grid) * 8, (size * 2) ** 2 * anchors, rest), 4).flatten(1, 3))
        return torch.cat(found, 1)


def _yolov8(depth: float, width: float, most: int, *, masks: bool = False) -> nn.Module:
    def wide(value: int) -> int:
        return divisible(min(value, most) * width)

    w = [wide(value) for value in (64, 128, 256, 512, 1024)]
    n = [max(round(count * depth), 1) for count in (3, 6, 6, 3)]
    backbone = [_silu(3, w[0], 3, 2)]
    for index in range(4):
        backbone += [_silu(w[index], w[index + 1], 3, 2), C2f(w[index + 1], w[index + 1], n[index])]
    backbone.append(SPPF(w[4], w[4]))
    same = nn.Identity()
    neck = [
        same,
        C2f(w[4] + w[3], w[3], n[0], skips=False),
        same,
        C2f(w[3] + w[2], w[2], n[0], skips=False),
        _silu(w[2], w[2], 3, 2),
        C2f(w[2] + w[3], w[3], n[0], skips=False),
        _silu(w[3], w[3], 3, 2),
        C2f(w[3] + w[4], w[4], n[0], skips=False),
    ]
    head = Decoupled(w[2:], masks=wide(256) if masks else 0)
    return Pyramid(backbone, neck, head, (4, 6))


def _yolo11n(*, masks: bool = False) -> nn.Module:
    """YOLO11 nano: a quarter of the width, half of the depth."""
    backbone = [
        _silu(3, 16, 3, 2),
        _silu(16, 32, 3, 2),
        C2f(32, 64, 1, ratio=0.25, kind="narrow"),
        _silu(64, 64, 3, 2),
        C2f(64, 128, 1, ratio=0.25, kind="narrow"),
        _silu(128, 128, 3, 2),
        C2f(128, 128, 1, kind="c3"),
        _silu(128, 256, 3, 2),
        C2f(256, 256, 1, kind="c3"),
        SPPF(256, 256),
        C2PSA(256),
    ]
    same = nn.Identity()
    neck = [
        same,
        C2f(384, 128, 1, kind="narrow"),
        same,
        C2f(256, 64, 1, kind="narrow"),
        _silu(64, 64, 3, 2),
        C2f(192, 128, 1, kind="narrow"),
        _silu(128, 128, 3, 2),
        C2f(384, 256, 1, kind="c3"),
    ]
    return Pyramid(backbone, neck, Decoupled((64, 128, 256), light=True, masks=64 if masks else 0), (4, 6))


def _yolov10n() -> nn.Module:
    backbone = [
        _silu(3, 16, 3, 2),
        _silu(16, 32, 3, 2),
        C2f(32, 32, 1),
        _silu(32, 64, 3, 2),
        C2f(64, 64, 2),
        Down(64, 128),
        C2f(128, 128, 2),
        Down(128, 256),
        C2f(256, 256, 1),
        SPPF(256, 256),
        C2PSA(256),
    ]
    same = nn.Identity()
    neck = [
        same,
        C2f(384, 128, 1, skips=False),
        same,
        C2f(192, 64, 1, skips=False),
        _silu(64, 64, 3, 2),
        C2f(192, 128, 1, skips=False),
        Down(128, 128),
        C2f(384, 256, 1, kind="mixer"),
    ]
    return Pyramid(backbone, neck, Decoupled((64, 128, 256), light=True), (4, 6))


def _yolov5m() -> nn.Module:
    w, n = (48, 96, 192, 384, 768), (2, 4, 6, 2)
    backbone = [conv(3, w[0], 6, 2, "silu", padding=2)]
    for index in range(4):
        backbone += [_silu(w[index], w[index + 1], 3, 2), C3(w[index + 1], w[index + 1], n[index])]
    backbone.append(SPPF(w[4], w[4]))
    neck = [
        _silu(w[4], w[3]),
        C3(2 * w[3], w[3], 2, skips=False),
        _silu(w[3], w[2]),
        C3(2 * w[2], w[2], 2, skips=False),
        _silu(w[2], w[2], 3, 2),
        C3(2 * w[2], w[3], 2, skips=False),
        _silu(w[3], w[3], 3, 2),
        C3(2 * w[3], w[4], 2, skips=False),
    ]
    return Pyramid(backbone, neck, Anchored(w[2:]), (4, 6))


class YoloXHead(Module):
    """Classes, boxes and objectness of YOLOX, apart from each other and without anchors."""

    def __init__(self, widths: Sequence[int], inner: int) -> None:
        super().__init__()
        self.stems = nn.ModuleList([_silu(width, inner) for width in widths])
        self.classes = nn.ModuleList([nn.Sequential(_silu(inner, inner, 3), _silu(inner, inner, 3)) for _ in widths])
        self.boxes = nn.ModuleList([nn.Sequential(_silu(inner, inner, 3), _silu(inner, inner, 3)) for _ in widths])
        self.outputs = nn.ModuleList(
            [nn.ModuleList([nn.Conv2d(inner, count, 1) for count in (CLASSES, 4, 1)]) for _ in widths]
        )

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        found = []
        for index, x in enumerate(maps):
            x = self.stems[index](x)
            named, placed = self.classes[index](x), self.boxes[index](x)
            label, box, there = self.outputs[index]
            found.append(torch.cat((box(placed), there(placed).sigmoid(), label(named).sigmoid()), 1).flatten(2))
        x = torch.cat(found, 2).permute(0, 2, 1)
        grid = x.new_empty(1, x.shape[1], 2)
        return torch.cat(((x[..., :2] + grid) * grid, x[..., 2:4].exp() * grid, x[..., 4:]), -1)


class Focus(Module):
    """Every second pixel to a channel of its own."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = _silu(12, outputs, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1))


def _yoloxs() -> nn.Module:
    w = (32, 64, 128, 256, 512)
    backbone = [Focus(w[0])]
    for index, count in enumerate((1, 3, 3)):
        backbone += [_silu(w[index], w[index + 1], 3, 2), C3(w[index + 1], w[index + 1], count)]
    backbone += [_silu(w[3], w[4], 3, 2), SPP(w[4], w[4]), C3(w[4], w[4], 1, skips=False)]
    neck = [
        _silu(w[4], w[3]),
        C3(2 * w[3], w[3], 1, skips=False),
        _silu(w[3], w[2]),
        C3(2 * w[2], w[2], 1, skips=False),
        _silu(w[2], w[2], 3, 2),
        C3(2 * w[2], w[3], 1, skips=False),
        _silu(w[3], w[3], 3, 2),
        C3(2 * w[3], w[4], 1, skips=False),
    ]
    return Pyramid(backbone, neck, YoloXHead(w[2:], 128), (4, 6))


NETS: dict[str, tuple[str, int, Any]] = {
    # trace: family, image size, how it is built
    "architecture/yolov8n": ("yolov8", 640, lambda: _yolov8(0.33, 0.25, 1024)),
    "architecture/yolov8n-seg": ("yolov8", 640, lambda: _yolov8(0.33, 0.25, 1024, masks=True)),
    "architecture/yolov8s-seg": ("yolov8", 640, lambda: _yolov8(0.33, 0.5, 1024, masks=True)),
    "architecture/yolov8x-seg": ("yolov8", 640, lambda: _yolov8(1.0, 1.25, 512, masks=True)),
    "architecture/yolo11n": ("yolo11", 640, _yolo11n),
    "architecture/yolo11n-seg": ("yolo11", 640, lambda: _yolo11n(masks=True)),
    "architecture/yolov10n": ("yolov10", 640, _yolov10n),
    "architecture/yolov5m": ("yolov5", 640, _yolov5m),
    "architecture/yolox-s": ("yolox", 640, _yoloxs),
}


def _made(name: str) -> Made:
    _, side, build = NETS[name]
    return build(), (image(side),)


def entries() -> Iterator[Entry]:
    """Yield the detectors of this module."""
    for name, (family, side, _) in NETS.items():
        task = "image-segmentation" if name.endswith("-seg") else "object-detection"
        yield Entry(name, "vision", family, lambda name=name: _made(name), task, {"image_size": side})

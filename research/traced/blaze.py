"""MediaPipe's detectors and landmark networks of faces, hands and bodies.

Bazarevsky et al., "BlazeFace", 2019, and "BlazePose", 2020; Zhang et al., "MediaPipe Hands", 2020, with the layer widths of
their published TFLite files as zmurez/MediaPipePyTorch lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from research.traced.blocks import Module
from research.traced.entry import Entry, image

__all__ = ["entries"]


class Blaze(Module):
    """A depthwise and a pointwise convolution beside the input, pooled and padded with channels to their shape."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, act: str) -> None:
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        margin = 0 if stride == 2 else kernel // 2
        self.pads = ((kernel - 1) // 2, kernel // 2) * 2 if stride == 2 else None
        self.depthwise = nn.Conv2d(inputs, inputs, kernel, stride, margin, groups=inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1)
        self.act = nn.PReLU(outputs) if act == "prelu" else nn.ReLU()
        self.project = nn.Conv2d(inputs, outputs, 1) if act == "project" and self.more else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = functional.max_pool2d(x, 2, 2) if self.stride == 2 else x
        if self.project is not None:
            skip = self.project(skip)
        elif self.more > 0:
            skip = functional.pad(skip, (0, 0, 0, 0, 0, self.more))
        inner = functional.pad(x, self.pads) if self.pads else x
        return self.act(self.pointwise(self.depthwise(inner)) + skip)


def _blocks(inputs: int, widths: Sequence[int | tuple[int, int]], kernel: int = 3, act: str = "relu") -> nn.Sequential:
    """Return blocks of these widths; a pair is a width and its stride."""
    parts = []
    for item in widths:
        width, stride = item if isinstance(item, tuple) else (item, 1)
        parts.append(Blaze(inputs, width, kernel, stride, act))
        inputs = width
    return nn.Sequential(*parts)


def _first(outputs: int, kernel: int, stride: int = 2, *, act: str = "relu") -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, outputs, kernel, stride, kernel // 2), nn.PReLU(outputs) if act == "prelu" else nn.ReLU()
    )


class Detector(Module):
    """Two maps of one backbone, each with scores and boxes of a few anchors a pixel."""

    def __init__(self, fine: nn.Module, coarse: nn.Module, widths: tuple[int, int], numbers: int) -> None:
        super().__init__()
        self.fine, self.coarse = fine, coarse
        self.scores = nn.ModuleList([nn.Conv2d(widths[0], 2, 1), nn.Conv2d(widths[1], 6, 1)])
        self.boxes = nn.ModuleList([nn.Conv2d(widths[0], 2 * numbers, 1), nn.Conv2d(widths[1], 6 * numbers, 1)])
        self.numbers = numbers

    def forward(self, x: torch.Tensor) -> Any:
        fine = self.fine(x)
        return _predictions((fine, self.coarse(fine)), self.scores, self.boxes, self.numbers)


def _predictions(maps: Sequence[torch.Tensor], scores: Any, boxes: Any, numbers: int) -> Any:
    named = [part(x).permute(0, 2, 3, 1).reshape(1, -1, 1) for part, x in zip(scores, maps, strict=True)]
    placed = [part(x).permute(0, 2, 3, 1).reshape(1, -1, numbers) for part, x in zip(boxes, maps, strict=True)]
    return torch.cat(placed, 1), torch.cat(named, 1)


def _face_detector() -> nn.Module:
    """The network for cameras that look away from the user: images of 256 pixels."""
    widths = (*(24,) * 7, (24, 2), *(24,) * 7, (48, 2), *(48,) * 7, (96, 2), *(96,) * 7)
    fine = nn.Sequential(_first(24, 5), _blocks(24, widths))
    coarse = nn.Sequential(nn.Conv2d(96, 96, 3, 2, 1, groups=96), nn.Conv2d(96, 96, 1), nn.ReLU())
    return Detector(fine, coarse, (96, 96), 16)


def _pose_detector() -> nn.Module:
    widths = (*(48,) * 3, (64, 2), *(64,) * 3, (96, 2), *(96,) * 6, (128, 2), *(128,) * 7)
    fine = nn.Sequential(_first(48, 5, 1), _blocks(48, widths, 5, "project"))
    return Detector(fine, _blocks(128, ((256, 2), *(256,) * 6), 5, "project"), (128, 256), 12)


class PalmDetector(Module):
    """Three maps on the way down, two of them joined again on the way up."""

    def __init__(self) -> None:
        super().__init__()
        widths = (*(32,) * 7, (64, 2), *(64,) * 7, (128, 2), *(128,) * 7)
        self.fine = nn.Sequential(_first(32, 3), _blocks(32, widths))
        self.middle, self.coarse = _blocks(128, ((256, 2), *(256,) * 7)), _blocks(256, ((256, 2), *(256,) * 7))
        self.ups = nn.ModuleList([nn.ConvTranspose2d(256, 256, 2, 2), nn.ConvTranspose2d(256, 128, 2, 2)])
        self.joins = nn.ModuleList([_blocks(256, (256,)), _blocks(128, (128,))])
        self.scores = nn.ModuleList([nn.Conv2d(128, 2, 1), nn.Conv2d(256, 2, 1), nn.Conv2d(256, 6, 1)])
        self.boxes = nn.ModuleList([nn.Conv2d(128, 36, 1), nn.Conv2d(256, 36, 1), nn.Conv2d(256, 108, 1)])

    def forward(self, x: torch.Tensor) -> Any:
        fine = self.fine(x)
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        middle = self.joins[0](middle + functional.relu(self.ups[0](coarse)))
        fine = self.joins[1](fine + functional.relu(self.ups[1](middle)))
        return _predictions((fine, middle, coarse), self.scores, self.boxes, 18)


class FaceLandmarks(Module):
    """468 points of a face, and whether it is one."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 16, (32, 2), 32, 32, (64, 2), 64, 64, (128, 2), 128, 128, (128, 2), 128, 128)
        self.body = nn.Sequential(_first(16, 3, act="prelu"), _blocks(16, widths, 3, "prelu"))
        self.points = self._end((128, 2), 128, 128, outputs=1404)
        self.flag = self._end((128, 2), outputs=1)

    @staticmethod
    def _end(*widths: int | tuple[int, int], outputs: int) -> nn.Module:
        narrow = [nn.Conv2d(128, 32, 1), nn.PReLU(32)]
        return nn.Sequential(
            _blocks(128, widths, 3, "prelu"), *narrow, _blocks(32, (32,), 3, "prelu"), nn.Conv2d(32, outputs, 3)
        )

    def forward(self, x: torch.Tensor) -> Any:
        x = self.body(x)
        return self.flag(x).sigmoid(), self.points(x)


def _double(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2, mode="bilinear")


class HandLandmarks(Module):
    """21 points of a hand, whether it is one, and which."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [
                nn.Sequential(_first(24, 3), _blocks(24, (24, 24, (48, 2)), 5)),
                _blocks(48, (48, 48, (96, 2)), 5),
                _blocks(96, (96, 96, (96, 2)), 5),
                _blocks(96, (96, 96, (96, 2)), 5),
            ]
        )
        self.up = nn.ModuleList([_blocks(96, (96,), 5), _blocks(96, (96,), 5)])
        self.narrow = nn.Conv2d(96, 48, 1)
        stage: tuple[int | tuple[int, int], ...] = ((288, 2), 288, 288, 288, 288)
        self.rest = _blocks(48, (*(48,) * 4, (96, 2), *(96,) * 4, *stage * 4), 5)
        self.outputs = nn.ModuleList([nn.Conv2d(288, count, 2) for count in (1, 1, 63)])

    def forward(self, x: torch.Tensor) -> Any:
        maps = []
        for part in self.down:
            x = part(x)
            maps.append(x)
        x = self.up[0](maps[2] + _double(maps[3]))
        x = self.narrow(self.up[1](maps[1] + _double(x)))
        x = self.rest(maps[0] + _double(x))
        return [part(x) for part in self.outputs]


class PoseLandmarks(Module):
    """31 points of a body, whether it is one, and its silhouette."""

    WIDTHS = (24, 48, 96, 192, 288)
    COUNTS = (2, 4, 5, 6, 7)

    def __init__(self) -> None:
        super().__init__()
        stages: list[nn.Module] = [nn.Sequential(_first(24, 3), _blocks(24, (24, 24)))]
        for before, width, count in zip(self.WIDTHS[:-1], self.WIDTHS[1:], self.COUNTS[1:], strict=True):
            stages.append(_blocks(before, ((width, 2), *(width,) * (count - 1))))
        self.stages = nn.ModuleList(stages)
        self.up = nn.ModuleList([self._separable(width, 48) for width in (48, 96, 192, 288)])
        self.again = nn.ModuleList(
            [_blocks(a, ((b, 2), *(b,) * n)) for a, b, n in ((48, 96, 4), (96, 192, 5), (192, 288, 6))]
        )
        self.across = nn.ModuleList([self._separable(width, width) for width in (96, 192, 288)])
        self.last = _blocks(288, ((288, 2), *(288,) * 7, (288, 2), *(288,) * 7))
        self.outline = nn.ModuleList([self._separable(48, 8), self._separable(24, 8), self._separable(8, 8)])
        self.outputs = nn.ModuleList([nn.Conv2d(288, 1, 2), nn.Conv2d(288, 124, 2), nn.Conv2d(8, 1, 3, padding=1)])

    @staticmethod
    def _separable(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs), nn.Conv2d(inputs, outputs, 1), nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> Any:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        up = self.up[3](maps[4])
        for level in (2, 1, 0):
            up = self.up[level](maps[level + 1]) + _double(up)
        outline = self.outline[2](self.outline[1](maps[0]) + _double(self.outline[0](up)))
        for number, (again, across) in enumerate(zip(self.again, self.across, strict=True)):
            up = again(up) + across(maps[number + 2])
        up = self.last(up)
        return self.outputs[0](up).sigmoid(), self.outputs[1](up), self.outputs[2](outline)


NETS: dict[str, tuple[int, Any]] = {
    "architecture/mediapipe-face-detector": (256, _face_detector),
    "architecture/mediapipe-face-landmarks": (192, FaceLandmarks),
    "architecture/mediapipe-palm-detector": (256, PalmDetector),
    "architecture/mediapipe-hand-landmarks": (256, HandLandmarks),
    "architecture/mediapipe-pose-detector": (128, _pose_detector),
    "architecture/mediapipe-pose-landmarks": (256, PoseLandmarks),
}


def entries() -> Iterator[Entry]:
    """Yield MediaPipe's networks."""
    for name, (side, build) in NETS.items():
        yield Entry(
            name,
            "vision",
            "mediapipe",
            lambda build=build, side=side: (build(), (image(side),)),
            "keypoint-detection",
            {"image_size": side},
        )

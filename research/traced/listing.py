"""All architectures of this folder, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator

from research.traced import (
    blaze,
    darknet,
    inception,
    inverted_residuals,
    language,
    libraries,
    multimodal,
    objects,
    poses,
    qualcomm,
    rcnn,
    realtime,
    restoration,
    segmentation,
    sequences,
    speech,
    ssd,
    yolo,
)
from research.traced.entry import Entry

__all__ = ["entries"]

MODULES = (
    libraries,
    language,
    multimodal,
    inverted_residuals,
    inception,
    yolo,
    darknet,
    ssd,
    rcnn,
    segmentation,
    realtime,
    restoration,
    blaze,
    poses,
    objects,
    speech,
    sequences,
    qualcomm,
)


def entries() -> Iterator[Entry]:
    """Yield every entry."""
    for module in MODULES:
        yield from module.entries()

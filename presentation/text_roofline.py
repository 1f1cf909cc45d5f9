"""A roofline in characters: points under the lower of the peak and what the bandwidth feeds, on two logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from presentation import formatting

__all__ = ["Place", "text_roofline"]

_ROOF, _SEVERAL = "·", "*"
_LABEL = 14


class Place(NamedTuple):
    """A point: FLOP per byte, FLOP/s, and the letter that stands for it."""

    intensity: float
    flops_per_s: float
    letter: str


def text_roofline(
    places: Sequence[Place], peak_flops: float, bandwidth_bytes_per_s: float, *, width: int = 70, height: int = 14
) -> list[str]:
    """Return the lines of the picture, the highest first, and the axis below; `*` stands for points of several letters."""
    if not places:
        return []
    ridge = peak_flops / bandwidth_bytes_per_s
    left = math.log10(min(*(place.intensity for place in places), ridge)) - 0.1
    right = math.log10(max(*(place.intensity for place in places), ridge)) + 0.3
    top = math.log10(max(peak_flops, *(place.flops_per_s for place in places))) + 0.05
    bottom = min(math.log10(min(place.flops_per_s for place in places)), top - 1.0) - 0.05

    def column(intensity: float) -> int:
        return min(width - 1, max(0, round((math.log10(intensity) - left) / (right - left) * (width - 1))))

    def row(flops: float) -> int:
        return min(height - 1, max(0, round((top - math.log10(flops)) / (top - bottom) * (height - 1))))

    picture = [[" "] * width for _ in range(height)]
    for at in range(width):
        intensity = 10 ** (left + at / (width - 1) * (right - left))
        roof = min(peak_flops, intensity * bandwidth_bytes_per_s)
        if math.log10(roof) >= bottom:
            picture[row(roof)][at] = _ROOF
    for place in places:
        line, at = picture[row(place.flops_per_s)], column(place.intensity)
        line[at] = place.letter if line[at] in (" ", _ROOF, place.letter) else _SEVERAL
    labels = {0: top, height // 2: top - (top - bottom) * (height // 2) / (height - 1), height - 1: bottom}
    lines = [
        f"{formatting.plain(formatting.si(10 ** labels[at], 'FLOP/s')) if at in labels else '':>{_LABEL}} │{''.join(line).rstrip()}"
        for at, line in enumerate(picture)
    ]
    first, last = f"{10**left:.2g}", f"{10**right:.2g} FLOP/byte"
    lines.append(f"{'':>{_LABEL}} └{'─' * width}")
    lines.append(f"{'':>{_LABEL}}  {first}{last:>{width - len(first)}}")
    return lines

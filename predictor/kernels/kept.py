"""What is kept of the kernels: parameters by class, where they were measured, and how far off they are on devices left out."""

from __future__ import annotations

import msgspec

from predictor.kernels.physics import Parameters

__all__ = ["TREES", "Kernels", "chip_of"]

TREES = "kernel."
"""What the names of their trees begin with among those of a predictor; the class and the key of the trees follow."""
_VARIANTS = (
    "-sxm",
    "-pcie",
    "-nvl",
    "-40gb",
    "-80gb",
    "-32gb",
    "-16gb",
    "-igpu",
    "-gpu",
    "-maxq",
    "-laptop",
    "-server",
)


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters by class, (device, software) that taught, kernels by class, and by class and device the errors left out."""

    parameters: dict[str, Parameters]
    places: list[tuple[str, str]]
    rows: dict[str, int]
    scores: dict[str, dict[str, dict[str, float]]] = {}


def chip_of(hardware: str) -> str:
    """Return what a device shares with its siblings, which are left out with it: its name without memory and form."""
    for part in _VARIANTS:
        hardware = hardware.replace(part, "")
    return hardware

"""How fast devices that share a model exchange what they computed; bytes/s of one device in one direction.

Figures are of `ai-dynamo/aiconfigurator` (systems/*.yaml, `node`) for NVIDIA, and of the makers' data sheets for others:
MI300X seven Infinity Fabric links of 64 GB/s, MI250 three of 50 GB/s beyond the package, Gaudi2 twenty-one ports of
100 Gb/s, Max 1550 sixteen Xe links of 26.5 GB/s. What is not listed is taken to be on PCIe 4.0 ×16.
"""

from __future__ import annotations

import msgspec

__all__ = ["Interconnect", "interconnect_of"]


class Interconnect(msgspec.Struct, frozen=True, kw_only=True):
    """`inside` a group of `devices` that are joined directly, `beyond` it through a network."""

    inside: float
    devices: int
    beyond: float

    def speed(self, devices: int) -> float:
        """Return the bytes/s at which this many devices exchange."""
        return self.inside if devices <= self.devices else self.beyond


_PCIE = Interconnect(inside=25e9, devices=8, beyond=12.5e9)
_KNOWN = {
    "nvidia-a100-sxm-40gb": Interconnect(inside=300e9, devices=8, beyond=25e9),
    "nvidia-a100-sxm-80gb": Interconnect(inside=300e9, devices=8, beyond=25e9),
    "nvidia-h100-sxm": Interconnect(inside=450e9, devices=8, beyond=50e9),
    "nvidia-h200-sxm": Interconnect(inside=450e9, devices=8, beyond=50e9),
    "nvidia-b200-sxm": Interconnect(inside=900e9, devices=8, beyond=100e9),
    "nvidia-b300-sxm": Interconnect(inside=900e9, devices=8, beyond=100e9),
    "nvidia-gb200": Interconnect(inside=900e9, devices=72, beyond=100e9),
    "nvidia-gb300": Interconnect(inside=900e9, devices=72, beyond=100e9),
    "amd-instinct-mi300x": Interconnect(inside=448e9, devices=8, beyond=50e9),
    "amd-instinct-mi250": Interconnect(inside=150e9, devices=4, beyond=25e9),
    "intel-gaudi2": Interconnect(inside=262.5e9, devices=8, beyond=37.5e9),
    "intel-data-center-gpu-max-1550": Interconnect(inside=424e9, devices=8, beyond=25e9),
}


def interconnect_of(hardware: str) -> Interconnect:
    """Return the figures of a device, or those of PCIe where none are known."""
    return _KNOWN.get(hardware, _PCIE)

"""What engines usually make of a device, where nothing of theirs trained: shares of its bandwidth and of its peak."""

from __future__ import annotations

import msgspec

from domain.catalogues.engines import BANDS, DeviceShare, Share, band_of, efficiency_of, format_of
from domain.catalogues.hardware import HardwareSpec
from predictor.features.dataset import Row
from predictor.llm_serving.deployment import Storage
from predictor.llm_serving.device_shares import share_on
from predictor.llm_serving.physics import Device

__all__ = ["UsualShares", "shares_of", "usual_device", "widely_known"]

MANY = 6


class UsualShares(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of one engine on a platform for weights of one format, and where they are from."""

    decode: Share
    prefill: Share
    launch_s: float
    source: str

    def width(self, target: str) -> float:
        """Return by what factor (log) a time is off for four of five devices."""
        return (self.prefill if target == "ttft" else self.decode).width


def shares_of(row: Row, storage: Storage, spec: HardwareSpec) -> UsualShares | None:
    """Return what the engine of a row usually reaches on such a device, or None where nobody published it."""
    known = efficiency_of(row.runtime, row.platform, spec.kind)
    if known is None:
        return None
    band = band_of(8 * storage.expert_bytes)
    decode = _on(_nearest(known.decode, band), known.decode_devices, spec, row.platform, band)
    prefill = _on(_nearest(known.prefill, band), known.prefill_devices, spec, row.platform, band)
    return UsualShares(decode=decode, prefill=prefill, launch_s=known.launch_s, source=known.source)


def _on(share: Share, devices: tuple[DeviceShare, ...], spec: HardwareSpec, platform: str, band: str) -> Share:
    """The share with its value on this device, where the devices most like it tell."""
    value = share_on(devices, spec, platform, band) if devices else None
    return share if value is None else msgspec.structs.replace(share, value=value)


def widely_known(row: Row) -> bool:
    """Whether so many devices tell of an engine with such weights that they say more of another one than what trained."""
    known = efficiency_of(row.runtime, row.platform, row.hardware_kind)
    share = None if known is None else known.decode.get(band_of(format_of(row.runtime, row.precision).bits))
    return share is not None and share.devices >= MANY


def _nearest(shares: dict[str, Share], band: str) -> Share:
    """The share of the band, else of the one whose weights are most alike."""
    return shares[min(shares, key=lambda other: abs(BANDS.index(other) - BANDS.index(band)))]


def usual_device(device: Device, shares: UsualShares) -> Device:
    """Return a device of which no more than its usual shares can be used."""
    return msgspec.structs.replace(
        device,
        bandwidth=device.bandwidth * shares.decode.value,
        dense_flops=device.dense_flops * shares.prefill.value,
        expert_flops=device.expert_flops * shares.prefill.value,
        attention_flops=device.attention_flops * shares.prefill.value,
        launch_s=shares.launch_s,
    )

"""What engines usually make of a device, where nothing of theirs trained: shares of its bandwidth and of its peak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.catalogues.engines import BANDS, DeviceShare, Share, band_of, efficiency_of, format_of
from domain.catalogues.hardware import HardwareSpec
from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix
from predictor.llm_serving.deployment import Storage
from predictor.llm_serving.physics import Device

__all__ = ["LEAST", "MOST", "DeviceShares", "UsualShares", "share_on", "shares_of", "usual_device", "widely_known"]

LEAST, MOST = 0.02, 1.1
"""Shares that are believed; beyond them a row or a data sheet is wrong."""
_LENGTHS = np.array([1.0, 0.8, 1.5, 4.0, 0.3])
"""One step apart, in the units of `_coordinates`."""
_BITS = 1.2
"""Bands that are one step apart."""
_NEAR, _BROAD, _BAND, _LINEAR = 0.06, 0.4, 0.03, 0.02
"""Variance (log) of what devices share that are near, that are near and hold such weights, that hold such weights, and of a
trend along the coordinates. Found with devices left out, over all engines at once."""
_DEVICE, _ROW = 0.01, 0.05
"""Variance of one device, and of one row of it."""


class DeviceShares(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A fitted process over the devices of one engine and phase on one platform.

    No device is taken to reach more or less than those that are known (`between`).
    """

    coordinates: Matrix
    bands: Array
    mean: float
    weights: Array
    between: tuple[float, float]

    @classmethod
    def fit(cls, shares: Sequence[DeviceShare], platform: str) -> DeviceShares | None:
        """Return the process of these shares, or None where fewer than two devices are known."""
        specs = [(share, hardware.find(share.device)) for share in shares]
        kept = [(share, place) for share, spec in specs if spec and (place := _coordinates(spec, platform)) is not None]
        if len({share.device for share, _ in kept}) < 2:
            return None
        coordinates = np.array([place for _, place in kept])
        bands = np.array([float(BANDS.index(share.band)) for share, _ in kept])
        values = np.log([share.value for share, _ in kept])
        noise = np.array([_DEVICE + _ROW / share.rows for share, _ in kept])
        mean = float(values.mean())
        covariance = _likeness(coordinates, bands, coordinates, bands) + np.diag(noise)
        between = math.exp(float(values.min())), math.exp(float(values.max()))
        weights = np.asarray(np.linalg.solve(covariance, values - mean), dtype=np.float64)
        return cls(coordinates=coordinates, bands=bands, mean=mean, weights=weights, between=between)

    def predict(self, spec: HardwareSpec, platform: str, band: str) -> float | None:
        """Return the share on a device, or None where the catalogue does not know its bandwidth or its peak."""
        place = _coordinates(spec, platform)
        if place is None:
            return None
        here = _likeness(np.array([place]), np.array([float(BANDS.index(band))]), self.coordinates, self.bands)[0]
        return min(max(math.exp(self.mean + float(here @ self.weights)), self.between[0]), self.between[1])


def _likeness(left: Matrix, left_bands: Array, right: Matrix, right_bands: Array) -> Matrix:
    left, right = left / _LENGTHS, right / _LENGTHS
    apart = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    alike = np.exp(-0.5 * ((left_bands[:, None] - right_bands[None, :]) / _BITS) ** 2)
    near, broad = np.exp(-0.5 * apart), np.exp(-0.125 * apart)
    return np.asarray(_NEAR * near + _BROAD * broad * alike + _BAND * alike + _LINEAR * (left @ right.T))


def _coordinates(spec: HardwareSpec, platform: str) -> tuple[float, ...] | None:
    bandwidth = spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s
    single = spec.peak("fp32")
    half = spec.peak("fp16", platform) or spec.peak("fp16") or spec.peak("bf16") or single
    if bandwidth is None or half is None:
        return None
    return (
        math.log(bandwidth.value / 3e11),
        math.log(half.value / bandwidth.value / 150),
        math.log(half.value / (single.value if single else half.value / 2) / 4),
        ((spec.year or 2022) - 2022) / 3,
        0.0 if spec.memory_bytes else 1.0,
    )


@lru_cache(maxsize=256)
def _fitted(shares: tuple[DeviceShare, ...], platform: str) -> DeviceShares | None:
    return DeviceShares.fit(shares, platform)


def share_on(shares: tuple[DeviceShare, ...], spec: HardwareSpec, platform: str, band: str) -> float | None:
    """Return the share of a device from the shares of others and its own; None where too little is known."""
    process = _fitted(shares, platform)
    return None if process is None else process.predict(spec, platform, band)


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

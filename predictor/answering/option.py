"""One option of an answer: a configuration with its figures, and on what they rest."""

from __future__ import annotations

from datetime import datetime

import msgspec

from domain.answers import Chances, OptionVariant, QualityLoss, Sizes
from domain.canonical import canonical, drop_nulls
from domain.configuration import configuration_key
from predictor.answering.prices import Hour

__all__ = ["SIZE_NAMES", "Option"]

SIZE_NAMES = Sizes.__struct_fields__


# Thousands are alive at a time and none can be part of a cycle, so that the collector need not walk them.
class Option(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Latencies in ms of one call at that batch, memory in bytes, throughput in items a second.

    `low` and `high` bound the latency at the answer's interval; `covered` says whether measurement supports that
    interval. Energy is of a call, with a basis and a verdict of its own: a meter fails without the times. `key` is the configuration's name where the log knows it; `method` what predicted it: trees, few or roofline.
    """

    hardware: str
    platform: str
    precision: str
    batch_size: int | None
    basis: str
    origin: str | None = None
    latency_ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None
    covered: bool = False
    slow_host: bool = False
    """Whether `high_ms` is what a slow host takes to launch the work, beyond which the device does not matter."""
    bounded: bool = False
    """Whether `high_ms` is the upper end of a covered interval at a larger batch, so that measurements support it."""
    is_mean: bool = False
    throughput_per_s: float | None = None
    peak_memory_bytes: float | None = None
    memory_low_bytes: float | None = None
    memory_high_bytes: float | None = None
    memory_floor_bytes: float | None = None
    weights_bytes: float | None = None
    kv_cache_bytes: float | None = None
    activations_bytes: float | None = None
    offloaded_layers: int | None = None
    host_memory_bytes: float | None = None
    ttft_ms: float | None = None
    ttft_low_ms: float | None = None
    ttft_high_ms: float | None = None
    tpot_ms: float | None = None
    tpot_low_ms: float | None = None
    tpot_high_ms: float | None = None
    tokens_per_s: float | None = None
    tokens_low_per_s: float | None = None
    tokens_high_per_s: float | None = None
    realtime_factor: float | None = None
    """Seconds of audio in a second of work."""
    concurrency: int | None = None
    energy_j: float | None = None
    energy_low_j: float | None = None
    energy_high_j: float | None = None
    energy_basis: str | None = None
    energy_verdict: str | None = None
    power_w: float | None = None
    rated_power_w: float | None = None
    usd_per_hour: float | None = None
    hour: Hour | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    browser: str | None = None
    browser_version: str | None = None
    compiled: bool = False
    layout: str | None = None
    count: int = 1
    n: int | None = None
    runs: int = 0
    verdict: str | None = None
    evidence: tuple[str, ...] = ()
    why: str = ""
    method: str | None = None
    key: str | None = None
    position: int = 0
    measured_at: datetime | None = None
    chances: Chances | None = None
    variant: OptionVariant | None = None
    quality: QualityLoss | None = None
    is_reference: bool = False
    """Whether it is the model itself in fp32, with which quality is compared."""
    size_bytes: int | None = None

    @property
    def usd_per_million(self) -> float | None:
        """US dollars for a million items, where price and throughput are known."""
        if self.usd_per_hour is None or not self.throughput_per_s:
            return None
        return self.usd_per_hour / 3600 / self.throughput_per_s * 1e6

    def configuration(self, model: str, mode: str, sizes: Sizes) -> str:
        """Return the configuration's name: the log's, or that of what a run of this option would be."""
        if self.key is not None:
            return self.key
        workload = {
            "mode": mode,
            "scenario": "single_stream" if self.concurrency is None else "serving",
            "batch_size": self.batch_size,
            "concurrency": self.concurrency,
            **sizes.stated(),
        }
        execution = {
            "platform": self.platform,
            "precision": self.precision,
            "runtime": {"name": self.runtime} if self.runtime else None,
            "compiled": self.compiled,
            "layout": self.layout,
        }
        return configuration_key(
            canonical(drop_nulls(workload)).decode(),
            canonical(drop_nulls(execution)).decode(),
            model,
            self.hardware,
            self.count,
        )[1]

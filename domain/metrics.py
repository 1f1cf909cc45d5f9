"""The metrics of a measurement: unit, which way is better, and what each one is."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["MEASURED_METRICS", "METRICS", "Metric"]


class Metric(NamedTuple):
    """One metric: its unit, the better direction and its meaning."""

    unit: str
    better: Literal["lower", "higher", "neither"]
    meaning: str


METRICS: dict[str, Metric] = {
    "latency_ms": Metric("ms", "lower", "time of one call at its batch size, steady state"),
    "throughput_per_s": Metric("1/s", "higher", "items a second: batch size × calls over the time they took"),
    "tokens_per_s": Metric("1/s", "higher", "output tokens a second"),
    "ttft_ms": Metric("ms", "lower", "time to the first token"),
    "tpot_ms": Metric("ms", "lower", "time per output token after the first"),
    "realtime_factor": Metric("s/s", "higher", "seconds of audio per second of work"),
    "load_ms": Metric("ms", "lower", "building the model and reading or drawing its weights"),
    "convert_ms": Metric("ms", "lower", "conversion into the runtime's own form"),
    "compile_ms": Metric("ms", "lower", "compilation for the device"),
    "first_run_ms": Metric("ms", "lower", "the first call, caches cold"),
    "preprocess_ms": Metric("ms", "lower", "preparing one batch of inputs"),
    "postprocess_ms": Metric("ms", "lower", "turning one batch of outputs into words, labels or boxes"),
    "forward_ms": Metric("ms", "lower", "forward pass of a training step"),
    "loss_ms": Metric("ms", "lower", "loss of a training step"),
    "backward_ms": Metric("ms", "lower", "backward pass of a training step"),
    "optimizer_ms": Metric("ms", "lower", "optimizer step"),
    "peak_memory_bytes": Metric("B", "lower", "highest resident memory of the process that ran the configuration"),
    "mean_memory_bytes": Metric("B", "lower", "mean resident memory over the steady state"),
    "device_memory_bytes": Metric("B", "lower", "highest memory allocated on the device"),
    "kv_cache_bytes": Metric("B", "lower", "keys and values kept at the end of one generation"),
    "energy_j": Metric("J", "lower", "energy of one call"),
    "power_w": Metric("W", "lower", "mean power over the steady state"),
    "energy_per_item_j": Metric("J", "lower", "energy of one item: of a call, over its batch"),
    "energy_per_token_j": Metric("J", "lower", "energy of one output token"),
    "energy_above_idle_j": Metric("J", "lower", "energy of one call less what the device draws at rest"),
    "idle_power_w": Metric("W", "neither", "mean power at rest, before the model was loaded"),
    "device_time_ms": Metric("ms", "lower", "time of one call by the clock of the device"),
    "utilisation": Metric("share", "neither", "busy share of the device or of the cores in use"),
    "goodput_per_s": Metric("1/s", "higher", "requests a second that met their objective"),
    "roofline_share": Metric("share", "higher", "roofline time over measured time"),
}

MEASURED_METRICS = tuple(METRICS)

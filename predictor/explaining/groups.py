"""Features in the words that people have for what takes time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from domain.roofline import ARITHMETIC_CLASSES

__all__ = [
    "ATTENTION",
    "COMPUTE",
    "CONVOLUTION",
    "LAUNCHES",
    "MEMORY",
    "OTHER",
    "RUNTIME",
    "SIZE",
    "group_of",
    "grouped",
]

COMPUTE = "compute"
MEMORY = "memory traffic"
LAUNCHES = "launches"
ATTENTION = "attention"
CONVOLUTION = "convolution"
OTHER = "other operators"
SIZE = "batch and sizes"
RUNTIME = "runtime"
OPTIMIZER = "optimizer"

_BY_CLASS = {
    **dict.fromkeys(("attention", "bmm", "softmax"), ATTENTION),
    **dict.fromkeys(("conv", "conv1x1", "depthwise", "grouped"), CONVOLUTION),
}
_BY_NAME = {
    **dict.fromkeys(("log_compute", "balance", "compute_bound_share", "log_flops_per_activation"), COMPUTE),
    **dict.fromkeys(("log_memory", "cache_share", "log_peak_activation", "log_activations_per_weight"), MEMORY),
    **dict.fromkeys(
        ("launch_share", "log_operators", "log_floored", "under_5us_share", "under_20us_share", "log_distinct"),
        LAUNCHES,
    ),
    **dict.fromkeys(("log_prior", "log_batch", "log_image", "log_sequence"), SIZE),
    **dict.fromkeys(("compiled", "channels_last", "runtime_version", "bytes", "cpu", "training"), RUNTIME),
}


def group_of(feature: str) -> str:
    """Return the group of a feature; of those about one class of operators (`inner.conv`) that of the class."""
    stem, _, kind = feature.rpartition(".")
    return _BY_CLASS.get(kind, OTHER) if stem else _BY_NAME.get(feature, OTHER)


def kind_of(work: str) -> str:
    """Return the group of a kind of work (`predictor.learning.work.TERMS`)."""
    name = work.partition(".")[0]
    if name in ARITHMETIC_CLASSES:
        return COMPUTE
    return {"launch": LAUNCHES, "call": RUNTIME, "optimizer": OPTIMIZER}.get(name, MEMORY)


def grouped(names: Sequence[str], values: Iterable[float]) -> dict[str, float]:
    """Return the sums of values by the groups of the features that they belong to."""
    sums: dict[str, float] = {}
    for name, value in zip(names, values, strict=True):
        group = group_of(name)
        sums[group] = sums.get(group, 0.0) + value
    return sums

"""Features in the words that people have for what takes time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from domain.performance.roofline import ARITHMETIC_CLASSES

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
    **dict.fromkeys(("attention", "bmm", "softmax", "probabilities", "thin_attention", "odd_attention"), ATTENTION),
    **dict.fromkeys(("conv", "conv1x1", "depthwise", "grouped"), CONVOLUTION),
}
_BY_NAME = {
    **dict.fromkeys(
        ("log_compute", "balance", "compute_bound_share", "log_flops_per_activation", "log_compute_share"), COMPUTE
    ),
    **dict.fromkeys(
        (
            "log_memory",
            "cache_share",
            "log_peak_activation",
            "log_activations_per_weight",
            "log_weights",
            "log_written",
        ),
        MEMORY,
    ),
    **dict.fromkeys(
        (
            "launch_share",
            "log_operators",
            "log_floored",
            "under_5us_share",
            "under_20us_share",
            "log_distinct",
            "log_unfused",
            "fused_calls",
        ),
        LAUNCHES,
    ),
    **dict.fromkeys(("log_prior", "log_batch", "log_image", "log_sequence", "log_item"), SIZE),
    **dict.fromkeys(("compiled", "channels_last", "runtime_version", "bytes", "cpu", "training"), RUNTIME),
}


def group_of(feature: str) -> str:
    """Return the group of a feature; of those about a class of operators (`inner.conv`) that of the class."""
    of, *classes = feature.split(".")
    return (
        next((_BY_CLASS[name] for name in classes if name in _BY_CLASS), OTHER) if classes else _BY_NAME.get(of, OTHER)
    )


def kind_of(work: str) -> str:
    """Return the group of a kind of work (`predictor.features.work.TERMS`)."""
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

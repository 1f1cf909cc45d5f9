"""What a predicted latency is made of, in sentences: the classes of kernels and the longest operators."""

from __future__ import annotations

from domain.answers import Explanation, KernelTime, OperatorTime
from presentation import formatting

__all__ = ["kernel_lines", "longest_lines"]

LONGEST = 3


def kernel_lines(explanation: Explanation) -> list[str]:
    """Return a line for each class of kernels: what they take, and the arithmetic, traffic and launches in that."""
    order = sorted(explanation.kernels or (), key=lambda item: -item.ms)
    return [_kernels(item) for item in order]


def longest_lines(explanation: Explanation, most: int = LONGEST) -> list[str]:
    """Return a line for each of the longest operators, with its share of all kernels."""
    total = sum(item.ms for item in explanation.kernels or ())
    return [_operator(item, total) for item in (explanation.longest or ())[:most]]


def _kernels(item: KernelTime) -> str:
    parts = {"arithmetic": item.arithmetic_ms, "traffic": item.traffic_ms, "launches": item.launch_ms}
    shares = ", ".join(
        f"{name} {formatting.share(ms / item.ms)}" for name, ms in parts.items() if ms >= 0.005 * item.ms
    )
    return f"{item.kind}: {formatting.latency(item.ms)} in {formatting.count(item.calls)} calls ({shares})"


def _operator(item: OperatorTime, total_ms: float) -> str:
    name = item.name.removeprefix("aten.")
    calls = f"{formatting.count(item.calls)} × " if item.calls > 1 else ""
    share = formatting.share(item.ms / total_ms)
    return f"{calls}{name} {item.sizes}: {formatting.latency(item.ms)}, {share} of the kernels"

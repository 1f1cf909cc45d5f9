"""What a predicted latency is made of, in sentences: the classes of kernels and the longest operators."""

from __future__ import annotations

from domain.answers import Explanation, KernelTime, OperatorTime
from presentation import formatting

__all__ = ["kernel_lines", "longest_lines", "sum_line"]

LONGEST = 3
LEAST = 0.005
"""Parts below this share of the whole are not named."""


def sum_line(explanation: Explanation) -> str:
    """Return the parts of a latency as a sum, the largest first."""
    least = LEAST * explanation.latency_ms
    named = [part for part in explanation.parts if abs(part.ms) >= least]
    rest = sum(part.ms for part in explanation.parts if abs(part.ms) < least)
    terms = [(part.group, part.ms) for part in named] + ([("the rest", rest)] if rest else [])
    words = [f"{'− ' if ms < 0 else '+ '}{name} {formatting.latency(abs(ms))}" for name, ms in terms]
    return f"{formatting.latency(explanation.latency_ms)} = {' '.join(words).removeprefix('+ ')}"


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
        f"{name} {formatting.share(ms / item.ms)}" for name, ms in parts.items() if ms >= LEAST * item.ms
    )
    return f"{item.kind}: {formatting.latency(item.ms)} in {formatting.count(item.calls)} calls ({shares})"


def _operator(item: OperatorTime, total_ms: float) -> str:
    name = item.name.removeprefix("aten.")
    calls = f"{formatting.count(item.calls)} × " if item.calls > 1 else ""
    share = formatting.share(item.ms / total_ms)
    return f"{calls}{name} {item.sizes}: {formatting.latency(item.ms)}, {share} of the kernels"

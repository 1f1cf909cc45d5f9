"""What the figures of a self-test mean: decided here, measured elsewhere."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ARITHMETIC", "arithmetic_of", "memory_problem", "precision_problem", "timing_problem"]


class Span(NamedTuple):
    """The relative errors of a product (Frobenius, against fp64) that an arithmetic gives."""

    least: float
    most: float


ARITHMETIC: dict[str, Span] = {
    "fp32": Span(0.0, 2e-5),
    "tf32": Span(2e-5, 1e-3),
    "fp16": Span(2e-5, 1e-3),
    "bf16": Span(1e-3, 1e-2),
}
"""Products of normal numbers, sums of 256. Rounding to 11 bits (tf32, fp16) gives 3e-4, to 8 bits (bf16) 2e-3; sums in fp32 5e-7."""

SLACK = 1.02
LEAST_SHARE = 0.8
DEVICE_LOW, DEVICE_HIGH = 0.5, 1.05
QUEUED = 1.5
MEMORY_LOW, MEMORY_HIGH = 0.95, 4.0


def arithmetic_of(error: float) -> str:
    """Return the arithmetic that gives such an error, in words."""
    fits = [name for name, span in ARITHMETIC.items() if span.least <= error <= span.most]
    return " or ".join(fits) if fits else "none that is known"


def precision_problem(name: str, error: float) -> str | None:
    """Return why a product in a precision is not what was asked for, or None where it is."""
    span = ARITHMETIC[name]
    if span.least <= error <= span.most:
        return None
    return f"asked for {name}, and the error of {error:.1e} is that of {arithmetic_of(error)}"


def timing_problem(samples_ms: float, wall_ms: float, queued_ms: float, device_ms: float | None = None) -> str | None:
    """Return why the times of some calls cannot be right, or None.

    `samples_ms` is their sum, each waited for; `wall_ms` what another clock says of the same loop; `queued_ms` the time
    of as many calls that were waited for once, at the end; `device_ms` the sum by the device's own clock.
    """
    if samples_ms > SLACK * wall_ms:
        return f"the calls sum up to {samples_ms:.1f} ms, and another clock saw {wall_ms:.1f} ms pass"
    if samples_ms < LEAST_SHARE * wall_ms:
        return f"the calls sum up to {samples_ms:.1f} ms of the {wall_ms:.1f} ms that the loop took"
    if queued_ms > QUEUED * samples_ms:
        return (
            f"as many calls took {queued_ms:.1f} ms where they were waited for at the end, and {samples_ms:.1f} ms where each "
            "was: waiting returns too early"
        )
    if device_ms is not None and not DEVICE_LOW * samples_ms <= device_ms <= DEVICE_HIGH * samples_ms:
        return f"the device's own clock says {device_ms:.1f} ms of the {samples_ms:.1f} ms"
    return None


def memory_problem(known_bytes: int, counted_bytes: int) -> str | None:
    """Return why the growth of counted memory cannot be that of known weights, or None."""
    if counted_bytes < MEMORY_LOW * known_bytes:
        return f"{counted_bytes:,} bytes were counted where {known_bytes:,} bytes of weights were loaded"
    if counted_bytes > MEMORY_HIGH * known_bytes:
        return f"{counted_bytes:,} bytes were counted for {known_bytes:,} bytes of weights"
    return None

"""Is this machine quiet enough to measure on? Short probes of one moment, and a score of what they found.

| figure | noisy above | unusable above |
| --- | --- | --- |
| `loop_jitter`: ninth decile of a fixed loop's times over their median, less one | 0.05 | 0.25 |
| `loop_lost_share`: share of the loop's wall time without a processor | 0.02 | 0.15 |
| `loop_drift`: change of the loop's median from the first third to the last | 0.05 | 0.15 |
| `other_load`: share of the processors that everything else kept busy | 0.05 | 0.30 |
| `steal_share`: share of the time that a hypervisor gave to others | 0.01 | 0.05 |
| `bandwidth_spread`: middle half of the times of a large copy over their median | 0.10 | 0.40 |
| `clock_drop`: fall of the fastest core's clock, where cpufreq reports it | 0.05 | 0.15 |
| `timer_step_ms`: what two readings of the clock can tell apart | 0.001 | 0.1 |
| `swap_growth_bytes`: growth of the machine's swap | 2**20 | 2**26 |

Noisy figures are half or less of what makes a row suspect (`domain.verdicts`); unusable ones would make most rows so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from domain.conditions import Noise
from domain.statistics import median, quantile
from runner.measure.spinning import spin, timer_resolution_ms
from runner.measure.system_counters import between, clock_hz, processors, reading

__all__ = ["LIMITS", "Limit", "NoiseScore", "figures", "noise", "score"]

NoiseScore = Noise
_LEAST_S = 1.0
_COPY_BYTES = 32 * 2**20
"""More than most last-level caches give one core."""
_GOVERNOR = Path("/sys/devices/system/cpu")
_QUIET = "End other programs, or wait until they have finished: `top` names them."


class Limit(NamedTuple):
    """Above which a figure is noisy or unusable, what it says (`{}` takes its value) and what helps."""

    noisy: float
    unusable: float
    says: str
    remedy: str


LIMITS: dict[str, Limit] = {
    "loop_jitter": Limit(0.05, 0.25, "one call in ten of a fixed loop takes {:.0%} longer than usual", _QUIET),
    "loop_lost_share": Limit(0.02, 0.15, "a fixed loop had no processor for {:.0%} of its time", _QUIET),
    "loop_drift": Limit(
        0.05,
        0.15,
        "the speed of a fixed loop changed by {:.0%} within the probe",
        "Let the machine cool down; plug a laptop in; set the governor: cpupower frequency-set -g performance.",
    ),
    "other_load": Limit(0.05, 0.30, "other work uses {:.0%} of the processors", _QUIET),
    "steal_share": Limit(
        0.01,
        0.05,
        "the hypervisor gives {:.1%} of the time to other guests",
        "Take a dedicated or larger instance, or measure at another hour.",
    ),
    "bandwidth_spread": Limit(
        0.10,
        0.40,
        "the time of a large copy varies by {:.0%}",
        "Something else uses the memory: end it, or take a machine of your own.",
    ),
    "clock_drop": Limit(
        0.05,
        0.15,
        "the clock fell by {:.0%} within the probe",
        "Let the machine cool down, plug it in, or fix its clock (turbo off).",
    ),
    "timer_step_ms": Limit(
        0.001,
        0.1,
        "the clock tells apart only {:.2g} ms",
        "Set the kernel's clock source to the processor's own: clocksource=tsc.",
    ),
    "swap_growth_bytes": Limit(
        2.0**20, 2.0**26, "{:,.0f} bytes were swapped out", "Free memory, or turn swap off: swapoff -a."
    ),
}


def noise(seconds: float = 3.0) -> NoiseScore:
    """Probe this machine for about that many seconds (1 at least) and return its score.

    Uses one core and 64 MiB of memory. What it finds is true of these seconds, not of the next.
    """
    return score(figures(max(seconds, _LEAST_S)), governor=_governor())


def score(matches: Mapping[str, float], *, governor: str | None = None) -> NoiseScore:
    """Return the score of some figures (`LIMITS` names them; those that are missing do not count).

    A governor that saves power is a reason to call a machine noisy where its loop also changed its speed.
    """
    noisy = [name for name in LIMITS if name in matches and matches[name] > LIMITS[name].noisy]
    unusable = [name for name in noisy if matches[name] > LIMITS[name].unusable]
    reasons = [LIMITS[name].says.format(matches[name]) for name in noisy]
    if governor == "powersave" and "loop_drift" in noisy:
        reasons.append("the governor of the clock is powersave")
    return Noise(
        verdict="unusable" if unusable else "noisy" if noisy else "pass",
        reasons=reasons,
        remedies=list(dict.fromkeys(LIMITS[name].remedy for name in noisy)),
        figures=dict(matches),
    )


def figures(seconds: float) -> dict[str, float]:
    """Return what the probes of `seconds` found; figures that this machine does not offer are absent."""
    clock_before, start = clock_hz(), reading()
    loop = spin(seconds * 0.6)
    copies = _copy_times_ms(seconds * 0.4)
    end, clock_after = reading(), clock_hz()
    happened = between(start, end)
    third = max(1, len(loop.times_ms) // 3)
    first, last = median(loop.times_ms[:third]), median(loop.times_ms[-third:])
    ordered = sorted(loop.times_ms)
    spread = sorted(copies)
    values: dict[str, float | None] = {
        "seconds": happened.wall_s,
        "processors": float(len(processors())),
        "loop_ms": median(ordered),
        "loop_jitter": quantile(ordered, 0.9) / median(ordered) - 1,
        "loop_lost_share": loop.lost_share,
        "loop_drift": abs(last / first - 1),
        "other_load": happened.other_load,
        "steal_share": happened.steal_share,
        "copy_bytes_per_s": 2 * _COPY_BYTES / median(spread) * 1e3,
        "bandwidth_spread": (quantile(spread, 0.75) - quantile(spread, 0.25)) / median(spread),
        "clock_before_hz": clock_before,
        "clock_after_hz": clock_after,
        "clock_drop": max(0.0, 1 - clock_after / clock_before) if clock_before and clock_after else None,
        "timer_step_ms": timer_resolution_ms(),
        "swap_growth_bytes": _growth(start.swap_bytes, end.swap_bytes),
    }
    return {name: value for name, value in values.items() if value is not None}


def _copy_times_ms(seconds: float) -> list[float]:
    """Return the times of copies between two buffers, three at least; the first, which maps the pages, is left out."""
    source, target = bytearray(_COPY_BYTES), bytearray(_COPY_BYTES)
    target[:] = source
    times: list[float] = []
    began = perf_counter()
    while len(times) < 3 or perf_counter() - began < seconds:
        started = perf_counter()
        target[:] = source
        times.append((perf_counter() - started) * 1e3)
    return times


def _growth(before: int | None, after: int | None) -> float | None:
    return None if before is None or after is None else float(max(0, after - before))


def _governor() -> str | None:
    """Return what steers the clock of the first processor (Linux: cpufreq), or None where nothing says."""
    file = _GOVERNOR / f"cpu{processors()[0]}" / "cpufreq" / "scaling_governor"
    return file.read_text("utf-8").strip() if file.exists() else None

"""Verdicts: whether a metric can be believed, and why not.

Times are those of calls in a row: latency, throughput and what is made of them. Single times (loading, conversion,
compilation, the first run) were taken once. Thresholds and where they come from: docs/method.md.

| rule | verdict | on |
| --- | --- | --- |
| fewer than 6 samples (no interval of the median exists) | suspect | times |
| 95 % interval of the median wider than ±5 %; says so where the budget ended first | suspect | times |
| no steady state before warm-up's budget ended | suspect | times |
| drifting: the halves' medians differ by more than 5 %, and a sample of one exceeds one of the other in 71 % of pairs | suspect | times |
| calls that are due when they arrive: drifting up (the queue grows), and nothing else of the series | suspect | times |
| warm-up left in: at least the first three samples lie above all but noise of the rest | suspect | times |
| bimodal: two groups of at least 10 % each, more than 5 % apart, with next to nothing between | suspect | times |
| held up: more than 10 % of the time went into the part of calls beyond twice the median | suspect | times |
| median below 20 times the timer's resolution | suspect | times |
| throttled: the same loop ran more than 10 % slower after than before, or the clock fell by more than 10 % | suspect | times |
| throttled: the processor reported it, or a quota stopped the process for more than 5 % of the time | suspect | times |
| the process was stopped and continued by a signal | suspect | times |
| a fixed loop of the process was without a processor for more than 20 % of its time | suspect | times |
| other work used more than 20 % of the processors, or one of its threads waited for one more than 10 % of the time | suspect | times |
| a hypervisor gave more than 2 % of the processors' time to others | suspect | times |
| other work used more than 20 % of the processors before the series | suspect | single times |
| memory of the process was swapped, or the machine's swap grew by more than 16 MiB | suspect | times, memory |
| the accelerator was throttled, its clock fell, others used it, or calls were not waited for (`domain.performance.device_state`) | suspect | times |
| the power meter was not read for more than 3 s / its integral is 5 % off its counter, and other rules of `domain.performance.energy` | invalid / suspect | energy, power |
| a share of the work fell back to another device: above 10 % / above 50 % | suspect / invalid | all |
| a rank had less than 90 % of a core while it computed | suspect | times |
| operators were moved to the processor one by one (MPS with its fallback on) | suspect | all |
| what did the work says that it is doubtful (`observed.details.doubts`): a software adapter, a hidden page, code still being optimised | suspect | all |
| the device or platform that did the work is not the one asked for | suspect; the row is keyed by the actual | all |
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from domain.conditions import Conditions
from domain.payloads import Observed, Validity, Verdict
from domain.performance.device_state import device_doubts
from domain.performance.energy import doubts as energy_doubts
from domain.statistics import median, series_interval
from domain.vocabulary import VERDICTS

__all__ = [
    "ENERGY",
    "Circumstances",
    "Modes",
    "combine",
    "drift",
    "energy_verdict",
    "held_up_share",
    "judge",
    "leading_warmup",
    "modes",
    "worst",
]

DRIFT = 0.05
LARGE_EFFECT = 0.71
"""Vargha and Delaney (2000) call an effect large from here on: the probability that a sample of one exceeds one of the other."""
WARMUP_SAMPLES = 3
WARMUP_EXCESS = 0.05
WARMUP_DEVIATIONS = 5.0
MODES_SAMPLES = 40
"""With fewer samples a gap between two groups is too often chance."""
MODES_APART = 0.05
MODES_LEAST = 0.10
MODES_VALLEY = 0.05
TRIMMED = 0.05
HELD_UP_FROM = 2.0
_NORMAL_DEVIATIONS = 1.4826
"""Standard deviations in a median absolute deviation of normal noise."""


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups of samples: their medians in ms, and the share of the slower one."""

    low: float
    high: float
    share: float


def drift(samples: Sequence[float]) -> float | None:
    """Return the change of the median from the first half to the second, or None where the halves are alike.

    Unlike: the medians differ by more than 5 %, and the difference is large beside the noise (Vargha and Delaney's A).
    """
    half = len(samples) // 2
    if half < 1:
        return None
    first, second = sorted(samples[:half]), sorted(samples[half:])
    change = median(second) / median(first) - 1
    if abs(change) <= DRIFT:
        return None
    above = sum(bisect_left(first, value) + bisect_right(first, value) for value in second) / 2
    effect = above / (len(first) * len(second))
    return change if max(effect, 1 - effect) >= LARGE_EFFECT else None


def leading_warmup(samples: Sequence[float]) -> int:
    """Return how many of the first samples are slower than the noise of the second half; 0 where fewer than three."""
    rest = samples[len(samples) // 2 :]
    if len(rest) < WARMUP_SAMPLES:
        return 0
    level = median(rest)
    deviation = _NORMAL_DEVIATIONS * median([abs(value - level) for value in rest])
    limit = level + max(WARMUP_EXCESS * level, WARMUP_DEVIATIONS * deviation)
    slower = next((at for at, value in enumerate(samples) if value <= limit), len(samples))
    return slower if slower >= WARMUP_SAMPLES else 0


def modes(samples: Sequence[float]) -> Modes | None:
    """Return the two modes of a series, or None where it has one.

    The samples without their outer twentieths are split where the variance between the groups is greatest (Otsu
    1979). They are two modes where each has at least 10 % of the samples, their medians are more than 5 % apart, and
    at most 5 % of the samples lie in the middle third of the way between; evenly spread ones would have 17 % there.
    """
    ordered = sorted(samples)
    cut = math.ceil(TRIMMED * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    if len(samples) < MODES_SAMPLES:
        return None
    at = _split(kept)
    share = 1 - at / len(kept)
    low, high = median(kept[:at]), median(kept[at:])
    third = (high - low) / 3
    between = bisect_right(kept, high - third) - bisect_left(kept, low + third)
    apart = high - low > MODES_APART * median(kept)
    two = MODES_LEAST <= share <= 1 - MODES_LEAST and apart and between <= MODES_VALLEY * len(kept)
    return Modes(low=low, high=high, share=share) if two else None


def _split(ordered: Sequence[float]) -> int:
    """Return the size of the lower group for which the variance between two groups is greatest."""
    n, total = len(ordered), math.fsum(ordered)
    best, split, below = -1.0, 1, 0.0
    for size in range(1, n):
        below += ordered[size - 1]
        between = size * (n - size) * (below / size - (total - below) / (n - size)) ** 2
        if between > best:
            best, split = between, size
    return split


def held_up_share(samples: Sequence[float]) -> float:
    """Return the share of all the time that lies beyond the median in calls of more than twice the median."""
    level = median(samples)
    return math.fsum(value - level for value in samples if value > HELD_UP_FROM * level) / math.fsum(samples)


TIMES = (
    "latency_ms",
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "realtime_factor",
    "forward_ms",
    "loss_ms",
    "backward_ms",
    "optimizer_ms",
    "goodput_per_s",
    "roofline_share",
    "device_time_ms",
)
ENERGY = ("energy_j", "power_w", "energy_per_item_j", "energy_per_token_j", "energy_above_idle_j", "idle_power_w")
SINGLE_TIMES = ("load_ms", "compile_ms", "first_run_ms", "preprocess_ms", "postprocess_ms")
MEMORY = ("peak_memory_bytes", "mean_memory_bytes")
FEW_SAMPLES = 6
WIDE_INTERVAL = 0.05
HELD_UP = 0.10
COARSE_TIMER = 20
SLOWER = 0.10
QUOTA = 0.05
LOOP_LOST = 0.20
OTHER_LOAD = 0.20
WAITING = 0.10
STEAL = 0.02
RANK_CORE = 0.90
SWAP_GROWTH_BYTES = 16 * 2**20
FALLBACK_SUSPECT = 0.10
FALLBACK_INVALID = 0.50


class Circumstances(Conditions, frozen=True, kw_only=True):
    """How samples were taken, as far as known, and what was observed to do the work."""

    observed: Observed | None = None


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some verdicts; `valid` for none."""
    return max(verdicts, key=VERDICTS.index, default="valid")


def combine(*verdicts: Verdict) -> Verdict:
    """Return the worst verdict with all the reasons, each once, in order."""
    reasons = list(dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons))
    return Verdict(verdict=worst(verdict.verdict for verdict in verdicts), reasons=reasons)  # type: ignore[arg-type]


def energy_verdict(validity: Validity) -> str | None:
    """Return the worst verdict that is said of energy and power, None where none is."""
    said = [validity.metrics[name].verdict for name in ENERGY if name in validity.metrics]
    return worst(said) if said else None


def judge(samples_ms: Sequence[float], metrics: Iterable[str], circumstances: Circumstances) -> Validity:
    """Return the verdict on each of the named metrics and on the row, from the steady samples in the order taken.

    That on the row is the worst of its metrics, those of energy left aside.
    """
    placement = _placement(circumstances.observed)
    swap = _suspicions(_swap(circumstances))
    times = combine(*_suspicions(_series(samples_ms, circumstances)), *_suspicions(_machine(circumstances)), *swap)
    before = combine(*_suspicions(_before(circumstances)))
    memory = combine(*swap)
    energy = combine(times, *_energy(circumstances))
    own: Mapping[str, Verdict] = {
        **dict.fromkeys(TIMES, times),
        **dict.fromkeys(SINGLE_TIMES, before),
        **dict.fromkeys(MEMORY, memory),
        **dict.fromkeys(ENERGY, energy),
    }
    each = {name: combine(own[name], *placement) if name in own else combine(*placement) for name in metrics}
    # Energy has a verdict of its own: a meter that fell silent says nothing against the times.
    whole = combine(*(verdict for name, verdict in each.items() if name not in ENERGY))
    return Validity(verdict=whole.verdict, reasons=whole.reasons, metrics=each)


def _series(samples: Sequence[float], circumstances: Circumstances) -> Iterable[str]:
    """Say what the samples themselves show."""
    n = len(samples)
    middle = median(samples) if samples else 0.0
    if n < FEW_SAMPLES:
        yield f"{n} samples; {FEW_SAMPLES} are the fewest that bound a median"
    elif circumstances.due:
        yield from _queue(samples, circumstances.due)
    else:
        yield from _spread(samples, middle, circumstances.stopped_by)
        slower = leading_warmup(samples)
        if slower:
            yield f"warm-up left in: the first {slower} samples are slower than the rest"
        change = drift(samples)
        if change is not None:
            yield f"drifting: the second half is {change:+.1%} of the first"
        two = modes(samples)
        if two:
            yield f"bimodal: {two.share:.0%} of the samples lie around {two.high:.4g} ms, the others around {two.low:.4g} ms"
        lost = held_up_share(samples)
        if lost > HELD_UP:
            yield f"held up: {lost:.0%} of the time went into calls of more than twice the median"
    if circumstances.steady is False:
        yield "no steady state was reached before the budget of warm-up ended"
    resolution = circumstances.timer_resolution_ms
    if resolution and n and middle < COARSE_TIMER * resolution:
        yield f"the timer's resolution of {resolution:.3g} ms is too coarse"


def _queue(samples: Sequence[float], due: str) -> Iterable[str]:
    """Say what is wrong with times that a queue is part of: they are as spread as arrivals are, and may not grow."""
    change = drift(samples)
    if due == "arrival" and change is not None and change > 0:
        yield f"the queue grows: the second half took {change:+.1%} of the first; more arrives than is done"


def _spread(samples: Sequence[float], middle: float, stopped_by: str | None) -> Iterable[str]:
    interval = series_interval(samples)
    ended = "the budget ended with " if stopped_by == "budget" else ""
    if interval is None:
        yield f"{ended}samples that depend too much on each other to bound their median"
        return
    half = (interval[1] - interval[0]) / 2 / middle
    if half > WIDE_INTERVAL:
        yield f"{ended}the 95 % interval of the median at ±{half:.1%}"


def _machine(circumstances: Circumstances) -> Iterable[str]:
    """Say what the machine did meanwhile."""
    if circumstances.speed_ratio is not None and circumstances.speed_ratio < 1 - SLOWER:
        yield f"throttled: the same loop ran at {circumstances.speed_ratio:.0%} of its speed after the series"
    before, after = circumstances.clock_before_hz, circumstances.clock_after_hz
    if before and after and after < (1 - SLOWER) * before:
        yield f"throttled: the clock fell from {before / 1e9:.2f} to {after / 1e9:.2f} GHz"
    if circumstances.thermal_events:
        yield f"throttled: the processor reported {circumstances.thermal_events} thermal events"
    if circumstances.quota_share is not None and circumstances.quota_share > QUOTA:
        yield f"throttled: a quota stopped the process for {circumstances.quota_share:.0%} of the time"
    if circumstances.stops:
        yield f"the process was stopped and continued {circumstances.stops} times"
    if circumstances.loop_lost_share is not None and circumstances.loop_lost_share > LOOP_LOST:
        yield f"a fixed loop had no processor for {circumstances.loop_lost_share:.0%} of its time"
    if circumstances.other_load is not None and circumstances.other_load > OTHER_LOAD:
        yield f"other work used {circumstances.other_load:.0%} of the processors meanwhile"
    if circumstances.waiting is not None and circumstances.waiting > WAITING:
        yield f"{circumstances.waiting:.2f} of its threads waited for a processor on average"
    if circumstances.steal_share is not None and circumstances.steal_share > STEAL:
        yield f"the hypervisor gave {circumstances.steal_share:.1%} of the time to others"
    if circumstances.device is not None:
        yield from device_doubts(circumstances.device)
    yield from _starved_ranks(circumstances.observed)


def _starved_ranks(observed: Observed | None) -> Iterable[str]:
    """Say which ranks on processors had to share their core while they computed: the others then waited for them."""
    for rank in ((observed.details or {}) if observed else {}).get("ranks") or ():
        share = rank.get("computing_core_share")
        if share is not None and share < RANK_CORE and rank.get("device") == "cpu":
            yield f"rank {rank['rank']} had {share:.0%} of a core while it computed"


def _before(circumstances: Circumstances) -> Iterable[str]:
    if circumstances.other_load_before is not None and circumstances.other_load_before > OTHER_LOAD:
        yield f"other work used {circumstances.other_load_before:.0%} of the processors before the series"


def _swap(circumstances: Circumstances) -> Iterable[str]:
    if circumstances.swapped_bytes:
        yield f"{circumstances.swapped_bytes:,} bytes of the process were swapped out"
    before, after = circumstances.swap_before_bytes, circumstances.swap_after_bytes
    if before is not None and after is not None and after - before > SWAP_GROWTH_BYTES:
        yield f"the machine swapped out {after - before:,} bytes meanwhile"


def _energy(circumstances: Circumstances) -> list[Verdict]:
    if circumstances.energy is None:
        return []
    verdict, reasons = energy_doubts(circumstances.energy)
    return [Verdict(verdict=verdict, reasons=reasons)]  # type: ignore[arg-type]


def _placement(observed: Observed | None) -> list[Verdict]:
    if observed is None:
        return []
    verdicts: list[Verdict] = []
    share = observed.fallback_share
    if share is not None and share > FALLBACK_INVALID:
        verdicts.append(Verdict(verdict="invalid", reasons=[f"{share:.0%} of the work fell back to another device"]))
    elif share is not None and share > FALLBACK_SUSPECT:
        verdicts.append(_suspect(f"{share:.0%} of the work fell back to another device"))
    moved = (observed.details or {}).get("moved_to_cpu")
    if moved:
        verdicts.append(_suspect(f"operators were moved to the processor and back: {', '.join(moved)}"))
    verdicts += _suspicions((observed.details or {}).get("doubts") or ())
    requested = observed.requested
    if requested is not None:
        for word in ("platform", "precision"):
            request, actual = getattr(requested, word), getattr(observed, word)
            if request and actual and request != actual:
                verdicts.append(_suspect(f"asked for {word} {request}, and {actual} did the work"))
    return verdicts


def _suspicions(reasons: Iterable[str]) -> list[Verdict]:
    return [_suspect(reason) for reason in reasons]


def _suspect(reason: str) -> Verdict:
    return Verdict(verdict="suspect", reasons=[reason])

"""Verdicts: whether a metric can be believed, and why not.

| rule | verdict | on |
| --- | --- | --- |
| fewer than 6 samples (no interval of the median exists) | suspect | latency, throughput |
| interval of the median wider than ±5 % | suspect | latency, throughput |
| no steady state before the budget ended | suspect | latency, throughput |
| second half of the steady samples differs from the first by more than 5 % (median) | suspect | latency, throughput |
| median below 20 times the timer's resolution | suspect | latency, throughput |
| a share of the work fell back to another device: above 10 % / above 50 % | suspect / invalid | all |
| the device or platform that did the work is not the one asked for | suspect; the row is keyed by the actual | all |
| other work on the machine above 20 % of its cores while it was measured | suspect | latency, throughput |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from domain.payloads import Observed, Validity, Verdict
from domain.statistics import median, median_interval
from domain.vocabulary import VERDICTS

__all__ = ["Circumstances", "combine", "judge", "worst"]

LATENCY_METRICS = ("latency_ms", "throughput_per_s", "tokens_per_s", "realtime_factor")
FEW_SAMPLES = 6
WIDE_INTERVAL = 0.05
DRIFT = 0.05
COARSE_TIMER = 20
FALLBACK_SUSPECT = 0.10
FALLBACK_INVALID = 0.50
OTHER_LOAD = 0.20


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """How samples were taken, as far as known: `timer_resolution_ms` in ms, `other_load` as a share of the cores."""

    steady: bool | None = None
    timer_resolution_ms: float | None = None
    other_load: float | None = None
    observed: Observed | None = None


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some verdicts; `valid` for none."""
    return max(verdicts, key=VERDICTS.index, default="valid")


def combine(*verdicts: Verdict) -> Verdict:
    """Return the worst verdict with all the reasons, each once, in order."""
    reasons = list(dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons))
    return Verdict(verdict=worst(verdict.verdict for verdict in verdicts), reasons=reasons)  # type: ignore[arg-type]


def judge(samples_ms: Sequence[float], metrics: Iterable[str], circumstances: Circumstances) -> Validity:
    """Return the verdict on each of the named metrics and on the row, from the steady samples in the order taken."""
    timing = combine(*_timing(samples_ms, circumstances))
    placement = combine(*_placement(circumstances.observed))
    each: Mapping[str, Verdict] = {
        name: combine(timing, placement) if name in LATENCY_METRICS else placement for name in metrics
    }
    whole = combine(*each.values())
    return Validity(verdict=whole.verdict, reasons=whole.reasons, metrics=dict(each))


def _timing(samples: Sequence[float], circumstances: Circumstances) -> list[Verdict]:
    found: list[Verdict] = []
    n = len(samples)
    if n < FEW_SAMPLES:
        found.append(_suspect(f"{n} samples; {FEW_SAMPLES} are the fewest that bound a median"))
    else:
        ordered = sorted(samples)
        interval = median_interval(ordered)
        middle = median(samples)
        if interval and (interval[1] - interval[0]) / 2 > WIDE_INTERVAL * middle:
            half = (interval[1] - interval[0]) / 2 / middle
            found.append(_suspect(f"the 95 % interval of the median is ±{half:.1%}"))
        first, second = median(samples[: n // 2]), median(samples[n // 2 :])
        if abs(second - first) > DRIFT * first:
            found.append(_suspect(f"drifting: the second half is {second / first - 1:+.1%} of the first"))
    if circumstances.steady is False:
        found.append(_suspect("no steady state was reached before the budget ended"))
    resolution = circumstances.timer_resolution_ms
    if resolution and n and median(samples) < COARSE_TIMER * resolution:
        found.append(_suspect(f"the timer's resolution of {resolution:g} ms is too coarse"))
    if circumstances.other_load is not None and circumstances.other_load > OTHER_LOAD:
        found.append(_suspect(f"other work used {circumstances.other_load:.0%} of the cores meanwhile"))
    return found


def _placement(observed: Observed | None) -> list[Verdict]:
    if observed is None:
        return []
    found: list[Verdict] = []
    share = observed.fallback_share
    if share is not None and share > FALLBACK_INVALID:
        found.append(Verdict(verdict="invalid", reasons=[f"{share:.0%} of the work fell back to another device"]))
    elif share is not None and share > FALLBACK_SUSPECT:
        found.append(_suspect(f"{share:.0%} of the work fell back to another device"))
    requested = observed.requested
    if requested is not None:
        for word in ("platform", "precision"):
            asked, actual = getattr(requested, word), getattr(observed, word)
            if asked and actual and asked != actual:
                found.append(_suspect(f"asked for {word} {asked}, and {actual} did the work"))
    return found


def _suspect(reason: str) -> Verdict:
    return Verdict(verdict="suspect", reasons=[reason])

"""Rules that look at one row. Each docstring is what docs/importers.md says of the rule."""

from __future__ import annotations

import re
import statistics
from functools import lru_cache
from typing import Any

from domain.catalogues import hardware
from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import TRAINING_PASSES
from domain.scrub import scrub
from ingest.importers.draft import Draft, Finding

__all__ = [
    "averaged_over",
    "canned_answer",
    "digits",
    "failed_start",
    "fell_back",
    "impossible_speed",
    "inconsistent_rate",
    "no_device_counters",
    "round_spread",
    "simulated_flag",
    "typed_figures",
    "warm_up_inside",
    "zero_means_missing",
]

FASTEST_MS = 0.01
"""No call of a model ends sooner: getting one operator to a device and its answer back takes some microseconds."""
PYTHON_CALL_MS = 0.2
"""A whole call in Python runs hundreds of operators and reads an input first; each takes a microsecond or more."""
USED_SHARE = 0.03
"""So much of a model's parameters does arithmetic at the least: the rest may be tables of embeddings or sleeping experts."""
TYPED_DIGITS = 4
"""A clock's time has some ten digits; that all figures of a row have so few by chance happens once in a million rows."""
SPREAD = 1e-9
"""So near to a round share is no chance in figures with all their digits."""
SPREAD_STEPS = 20
"""Where the last digit written is coarser than this part of the spread, a round share may be chance: suspect only."""
CONSISTENT = 0.05
"""Throughput × latency may differ from the batch by this share, as rounding and pauses between calls make it."""
WARM_UP = 2.0
"""The first time over the median of the others: steady runs stay below, first calls with something to load do not."""
WARM_UP_SAMPLES = 4
"""So many times at the least, or the median of the others says nothing."""
DEVICE_BYTES = 1_000_000
"""Less than this on a device is no model: the smallest of the catalogue has weights of some megabytes."""

_SAYS_SO = re.compile(r"simul|mock|fake|dummy|placeholder|synthetic|fabricat|emulat", re.IGNORECASE)
_DENIES = re.compile(r"\s*(?:false|no|none|null|0|not (?:simul|mock)\w*)?\s*", re.IGNORECASE)
_CANNED = re.compile(
    r"^\W*(?-i:REAL|MOCK)\b|\bmock(?:ed)?\b|\bsimulat(?:ed|ion)\b|\bplaceholder\b|\bfallback\b|^example (?:generated )?text",
    re.IGNORECASE,
)
_ACCELERATORS = frozenset(("cuda", "rocm", "mps", "xpu", "hpu", "tpu", "qnn", "webgpu"))
_TOKENS = frozenset(("embedding", "text_generation", "text_to_text"))


def simulated_flag(draft: Draft) -> Finding | None:
    """A member that says simulated, mock, fake or placeholder wins over every label that says real."""
    said = [
        f"{name} is {_short(value)}"
        for name, value in sorted((draft.claims.get("flags") or {}).items())
        if _admits(value)
    ]
    if not said:
        return None
    return Finding("simulated-flag", "invalid", f"the file says so itself: {', '.join(said[:4])}", simulated=True)


def _admits(value: Any) -> bool:
    """Return whether a flag's value admits it: true, or words that do; a member that denies it proves nothing."""
    if isinstance(value, str):
        return not _DENIES.fullmatch(value) and (
            bool(_SAYS_SO.search(value)) or value.strip().lower() in ("true", "yes", "1")
        )
    return bool(value)


def _short(value: Any) -> str:
    return scrub(str(value)[:400].replace("\n", " "), limit=80)


def canned_answer(draft: Draft) -> Finding | None:
    """The model's answer says of itself that it is real, mocked or an example: the test's author wrote it."""
    answers = draft.claims.get("answer")
    document = [answers] if isinstance(answers, str) else answers or []
    canned = next((answer for answer in document if _CANNED.search(answer)), None)
    if canned is None:
        return None
    return Finding("canned-answer", "invalid", f"the answer is {_short(canned)!r}", simulated=True)


def failed_start(draft: Draft) -> Finding | None:
    """The initialization failed, and an answer came all the same: a stand-in gave it."""
    start = draft.claims.get("start")
    if not start:
        return None
    return Finding("failed-start", "invalid", f"{_short(start)!r}, and an answer all the same", simulated=True)


def digits(value: float) -> int:
    """Return the significant decimal digits that it takes to write a number."""
    return len(repr(float(value)).lower().partition("e")[0].replace(".", "").strip("-").lstrip("0").rstrip("0"))


def typed_figures(draft: Draft) -> Finding | None:
    """The tool writes what the clock gave with all digits, and no figure of the row has more than four: a person typed them."""
    figures = [value for value in draft.claims.get("clock") or () if value]
    if not figures or any(digits(value) > TYPED_DIGITS for value in figures):
        return None
    written = ", ".join(f"{value:g}" for value in figures[:4])
    return Finding("typed-figures", "invalid", f"no clock gives {written}", simulated=True)


def round_spread(draft: Draft) -> Finding | None:
    """Minimum and maximum lie at exactly the same round share below and above the mean, such as ±10 %."""
    latency = draft.metrics.get("latency_ms") or {}
    mean, low, high = latency.get("mean"), latency.get("min"), latency.get("max")
    if not (mean and low and high) or not low < mean < high:
        return None
    below, above = 1 - low / mean, high / mean - 1
    share = round(below, 2)
    if share == 0 or abs(below - share) > SPREAD or abs(above - share) > SPREAD:
        return None
    step = 10.0 ** -max(_decimals(value) for value in (mean, low, high))
    certain = (mean - low) / step >= SPREAD_STEPS
    reason = f"minimum and maximum are the mean ± {share:.0%} exactly"
    return Finding("round-spread", "invalid" if certain else "suspect", reason, simulated=certain)


def _decimals(value: float) -> int:
    mantissa, _, exponent = repr(float(value)).lower().partition("e")
    return max(len(mantissa.partition(".")[2].rstrip("0")) - int(exponent or 0), 0)


def impossible_speed(draft: Draft) -> Finding | None:
    """Faster than a call can be, or than the device's peak allows for the few operations that the model needs at the least."""
    if draft.claims.get("any_code"):
        return None
    took = draft.latency_ms() or draft.metrics.get("first_run_ms")
    floor = PYTHON_CALL_MS if draft.claims.get("python_call") else FASTEST_MS
    if took is not None and took < floor:
        return Finding("impossible-speed", "invalid", f"one call in {took:.3g} ms", simulated=True)
    parameters = draft.model.get("parameters")
    return _above_the_roof(draft, took, parameters) if parameters else None


def _above_the_roof(draft: Draft, took: float | None, parameters: int) -> Finding | None:
    """Return a finding where the arithmetic asks for more than the peak; items a second, tokens a second, or one call."""
    peak = _peak(draft.hardware["id"], draft.execution.get("precision"))
    if peak is None:
        return None
    peak *= draft.hardware.get("count", 1)
    metrics, workload = draft.metrics, draft.workload
    token = 2.0 * USED_SHARE * parameters * (TRAINING_PASSES if workload.get("mode") == "training" else 1.0)
    length = workload.get("sequence_length") if draft.model.get("category") in _TOKENS else None
    item = token * (length or 1)
    rate, tokens, batch = metrics.get("throughput_per_s"), metrics.get("tokens_per_s"), workload.get("batch_size")
    if rate and rate * item > peak:
        return _too_fast(rate, "items", item, peak)
    if tokens and tokens * token > peak:
        return _too_fast(tokens, "tokens", token, peak)
    if took and batch and metrics.get("latency_ms") and batch / took * 1000 * item > peak:
        return _too_fast(batch / took * 1000, "items in the time of a call", item, peak)
    return None


def _too_fast(rate: float, what: str, work: float, peak: float) -> Finding:
    reason = f"{rate:.4g} {what} a second need {rate * work:.2g} FLOP/s at the least; the device has {peak:.2g}"
    return Finding("impossible-speed", "invalid", reason, simulated=True)


@lru_cache(maxsize=4096)
def _peak(name: str, precision: str | None) -> float | None:
    """Return the highest rate that a device of the catalogue has at a precision, or None where it is not known."""
    spec: HardwareSpec | None = hardware.find(name)
    if spec is None or not spec.peak_flops:
        return None
    figure = spec.peak(precision) if precision else None
    return float(figure.value if figure else max(each.value for each in spec.peak_flops.values()))


def inconsistent_rate(draft: Draft) -> Finding | None:
    """Throughput × latency is the batch where one call follows another; where it is not, one of them is wrong."""
    rate, batch = draft.metrics.get("throughput_per_s"), draft.workload.get("batch_size")
    if not (rate and batch):
        return None
    latency = draft.metrics.get("latency_ms") or {}
    took = latency.get("mean") or latency.get("p50")
    alone = (
        draft.workload.get("scenario") in (None, "single_stream", "offline")
        and draft.workload.get("concurrency") in (None, 1)
        and draft.execution.get("streams") in (None, 1)
    )
    if not took or not alone or draft.hardware.get("count", 1) != 1:
        return None
    document = took / 1000 * rate
    if abs(document - batch) <= CONSISTENT * batch:
        return None
    return Finding("inconsistent-rate", "suspect", f"throughput × latency = {document:.4g}, and the batch has {batch}")


def no_device_counters(draft: Draft) -> Finding | None:
    """The row names an accelerator, and its tool's counters of the device are missing, or show less memory than any model has."""
    counters, platform = draft.claims.get("counters"), draft.execution.get("platform")
    if counters is None or counters is True or platform not in _ACCELERATORS:
        return None
    if not isinstance(counters, dict):
        return Finding("no-device-counters", "suspect", f"says {platform}, and shows no counter of a device")
    if not counters or max(counters.values()) >= DEVICE_BYTES:
        return None
    most = f"{max(counters.values()):.3g}"
    return Finding("no-device-counters", "invalid", f"says {platform}, and {most} bytes were used on the device")


def fell_back(draft: Draft) -> Finding | None:
    """The file says that the work was done elsewhere than asked, and not where."""
    fallback = draft.claims.get("fallback")
    return Finding("fell-back", "suspect", _short(fallback)) if fallback else None


def warm_up_inside(draft: Draft) -> Finding | None:
    """The first of the times is twice the median of the others, or more: the warm-up is inside the mean."""
    samples: list[float] = draft.claims.get("samples_ms") or []
    if len(samples) < WARM_UP_SAMPLES:
        return None
    others = statistics.median(samples[1:])
    if samples[0] < WARM_UP * others:
        return None
    return Finding(
        "warm-up-inside", "suspect", f"the first call took {samples[0] / others:.3g} × the median of the others"
    )


def zero_means_missing(draft: Draft) -> Finding | None:
    """A figure that cannot be 0 is 0 in the file: it was taken as missing, and what stands beside it is in doubt."""
    zeros = draft.claims.get("zeros")
    return Finding("zero-means-missing", "suspect", f"{', '.join(sorted(zeros))}: 0 in the file") if zeros else None


def averaged_over(draft: Draft) -> Finding | None:
    """A mean over several batch sizes or lengths, which no configuration has: it cannot be compared with anything."""
    over = draft.claims.get("averaged_over")
    return Finding("averaged-over", "invalid", f"a mean over {', '.join(over)}") if over else None

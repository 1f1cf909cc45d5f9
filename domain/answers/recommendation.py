"""Answers of recommend and predict, and what every answer shares: sizes, figures, prices, memory, explanations."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.answers.explanation import NULL, Breakdown, BriefExplanation, Explanation
from domain.answers.variants import OptionVariant, QualityLoss

__all__ = [
    "AbstainedPrediction",
    "AtHand",
    "Call",
    "Chances",
    "ExcludedConfigurations",
    "Faster",
    "FasterChange",
    "Figures",
    "Front",
    "FrontOption",
    "HourPrice",
    "LeftOut",
    "MemoryParts",
    "Met",
    "NextRun",
    "OutputError",
    "Pick",
    "Prediction",
    "RankedOption",
    "Reach",
    "Recommendation",
    "Rung",
    "Sizes",
    "Workload",
]


class Sizes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sizes of one item of a workload; None is not stated, and absent on the wire."""

    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int | None = None

    def stated(self) -> dict[str, Any]:
        """Return the sizes that are stated, in the order of the members."""
        sizes = {name: getattr(self, name) for name in Sizes.__struct_fields__}
        return {name: value for name, value in sizes.items() if value is not None}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What one call is: its `unit`, what it consists of in words, and counts of it in `items`.

    `assumed` says on what the number of tokens rests where nobody gave it.
    """

    unit: str
    what: str
    items: dict[str, float]
    assumed: str | None = NULL


class Workload(Sizes, frozen=True, kw_only=True):
    """What an answer is about: the mode, and the sizes of one item."""

    mode: str


# Thousands are alive at a time and none can be part of a cycle, so that the collector need not walk them.
class Chances(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Chances that add up to 1, the level that they rest on (`""`: none), how many tries it saw, and some of them."""

    runs: float
    unsupported: float
    out_of_memory: float
    fails: float
    level: str
    tries: int
    evidence: tuple[str, ...] = ()


class OutputError(msgspec.Struct, frozen=True, kw_only=True):
    """How far verified outputs were from those of fp32 on the CPU: the worst output of the newest test."""

    cosine: float | None
    max_absolute: float | None
    outcome: str
    evidence: str


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, the figure that it bounds, and the probability that it is met. `exact` figures are no estimates."""

    constraint: str
    limit: float
    value: float | None
    probability: float | None
    exact: bool


class HourPrice(msgspec.Struct, frozen=True, kw_only=True):
    """The machines that an hour's price is of: `machines` of one offer with `devices_each` devices.

    `age_days` counts from the offer's date to the time of the answer; a `stale` price is old or undated.
    """

    provider: str
    instance: str | None
    region: str | None
    spot: bool
    machines: int
    devices_each: int
    usd_per_hour_each: float
    date: str | None
    age_days: int | None
    stale: bool
    basis: str
    source: str | None
    evidence: str | None


class MemoryParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the peak of a device's memory is made of, in bytes."""

    weights_bytes: int | None
    kv_cache_bytes: int | None
    activations_bytes: int | None
    runtime_bytes: int | None


class Figures(Sizes, frozen=True, kw_only=True):
    """The figures of one configuration, beside the sizes of an item.

    `interval_covered` says whether measurement supports the interval of the latency. Energy has a basis and a verdict of
    its own. `meets_all` is the probability that all limits are met. `n` counts samples of the newest run, `runs` the runs.
    `on_front` says that no other option beats it in both axes of the front. `offloaded_layers` of a language model stay in
    the host's memory and take `host_memory_bytes` of it; null where all are on the device. `variant` is what a variant of the
    model was made by, what it weighs and costs in quality; `quality` what the precision of the model itself costs. Both are
    absent where they are not known.
    """

    hardware_count: int = NULL
    batch_size: int | None = NULL
    concurrency: int | None = NULL
    runtime: str | None = NULL
    runtime_version: str | None = NULL
    browser: str | None = NULL
    browser_version: str | None = NULL
    compiled: bool = NULL
    layout: str | None = NULL
    origin: str | None = NULL
    latency_ms: float | None = NULL
    latency_ms_low: float | None = NULL
    latency_ms_high: float | None = NULL
    latency_is_mean: bool = NULL
    interval_covered: bool = NULL
    throughput_per_s: float | None = NULL
    ttft_ms: float | None = NULL
    ttft_ms_low: float | None = NULL
    ttft_ms_high: float | None = NULL
    tpot_ms: float | None = NULL
    tpot_ms_low: float | None = NULL
    tpot_ms_high: float | None = NULL
    tokens_per_s: float | None = NULL
    tokens_per_s_low: float | None = NULL
    tokens_per_s_high: float | None = NULL
    realtime_factor: float | None = NULL
    peak_memory_bytes: int | None = NULL
    memory_low_bytes: int | None = NULL
    memory_high_bytes: int | None = NULL
    memory_floor_bytes: int | None = NULL
    memory_parts: MemoryParts | None = NULL
    offloaded_layers: int | None = NULL
    host_memory_bytes: int | None = NULL
    energy_j: float | None = NULL
    energy_j_low: float | None = NULL
    energy_j_high: float | None = NULL
    energy_per_item_j: float | None = NULL
    energy_per_item_j_low: float | None = NULL
    energy_per_item_j_high: float | None = NULL
    energy_basis: str | None = NULL
    energy_verdict: str | None = NULL
    power_w: float | None = NULL
    rated_power_w: float | None = NULL
    chances: Chances | None = NULL
    meets: list[Met] = NULL
    meets_all: float | None = NULL
    output_error: OutputError | None = NULL
    usd_per_hour: float | None = NULL
    usd_per_million: float | None = NULL
    price: HourPrice | None = NULL
    speedup_over_cpu: float | None = NULL
    n: int | None = NULL
    runs: int | None = NULL
    verdict: str | None = NULL
    age_days: int | None = NULL
    stale: bool = NULL
    method: str | None = NULL
    evidence: list[str] = NULL
    why: str = NULL
    command: str = NULL
    bottleneck: str | None = NULL
    on_front: bool = NULL
    why_above_next: str | None = NULL
    variant: OptionVariant | None = None
    quality: QualityLoss | None = None

    @property
    def quality_loss(self) -> QualityLoss | None:
        """What the option costs in quality; None where nobody evaluated it."""
        return self.quality if self.variant is None else self.variant.quality


class RankedOption(Figures, frozen=True, kw_only=True):
    """One option of a recommendation: a configuration with its figures, why it stands there, and what it rests on.

    `tied_with` is the rank of the option that it cannot be told from.
    """

    rank: int
    configuration: str
    hardware: str
    platform: str
    precision: str
    basis: str
    explanation: BriefExplanation | None = NULL
    tied_with: int | None = NULL


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """A named choice among the options that meet the limits: `fastest`, `cheapest` or `best_measured`.

    `probability` is that of being better than the best option of any other device, `next_hardware`, by what the pick is
    named for (of the best measured one: among what was measured too); `confidence` says it in a word: `clear` (0.9 or more), `likely`, `toss-up` (below 0.7). All three are null
    where no other device is left; the first two where an interval is not known.
    """

    name: str
    option: RankedOption
    confidence: str | None
    probability: float | None
    next_hardware: str | None


class FrontOption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An option that no other beats in both axes, by its rank; `variant` is the id of a variant, absent for the model itself."""

    rank: int
    hardware: str
    platform: str
    precision: str
    batch_size: int | None
    hardware_count: int
    basis: str
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    throughput_per_s: float | None
    usd_per_million: float | None
    variant: str | None = None


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """The Pareto front of two objectives, by the first."""

    axes: list[str]
    options: list[FrontOption]


class Rung(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device that will do, with what it would run; latencies in ms, None where the interval is not known.

    `variant` is the id of the variant of the model that it would run; absent for the model itself.
    """

    name: str
    hardware: str
    platform: str
    precision: str
    basis: str
    configuration: str
    latency_ms: float | None = NULL
    latency_ms_low: float | None = NULL
    latency_ms_high: float | None = NULL
    batch_size: int | None = NULL
    compiled: bool = msgspec.field(default_factory=lambda: False)
    variant: str | None = None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A device at hand that will not do, and why."""

    name: str
    why: str


class AtHand(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the device to `use` (None: none will do), all that will do in their order, and the others."""

    use: str | None
    order: list[Rung]
    left_out: list[LeftOut]


class ExcludedConfigurations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Configurations of one device and platform that one rule left out; the detail is that of the closest.

    `variant` is the id of the variant that they are of; absent for the model itself.
    """

    hardware: str
    platform: str | None
    rule: str
    detail: str | None
    precisions: list[str]
    batch_sizes: list[int]
    evidence: list[str]
    variant: str | None = None


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit had to be for something to meet all of them, and the configuration that then does."""

    constraint: str
    limit: float
    would_do: float
    hardware: str
    platform: str
    precision: str
    batch_size: int | None
    concurrency: int | None
    basis: str


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """A command worth running, why, and the probability that it changes what stands first (None: not known)."""

    command: str
    why: str
    probability: float | None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `recommend`: options best first, what was left out and why, and what to measure next.

    `interval` is the share of cases that the intervals hold, `considered` counts options and `met` those that meet the
    limits. `picks` are the options that people look for first, each on its own merit. `abstained` is a sentence where nothing is recommended, or where the order is no recommendation.
    """

    id: str
    model: str
    position: int
    time: str | None
    predictor: str
    interval: float
    question: dict[str, Any]
    workload: Workload
    call: Call | None = NULL
    considered: int
    met: int
    ranked: list[RankedOption]
    picks: list[Pick] = msgspec.field(default_factory=list)
    front: Front
    at_hand: AtHand | None
    excluded: list[ExcludedConfigurations]
    abstained: str | None
    within_reach: list[Reach]
    suggestions: list[NextRun]
    notes: list[str]


class FasterChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a configuration on its device, and how much faster it is predicted to be.

    `kind` is precision, compiled, batch, attention, runtime or platform. `gain` is how many times as many items a second
    there are, with the ends of its 80 % interval; `probability` that there are more at all. `command` checks it. Where
    outputs change `verify` says by how much, and `output_error` what the newest test of that precision found.
    """

    kind: str
    change: str
    platform: str
    precision: str
    batch_size: int | None
    compiled: bool
    runtime: str | None
    gain: float
    gain_low: float
    gain_high: float
    probability: float
    latency_ms: float | None
    throughput_per_s: float | None
    basis: str
    command: str
    outputs_change: bool
    verify: str | None
    output_error: OutputError | None
    evidence: list[str]


class Faster(msgspec.Struct, frozen=True, kw_only=True):
    """What would make a configuration faster: the `best` change, and the best of each other kind.

    Of the changes that were `considered` none is proposed where none gains, or where a gain is a toss-up; `why` says so.
    """

    best: FasterChange | None
    others: list[FasterChange]
    considered: int
    why: str | None


class AbstainedPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `predict` where nothing is known of the configuration; a client reads it as a `Prediction`."""

    id: str
    model: str
    position: int
    time: str | None
    predictor: str
    interval: float
    workload: Workload
    call: Call | None = NULL
    excluded: list[ExcludedConfigurations]
    notes: list[str]
    basis: str
    measured: RankedOption | None
    breakdown: Breakdown | None
    explanation: Explanation | None
    abstained: str | None


class Prediction(Figures, frozen=True, kw_only=True):
    """The answer to `predict`: the figures of one configuration, beside what was `measured` of it.

    `breakdown` is the roofline of the configuration, `faster` says what would make it faster. Where `basis` is `abstained` there are no figures, and `abstained`
    says why.
    """

    id: str
    model: str
    position: int
    time: str | None
    predictor: str
    interval: float
    workload: Workload
    call: Call | None = NULL
    excluded: list[ExcludedConfigurations]
    notes: list[str]
    basis: str
    configuration: str | None = NULL
    hardware: str | None = NULL
    platform: str | None = NULL
    precision: str | None = NULL
    measured: RankedOption | None = NULL
    breakdown: Breakdown | None = NULL
    explanation: Explanation | None = NULL
    faster: Faster | None = NULL
    abstained: str | None = NULL

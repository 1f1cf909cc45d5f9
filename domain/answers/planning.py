"""The answers of fit, fleet and suggest: what a device holds, machines for several loads, and what to measure next."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.answers.explanation import NULL
from domain.answers.recommendation import Met, OutputError, Sizes, Workload
from domain.answers.variants import OptionVariant

__all__ = [
    "BestBatch",
    "CapacityAnswer",
    "CapacityEntry",
    "DeviceSuggestions",
    "Exclusion",
    "ExpectedError",
    "FittingVariant",
    "FleetAlternative",
    "FleetConsidered",
    "FleetDoubt",
    "FleetEnds",
    "FleetExclusion",
    "FleetLoad",
    "FleetMachine",
    "FleetPlace",
    "FleetPlan",
    "FleetPrice",
    "FleetProof",
    "FleetRun",
    "Longest",
    "MemoryUse",
    "OpenQuestions",
    "SuggestedCalibration",
    "SuggestedPlan",
    "SuggestedRun",
    "Suggestions",
    "Sweep",
    "UnmetLoad",
]


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What was left out of an answer, by which rule, with its figures or events.

    `over` is how many times more memory it needs than there is. `variant` is the id of the variant that it is; absent for the
    model itself.
    """

    hardware: str
    platform: str | None
    rule: str
    precision: str | None = NULL
    batch_size: int | None = NULL
    detail: str | None = NULL
    evidence: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    over: float | None = NULL
    variant: str | None = None


class Longest(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, and how they are known; None with the reason in `why`."""

    tokens: int | None
    why: str


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What batch 1 holds of a device's memory, in bytes, by its parts, and the basis of the peak."""

    basis: str
    peak_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    weights_bytes: int | None
    activations_bytes: int | None
    kv_cache_bytes: int | None
    runtime_bytes: int | None


class BestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest batch that has the best throughput of those that fit."""

    batch_size: int
    throughput_per_s: float | None
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    memory_bytes: int | None
    basis: str
    interval_covered: bool
    evidence: list[str]
    why: str
    command: str


class CapacityEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What fits on one device under a platform and precision.

    `room_bytes` is the memory that may be used, `out_of_memory` maps batch sizes to events, `largest_basis` says how the
    largest batch is known. `offloaded_layers` of a language model stay in the host's memory; null where none does.
    """

    hardware: str
    platform: str
    precision: str
    runtime: str
    compiled: bool
    room_bytes: int | None
    evidence: list[str]
    out_of_memory: dict[str, str]
    memory: MemoryUse | None
    largest_batch: int | None
    largest_basis: str
    best: BestBatch | None
    longest: Longest
    speedup_over_fp32: float | None
    output_error: OutputError | None
    offloaded_layers: int | None = None


NO_BATCH = 0
"""The `largest_batch` of what does not fit with a single item."""


class FittingVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant whose measured peak at `batch_size` is within the room of a device on which the model itself does not fit."""

    variant: OptionVariant
    hardware: str
    platform: str
    precision: str
    batch_size: int | None
    peak_memory_bytes: int
    room_bytes: int
    latency_ms: float | None
    evidence: list[str]


class CapacityAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `fit`: batches and lengths by device, platform and precision, and what was left out.

    `variants` are those that make the model fit where it does not itself; absent where there are none.
    """

    id: str
    model: str
    position: int
    time: str | None
    predictor: str
    interval: float
    question: dict[str, Any]
    workload: Workload
    fits: list[CapacityEntry]
    excluded: list[Exclusion]
    abstained: str | None
    notes: list[str]
    variants: list[FittingVariant] = []


class FleetPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Where the price of a machine is from, and how old it is."""

    provider: str
    instance: str | None
    region: str | None
    spot: bool
    date: str | None
    basis: str
    source: str | None
    evidence: str | None
    age_days: int | None
    stale: bool


class FleetRun(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that serves part of a load in each of its places.

    `rate` is what each place serves in the load's `unit`, `share` that of the load; `most` is what the configuration
    serves when always busy, at the pessimistic end and as expected. `memory_bytes` is set aside of each device.
    """

    load: int
    name: str | None
    model: str
    unit: str
    rate: float
    share: float
    most: float
    most_expected: float
    utilisation: float
    memory_bytes: int | None
    memory_basis: str
    configuration: str
    platform: str
    precision: str
    batch_size: int | None
    compiled: bool
    runtime: str | None
    runtime_version: str | None
    concurrency: int | None
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    throughput_per_s: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    tokens_per_s: float | None
    basis: str
    interval_covered: bool
    stale: bool
    meets: list[Met]
    output_error: OutputError | None
    evidence: list[str]
    why: str
    command: str


class FleetPlace(msgspec.Struct, frozen=True, kw_only=True):
    """`count` groups of `devices_each` devices that all run the same, how busy each is, and the memory held of each."""

    count: int
    devices_each: int
    utilisation: float | None
    memory_bytes: int | None
    runs: list[FleetRun]


class FleetMachine(msgspec.Struct, frozen=True, kw_only=True):
    """`count` machines of one kind, what they cost an hour, and what runs on them."""

    machine: str
    hardware: str
    devices: int
    count: int
    usd_per_hour: float | None
    usd_per_hour_total: float
    price: FleetPrice
    places: list[FleetPlace]
    idle_devices: int


class FleetLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load, what the machines could serve of it with the others as they are, and the headroom (0.1 is 10 %)."""

    name: str | None
    model: str
    unit: str
    rate: float
    could_serve: float | None
    headroom: float | None
    configurations: int


class FleetProof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether nothing cheaper serves the loads; else the share that could be saved at the most."""

    proven: bool
    gap: float | None
    bound_usd_per_hour: float | None
    patterns: int


class FleetEnds(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars an hour of the cheapest plan at the ends of the intervals of throughput, and at the expected speeds."""

    pessimistic: float | None
    expected: float | None
    optimistic: float | None


class FleetAlternative(msgspec.Struct, frozen=True, kw_only=True):
    """Another way, its cost, how much dearer it is (0.1 is 10 %), and its machines by name."""

    what: str
    usd_per_hour: float
    dearer_by: float | None
    machines: dict[str, int]


class UnmetLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A load that cannot be served, by its index, and why; without one, all of them together.

    Of all together `served_share` is what can be served, and `machines_needed` what it would take; `machines_needed` is
    absent for a single load, as is `served_share`.
    """

    load: int | None
    name: str | None
    model: str | None
    why: str
    served_share: float | msgspec.UnsetType | None = msgspec.UNSET
    machines_needed: int | msgspec.UnsetType | None = msgspec.UNSET


class FleetConsidered(msgspec.Struct, frozen=True, kw_only=True):
    """How many machines, configurations and ways to share a device were weighed."""

    machines: int
    worth_having: int
    configurations: int
    patterns: int


class FleetExclusion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was left out for a load (None: for all), by which rule; the lists are absent where they do not apply."""

    load: int | None
    model: str | None
    hardware: str
    platform: str | None
    rule: str
    detail: str | None
    precisions: list[str] | msgspec.UnsetType = msgspec.UNSET
    batch_sizes: list[int] | msgspec.UnsetType = msgspec.UNSET
    evidence: list[str] | msgspec.UnsetType = msgspec.UNSET


class FleetDoubt(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan rests on and nobody measured, and the command that would tell, where one would."""

    what: str
    command: str | None


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `fleet`: the cheapest machines that serve every load, or which cannot be served.

    `growth` is how many times as much of all loads the machines serve, `greedy_usd_per_hour` what first-fit comes to.
    """

    id: str
    position: int
    time: str | None
    predictor: str
    interval: float
    question: dict[str, Any]
    feasible: bool
    usd_per_hour: float | None
    usd_per_month: float | None
    machines: list[FleetMachine]
    loads: list[FleetLoad]
    growth: float | None
    proof: FleetProof | None
    greedy_usd_per_hour: float | None
    ends: FleetEnds | None
    alternatives: list[FleetAlternative]
    unmet: list[UnmetLoad]
    considered: FleetConsidered
    excluded: list[FleetExclusion]
    unknown: list[FleetDoubt]
    assumptions: list[str]
    notes: list[str]


class OpenQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """The questions that runs were chosen for: where they are from, and how many configurations are open."""

    source: str
    models: int
    open: int
    measured: int


class SuggestedRun(Sizes, frozen=True, kw_only=True):
    """A run worth its `seconds`: its `share` of the error that all runs take away, and how many other answers it helps."""

    rank: int
    model: str
    hardware: str
    own: bool
    platform: str
    precision: str
    batch_size: int
    mode: str
    compiled: bool
    seconds: float
    basis: str
    latency_ms: float | None
    share: float
    helps: int
    helps_most: list[str]
    why: str


class SuggestedCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A calibration worth its `seconds`: kernels of a device of one's own under a platform, of which none is in the log.

    `answers` counts the open answers that rest on kernels there, whose expected error as a share of the latency falls
    from `error_before` to `error_after`.
    """

    hardware: str
    platform: str
    seconds: float
    command: str
    answers: int
    error_before: float
    error_after: float
    why: str


class Sweep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of a plan that differ in the model alone; members that are empty are absent."""

    models: list[str]
    platforms: list[str]
    precisions: list[str]
    modes: list[str] = []
    compiled: list[bool] = []
    batch_sizes: list[int]
    sequence_lengths: list[int] = []
    image_sizes: list[int] = []
    images: list[int] = []
    frames: list[int] = []
    audio_seconds: list[float] = []
    input_tokens: list[int] = []
    output_tokens: list[int] = []


class SuggestedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `assay bench --plan` reads it; `budget_s` is that of one run."""

    assay: int
    name: str
    weights: str
    budget_s: float
    sweeps: list[Sweep]


class DeviceSuggestions(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one device, the seconds that they take, and their plan."""

    hardware: str
    own: bool
    runs: int
    seconds: float
    plan: SuggestedPlan


class ExpectedError(msgspec.Struct, frozen=True, kw_only=True):
    """How wrong the open answers are expected to be before and after the runs, as a share of the latency."""

    error_before: float | None
    error_after: float | None


class Suggestions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `suggest`: what lowers the error of open questions most within `budget_s` seconds.

    `calibrations` come before the runs; `seconds` and `expected` are of both.
    """

    position: int
    predictor: str
    budget_s: float
    seconds: float
    questions: OpenQuestions
    calibrations: list[SuggestedCalibration] = msgspec.field(default_factory=list)
    runs: list[SuggestedRun]
    devices: list[DeviceSuggestions]
    expected: ExpectedError
    abstained: str | None
    notes: list[str]

"""The data of each event type (design, section 5).

Units stand in the names. Absent means unknown; a latency, a throughput or an amount of memory of 0 is refused,
because 0 is how other tools write "missing".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from domain.conditions import Conditions, Noise
from domain.configuration import Count, Execution, Hardware, Identifier, Model, NonNegative, Positive, Word, Workload

__all__ = [
    "AliasDeclared",
    "Environment",
    "Failure",
    "Figure",
    "HardwareDescribed",
    "Latency",
    "MeasurementFailed",
    "MeasurementRecorded",
    "MeasurementRetracted",
    "Metrics",
    "ModelDescribed",
    "ModelTraced",
    "Observed",
    "OperationPerformed",
    "Operator",
    "PredictorTrained",
    "PricePublished",
    "Provenance",
    "RecommendationIssued",
    "Requested",
    "RunFinished",
    "RunStarted",
    "SamplesRecorded",
    "SamplesReference",
    "TestReported",
    "Validity",
    "Verdict",
]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
Origin = Literal["measured", "imported", "simulated"]
Stage = Literal["resolve", "load", "convert", "compile", "first_run", "run", "verify"]
Outcome = Literal["passed", "failed", "error", "unsupported", "out_of_memory", "timeout", "skipped"]
VerdictName = Literal["valid", "suspect", "invalid"]
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of an event's data; members at their default are left out when it is encoded."""


class Environment(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Driver, operating system and library versions at one moment; `fingerprint` names them."""

    fingerprint: Word
    driver: str | None = None
    os: str | None = None
    kernel: str | None = None
    python: str | None = None
    cpu: str | None = None
    machine: str | None = None
    hypervisor: str | None = None
    memory_bytes: Bytes | None = None
    libraries: dict[str, str] | None = None
    noise: Noise | None = None


class Requested(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for."""

    device: str | None = None
    platform: Word | None = None
    precision: Word | None = None


class Observed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What did the work, seen after loading and running; `fallback_share` is the share of the work done elsewhere.

    `precision_share` is the share of the work whose arithmetic was that of `precision`; what a mixed or quantized form
    leaves in a wider type by design is no fallback. `details` are a runtime's own words: types by share, graph breaks.
    """

    device: str | None = None
    platform: Word | None = None
    precision: Word | None = None
    fallback_share: Share | None = None
    precision_share: Share | None = None
    details: dict[str, Any] | None = None
    requested: Requested | None = None


class Latency(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Latency of one call at its batch size, in ms, over `n` steady samples; `ci95` maps a statistic to [low, high]."""

    mean: Positive | None = None
    min: Positive | None = None
    max: Positive | None = None
    stddev: NonNegative | None = None
    p50: Positive | None = None
    p90: Positive | None = None
    p95: Positive | None = None
    p99: Positive | None = None
    ci95: dict[str, tuple[Positive, Positive]] | None = None
    n: Count | None = None


class Metrics(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """All metrics of a measurement; at least one is there. Meaning and direction: `domain.metrics`."""

    latency_ms: Latency | None = None
    throughput_per_s: Positive | None = None
    tokens_per_s: Positive | None = None
    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None
    realtime_factor: Positive | None = None
    load_ms: NonNegative | None = None
    convert_ms: NonNegative | None = None
    compile_ms: NonNegative | None = None
    first_run_ms: NonNegative | None = None
    preprocess_ms: NonNegative | None = None
    postprocess_ms: NonNegative | None = None
    forward_ms: NonNegative | None = None
    loss_ms: NonNegative | None = None
    backward_ms: NonNegative | None = None
    optimizer_ms: NonNegative | None = None
    peak_memory_bytes: Bytes | None = None
    mean_memory_bytes: Bytes | None = None
    device_memory_bytes: Bytes | None = None
    kv_cache_bytes: Bytes | None = None
    energy_j: NonNegative | None = None
    power_w: NonNegative | None = None
    utilisation: NonNegative | None = None
    goodput_per_s: NonNegative | None = None
    roofline_share: NonNegative | None = None


class SamplesReference(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Where the raw samples are: the digest of their canonical JSON list, and how many."""

    digest: Digest
    n: Count


class Verdict(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict and the reasons for it."""

    verdict: VerdictName
    reasons: list[str] = []


class Validity(Verdict, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on the whole row (the worst of its metrics) and on each metric."""

    metrics: dict[str, Verdict] = {}


class Provenance(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Where a number comes from; `reference` is a path, commit or address, `licence` an SPDX name."""

    origin: Origin
    source: Sentence | None = None
    reference: str | None = None
    licence: str | None = None


class Failure(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, without private paths and names."""

    error: Word
    message: Annotated[str, msgspec.Meta(max_length=8000)]


class RunStarted(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A run: one invocation of a runner or an importer. `kind`: bench, verify, import."""

    run_id: Identifier
    kind: Word
    hardware: list[Hardware] = []
    environment: Environment | None = None
    plan: dict[str, Any] | None = None
    planned: Annotated[int, msgspec.Meta(ge=0)] | None = None
    provenance: Provenance | None = None


class RunFinished(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a run and what came of it; `outcome`: completed, interrupted or stopped."""

    run_id: Identifier
    outcome: Word
    measured: Annotated[int, msgspec.Meta(ge=0)] = 0
    failed: Annotated[int, msgspec.Meta(ge=0)] = 0
    tests: Annotated[int, msgspec.Meta(ge=0)] = 0
    reason: str | None = None


class MeasurementRecorded(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The metrics of one configuration in one run."""

    run_id: Identifier
    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    metrics: Metrics
    provenance: Provenance
    environment: Environment | None = None
    observed: Observed | None = None
    samples: SamplesReference | None = None
    validity: Validity | None = None
    conditions: Conditions | None = None


class MeasurementFailed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A configuration that gave no measurement: at which stage, why, and what to try."""

    run_id: Identifier
    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    outcome: Outcome
    stage: Stage
    failure: Failure
    provenance: Provenance
    environment: Environment | None = None
    observed: Observed | None = None
    remedy: str | None = None
    metrics: Metrics | None = None


class TestReported(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a test: did it run, and run right. `checks` holds what was compared and the tolerances."""

    run_id: Identifier
    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    outcome: Outcome
    stage: Stage
    provenance: Provenance
    test: Word = "verify"
    environment: Environment | None = None
    observed: Observed | None = None
    failure: Failure | None = None
    remedy: str | None = None
    checks: dict[str, Any] | None = None


class MeasurementRetracted(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Void one event (a measurement, a failure or a test) or a whole run, and say why."""

    reason: Sentence
    event_id: Identifier | None = None
    run_id: Identifier | None = None


class SamplesRecorded(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Raw samples in ms, in the order in which they were taken. Expendable: facts refer to them by digest.

    `parts` are the times in ms of what a call consists of (`ttft_ms`, `token_ms`, `forward_ms` …), the last ones where
    there are more than an event can hold.
    """

    run_id: Identifier
    digest: Digest
    n: Count
    values: list[Positive]
    warmup: list[Positive] = []
    parts: dict[str, list[NonNegative]] = {}
    measurement_id: Identifier | None = None


class Figure(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of a specification and how we know it."""

    value: Positive
    status: Literal["sourced", "derived", "unverified", "measured"]
    source: str | None = None
    formula: str | None = None


class Specification(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of a device. FLOP/s are dense, by precision; `sustained_*` are what a probe reached here."""

    memory_bytes: Figure | None = None
    memory_bandwidth_bytes_per_s: Figure | None = None
    cache_bytes: Figure | None = None
    power_w: Figure | None = None
    cores: Figure | None = None
    clock_hz: Figure | None = None
    peak_flops: dict[str, Figure] = {}
    sustained_flops: dict[str, Figure] = {}
    sustained_bandwidth_bytes_per_s: Figure | None = None


class PlatformProbe(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a platform works on this machine, and the evidence gained by using it."""

    platform: Word
    available: bool
    devices: list[str] = []
    evidence: str | None = None
    reason: str | None = None
    runtime: dict[str, str | None] | None = None
    precisions: list[str] = []


class HardwareDescribed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One device of one machine, as a runner found it."""

    hardware: Hardware
    name: str | None = None
    vendor: str | None = None
    aliases: list[Identifier] = []
    platforms: list[PlatformProbe] = []
    spec: Specification | None = None
    environment: Environment | None = None


class ModelDescribed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A model and what its config says."""

    model: Model
    aliases: list[Identifier] = []
    config: dict[str, Any] | None = None


class Operator(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """`count` identical calls of one operator; the figures are those of one call at batch 1."""

    name: str
    class_: str = msgspec.field(name="class")
    count: Count
    flops: NonNegative
    read_elements: NonNegative
    write_elements: NonNegative
    weight_elements: NonNegative
    inner: NonNegative | None = None
    kernel: NonNegative | None = None
    stride: NonNegative | None = None
    groups: NonNegative | None = None


class ModelTraced(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The operators of a model at one workload, traced on the meta device without weights."""

    model: Model
    workload: dict[str, Any]
    tracer: dict[str, Any]
    operators: list[Operator]
    totals: dict[str, float | None]


class AliasDeclared(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """From now on, and backwards, `alias` means `canonical`."""

    kind: Literal["model", "hardware"]
    alias: Identifier
    canonical: Identifier
    reason: str | None = None


class PricePublished(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider asks for an hour of `count` devices, in US dollars, from `date` (ISO 8601) on."""

    hardware: Hardware
    provider: Word
    usd_per_hour: NonNegative
    date: str
    instance: str | None = None
    region: str | None = None
    spot: bool = False
    source: str | None = None


class PredictorTrained(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A predictor: its artifact by digest, the position of the log that it saw, and its card."""

    digest: Digest
    position: Annotated[int, msgspec.Meta(ge=0)]
    card: dict[str, Any]


class RecommendationIssued(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A question and the answer that was given, for the record."""

    recommendation: str
    position: Annotated[int, msgspec.Meta(ge=0)]
    question: dict[str, Any]
    answer: dict[str, Any]


class OperationPerformed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Something done to the installation, for the audit: `token.created`, `archive.trimmed`, `projection.rebuilt`.

    `actor` is the name of the token that allowed it, or `local`; `object` what it was done to; never a secret.
    """

    action: Word
    actor: Sentence
    object: str | None = None
    details: dict[str, Any] | None = None

"""The data of each event type (design, section 5).

What they consist of is in `domain.measured`, and is named here too; those of alerts are in `domain.history.alerts`,
those of jobs in `domain.jobs.events`, of variants in `domain.variants.events`, of served models in `domain.endpoints.events`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from domain.conditions import Conditions
from domain.configuration import Count, Execution, Hardware, Identifier, Model, NonNegative, Positive, Word, Workload
from domain.endpoints.events import DeliveryObserved, EndpointChanged
from domain.history.alerts import AlertChanged, AlertRaised
from domain.jobs.events import JobCancelled, JobFailed, JobFinished, JobRequested, JobStarted
from domain.measured import (
    BranchStart,
    Digest,
    Environment,
    Failure,
    Imported,
    Latency,
    Metrics,
    Observed,
    Outcome,
    Provenance,
    Requested,
    Revision,
    RunContext,
    SamplesReference,
    Sentence,
    Shape,
    Stage,
    Validity,
    Verdict,
)
from domain.variants.events import QualityMeasured, VariantCreated

__all__ = [
    "AlertChanged",
    "AlertRaised",
    "AliasDeclared",
    "BaselineNamed",
    "BranchStart",
    "DeliveryObserved",
    "EndpointChanged",
    "Environment",
    "Failure",
    "Figure",
    "HardwareDescribed",
    "Imported",
    "JobCancelled",
    "JobFailed",
    "JobFinished",
    "JobRequested",
    "JobStarted",
    "KernelMark",
    "KernelMeasured",
    "KernelMethod",
    "KernelOperator",
    "KernelRuns",
    "KernelTypes",
    "KernelValue",
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
    "PredictionIssued",
    "PredictorChosen",
    "PredictorTrained",
    "PricePublished",
    "Provenance",
    "QualityMeasured",
    "RecommendationIssued",
    "Requested",
    "Revision",
    "RunContext",
    "RunFinished",
    "RunStarted",
    "SamplesRecorded",
    "SamplesReference",
    "SnapshotName",
    "SnapshotNamed",
    "TestReported",
    "Validity",
    "VariantCreated",
    "Verdict",
]


class RunStarted(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A run: one invocation of a runner or an importer. `kind`: bench, verify, calibrate, import."""

    run_id: Identifier
    kind: Word
    hardware: list[Hardware] = msgspec.field(default_factory=list)
    environment: Environment | None = None
    plan: dict[str, Any] | None = None
    planned: Annotated[int, msgspec.Meta(ge=0)] | None = None
    provenance: Provenance | None = None
    context: RunContext | None = None


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
    imported: Imported | None = None


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
    imported: Imported | None = None


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
    imported: Imported | None = None


class MeasurementRetracted(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Void one event (a measurement, a failure or a test) or a whole run, and say why.

    A retraction of a retraction undoes it: what it named counts again from there on.
    """

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
    warmup: list[Positive] = msgspec.field(default_factory=list)
    parts: dict[str, list[NonNegative]] = msgspec.field(default_factory=dict)
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
    peak_flops: dict[str, Figure] = msgspec.field(default_factory=dict)
    sustained_flops: dict[str, Figure] = msgspec.field(default_factory=dict)
    sustained_bandwidth_bytes_per_s: Figure | None = None


class PlatformProbe(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a platform works on this machine, and the evidence gained by using it."""

    platform: Word
    available: bool
    devices: list[str] = msgspec.field(default_factory=list)
    evidence: str | None = None
    reason: str | None = None
    runtime: dict[str, str | None] | None = None
    precisions: list[str] = msgspec.field(default_factory=list)


class HardwareDescribed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One device of one machine, as a runner found it."""

    hardware: Hardware
    name: str | None = None
    vendor: str | None = None
    aliases: list[Identifier] = msgspec.field(default_factory=list)
    platforms: list[PlatformProbe] = msgspec.field(default_factory=list)
    spec: Specification | None = None
    environment: Environment | None = None


class ModelDescribed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A model and what its config says."""

    model: Model
    aliases: list[Identifier] = msgspec.field(default_factory=list)
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


KernelOperator = Literal[
    "gemm",
    "bmm",
    "attention",
    "convolution",
    "moe",
    "collective",
    "softmax",
    "norm",
    "elementwise",
    "other",
]
KernelValue = int | float | str | None


class KernelRuns(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A column whose neighbours are alike: each of `values` stands so often as `runs` says."""

    values: list[KernelValue]
    runs: list[Count]


class KernelTypes(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Number types of a kernel: of weights, activations and attention cache as stored, and of the arithmetic.

    `published` is the word of the source, such as `fp8_block`; what it does not say is absent.
    """

    published: Word | None = None
    weights: Word | None = None
    activations: Word | None = None
    arithmetic: Word | None = None
    kv_cache: Word | None = None


class KernelMethod(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What a time contains. `launch`: `graph`, the replay of a captured graph, or `eager`, the host's launch included.

    `buffers`: `warm`, the same ones in every call, or `rotated`, so many that they seldom lie in the cache. `statistic`
    is that of `samples` calls after `warmups`; `includes` names work beside the operator's own.
    """

    statistic: Word | None = None
    launch: Literal["graph", "eager"] | None = None
    buffers: Literal["warm", "rotated"] | None = None
    samples: Count | None = None
    warmups: Annotated[int, msgspec.Meta(ge=0)] | None = None
    includes: list[Word] = msgspec.field(default_factory=list)
    note: Sentence | None = None


class KernelMark(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Why the timings that name it in the column `mark` are not valid, and how many they are."""

    verdict: Literal["suspect", "invalid"]
    reason: Sentence
    timings: Count


class KernelMeasured(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Timings of one operator on one device with one software, as columns of equal length.

    `columns` holds `latency_ms` and the sizes of the operator (`domain.kernels.SIZES`), `fixed` the sizes and words that
    are the same for all timings. `name` is the operator's own name (`relu`, `all_reduce`), `kernel` that of what ran,
    `device_name` that of the hardware, all as the source says. `phase` is `context`, `generation` or `encoder` of attention,
    `forward` or `backward` of a layer.
    """

    run_id: Identifier
    hardware: Hardware
    execution: Execution
    operator: KernelOperator
    timings: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    columns: dict[Word, list[KernelValue] | KernelRuns]
    provenance: Provenance
    fixed: dict[Word, int | float | str] = msgspec.field(default_factory=dict)
    name: str | None = None
    kernel: str | None = None
    phase: Word | None = None
    device_name: str | None = None
    types: KernelTypes | None = None
    method: KernelMethod | None = None
    marks: dict[Word, KernelMark] = msgspec.field(default_factory=dict)
    environment: Environment | None = None
    observed: Observed | None = None
    validity: Validity | None = None
    conditions: Conditions | None = None
    imported: Imported | None = None


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
    """A predictor: its artifact by digest, the position of the log that it saw, and its card.

    One that was not `accepted` is kept and answers nothing until it is chosen. `comparison` holds the scores of both on
    rows that neither had seen, `reason` says in a sentence why it was taken or not.
    """

    digest: Digest
    position: Annotated[int, msgspec.Meta(ge=0)]
    card: dict[str, Any]
    accepted: bool = True
    reason: Sentence | None = None
    comparison: dict[str, Any] | None = None


class PredictorChosen(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """From here on this predictor answers: one that was trained before, or `shipped`. `by` is who chose it."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^(sha256:[0-9a-f]{64}|shipped)$(?!\n)")]
    by: Sentence
    reason: Sentence | None = None


class PredictionIssued(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A question about one configuration and the prediction that was given, to be scored when it is measured."""

    prediction: str
    position: Annotated[int, msgspec.Meta(ge=0)]
    question: dict[str, Any]
    answer: dict[str, Any]


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


SnapshotName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z](?:[A-Za-z0-9 ._+-]*[A-Za-z0-9._+-])?$(?!\n)")
]
"""A name that cannot be taken for a position: a letter, then letters, digits, spaces, dots, `_`, `+` and `-`."""


class BaselineNamed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What runs of a branch are compared with: the state at a position. The newest event of a name counts.

    `hardware` is the only hardware that it is for; `start` is where the branch started; `withdrawn` takes the name away.
    """

    name: SnapshotName
    branch: Revision
    position: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    start: BranchStart | None = None
    hardware: Identifier | None = None
    note: Sentence | None = None
    withdrawn: bool = False


class SnapshotNamed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A name for the state at a position of the log. The newest event of a name counts; `withdrawn` takes it away."""

    name: SnapshotName
    position: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    note: Sentence | None = None
    withdrawn: bool = False

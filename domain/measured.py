"""What facts consist of: where something ran, what was observed, how fast it was, and how far to believe it.

Units stand in the names. Absent means unknown; a latency, a throughput or an amount of memory of 0 is refused,
because 0 is how other tools write "missing".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from domain.conditions import Noise
from domain.configuration import Count, NonNegative, Positive, Word

__all__ = [
    "STATED",
    "BranchStart",
    "Bytes",
    "Digest",
    "Environment",
    "Failure",
    "Imported",
    "Latency",
    "Metrics",
    "Observed",
    "Origin",
    "Outcome",
    "Provenance",
    "Requested",
    "Revision",
    "RunContext",
    "SamplesReference",
    "Sentence",
    "Shape",
    "Share",
    "Stage",
    "Validity",
    "Verdict",
    "VerdictName",
]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
Origin = Literal["measured", "imported", "page", "simulated"]
Stage = Literal["resolve", "load", "convert", "compile", "first_run", "run", "verify"]
Outcome = Literal["passed", "failed", "error", "unsupported", "out_of_memory", "timeout", "skipped"]
VerdictName = Literal["valid", "suspect", "invalid"]
STATED = "stated"
"""The `observed.device` of what was measured at an endpoint or by a page: its hardware is what a person said, and nobody saw it."""
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
    options: list[str] | None = None


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
    energy_per_item_j: NonNegative | None = None
    energy_per_token_j: NonNegative | None = None
    energy_above_idle_j: NonNegative | None = None
    idle_power_w: NonNegative | None = None
    device_time_ms: NonNegative | None = None
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


class Imported(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What a row was before it was imported.

    `row` is its line or record in the file, from 1; the run names the file. `rules` name the cleaning rules that caught
    it (docs/importers.md), whose explanations are the reasons of its verdict. `original` holds values as they stood where
    a unit or a name was changed, by the file's own field names.
    """

    row: Count | None = None
    rules: list[Word] = []
    original: dict[str, Any] | None = None


Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^\s\x00-\x1f]+$(?!\n)")]
"""A name in version control: a repository, branch, commit or number of a pull request, without spaces."""


class RunContext(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the code that a run measured; `repository` is host and path, without scheme and credentials.

    `job` and `attempt` name the job of the queue that the run was made for.
    """

    repository: Revision | None = None
    branch: Revision | None = None
    commit: Revision | None = None
    pull_request: Revision | None = None
    job: Revision | None = None
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None


class BranchStart(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Where a branch started: at a position of the log, from another branch."""

    branch: Revision
    position: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]

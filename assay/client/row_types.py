"""Rows of the service's lists as structs: `client.rows(Measurement, model="bert-base-uncased")`.

Members are the columns of the views (docs/tables.md, with units), and are None where nothing is known. A column that a
newer service adds is left out; one that it does not send is None.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

__all__ = [
    "Compatibility",
    "Environment",
    "Fact",
    "Failure",
    "Hardware",
    "Kernel",
    "Match",
    "Measurement",
    "Model",
    "Row",
    "Run",
    "Scaling",
    "Test",
]

Json = dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a list; `noun` is the list's name in the API, `asked` what is always asked for with it."""

    noun: ClassVar[str]
    asked: ClassVar[Json] = {}


class Fact(Row, frozen=True, kw_only=True):
    """What measurements, tests and failures share: where it stands in the log, which configuration, whence it comes."""

    position: int
    event_id: str
    source: str
    attestation: str = "anonymous"
    peer: str | None = None
    peer_position: int | None = None
    run_id: str
    configuration: str
    model_id: str
    hardware_id: str
    recorded_at: datetime
    time: datetime | None = None
    model_id_posted: str | None = None
    category: str | None = None
    family: str | None = None
    architecture: str | None = None
    task: str | None = None
    revision: str | None = None
    parameters: int | None = None
    weights: str | None = None
    hardware_id_posted: str | None = None
    hardware_kind: str | None = None
    hardware_count: int | None = None
    mode: str | None = None
    scenario: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int | None = None
    concurrency: int | None = None
    arrival_rate_per_s: float | None = None
    optimizer: str | None = None
    gradient_checkpointing: bool | None = None
    platform: str | None = None
    precision: str | None = None
    platform_asked: str | None = None
    precision_asked: str | None = None
    device: str | None = None
    device_asked: str | None = None
    fallback_share: float | None = None
    runtime_name: str | None = None
    runtime_version: str | None = None
    compiled: bool | None = None
    layout: str | None = None
    threads: int | None = None
    streams: int | None = None
    parallelism: Json | None = None
    power_limit_w: float | None = None
    options: Json | None = None
    workload: Json | None = None
    execution: Json | None = None
    environment_fingerprint: str | None = None
    origin: str | None = None
    provenance_source: str | None = None
    reference: str | None = None
    licence: str | None = None


class Measurement(Fact, frozen=True, kw_only=True):
    """The figures of one configuration in one run."""

    noun: ClassVar[str] = "measurements"

    latency_mean_ms: float | None = None
    latency_min_ms: float | None = None
    latency_max_ms: float | None = None
    latency_stddev_ms: float | None = None
    latency_p50_ms: float | None = None
    latency_p90_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_n: int | None = None
    latency_p50_ci95_low_ms: float | None = None
    latency_p50_ci95_high_ms: float | None = None
    latency_mean_ci95_low_ms: float | None = None
    latency_mean_ci95_high_ms: float | None = None
    latency_ci95: Json | None = None
    throughput_per_s: float | None = None
    tokens_per_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    realtime_factor: float | None = None
    load_ms: float | None = None
    convert_ms: float | None = None
    compile_ms: float | None = None
    first_run_ms: float | None = None
    preprocess_ms: float | None = None
    postprocess_ms: float | None = None
    forward_ms: float | None = None
    loss_ms: float | None = None
    backward_ms: float | None = None
    optimizer_ms: float | None = None
    peak_memory_bytes: int | None = None
    mean_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    kv_cache_bytes: int | None = None
    energy_j: float | None = None
    power_w: float | None = None
    energy_per_item_j: float | None = None
    energy_per_token_j: float | None = None
    energy_above_idle_j: float | None = None
    idle_power_w: float | None = None
    device_time_ms: float | None = None
    utilisation: float | None = None
    goodput_per_s: float | None = None
    roofline_share: float | None = None
    samples_n: int | None = None
    stopped_by: str | None = None
    other_load: float | None = None
    clock_before_hz: float | None = None
    clock_after_hz: float | None = None
    verdict: str | None = None
    verdict_reasons: list[str] | None = None
    metric_verdicts: Json | None = None
    energy_verdict: str | None = None
    energy_reading: Json | None = None
    scenario_result: Json | None = None
    training_ranks: Json | None = None


class Scaling(Measurement, frozen=True, kw_only=True):
    """A training on ranks, and the measurement on one rank that its efficiency is derived from (strong scaling)."""

    noun: ClassVar[str] = "scaling"

    strategy: str | None = None
    ranks: int | None = None
    nodes: int | None = None
    backend: str | None = None
    local_batch_size: int | None = None
    exposed_communication_ms: float | None = None
    all_reduce_ms: float | None = None
    gradient_bytes: int | None = None
    least_core_share: float | None = None
    baseline_event_id: str | None = None
    baseline_throughput_per_s: float | None = None
    speedup: float | None = None
    efficiency: float | None = None
    efficiency_verdict: str | None = None
    efficiency_reasons: list[str] | None = None


class Failure(Fact, frozen=True, kw_only=True):
    """A configuration that gave no measurement: at which stage, and why."""

    noun: ClassVar[str] = "tests"
    asked: ClassVar[Json] = {"failures": True}

    outcome: str
    stage: str
    error: str | None = None
    message: str | None = None
    remedy: str | None = None


class Test(Fact, frozen=True, kw_only=True):
    """The outcome of a test."""

    __test__: ClassVar[bool] = False
    noun: ClassVar[str] = "tests"

    test: str
    outcome: str
    stage: str
    error: str | None = None
    message: str | None = None
    remedy: str | None = None
    checks: Json | None = None


class Run(Row, frozen=True, kw_only=True):
    """One invocation of a runner or an importer, and what became of it."""

    noun: ClassVar[str] = "runs"

    run_id: str
    position: int
    event_id: str
    source: str
    attestation: str = "anonymous"
    peer: str | None = None
    peer_position: int | None = None
    recorded_at: datetime
    started_at: datetime | None = None
    kind: str | None = None
    hardware: Any = None
    environment_fingerprint: str | None = None
    plan: Json | None = None
    planned: int | None = None
    origin: str | None = None
    provenance_source: str | None = None
    reference: str | None = None
    licence: str | None = None
    finished_position: int | None = None
    finished_at: datetime | None = None
    outcome: str | None = None
    measured: int | None = None
    failed: int | None = None
    tests: int | None = None
    reason: str | None = None
    retracted_because: str | None = None
    repository: str | None = None
    branch: str | None = None
    commit: str | None = None
    pull_request: str | None = None
    job: str | None = None
    attempt: int | None = None
    rows: int | None = None
    rows_valid: int | None = None
    rows_suspect: int | None = None
    rows_invalid: int | None = None
    rows_unjudged: int | None = None
    kernels: int | None = None
    rows_failed: int | None = None
    rows_tested: int | None = None
    rows_retracted: int | None = None
    tests_passed: int | None = None
    models: int | None = None
    devices: int | None = None
    hardware_ids: list[str] | None = None
    platforms: list[str] | None = None
    last_at: datetime | None = None


class Compatibility(Row, frozen=True, kw_only=True):
    """What works of a model on a platform in a precision, and why not."""

    noun: ClassVar[str] = "compatibility"

    model_id: str
    platform: str | None = None
    precision: str | None = None
    category: str | None = None
    family: str | None = None
    built: bool | None = None
    ran: bool | None = None
    verified: bool | None = None
    measured: bool | None = None
    why_not: str | None = None
    measurements: int | None = None
    tests: int | None = None
    failures: int | None = None
    outcome: str | None = None
    stage: str | None = None
    error: str | None = None
    message: str | None = None
    remedy: str | None = None
    hardware: list[str] | None = None
    evidence: str | None = None
    state: str | None = None
    level: str | None = None
    last_seen: datetime | None = None
    age_days: int | None = None
    stale: bool | None = None
    runs: int | None = None
    speedup: float | None = None
    speedup_best: float | None = None
    speedup_works: int | None = None
    speedup_evidence: list[str] | None = None
    fallback_share: float | None = None
    stopped_outcome: str | None = None
    stopped_stage: str | None = None
    stopped_error: str | None = None
    stopped_message: str | None = None
    stopped_remedy: str | None = None
    evidence_ids: list[str] | None = None
    position: int | None = None


class Kernel(Row, frozen=True, kw_only=True):
    """One timing of an operator: on which device, with which software, of which sizes. Columns: docs/tables.md."""

    noun: ClassVar[str] = "kernels"

    position: int
    timing_id: int
    event_id: str
    row: int
    time: datetime | None = None
    run_id: str
    hardware_id: str
    hardware_kind: str | None = None
    hardware_count: int | None = None
    device_name: str | None = None
    platform: str
    precision: str | None = None
    runtime_name: str | None = None
    runtime_version: str | None = None
    compiled: bool | None = None
    operator: str
    name: str | None = None
    phase: str | None = None
    kernel: str | None = None
    type_published: str | None = None
    type_weights: str | None = None
    type_activations: str | None = None
    type_arithmetic: str | None = None
    type_kv_cache: str | None = None
    launch: str | None = None
    buffers: str | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    query_tokens: int | None = None
    cached_tokens: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    window_size: int | None = None
    in_channels: int | None = None
    out_channels: int | None = None
    height: int | None = None
    width: int | None = None
    kernel_height: int | None = None
    kernel_width: int | None = None
    stride: int | None = None
    padding: int | None = None
    groups: int | None = None
    tokens: int | None = None
    hidden_size: int | None = None
    inner_size: int | None = None
    experts: int | None = None
    top_k: int | None = None
    tensor_parallel: int | None = None
    expert_parallel: int | None = None
    ranks: int | None = None
    elements: int | None = None
    rows: int | None = None
    row_size: int | None = None
    inputs: int | None = None
    shape: str | None = None
    distribution: str | None = None
    split: str | None = None
    part_of: str | None = None
    mode: str | None = None
    model_batch: int | None = None
    model_sequence: int | None = None
    calls: int | None = None
    latency_ms: float
    latency_stddev_ms: float | None = None
    latency_min_ms: float | None = None
    samples_n: int | None = None
    verdict: str | None = None
    reason: str | None = None
    origin: str
    provenance_source: str | None = None
    licence: str | None = None


class Environment(Row, frozen=True, kw_only=True):
    """Driver, operating system and library versions of a fingerprint, as first seen."""

    noun: ClassVar[str] = "environments"

    fingerprint: str
    position: int | None = None
    event_id: str | None = None
    source: str | None = None
    time: datetime | None = None
    recorded_at: datetime | None = None
    driver: str | None = None
    os: str | None = None
    kernel: str | None = None
    python: str | None = None
    cpu: str | None = None
    machine: str | None = None
    hypervisor: str | None = None
    memory_bytes: int | None = None
    libraries: Json | None = None


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """By which of its names a search found a model: `how` the name fits, after how many `edits`."""

    id: str | None = None
    how: str
    name: str
    edits: int = 0


class Model(Row, frozen=True, kw_only=True):
    """A model of the catalogue or of the log, and how much is known of it."""

    noun: ClassVar[str] = "models"

    id: str
    category: str | None = None
    family: str | None = None
    task: str | None = None
    parameters: int | None = None
    architecture: str | None = None
    aliases: list[str] = []
    catalogued: bool = False
    variant: str | None = None
    measurements: int = 0
    tests: int = 0
    traces: int = 0
    first_position: int | None = None
    last_position: int | None = None
    parameters_about: float | None = None
    licence: str | None = None
    family_from: str | None = None
    family_why: str | None = None
    match: Match | None = None


class Hardware(Row, frozen=True, kw_only=True):
    """A device of the catalogue or of the log, its figures with their sources, and what was measured on it."""

    noun: ClassVar[str] = "hardware"

    id: str
    name: str | None = None
    vendor: str | None = None
    kind: str | None = None
    count: int | None = None
    year: int | None = None
    architecture: str | None = None
    aliases: list[str] = []
    parts: list[str] = []
    asked_only: bool = False
    memory_type: str | None = None
    note: str | None = None
    platforms: dict[str, list[str]] | None = None
    peak_flops: Json = {}
    sustained_flops: Json = {}
    memory_bytes: Json | None = None
    memory_bandwidth_bytes_per_s: Json | None = None
    sustained_bandwidth_bytes_per_s: Json | None = None
    cache_bytes: Json | None = None
    power_w: Json | None = None
    cores: Json | None = None
    clock_hz: Json | None = None
    catalogued: bool = False
    described: bool | None = False
    described_platforms: Any = None
    described_spec: Json | None = None
    measurements: int = 0
    measured: int = 0
    tests: int = 0
    kernels: int = 0
    first_position: int | None = None
    last_position: int | None = None

"""What is known of one model: what it is, where it was tried, what stands beside it, and what its time goes into."""

from __future__ import annotations

import msgspec

from domain.performance.time_breakdown import OperatorTime

__all__ = [
    "Alternative",
    "FamilyCoverage",
    "FamilyPlatform",
    "FastestPlace",
    "Gap",
    "ModelIdentity",
    "ModelProfile",
    "ModelSizes",
    "OperatorBreakdown",
    "PlatformPrecision",
    "Sibling",
    "TracedCall",
    "TriedPlatform",
]


class ModelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is and why: its place in the vocabulary, its size, its weights, and how much is known of it.

    `family_why` says in words why it is of its family. `parameters_about` is rounded, where no exact count is known.
    `weights_measured` counts measurements by the kind of weights.
    """

    id: str
    category: str | None = None
    family: str | None = None
    family_from: str | None = None
    family_why: str | None = None
    task: str | None = None
    parameters: int | None = None
    parameters_about: float | None = None
    parameters_source: str | None = None
    architecture: str | None = None
    variant: str | None = None
    licence: str | None = None
    aliases: list[str] = []
    catalogued: bool = False
    weights: str | None = None
    weights_measured: dict[str, int] = {}
    revisions: list[str] = []
    measurements: int = 0
    tests: int = 0
    traces: int = 0
    first_position: int | None = None
    last_position: int | None = None


class ModelSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a model, and what one item takes of it: `at` has the sizes of the item that was traced.

    Members of language models are absent for others; members of the trace are absent where nothing was traced.
    """

    parameters: int | None = None
    parameters_about: float | None = None
    traced_parameters: float | None = None
    active_parameters: float | None = None
    flops: float | None = None
    operators: float | None = None
    peak_activation_elements: float | None = None
    kv_bytes_per_token_fp32: float | None = None
    at: dict[str, int] = {}
    layers: int | None = None
    hidden_size: int | None = None


class FastestPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A hardware and platform with the highest throughput that was measured there, in `unit`, at the work that it names."""

    hardware: str
    hardware_count: int | None
    platform: str
    precision: str | None
    batch_size: int | None
    throughput: float
    unit: str
    latency_ms: float | None
    origin: str | None
    work: dict[str, str | int | float]
    evidence: str


class TriedPlatform(msgspec.Struct, frozen=True, kw_only=True):
    """How a model does on one platform in one precision: `state` as in the registry, and the hardware it rests on."""

    platform: str
    precision: str | None
    state: str
    verified: bool | None = None
    measured: bool = False
    measurements: int
    hardware: list[str]
    why_not: str | None
    evidence: str | None


class PlatformPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """A platform and a precision in which a model was not tried."""

    platform: str
    precision: str


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """A model near another one, and why it is near."""

    id: str
    family: str | None = None
    parameters: float | None = None
    why: str
    measurements: int = 0
    tests: int = 0


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """A smaller model for the same task, with its shares of the other's parameters and FLOPs."""

    id: str
    family: str | None = None
    task: str | None = None
    same_task: bool
    parameters: float | None = None
    parameters_ratio: float | None = None
    flops_ratio: float | None = None
    licence: str | None = None
    measurements: int = 0
    tests: int = 0


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The answer on one model: what it is, where it was tried and where not, where it is fastest, and models beside it.

    `missing` are precisions that were not tried on platforms on which the model was, `never_tried` the other platforms.
    `compatibility` has the model's rows of the matrix with all their columns.
    """

    model: ModelIdentity
    sizes: ModelSizes
    platforms: list[TriedPlatform]
    missing: list[PlatformPrecision] = []
    never_tried: list[str] = []
    best: list[FastestPlace]
    siblings: list[Sibling] = []
    alternatives: list[Alternative] = []
    quality: str = ""
    compatibility: list[msgspec.Raw] = []


class TracedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A trace of a model: of which phase of a call, and at which size of an item; without an event it ships with Assay."""

    mode: str
    phase: str
    sequence_length: int | None
    image_size: int | None
    event_id: str | None


class OperatorBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """What the time of one call goes into, the longest operators first.

    `basis` is `roofline` where the device's figures are known, and `latency_ms` is the least that the call takes there;
    else it is `traced`, `why_not` says what is missing, and there are shares of FLOPs and bytes alone.
    """

    operators: list[OperatorTime]
    model: str
    hardware: str | None = None
    platform: str | None = None
    precision: str | None = None
    mode: str
    batch_size: int
    sequence_length: int | None = None
    image_size: int | None = None
    phase: str
    basis: str
    why_not: str | None = None
    latency_ms: float | None = None
    traced: list[TracedCall] = []
    evidence: str | None = None


class FamilyPlatform(msgspec.Struct, frozen=True, kw_only=True):
    """How many models of a family were tried on a platform, and how each did by the best of its precisions."""

    category: str | None
    family: str | None
    platform: str
    models: int
    tried: int
    tried_share: float
    verified: int
    measured: int
    failed: int
    missing: int
    precisions: list[str]
    never_tried: list[str]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A category of which many families were never tried on a platform, and a command that begins to try them."""

    category: str
    platform: str
    at_hand: bool
    families: int
    never_tried: int
    command: str


class FamilyCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried of families on platforms, and the largest gaps."""

    items: list[FamilyPlatform]
    gaps: list[Gap]

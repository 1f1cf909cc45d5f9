"""Links to measure in a browser: what is offered, what a page is given, and what it sends back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from domain.configuration import Model, NonNegative, Positive, Word, Workload
from domain.measured import Digest, Outcome, Stage

__all__ = [
    "Array",
    "BrowserDevice",
    "Claim",
    "Facts",
    "FailureAnswer",
    "Link",
    "LinkAnswer",
    "LinkFile",
    "LinkedModel",
    "Links",
    "MadeLink",
    "NewLink",
    "Offer",
    "PageFailure",
    "PageResult",
    "ReferenceRule",
    "Task",
]

Backend = Literal["wasm", "webgpu", "webnn"]
Short = Annotated[str, msgspec.Meta(max_length=500)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class LinkFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that a page fetches by its digest: of the runtime, or a model; `name` is what the runtime calls it."""

    name: Name
    digest: Digest
    size: Annotated[int, msgspec.Meta(ge=1)]


class ReferenceRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far outputs may be from the reference: the least cosine similarity, the largest relative error."""

    cosine: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    relative: Positive


class LinkedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that a link asks to measure. `pool` names its inputs and reference outputs, which stay on the server."""

    model: Model
    workload: Workload
    precision: Word
    file: LinkFile
    pool: Digest
    tolerance: ReferenceRule


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a link asks for; `backends` are those that the runtime's files can do, the page tries them in this order."""

    models: Annotated[list[LinkedModel], msgspec.Meta(min_length=1, max_length=32)]
    runtime: Annotated[list[LinkFile], msgspec.Meta(min_length=1, max_length=32)]
    runtime_version: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    backends: Annotated[list[Backend], msgspec.Meta(min_length=1, max_length=3)]
    warm_up_ms: Annotated[float, msgspec.Meta(ge=0, le=120_000)] = 10_000.0
    measure_ms: Annotated[float, msgspec.Meta(ge=100, le=120_000)] = 5_000.0
    origin_trial: Annotated[str, msgspec.Meta(max_length=4000)] | None = None


class NewLink(Offer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link to be made: how long it lasts, and how many devices may open it."""

    expires_s: Annotated[float, msgspec.Meta(ge=60, le=30 * 86_400)] = 3_600.0
    uses: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link as its maker sees it, without its secret. `state`: open, used, expired or revoked."""

    id: str
    state: Literal["open", "used", "expired", "revoked"]
    models: list[str]
    uses: int
    opened: int
    created_by: str
    created_at: datetime
    expires_at: datetime


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """All links, the newest first."""

    items: list[Link]


class MadeLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was made; `path` ends in its secret, which nobody can read again."""

    path: str
    link: Link


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a device gets that opens a link: the key of all that it does, and what it is asked for."""

    key: str
    device: str
    expires_at: datetime
    models: list[LinkFile]
    titles: list[str]
    workloads: list[Workload]
    precisions: list[str]
    runtime: list[LinkFile]
    runtime_version: str
    backends: list[Backend]
    warm_up_ms: float
    measure_ms: float
    origin_trial: str | None


class Array(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array: its type by the names of onnxruntime-web (`float32`, `int64`), its shape, its bytes, little endian."""

    name: Name
    type: Literal["float32", "int64", "int32", "bool"]
    dims: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=2**31)]], msgspec.Meta(max_length=8)]
    data: bytes


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one model that a device has to run, drawn for it from the pool."""

    model: str
    inputs: list[list[Array]]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says of itself and of how the series went; members that are not here are left out."""

    user_agent: Short = ""
    brands: Annotated[list[Short], msgspec.Meta(max_length=10)] = []
    mobile: bool | None = None
    isolated: bool = False
    threads_asked: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    hardware_concurrency: Whole | None = None
    clock_step_ms: NonNegative | None = None
    adapter: Short | None = None
    fallback_adapter: bool | None = None
    hidden: Whole = 0
    loop_before_ms: Positive | None = None
    loop_after_ms: Positive | None = None
    steady: bool | None = None
    cached: bool | None = None
    reloaded: bool | None = None


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a page measured of one model: times in ms, and the outputs of the inputs that it was given, in their order."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    model: Digest
    backend: Backend
    samples: Annotated[list[Positive], msgspec.Meta(min_length=1, max_length=20_000)]
    warm_up: Annotated[list[Positive], msgspec.Meta(max_length=20_000)] = []
    outputs: Annotated[list[list[Array]], msgspec.Meta(min_length=1, max_length=64)]
    facts: Facts
    stated: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    load_ms: NonNegative | None = None
    compile_ms: NonNegative | None = None
    first_run_ms: NonNegative | None = None


class PageFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A backend on which a model did not run in a page: the step, the browser's own error, the operator that it names."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    model: Digest
    backend: Backend
    stage: Stage
    error: Name
    message: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    operator: Short | None = None
    facts: Facts
    stated: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class FailureAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a failure: its event, its outcome, and whether it counts."""

    event_id: str
    duplicate: bool
    outcome: Outcome
    counts: bool
    detail: str


class LinkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a result: its event, its verdict, and whether it counts in answers and training."""

    event_id: str
    duplicate: bool
    verdict: str
    reasons: list[str]
    latency_ms: float | None
    counts: bool
    detail: str


class BrowserDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device whose page sent results, by what its page keeps of itself; `by` is who accepted it."""

    device: str
    accepted: bool
    by: str | None
    since: datetime | None
    measurements: int
    failures: int
    models: list[str]
    hardware: list[str]
    platforms: list[str]
    newest: datetime | None

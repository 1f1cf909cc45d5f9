"""The configuration: model × workload × execution × hardware, one object, named by the hash of its canonical JSON.

Nothing is ever averaged over a part of it unsaid. Members that are null are left out before hashing, so a member
that is added later changes no name. What names a configuration: the model's canonical id, the whole workload, the
whole execution (with the platform and precision that did the work), and the hardware's canonical id and count.
What does not: weights (speed and memory do not depend on them), the environment (a property of the run), and the
platform or precision that was merely asked for.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Annotated, Any

import msgspec

from domain.canonical import canonical, drop_nulls

__all__ = [
    "Configuration",
    "Count",
    "Execution",
    "Hardware",
    "Identifier",
    "Model",
    "NonNegative",
    "Parallelism",
    "Positive",
    "Runtime",
    "Word",
    "Workload",
    "browser_of",
    "canonical_part",
    "configuration_key",
    "decoded_options",
]

Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\"\\]+$(?!\n)")]
"""A name without spaces, quotes, backslashes and control characters."""
Count = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$(?!\n)")]
"""A term of an open list: a platform, a precision, a layout."""


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which model: canonical id (or an alias), and what is known of it; `weights_reason` says why these weights."""

    id: Identifier
    category: Word | None = None
    family: Word | None = None
    architecture: str | None = None
    task: str | None = None
    revision: str | None = None
    parameters: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | None = None
    weights: Word | None = None
    weights_reason: str | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one call is asked to do; sizes are per item of the batch, `audio_seconds` in s, `steps` those of a denoiser."""

    mode: Word
    scenario: Word | None = None
    batch_size: Count | None = None
    sequence_length: Count | None = None
    image_size: Count | None = None
    images: Count | None = None
    audio_seconds: Positive | None = None
    frames: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    steps: Count | None = None
    concurrency: Count | None = None
    arrival_rate_per_s: Positive | None = None
    optimizer: Word | None = None
    gradient_checkpointing: bool | None = None


class Runtime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The software that executes: `torch` 2.13.0, `openvino` 2026.4.1."""

    name: Word
    version: str | None = None


class Parallelism(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Over how many devices each dimension is split."""

    tensor: Count | None = None
    pipeline: Count | None = None
    data: Count | None = None
    expert: Count | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it is executed; `power_limit_w` in W, `options` whatever else changes the work."""

    platform: Word
    runtime: Runtime | None = None
    precision: Word | None = None
    compiled: bool | None = None
    layout: Word | None = None
    threads: Count | None = None
    streams: Count | None = None
    parallelism: Parallelism | None = None
    power_limit_w: Positive | None = None
    options: dict[str, Any] | None = None


def decoded_options(options: Any) -> dict[str, Any]:
    """Return the options of an execution, or an execution itself, from the JSON text of a table too; empty where there are none."""
    document = msgspec.json.decode(options) if isinstance(options, str | bytes) else options
    return document if isinstance(document, dict) else {}


def browser_of(options: Any) -> tuple[str | None, str | None]:
    """Return the browser that the options of an execution name, and its version; None where it ran in no browser."""
    if not options:
        return None, None
    document = decoded_options(options)
    name, version = document.get("browser"), document.get("browser_version")
    return (str(name) if name else None), (str(version) if name and version else None)


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """On what: slug, kind, how many of it."""

    id: Identifier
    kind: Word | None = None
    count: Count = 1


def configuration_key(workload: str, execution: str, model_id: str, hardware_id: str, count: int) -> tuple[str, str]:
    """Return (canonical JSON, key) from the parts; `workload` and `execution` are canonical JSON already.

    This is the form that the projection computes in SQL, part by part.
    """
    hardware, model = _named(hardware_id, count), _named(model_id)
    text = f'{{"execution":{execution},"hardware":{hardware},"model":{model},"workload":{workload}}}'
    return text, hashlib.sha256(text.encode()).hexdigest()[:32]


# A few models and devices are in thousands of configurations, and canonical JSON is slow to write.
@functools.lru_cache(maxsize=4096)
def _named(name: str, count: int | None = None) -> str:
    return canonical({"id": name} if count is None else {"count": count, "id": name}).decode()


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration. Ids must be canonical: resolve aliases before asking for the key."""

    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware

    def canonical(self) -> str:
        """Return the canonical JSON: sorted members, no nulls, RFC 8785 numbers."""
        workload = canonical_part(msgspec.to_builtins(self.workload))
        execution = canonical_part(msgspec.to_builtins(self.execution))
        return configuration_key(workload, execution, self.model.id, self.hardware.id, self.hardware.count)[0]

    @property
    def key(self) -> str:
        """The name of the configuration: the first 32 hex digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:32]


def canonical_part(part: Any) -> str:
    """Return the canonical JSON text of a workload or an execution as it came in an event."""
    return canonical(drop_nulls(part)).decode()

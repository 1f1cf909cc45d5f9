"""The questions that can be asked, checked: what is wrong is named by its field, before anything is computed."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

from domain.answers import Sizes
from domain.calls import CALLS
from domain.canonical import digest
from domain.catalogues import engines, language_models, language_names
from domain.catalogues.language_config import ConfigReading, read_config
from domain.errors import ImpossibleConstraint, UsageError
from domain.vocabulary import MODES, PRECISIONS, STORED_ONLY, WEIGHT_BITS, platforms_named, precision_named
from predictor.answering.option import SIZE_NAMES
from predictor.general.inputs import TRACED_RUNTIMES

__all__ = [
    "LIMITS",
    "OBJECTIVES",
    "OF_ENGINES",
    "OF_VARIANTS",
    "PERCENTILES",
    "Device",
    "Offload",
    "PredictQuestion",
    "Question",
]

OBJECTIVES = ("latency", "throughput", "cost", "energy", "memory")
PERCENTILES = ("p50", "p90", "p95", "p99")
DEFAULT_BATCH_SIZES = (1, 2, 4, 8, 16, 32)
LARGEST_BATCH = 65536
LARGEST_COUNT = 1024
TOP_LIMIT = 1000
MOST_DEVICES = 64
OF_ENGINES = ("config", "runtime", "offload", "host_memory_mb", "host_bandwidth_gb_per_s")
"""Members that a question has only where it says them."""
OF_VARIANTS = ("max_quality_loss_pt", "max_size_mb")
"""The same of limits that are about variants of a model."""
LIMITS = (
    "max_latency_ms",
    "max_ttft_ms",
    "max_tpot_ms",
    "min_throughput_per_s",
    "min_tokens_per_s",
    "max_memory_mb",
    "max_power_w",
    "max_usd_per_hour",
    "max_quality_loss_pt",
    "max_size_mb",
)
"""The fields that bound an answer, in the order in which they are checked and reported."""
BESIDE: dict[str, Any] = {
    **dict.fromkeys(LIMITS),
    "objective": "latency",
    "confidence": 0.8,
    "top": 1,
    "per_hardware": True,
    "regions": [],
    "providers": [],
    "spot": False,
    "record": False,
    "as_of": None,
}
"""What of a question no prediction depends on."""


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device at hand, as a program sees it: its own `name` for it, and what it is.

    Without `platforms` it is whatever drives that hardware. `free_memory_mb` is what is left on it, in 10^6 bytes.
    """

    hardware: str
    name: str | None = None
    platforms: list[str] = []
    free_memory_mb: float | None = None

    @property
    def called(self) -> str:
        """What the program calls it."""
        return self.name or self.hardware


class Offload(msgspec.Struct, frozen=True, kw_only=True):
    """Layers may stay in the host's memory: so many bytes, read at so many bytes/s; None for what is usual."""

    memory_bytes: float | None
    bandwidth: float | None


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `recommend` is asked: the flags of `assay recommend`.

    `hardware` is `all` (whatever is known), `own` (described or measured by our runner) or slugs; `devices` in its place
    are those at hand, one of which is to be used now. Empty lists do not restrict. `objective` is a name, or names with
    weights. `max_memory_mb` is in 10^6 bytes and of one device; `max_power_w` is what the devices are rated for;
    `max_usd_per_hour` is for the machines that hold all `count` devices. `max_quality_loss_pt` is in percentage points of the
    metric that somebody evaluated, to be met by the upper end of the 95 % interval; `max_size_mb` is of the files on disk. Constraints must be met with a probability of `confidence`.
    `call` is `usual`, what a user of the model means by one call (`domain.calls`), or a single `forward` pass.
    `compiled` is true, false, `any` of the two where both are known, or the `usual` one of a device and platform.
    `per_hardware` ranks devices: the best configuration of each alone, whatever its platform, precision, batch or number. `count` is a number of devices that work side by side; without it a measurement may have any, a prediction has one.
    `as_of` is a position, or the name of one, which the service replaces by the position.
    `runtime` is the engine that serves a language model, or what runs a traced one (TRACED_RUNTIMES); without it the usual.
    Of a language model: `config` is its own `config.json`, of which the members that tell sizes are kept; with `offload` layers that a device does not hold stay in the host's memory, which has
    `host_memory_mb` and is read at `host_bandwidth_gb_per_s` (10^9 bytes/s).
    """

    model: str
    config: dict[str, Any] | None = None
    runtime: str | None = None
    offload: bool = False
    host_memory_mb: float | None = None
    host_bandwidth_gb_per_s: float | None = None
    mode: str = "inference"
    objective: str | dict[str, float] = "latency"
    percentile: str = "p50"
    max_latency_ms: float | None = None
    max_ttft_ms: float | None = None
    max_tpot_ms: float | None = None
    min_throughput_per_s: float | None = None
    min_tokens_per_s: float | None = None
    max_memory_mb: float | None = None
    max_power_w: float | None = None
    max_usd_per_hour: float | None = None
    max_quality_loss_pt: float | None = None
    max_size_mb: float | None = None
    confidence: float = 0.8
    hardware: str | list[str] = "all"
    devices: list[Device] = []
    vendors: str | list[str] = []
    count: int | None = None
    platform: str | list[str] = []
    precision: str | list[str] = []
    compiled: bool | str = "any"
    per_hardware: bool = True
    regions: str | list[str] = []
    providers: str | list[str] = []
    spot: bool = False
    batch_sizes: list[int] = []
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int | None = None
    call: str = "usual"
    concurrency: int | None = None
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None
    top: int = 10
    record: bool = False

    def checked(self) -> Question:
        """Return the question in its one normal form. Raises UsageError or ImpossibleConstraint naming the field."""
        _one_of(self.mode, MODES, "mode")
        _one_of(self.percentile, PERCENTILES, "percentile")
        _one_of(self.call, CALLS, "call")
        if not isinstance(self.compiled, bool):
            _one_of(self.compiled, ("any", "usual"), "compiled")
        for field in LIMITS:
            _bound(getattr(self, field), field)
        if not self.model.strip():
            raise UsageError(
                "no model is named.", field="model", remedy="Give a model id, for example bert-base-uncased."
            )
        _within(self.top, 1, TOP_LIMIT, "top", "a number of answers")
        _within(self.count, 1, LARGEST_COUNT, "count", "a number of devices")
        if not 0.5 <= self.confidence < 1:
            raise UsageError(
                f"{self.confidence:g} is not a probability to rely on.",
                field="confidence",
                remedy="Give 0.5 (the estimate itself decides) or more, and less than 1.",
            )
        if isinstance(self.as_of, str):
            raise UsageError(
                "a name stands where a position belongs.",
                field="as_of",
                remedy="Ask the service, which knows the names.",
            )
        if self.as_of is not None and self.as_of < 0:
            raise UsageError("a position is 0 or more.", field="as_of", remedy="Leave it out for the newest.")
        for field in (*SIZE_NAMES, "concurrency"):
            value = getattr(self, field)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{value} is not a size.", field=field, remedy="Give a positive number.")
        if self.call == "forward" and (self.output_tokens or self.steps):
            raise UsageError(
                "a forward pass generates no tokens and makes no image.",
                field="output_tokens" if self.output_tokens else "steps",
                remedy="Leave it out, or ask for the usual call.",
            )
        for size in self.batch_sizes:
            _within(size, 1, LARGEST_BATCH, "batch_sizes", "a batch size")
        self._check_host()
        runtime = _runtime(self.runtime)
        if runtime in TRACED_RUNTIMES and (self.concurrency is not None or self.offload or self.config is not None):
            raise UsageError(
                f"{runtime} runs traced models, and serves no requests.",
                field="runtime",
                remedy="Name an engine, or leave concurrency, offload and config out.",
            )
        reading = self.reading
        return msgspec.structs.replace(
            self,
            model=self.model.strip(),
            config=None if reading is None else reading.members,
            runtime=runtime,
            objective=_objective(self.objective),
            hardware=self._devices() if self.devices else _hardware(self.hardware),
            batch_sizes=sorted(set(self.batch_sizes)),
            platform=sorted(platforms_named(_listed(self.platform))),
            **{name: _listed(getattr(self, name)) for name in ("vendors", "regions", "providers")},
            precision=list(dict.fromkeys(map(_precision, _listed(self.precision)))) or self._told_precision(),
        )

    def _check_host(self) -> None:
        for field in ("host_memory_mb", "host_bandwidth_gb_per_s"):
            _bound(getattr(self, field), field)
            if getattr(self, field) is not None and not self.offload:
                raise UsageError(
                    "it says nothing without offload.", field=field, remedy="Add offload, or leave it out."
                )

    @property
    def reading(self) -> ConfigReading | None:
        """The sizes that `config` says. Raises UsageError naming the member that is wrong."""
        return None if self.config is None else read_config(self.config, self.model.strip())

    def _told_precision(self) -> list[str]:
        """What the config or the name of a language model says of its weights, where the question names no precision."""
        told = self.told_precision
        return [] if told is None else [told]

    @property
    def told_precision(self) -> str | None:
        """The precision of the weights by the model's own config or name, such as `q4_k_m`; None where neither says."""
        reading = self.reading
        if reading is not None:
            return reading.precision
        told = language_names.precision_in(self.model)
        return told if told and language_models.find(self.model) is not None else None

    @property
    def of_an_engine(self) -> bool:
        """Whether it can be of nothing but an engine that serves a language model."""
        narrow = any(name in WEIGHT_BITS or name in STORED_ONLY for name in self.precision)
        return narrow or self.offload or (self.runtime is not None and self.runtime not in TRACED_RUNTIMES)

    @property
    def offloading(self) -> Offload | None:
        """What the host's memory is said to be, where layers may stay in it."""
        if not self.offload:
            return None
        memory, bandwidth = self.host_memory_mb, self.host_bandwidth_gb_per_s
        return Offload(
            memory_bytes=None if memory is None else memory * 1e6,
            bandwidth=None if bandwidth is None else bandwidth * 1e9,
        )

    def _devices(self) -> list[str]:
        """The hardware of the devices at hand, which stands in the place of `hardware`."""
        if len(self.devices) > MOST_DEVICES:
            raise UsageError(
                f"{len(self.devices)} devices at hand.", field="devices", remedy=f"At most {MOST_DEVICES} at once."
            )
        named: set[str] = set()
        for index, device in enumerate(self.devices):
            if not device.hardware.strip():
                raise UsageError(
                    "a device without hardware.",
                    field=f"devices[{index}].hardware",
                    remedy="Give the slug that `assay detect` shows.",
                )
            if device.called in named:
                raise UsageError(
                    f"two devices are called {device.called!r}.",
                    field=f"devices[{index}].name",
                    remedy="Give each a name of its own, for example cuda:0 and cuda:1.",
                )
            named.add(device.called)
            if device.free_memory_mb is not None and not device.free_memory_mb > 0:
                raise UsageError(
                    f"{device.free_memory_mb:g} MB are no room.",
                    field=f"devices[{index}].free_memory_mb",
                    remedy="Leave a full device out.",
                )
        hardware = sorted({device.hardware.strip() for device in self.devices})
        # A checked question is checked again where another part asks with it.
        if self.hardware not in ("all", hardware):
            raise UsageError("hardware and devices are both given.", field="hardware", remedy="Give one of the two.")
        return hardware

    @property
    def sizes(self) -> Sizes:
        """The sizes that are asked for."""
        return Sizes(**{name: getattr(self, name) for name in SIZE_NAMES})

    @property
    def at(self) -> int | None:
        """The position that is asked for, None for the newest; of a checked question."""
        return None if isinstance(self.as_of, str) else self.as_of

    def identity(self) -> dict[str, Any]:
        """Return what of the question decides the answer: everything but whether it is recorded."""
        document = msgspec.to_builtins(self)
        document.pop("record")
        document.pop("as_of")
        return {
            name: value
            for name, value in document.items()
            if (value or name not in OF_ENGINES) and (value is not None or name not in OF_VARIANTS)
        }


class PredictQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `predict` is asked: one configuration, and by default what would make it `faster`, which is half of the work."""

    model: str
    config: dict[str, Any] | None = None
    runtime: str | None = None
    offload: bool = False
    host_memory_mb: float | None = None
    host_bandwidth_gb_per_s: float | None = None
    hardware: str
    platform: str
    precision: str
    batch_size: int = 1
    mode: str = "inference"
    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: int | None = None
    call: str = "usual"
    concurrency: int | None = None
    compiled: bool | None = None
    faster: bool = True
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None
    record: bool = False

    def as_question(self) -> Question:
        """Return the question that has this configuration as its only candidate, checked."""
        for field in ("hardware", "platform", "precision"):
            if not getattr(self, field).strip():
                raise UsageError("a prediction is of one configuration.", field=field, remedy="Name one.")
        return Question(
            model=self.model,
            **{name: getattr(self, name) for name in OF_ENGINES},
            mode=self.mode,
            call=self.call,
            hardware=[self.hardware],
            platform=[self.platform],
            precision=[self.precision],
            batch_sizes=[self.batch_size],
            compiled="usual" if self.compiled is None else self.compiled,
            **{name: getattr(self, name) for name in (*SIZE_NAMES, "concurrency")},
            as_of=self.as_of,
            record=self.record,
            top=1,
        ).checked()


def answer_id(question: dict[str, Any], position: int, predictor: str, schema: int) -> str:
    """Return the id of an answer: 32 hex digits of the digest of what it depends on, and nothing else."""
    named = {"question": question, "position": position, "predictor": predictor, "schema": schema}
    return digest(named).removeprefix("sha256:")[:32]


def _precision(word: str) -> str:
    """Return our name of a precision, also by the words of files: `f16`, `awq`, `4bit`, `UD-Q4_K_XL`."""
    named = precision_named(word)
    known = named in PRECISIONS or named in WEIGHT_BITS or named in STORED_ONLY
    of_one_word = "-" not in word.lower().removeprefix("ud-")
    return (not known and of_one_word and language_names.precision_in(word)) or named


def _runtime(name: str | None) -> str | None:
    """Return our name of an engine or of a runtime. Raises UsageError for one that is not known."""
    if name is None or not name.strip():
        return None
    if name.strip().lower() in TRACED_RUNTIMES:
        return name.strip().lower()
    engine = engines.find(name)
    if engine is None:
        near = engines.nearest(name)
        known = ", ".join((*engines.catalogue(), *TRACED_RUNTIMES))
        raise UsageError(
            f"no engine is known as {name.strip()!r}.",
            field="runtime",
            remedy=f"Did you mean {' or '.join(near)}? Known are {known}." if near else f"One of {known}.",
        )
    return engine.name


def _objective(objective: str | dict[str, float]) -> str | dict[str, float]:
    """Return a name, or two and more with weights that add up to 1."""
    if isinstance(objective, str):
        _one_of(objective, OBJECTIVES, "objective")
        return objective
    for name, weight in objective.items():
        _one_of(name, OBJECTIVES, "objective")
        if not (math.isfinite(weight) and weight >= 0):
            raise UsageError(f"{weight:g} is not a weight.", field=f"objective.{name}", remedy="Give 0 or more.")
    total = sum(objective.values())
    if not total:
        raise UsageError("no weight is above 0.", field="objective", remedy="For example latency:1,cost:1.")
    weights = {name: objective[name] / total for name in sorted(objective) if objective[name]}
    return next(iter(weights)) if len(weights) == 1 else weights


def _hardware(hardware: str | list[str]) -> str | list[str]:
    if hardware in ("all", "own"):
        return hardware
    names = _listed(hardware)
    if not names or {"all", "own"} & set(names):
        raise UsageError(
            "name devices, or own, or all.", field="hardware", remedy="For example --hardware nvidia-l4,nvidia-t4."
        )
    return names


def _within(value: int | None, least: int, most: int, field: str, noun: str) -> None:
    if value is not None and not least <= value <= most:
        raise UsageError(f"{value} is not {noun}.", field=field, remedy=f"{least} to {most}.")


def _one_of(value: str, names: tuple[str, ...], field: str) -> None:
    if value not in names:
        raise UsageError(f"{value!r} is not one of them.", field=field, remedy=f"One of {', '.join(names)}.")


def _bound(value: float | None, field: str) -> None:
    if value is None:
        return
    if field == "max_quality_loss_pt":
        _points(value)
    elif not math.isfinite(value) or value <= 0:
        raise ImpossibleConstraint(
            f"{value:g} can never be met.", field=field, remedy="Give a positive number, or leave it out."
        )


def _points(value: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= 100):
        raise ImpossibleConstraint(
            f"{value:g} is no loss in percentage points.",
            field="max_quality_loss_pt",
            remedy="Give 0 (no loss at all) to 100, for example 0.5.",
        )


def _listed(value: str | list[str]) -> list[str]:
    names = value.split(",") if isinstance(value, str) else value
    return sorted({name.strip() for name in names if name.strip()})

"""Answers about one hardware: its specification, environments, prices, roofline, coverage, and devices like it."""

from __future__ import annotations

import msgspec

__all__ = [
    "BestOfCategory",
    "ComparedSibling",
    "CoverageSummary",
    "Environment",
    "FamilyCoverage",
    "HardwareCoverage",
    "HardwareEntry",
    "HardwareProfile",
    "InstanceOffer",
    "KernelTimings",
    "MergedName",
    "PlatformState",
    "Price",
    "Rate",
    "Roofline",
    "RooflinePoint",
    "Sibling",
    "SpecFigure",
    "Specification",
]


class SpecFigure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of a specification, and how it is known: the source or the formula where there is one."""

    value: float
    status: str
    source: str | None = None
    formula: str | None = None


class Specification(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a device; rates are by precision in FLOP/s (op/s for integers), `sustained_*` what was reached."""

    memory_bytes: SpecFigure | None = None
    memory_bandwidth_bytes_per_s: SpecFigure | None = None
    cache_bytes: SpecFigure | None = None
    power_w: SpecFigure | None = None
    cores: SpecFigure | None = None
    clock_hz: SpecFigure | None = None
    peak_flops: dict[str, SpecFigure] = {}
    sustained_flops: dict[str, SpecFigure] = {}
    sustained_bandwidth_bytes_per_s: SpecFigure | None = None


class PlatformState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a runner found that a platform works on the machine."""

    platform: str
    available: bool = False


class HardwareEntry(Specification, frozen=True, kw_only=True):
    """One hardware of the list: what it is, its figures, and how much was measured on it.

    The figures are those of the catalogue; `described_spec` holds those that a runner read from the machine. `parts` are
    the ids of a chip's GPU and NPU; a question about any hardware leaves out what is `asked_only`.
    """

    id: str
    name: str | None = None
    vendor: str | None = None
    kind: str | None = None
    year: int | None = None
    architecture: str | None = None
    aliases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    asked_only: bool = False
    memory_type: str | None = None
    note: str | None = None
    platforms: dict[str, tuple[str, ...]] | None = None
    described_platforms: tuple[PlatformState, ...] | None = None
    described_spec: Specification | None = None
    measurements: int = 0
    tests: int = 0
    known: str


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The software of a machine by its fingerprint; `libraries` is JSON text of names and versions, or the object itself."""

    fingerprint: str
    driver: str | None
    os: str | None
    kernel: str | None
    python: str | None
    cpu: str | None
    machine: str | None
    libraries: str | dict[str, str | None] | None


class KernelTimings(msgspec.Struct, frozen=True, kw_only=True):
    """How many timings of an operator are known of a device, with which software, and how many are doubtful."""

    operator: str
    platform: str
    runtimes: list[str] = []
    precisions: list[str] = []
    timings: int
    suspect: int = 0
    invalid: int = 0
    origins: list[str] = []


class MergedName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that was declared to mean a hardware, at a position of the log."""

    alias: str
    canonical: str
    reason: str | None
    position: int


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What `count` devices cost an hour, from `date` (None: undated). Without `position` it is of the packaged price list."""

    provider: str
    hardware: str
    usd_per_hour: float
    count: int
    kind: str | None
    instance: str | None
    region: str | None
    spot: bool
    date: str | None
    source: str | None
    vcpus: int | None
    host_cpu: str | None
    host_memory_bytes: int | None
    position: int | None
    event_id: str | None
    usd_per_device: float
    age_days: int | None
    stale: bool
    basis: str


class InstanceOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance type costs an hour in a region."""

    region: str | None
    spot: bool
    usd_per_hour: float
    date: str | None
    stale: bool
    basis: str
    source: str | None


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """A hardware like another one; `alike` is architecture, kind or models (most models in common)."""

    id: str
    name: str | None
    alike: str


class ComparedSibling(Sibling, frozen=True, kw_only=True):
    """A hardware like another one, with the ratios of its figures and speeds to the other's; None where one is not known."""

    peak_ratio: float | None
    peak_precision: str | None
    bandwidth_ratio: float | None
    measured_models: int
    shared_models: int
    shared_configurations: int
    speed_ratio: float | None


class HardwareProfile(HardwareEntry, frozen=True, kw_only=True):
    """One hardware with its environments in the order of the log, its other names, and its prices, cheapest first."""

    environments: tuple[Environment, ...]
    merged: tuple[MergedName, ...]
    prices: tuple[Price, ...]


class Rate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The FLOP/s of a device in one precision, and how the figure is known."""

    precision: str
    value: float
    status: str
    source: str | None = None
    formula: str | None = None


class RooflinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A measured configuration under the roof of its precision; `over` names the limit that it exceeds, if any.

    `share` is what it reached of `roof_flops_per_s`; `stands_for` how many points lie there.
    """

    model: str
    platform: str
    precision: str
    mode: str
    batch_size: int
    verdict: str | None
    origin: str
    runtime: str | None
    basis: str
    latency_ms: float
    latency_is_mean: bool
    n: int | None
    flop_per_byte: float
    flops_per_s: float
    roof_flops_per_s: float
    share: float
    over: str | None
    stands_for: int = 1


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """The roofs of a hardware by precision, highest first, and the measured points under them.

    `above` are the first points over a limit, of `above_count`; `placed` counts the rows with a place under the roof, `best`
    those of them that are the best of their model, platform, precision and mode, `left_out` the others by the reason.
    """

    roofs: tuple[Rate, ...]
    bandwidth_bytes_per_s: SpecFigure | None
    reached: tuple[Rate, ...]
    reached_bandwidth_bytes_per_s: SpecFigure | None
    placed: int
    best: int
    left_out: dict[str, int]
    above: tuple[RooflinePoint, ...]
    above_count: int
    above_by: dict[str, int]
    points: tuple[RooflinePoint, ...]


class FamilyCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many models of a family were tried on a platform, and how each ended; `never_tried` names some of the others."""

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
    precisions: tuple[str, ...]
    never_tried: tuple[str, ...]


class BestOfCategory(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest configuration of a category, with how many models and configurations it was chosen from."""

    category: str
    models: int
    configurations: int
    model: str
    platform: str
    precision: str | None
    mode: str
    scenario: str | None
    batch_size: int | None
    hardware_count: int | None
    throughput: float
    unit: str
    latency_ms: float | None
    latency_is_mean: bool
    n: int | None
    origin: str
    basis: str
    verdict: str | None
    run_id: str | None
    event_id: str


class CoverageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside the rows of a coverage: families counted, the best of each category, and similar devices."""

    hardware: str
    families: int
    families_tried: int
    best: tuple[BestOfCategory, ...]
    siblings: tuple[ComparedSibling, ...]
    next_cursor: str | None


class HardwareCoverage(CoverageSummary, frozen=True, kw_only=True):
    """What was tried on a hardware by family and platform."""

    items: tuple[FamilyCoverage, ...]

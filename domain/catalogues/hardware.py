"""The catalogue of hardware: what is known about a device, how it is known, and under which names.

The figures live in `data/hardware.json`; `docs/hardware-catalogue.md` says what they mean and how to add to them.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec

import domain
from domain.catalogues.slugs import slug
from domain.errors import InvalidEvent, UnknownHardware
from domain.payloads import Figure, HardwareDescribed
from domain.vocabulary import arithmetic_precision

__all__ = [
    "FIGURES",
    "Figure",
    "HardwareSpec",
    "catalogue",
    "choices",
    "cpu_slug",
    "fill",
    "find",
    "nearest",
    "parts",
    "require",
    "slug",
    "spec_from_event",
]

FIGURES = (
    "memory_bytes",
    "memory_bandwidth_bytes_per_s",
    "cache_bytes",
    "power_w",
    "cores",
    "clock_hz",
    "sustained_bandwidth_bytes_per_s",
)
"""Names of the single figures of a HardwareSpec; `peak_flops` and `sustained_flops` hold one a precision."""

_INSTEAD = {"fp16": ("fp32",), "bf16": ("fp32",), "tf32": ("fp32",)}
"""What computes a precision that has no unit of its own: fp16 and bf16 are widened, TF32 is FP32 without its units.
Integer and 8-bit or narrower floating types have no stand-in."""
_SCHEMES = {"w8a8": "int8", "w8a16": "fp16", "w4a16": "fp16", "float": "fp32"}
_BROWSER = frozenset(("wasm", "webgpu", "webnn"))
_SERIES = (
    "amd-radeon",
    "nvidia",
    "apple",
    "intel",
    "qualcomm",
    "nvidia-rtx",
    "nvidia-gtx",
    "nvidia-jetson",
    "amd-radeon-rx",
    "amd-instinct",
    "amd-ryzen",
    "amd-epyc",
    "intel-core",
    "intel-arc",
    "intel-xeon",
    "qualcomm-snapdragon",
    "raspberry",
    "samsung",
)
"""Makers and series that people leave out: they say RX 7600, 4090 mobile, 8 Gen 3 and Pi 5."""
_MACHINES = ("macbook-pro-", "macbook-air-", "mac-mini-", "mac-studio-", "mac-pro-", "imac-")
"""Machines that people name together with their chip."""
_LAPTOP = ("-laptop-gpu", "-laptop", "-mobile")
"""What a laptop's GPU is called; the catalogue has it under the first or the last, as its driver does."""
_CHOICES = 8


class HardwareSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one device; a figure that nobody gave is None.

    Rates are of the whole device, dense (no sparsity), in FLOP/s (op/s for integers); on GPUs the 16-bit rates are
    those of the matrix units with FP32 accumulation. Memory is in bytes; a vendor's "GB" of it is read as 2^30.
    `cache_bytes` is the last level. `cores`: CPU cores, NVIDIA SMs, AMD CUs, Xe cores, TPU TensorCores.
    `power_w` is the rated power and `clock_hz` a GPU's boost clock, a CPU's base clock. `platforms` maps each platform
    that can drive the device to the precisions it runs there. `sustained_*` are what a probe reached on a real machine,
    in the catalogue what somebody published. `parts` are the ids of a chip's GPU and NPU, `note` what a reader of the
    figures has to know. A question about any hardware leaves those out that are `asked_only`, as long as nobody measured
    on them.
    """

    id: str
    name: str
    vendor: str | None = None
    kind: str | None = None
    year: int | None = None
    architecture: str | None = None
    aliases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    asked_only: bool = False
    platforms: dict[str, tuple[str, ...]] = {}
    memory_type: str | None = None
    note: str | None = None
    memory_bytes: Figure | None = None
    memory_bandwidth_bytes_per_s: Figure | None = None
    cache_bytes: Figure | None = None
    power_w: Figure | None = None
    cores: Figure | None = None
    clock_hz: Figure | None = None
    peak_flops: dict[str, Figure] = {}
    sustained_flops: dict[str, Figure] = {}
    sustained_bandwidth_bytes_per_s: Figure | None = None

    @property
    def maker(self) -> str | None:
        """Return who made the chip: of a phone or a board that somebody else sells, not its vendor."""
        return "qualcomm" if (self.architecture or "").startswith("hexagon") else self.vendor

    def peak(self, precision: str, platform: str | None = None) -> Figure | None:
        """Return the dense peak in FLOP/s for a precision as a platform would run it, or None where it cannot.

        Mixed forms count as what they compute in (`amp` and `amp-fp16` as fp16, `w8a8` as int8). fp16, bf16 and tf32
        fall back to fp32 where the device has no unit for them, marked as derived; integers and fp8 never do. A
        platform that cannot drive the device gives None. In a browser a GPU's matrix units are out of reach, so its
        floating types get the fp32 rate, and a CPU's fp32 rate is an upper bound.
        """
        computes_in = _SCHEMES.get(precision, arithmetic_precision(precision))
        if platform in _BROWSER:
            return self._instead(computes_in, ("fp32",)) if computes_in in ("fp32", *_INSTEAD) else None
        if platform is not None and self.platforms and platform not in self.platforms:
            return None
        return self.peak_flops.get(computes_in) or self._instead(computes_in, _INSTEAD.get(computes_in, ()))

    def _instead(self, precision: str, others: tuple[str, ...]) -> Figure | None:
        result = next((other for other in others if other in self.peak_flops), None)
        if result is None:
            return None
        figure = self.peak_flops[result]
        if result == precision:
            return figure
        how = figure.formula or figure.source or figure.status
        return Figure(value=figure.value, status="derived", formula=f"{precision} at the {result} rate: {how}")

    def figures(self) -> dict[str, Figure]:
        """Return every figure there is by its path, such as `peak_flops.bf16`."""
        single = {name: figure for name in FIGURES if (figure := getattr(self, name)) is not None}
        rates = {
            f"{table}.{precision}": figure
            for table in ("peak_flops", "sustained_flops")
            for precision, figure in getattr(self, table).items()
        }
        return single | rates


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(files(domain).joinpath("data/hardware.json").read_bytes())
    return document


@cache
def catalogue() -> Mapping[str, HardwareSpec]:
    """Return the packaged catalogue by id, in the file's order; read once."""
    sources: dict[str, str] = _document()["sources"]
    specs = (_spec(entry, sources) for entry in _document()["hardware"])
    return MappingProxyType({spec.id: spec for spec in specs})


def _spec(entry: dict[str, Any], sources: Mapping[str, str]) -> HardwareSpec:
    for table in (entry, entry["peak_flops"], entry.get("sustained_flops", {})):
        for figure in table.values():
            if isinstance(figure, dict) and "source" in figure:
                figure["source"] = sources[figure["source"]].format(file=figure.pop("file", ""))
    return msgspec.convert({"id": slug(entry["name"]), **entry}, HardwareSpec)


@cache
def _names() -> Mapping[str, str]:
    """Every slug that means an entry (ids first, so that an alias can never hide one), to its id."""
    aliases = {slug(alias): spec.id for spec in catalogue().values() for alias in spec.aliases}
    return MappingProxyType(aliases | {id_: id_ for id_ in catalogue()})


@cache
def _joined() -> Mapping[str, str]:
    """The slugs without their hyphens, as in `rtx4090`; those that would mean two entries are left out."""
    ids: dict[str, set[str]] = {}
    for name, id_ in _names().items():
        ids.setdefault(name.replace("-", ""), set()).add(id_)
    return MappingProxyType({name: id_ for name, (id_, *others) in ids.items() if not others})


@cache
def _ambiguous() -> Mapping[str, tuple[str, ...]]:
    """Names that mean several entries, by slug: a chip without its memory, a family of chips."""
    return MappingProxyType({slug(name): tuple(ids) for name, ids in _document()["ambiguous"].items()})


@lru_cache(maxsize=4096)
def find(name: str) -> HardwareSpec | None:
    """Return the entry whose id, alias or slug `name` is, or None.

    The maker and the series may be missing (`4090 mobile`, `M4 Max`, `8 Gen 3`), and a machine may stand before its chip
    (`MacBook Pro M3 Max`). A CPU's id with a core count behind it (`amd-epyc-7763-4c`, what a virtual machine of it is
    called) gives that slice: rates and bandwidth by its share of the cores, marked as derived; memory and power, which a
    share does not decide, None.
    """
    # Most names are ids, for which nobody's aliases need to be read.
    if name in catalogue():
        return catalogue()[name]
    wanted = slug(name)
    existing = _entry(wanted)
    if existing is not None:
        return existing
    whole, _, count = wanted.rpartition("-")
    base = catalogue().get(_names().get(whole, ""))
    if base is None or base.kind != "cpu" or not (count.endswith("c") and count[:-1].isdigit() and int(count[:-1])):
        return None
    return _slice(base, int(count[:-1]))


def _entry(wanted: str) -> HardwareSpec | None:
    if wanted in _ambiguous():
        return None
    for names, sayings in ((_names(), _sayings(wanted)), (_joined(), (s.replace("-", "") for s in _sayings(wanted)))):
        existing = next((names[saying] for saying in sayings if saying in names), None)
        if existing is not None:
            return catalogue()[existing]
    return None


def _sayings(wanted: str) -> Iterator[str]:
    """Yield a slug, then what people leave out of it put back; a bare Apple chip means its GPU."""
    yield wanted
    machine = next((machine for machine in _MACHINES if wanted.startswith(machine)), "")
    chip = wanted.removeprefix(machine)
    ending = next((ending for ending in _LAPTOP if chip.endswith(ending)), "")
    body = chip.removesuffix(ending)
    for spelling in (chip,) if not ending else (f"{body}{_LAPTOP[0]}", f"{body}{_LAPTOP[-1]}"):
        yield spelling
        yield f"apple-{spelling}-gpu"
        for series in _SERIES:
            yield f"{series}-{spelling}"
        yield f"{spelling}-gpu"


def parts(name: str) -> tuple[str, ...]:
    """Return the id of a device and those of its parts: of a chip its CPU, GPU and NPU."""
    spec = catalogue().get(name)
    return (name,) if spec is None else (name, *spec.parts)


def _slice(base: HardwareSpec, cores: int) -> HardwareSpec | None:
    total = base.cores
    if total is None or cores > total.value:
        return None

    def share(figure: Figure) -> Figure:
        formula = f"{figure.value:.6g} × {cores} cores ÷ {total.value:g} cores (a share of {base.id})"
        return Figure(value=figure.value * cores / total.value, status="derived", formula=formula)

    bandwidth = base.memory_bandwidth_bytes_per_s
    return msgspec.structs.replace(
        base,
        id=f"{base.id}-{cores}c",
        name=f"{base.name}, {cores} of {total.value:g} cores",
        aliases=(),
        parts=(),
        peak_flops={precision: share(figure) for precision, figure in base.peak_flops.items()},
        memory_bandwidth_bytes_per_s=None if bandwidth is None else share(bandwidth),
        cores=Figure(value=cores, status="derived", formula=f"{cores} cores"),
        memory_bytes=None,
        power_w=None,
    )


def require(name: str, *, field: str = "hardware") -> HardwareSpec:
    """Return the entry that `find` finds, or raise UnknownHardware with the nearest names."""
    spec = find(name)
    if spec is None:
        raise UnknownHardware(name, nearest(name), field=field)
    return spec


def choices(name: str) -> list[str]:
    """Return the ids that a name may mean where it means several: a family of chips, or a device without its memory."""
    wanted = slug(name)
    if wanted in _ambiguous():
        return list(_ambiguous()[wanted])
    if find(name) is not None:
        return []
    beginnings = tuple(f"{beginning}-" for beginning in (wanted, *(f"{series}-{wanted}" for series in _SERIES)))
    longer = [id_ for id_ in catalogue() if id_.startswith(beginnings)]
    return longer if 1 < len(longer) <= _CHOICES else []


def nearest(name: str, n: int = 3) -> list[str]:
    """Return the ids that a name may mean where it means several, else up to `n` that look most like it, best first."""
    several = choices(name)
    if several:
        return several
    close = difflib.get_close_matches(slug(name), list(_names()), n=4 * n, cutoff=0.5)
    return list(dict.fromkeys(_names()[match] for match in close))[:n]


def cpu_slug(model_name: str, cores: int) -> str:
    """Return the id of a machine's CPU from the name it reports and the cores it shows.

    A whole processor of the catalogue keeps its own id; anything else (a slice of one, or a name that says only the
    series) has its cores in the id, because two and sixty-four of them are not the same hardware: `amd-epyc-2c`.
    """
    if cores < 1:
        raise ValueError(f"cores must be 1 or more, not {cores}")
    existing = find(model_name)
    if existing is not None and existing.cores is not None and math.isclose(existing.cores.value, cores):
        return existing.id
    return f"{existing.id if existing is not None else slug(model_name)}-{cores}c"


def fill(spec: HardwareSpec, base: HardwareSpec) -> HardwareSpec:
    """Return `spec` with what it does not say taken from `base`; what it says stays."""
    single = {
        name: getattr(base, name)
        for name in ("vendor", "kind", "year", "architecture", "memory_type", "note", *FIGURES)
        if getattr(spec, name) is None
    }
    return msgspec.structs.replace(
        spec,
        **single,
        aliases=tuple(dict.fromkeys((*spec.aliases, *base.aliases))),
        platforms=base.platforms | spec.platforms,
        peak_flops=base.peak_flops | spec.peak_flops,
        sustained_flops=base.sustained_flops | spec.sustained_flops,
    )


def spec_from_event(data: Mapping[str, Any]) -> HardwareSpec:
    """Return the spec that an `assay.hardware.described.v1` event's data states, and no more than it states.

    Only platforms that the probe found available are kept. Raises InvalidEvent where the data has another shape.
    """
    try:
        event = msgspec.convert(msgspec.to_builtins(data), HardwareDescribed)
    except msgspec.ValidationError as error:
        raise InvalidEvent(str(error), field="data", remedy="See hardware.described in the event catalogue.") from error
    spec = event.spec
    return HardwareSpec(
        id=event.hardware.id,
        name=event.name or event.hardware.id,
        vendor=event.vendor,
        kind=event.hardware.kind,
        aliases=tuple(event.aliases),
        platforms={probe.platform: tuple(probe.precisions) for probe in event.platforms if probe.available},
        peak_flops={} if spec is None else spec.peak_flops,
        sustained_flops={} if spec is None else spec.sustained_flops,
        **{name: getattr(spec, name) for name in FIGURES if spec is not None},
    )

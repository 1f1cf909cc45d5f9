"""Engines that run language models: on which platforms, with weights in which formats, and how much of a device they use.

The formats live in `data/engines.json`, each engine with its source; the efficiencies in `data/engine_efficiencies.json`,
which `python -m research.engine_efficiencies` makes from published rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import msgspec

import domain
from domain.vocabulary import PRECISION_BITS, WEIGHT_BITS, arithmetic_precision

__all__ = [
    "DeviceShare",
    "Efficiency",
    "Engine",
    "Share",
    "WeightFormat",
    "band_of",
    "catalogue",
    "efficiency_of",
    "find",
    "format_of",
    "nearest",
    "platforms",
    "usual",
]

BANDS = ("narrow", "middle", "wide")
"""Weights of under 7, under 15, and more bits: kernels that unpack them reach other shares of the bandwidth."""


class WeightFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine keeps weights: `bits` each with their share of scales, and the precision they are multiplied in.

    `outside_bits` are those of the embedding and the output where they are kept wider; with `experts_only` of everything
    but the experts of a mixture (16 where nothing is said).
    """

    bits: float
    arithmetic: str = "fp16"
    outside_bits: float | None = None
    experts_only: bool = False


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine: the platforms it runs on and the formats of weights it reads; with `gguf` all of llama.cpp's."""

    name: str
    platforms: tuple[str, ...]
    formats: dict[str, WeightFormat]
    source: str
    aliases: tuple[str, ...] = ()
    gguf: bool = False

    def format(self, precision: str) -> WeightFormat | None:
        """Return how it keeps weights of a precision, or None where it does not run them."""
        if precision in WEIGHT_BITS and self.gguf:
            return WeightFormat(bits=WEIGHT_BITS[precision], arithmetic="int8")
        return self.formats.get(precision)

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that it runs."""
        return (*self.formats, *(WEIGHT_BITS if self.gguf else ()))


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a device's figure that is reached, and by what factor (log) 80 % of other devices are off it."""

    value: float
    width: float
    rows: int
    devices: int


class DeviceShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share that one device reaches with weights of a band: the median of its `rows`."""

    device: str
    band: str
    value: float
    rows: int


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine reaches on a platform, by the band of the weights' bits: of the bandwidth in decoding, of the 16-bit
    peak on a prompt. `launch_s` is what one kernel costs apart from its work, `source` where the figures are from, and
    `kind` the kind of device where the platform drives several. The devices that the shares are medians of stand beside them.
    """

    engine: str
    platform: str
    decode: dict[str, Share]
    prefill: dict[str, Share]
    launch_s: float
    source: str
    kind: str | None = None
    decode_devices: tuple[DeviceShare, ...] = ()
    prefill_devices: tuple[DeviceShare, ...] = ()


class _Engines(msgspec.Struct, kw_only=True):
    version: int
    sources: dict[str, str]
    engines: tuple[Engine, ...]
    usual: dict[str, str]


@cache
def _document() -> _Engines:
    return msgspec.json.decode(files(domain).joinpath("data/engines.json").read_bytes(), type=_Engines)


@cache
def catalogue() -> Mapping[str, Engine]:
    """Return the engines by name, in the file's order."""
    sources = _document().sources
    engines = [msgspec.structs.replace(engine, source=sources[engine.source]) for engine in _document().engines]
    return MappingProxyType({engine.name: engine for engine in engines})


@cache
def _names() -> Mapping[str, Engine]:
    return {name.lower(): engine for engine in catalogue().values() for name in (*engine.aliases, engine.name)}


def find(name: str) -> Engine | None:
    """Return the engine of this name or alias, whatever its case, or None."""
    return _names().get(name.strip().lower())


def nearest(name: str) -> tuple[str, ...]:
    """Return names of engines that look like `name`."""
    close = difflib.get_close_matches(name.strip().lower(), _names(), n=6, cutoff=0.5)
    return tuple(dict.fromkeys(_names()[match].name for match in close))[:3]


def platforms() -> tuple[str, ...]:
    """Return the platforms that an engine runs on."""
    return tuple(_document().usual)


def usual(platform: str, precision: str) -> Engine | None:
    """Return the engine that usually runs a precision on a platform; None where none does.

    GGUF files are llama.cpp's; else it is the platform's usual one where that runs the precision, and any other where not.
    """
    ours = [engine for engine in catalogue().values() if platform in engine.platforms]
    first = _document().usual.get(platform)
    able = [engine for engine in ours if engine.format(precision) is not None]
    return min(able, key=lambda engine: engine.name != first, default=None)


def band_of(bits: float) -> str:
    """Return the band of weights of so many bits."""
    return BANDS[0] if bits < 7 else BANDS[1] if bits < 15 else BANDS[2]


@cache
def _efficiencies() -> Mapping[tuple[str, str, str | None], Efficiency]:
    document = files(domain).joinpath("data/engine_efficiencies.json").read_bytes()
    kept = msgspec.json.decode(document, type=list[Efficiency])
    return {(item.engine, item.platform, item.kind): item for item in kept}


def efficiency_of(engine: str, platform: str, kind: str | None = None) -> Efficiency | None:
    """Return what an engine reaches on a platform, of this kind of device where that is known, or None."""
    known = _efficiencies()
    return known.get((engine, platform, kind)) or known.get((engine, platform, None))


def format_of(engine: str, precision: str) -> WeightFormat:
    """Return how an engine keeps weights; of an engine or a precision that is not known, what the precision says."""
    known = find(engine)
    kept = None if known is None else known.format(precision)
    if kept is not None:
        return kept
    if precision in WEIGHT_BITS:
        return WeightFormat(bits=WEIGHT_BITS[precision], arithmetic="int8")
    bits = float(PRECISION_BITS.get(precision, 16)) if precision else 16.0
    return WeightFormat(bits=bits, arithmetic=arithmetic_precision(precision) if precision else "fp16")

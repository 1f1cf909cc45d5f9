"""What an agent needs of an answer: members of the API's JSON by their names, the rest left to `verbose`.

Each struct names the members that are kept. Decoding an answer of the API into it is the cut, so that figures cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["Comparison", "Fit", "Matrix", "Prediction", "Recommendation", "Rows", "structured"]

EVIDENCE = 3
"""Ids of events that an entry keeps; `evidence_count` says how many there are."""


class _Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Members that are null are absent."""


class Price(_Brief, frozen=True, kw_only=True):
    """What an hour's price is of; `stale` is old or undated."""

    provider: str
    instance: str | None = None
    region: str | None = None
    date: str | None = None
    machines: int = 1
    stale: bool = False
    spot: bool = False


class Option(_Brief, frozen=True, kw_only=True):
    """A configuration with its figures; `_low` and `_high` are the ends of the interval, `basis` what it rests on.

    `interval_covered` is false where no measurement has checked the interval. `tied_with` is the rank of an option that
    it cannot be told from.
    """

    rank: int | None = None
    hardware: str
    hardware_count: int = 1
    platform: str
    precision: str
    batch_size: int | None = None
    concurrency: int | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    compiled: bool = False
    basis: str
    interval_covered: bool | None = None
    latency_ms: float | None = None
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    latency_is_mean: bool = False
    ttft_ms: float | None = None
    ttft_ms_low: float | None = None
    ttft_ms_high: float | None = None
    tpot_ms: float | None = None
    tpot_ms_low: float | None = None
    tpot_ms_high: float | None = None
    tokens_per_s: float | None = None
    throughput_per_s: float | None = None
    peak_memory_bytes: int | None = None
    usd_per_hour: float | None = None
    usd_per_million: float | None = None
    price: Price | None = None
    meets_all: float | None = None
    tied_with: int | None = None
    why: str | None = None
    evidence: list[str] = []
    evidence_count: int = 0


class Call(_Brief, frozen=True, kw_only=True):
    """What one call is, and what was assumed of it."""

    what: str
    assumed: str | None = None


class Suggestion(_Brief, frozen=True, kw_only=True):
    """A command worth running, and why."""

    command: str
    why: str


class Reach(_Brief, frozen=True, kw_only=True):
    """What a limit had to be for something to meet all of them."""

    constraint: str
    limit: float
    would_do: float
    hardware: str


class _Answer(_Brief, frozen=True, kw_only=True):
    position: int
    predictor: str
    notes: list[str] = []
    abstained: str | None = None


class Recommendation(_Answer, frozen=True, kw_only=True):
    """The ranked answer; `abstained` is a sentence where it recommends nothing, and the order is then no recommendation.

    `interval` is the share of cases that the intervals hold. `excluded_by_rule` counts what was left out. `launch` is a
    snippet for the first place where one was asked for, `launch_problem` says why there is none.
    """

    id: str
    model: str
    interval: float
    call: Call | None = None
    considered: int
    met: int
    ranked: list[Option]
    excluded_by_rule: dict[str, int] = {}
    within_reach: list[Reach] = []
    suggestions: list[Suggestion] = []
    launch: str | None = None
    launch_problem: str | None = None


class Change(_Brief, frozen=True, kw_only=True):
    """A change of the configuration, how many times as fast it is predicted to be, and the command that checks it."""

    change: str
    gain: float
    gain_low: float
    gain_high: float
    command: str


class Faster(_Brief, frozen=True, kw_only=True):
    """The change with the largest gain, or why there is none."""

    best: Change | None = None
    why: str | None = None


class Prediction(_Answer, frozen=True, kw_only=True):
    """The figures of one configuration, what was measured of it, and what would make it faster."""

    id: str
    model: str
    interval: float
    call: Call | None = None
    hardware: str | None = None
    platform: str | None = None
    precision: str | None = None
    batch_size: int | None = None
    concurrency: int | None = None
    runtime: str | None = None
    compiled: bool = False
    basis: str
    interval_covered: bool | None = None
    latency_ms: float | None = None
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    ttft_ms: float | None = None
    ttft_ms_low: float | None = None
    ttft_ms_high: float | None = None
    tpot_ms: float | None = None
    tpot_ms_low: float | None = None
    tpot_ms_high: float | None = None
    tokens_per_s: float | None = None
    throughput_per_s: float | None = None
    peak_memory_bytes: int | None = None
    usd_per_hour: float | None = None
    why: str | None = None
    evidence: list[str] = []
    evidence_count: int = 0
    measured: Option | None = None
    faster: Faster | None = None


class Best(_Brief, frozen=True, kw_only=True):
    """The smallest batch that has the best throughput of those that fit."""

    batch_size: int
    throughput_per_s: float | None = None
    latency_ms: float | None = None
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    basis: str
    interval_covered: bool | None = None
    evidence: list[str] = []
    evidence_count: int = 0


class Memory(_Brief, frozen=True, kw_only=True):
    """The peak of batch 1 in bytes, and its basis."""

    basis: str
    peak_bytes: int | None = None
    low_bytes: int | None = None
    high_bytes: int | None = None


class Longest(_Brief, frozen=True, kw_only=True):
    """The longest sequence in tokens, and how it is known."""

    tokens: int | None = None
    why: str


class FitEntry(_Brief, frozen=True, kw_only=True):
    """What fits on one device under a platform and precision."""

    hardware: str
    platform: str
    precision: str
    runtime: str
    room_bytes: int | None = None
    memory: Memory | None = None
    largest_batch: int | None = None
    largest_basis: str
    best: Best | None = None
    longest: Longest


class Fit(_Answer, frozen=True, kw_only=True):
    """What fits where; `fits_count` says how many entries there are."""

    id: str
    model: str
    interval: float
    fits: list[FitEntry]
    fits_count: int = 0
    excluded_by_rule: dict[str, int] = {}


class Row(_Brief, frozen=True, kw_only=True):
    """What was measured or imported of one configuration."""

    model: str
    hardware: str
    hardware_count: int | None = 1
    platform: str
    precision: str | None = None
    mode: str
    batch_size: int | None = None
    concurrency: int | None = None
    sequence_length: int | None = None
    image_size: int | None = None
    runtime: str | None = None
    runtime_version: str | None = None
    compiled: bool | None = None
    basis: str
    verdict: str | None = None
    latency_ms: float | None = None
    latency_ms_low: float | None = None
    latency_ms_high: float | None = None
    latency_is_mean: bool = False
    throughput_per_s: float | None = None
    peak_memory_bytes: int | None = None
    energy_per_item_j: float | None = None
    n: int | None = None
    evidence: list[str] = []
    evidence_count: int = 0


class Comparison(_Brief, frozen=True, kw_only=True):
    """Measured and imported rows side by side, best first; `rows_count` says how many there are.

    `differ_in` names the parts of their configurations in which they do not agree.
    """

    position: int
    rows: list[Row]
    rows_count: int = 0
    differ_in: list[str] = []


class Cell(_Brief, frozen=True, kw_only=True):
    """What was seen of one model, family or category on one platform; null facts were not tried."""

    model_id: str | None = None
    family: str | None = None
    category: str | None = None
    platform: str
    precision: str | None = None
    state: str
    level: str | None = None
    built: bool | None = None
    ran: bool | None = None
    verified: bool | None = None
    measured: bool | None = None
    why_not: str | None = None
    hardware: list[str] = []
    last_seen: str | None = None
    stale: bool = False
    stopped_remedy: str | None = None
    evidence: list[str] = []
    evidence_count: int = 0


class Matrix(_Brief, frozen=True, kw_only=True):
    """Cells of the compatibility matrix; `cells_count` says how many there are."""

    cells: list[Cell]
    cells_count: int = 0


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a SELECT: `truncated` says that there are more rows than `rows` has."""

    position: int
    columns: list[dict[str, Any]]
    rows: list[list[Any]]
    truncated: bool


def structured(document: Mapping[str, Any], kind: type[msgspec.Struct], *, verbose: bool) -> dict[str, Any]:
    """Return an answer of the API with the members that a struct of this module names, or with `verbose` all of them.

    Members that are null are absent, and `evidence` is always a list, cut to a few ids unless `verbose`.
    """
    whole: dict[str, Any] = _counted(document, None if verbose else EVIDENCE)
    return whole if verbose else dict(msgspec.to_builtins(msgspec.convert(whole, kind)))


def _counted(value: Any, most: int | None) -> Any:
    if isinstance(value, list):
        return [_counted(item, most) for item in value]
    if not isinstance(value, Mapping):
        return value
    document = {name: _counted(item, most) for name, item in value.items() if item is not None}
    if isinstance(excluded := value.get("excluded"), list):
        document["excluded_by_rule"] = dict(Counter(str(item["rule"]) for item in excluded).most_common())
    evidence = value.get("evidence_ids") or value.get("evidence")
    if isinstance(evidence, str):
        evidence = [evidence]
    if isinstance(evidence, list):
        document |= {"evidence": evidence[:most], "evidence_count": len(evidence)}
    return document

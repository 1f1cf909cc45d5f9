"""How a metric went over time: which configurations are asked for, what each point says, and where a line breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

import msgspec

from dashboard.address import SCALES, Params, Read, one_of, position, positive, slugs, text, understood
from presentation import formatting
from presentation.charts.metrics import name_of

__all__ = [
    "AXES",
    "METRICS",
    "MOST",
    "Lane",
    "Trend",
    "change_words",
    "changes",
    "key_of",
    "lanes",
    "numbered",
    "parts_words",
    "points_table",
    "read_trend",
    "scale_for",
    "sentence",
    "steps",
    "title_of",
]

Row = Mapping[str, Any]
METRICS = {
    "latency_ms": "Latency",
    "latency_p90_ms": "Latency p90",
    "latency_p95_ms": "Latency p95",
    "latency_p99_ms": "Latency p99",
    "throughput_per_s": "Throughput",
    "tokens_per_s": "Tokens a second",
    "ttft_ms": "Time to first token",
    "tpot_ms": "Time per token",
    "peak_memory_bytes": "Peak memory",
    "energy_j": "Energy of a call",
    "energy_per_item_j": "Energy of an item",
    "energy_per_token_j": "Energy of a token",
    "power_w": "Power",
    "load_ms": "Load time",
    "first_run_ms": "First call",
}
"""What can be followed, by the API's names."""
AXES = ("time", "order")
MOST = 6
"""Configurations shown at once."""
_KEY = 12
"""Letters of a configuration's key in an address."""
_DIRECTIONS = {"ms": ("longer", "shorter"), "s": ("higher", "lower")}
"""Words for a greater and a smaller value, by the end of the metric's name."""
_DISTINCT = {
    "mode": "",
    "sequence_length": "length",
    "image_size": "size",
    "threads": "threads",
    "layout": "",
    "weights": "weights",
    "scenario": "",
}
"""Fields that may tell lanes of one name apart, in the order in which they are said."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """What the page asks: a model's metric, which configurations (`rows`, keys) and which span; without a model the last days."""

    model: str = ""
    metric: str = "latency_ms"
    rows: tuple[str, ...] = ()
    hw: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    x: str = "time"
    scale: str = "auto"
    since: str = ""
    until: str = ""
    days: float = 7.0
    as_of: int | None = None


def _day(values: Sequence[str]) -> str:
    try:
        return date.fromisoformat(values[-1]).isoformat()
    except ValueError as error:
        raise ValueError("must be a day such as 2026-11-20") from error


_READERS = {
    "model": text,
    "metric": one_of(METRICS),
    "rows": slugs,
    "hw": slugs,
    "platform": slugs,
    "precision": slugs,
    "x": one_of(AXES),
    "scale": one_of(SCALES),
    "since": _day,
    "until": _day,
    "days": positive,
    "as_of": position,
}


def read_trend(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(Trend, params, _READERS)


class Lane(NamedTuple):
    """One configuration under all versions of its runtime: `key` names it in addresses, `configurations` to the API."""

    key: str
    name: str
    platform: str
    hardware: str
    precision: str
    total: int
    configurations: tuple[str, ...]
    points: list[dict[str, Any]]


def key_of(alike: str) -> str:
    """Return what stands in an address for a history that the API calls `alike`."""
    return alike.rpartition(":")[2][:_KEY]


def lanes(lines: Sequence[Row]) -> list[Lane]:
    """Return the lines put together by what they are alike in, those with the most points first; points in order of time."""
    together: dict[str, list[Row]] = {}
    for line in lines:
        together.setdefault(str(line["alike"]), []).append(line)
    names = _names({alike: members[0] for alike, members in together.items()})
    lanes = [
        Lane(
            key=key_of(alike),
            name=names[alike],
            platform=str(members[0]["platform"]),
            hardware=str(members[0]["hardware"]),
            precision=str(members[0]["precision"]),
            total=sum(line["count"] for line in members),
            configurations=tuple(str(line["configuration"]) for line in members),
            points=_points(members),
        )
        for alike, members in together.items()
    ]
    return sorted(lanes, key=lambda lane: (-lane.total, lane.name))


def _names(first: Mapping[str, Row]) -> dict[str, str]:
    """Return a name for each lane; lanes of one name say in what else they differ."""
    named: dict[str, dict[str, Row]] = {}
    for alike, line in first.items():
        named.setdefault(name_of(line), {})[alike] = line
    joins = {}
    for plain, same in named.items():
        apart = [field for field in _DISTINCT if len({repr(item.get(field)) for item in same.values()}) > 1]
        either = len({bool(item.get("compiled")) for item in same.values()}) > 1
        for alike, line in same.items():
            parts = [_said(field, line.get(field)) for field in apart if line.get(field) is not None]
            if either:
                parts.append("compiled" if line.get("compiled") else "eager")
            joins[alike] = " · ".join([plain, *parts])
    # Where nothing that is shown differs, the key does.
    again = Counter(joins.values())
    return {
        alike: f"{name} · {alike.rpartition(':')[2][:7]}" if again[name] > 1 else name for alike, name in joins.items()
    }


def _said(field: str, value: Any) -> str:
    return f"{_DISTINCT[field]} {value}".strip()


def _points(members: Iterable[Row]) -> list[dict[str, Any]]:
    result = [
        {**point, "configuration": line["configuration"], "runtime": line["runtime"]}
        for line in members
        for point in line["points"]
    ]
    return _segmented(sorted(result, key=lambda point: (str(point["time"] or point["recorded_at"]), point["position"])))


def _segmented(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number the stretches that a line may join, and the changes of environment (`turn`).

    A stretch is of one configuration in one environment, unbroken by a change of its value.
    """
    segment, before, turn = 0, None, 0
    for point in points:
        turn += bool(point["changed"])
        point["turn"] = turn
        if point["verdict"] == "invalid" or point["origin"] == "simulated":
            point["segment"] = None
            continue
        step = (point.get("step") or {}).get("state")
        alike = ("configuration", "environment", "origin")
        if before is not None and (step in ("worse", "better") or any(before[name] != point[name] for name in alike)):
            segment += 1
        point["segment"] = segment
        before = point
    return points


def numbered(lanes: Sequence[Lane]) -> dict[str, int]:
    """Return the place of every point in the order of time over all lanes, counted from 1, by its event."""
    points = sorted(
        (str(point["time"] or point["recorded_at"]), point["position"], point["event_id"])
        for lane in lanes
        for point in lane.points
    )
    return {event: index for index, (_, _, event) in enumerate(points, 1)}


def scale_for(metric: str, values: Sequence[float | None]) -> formatting.Scale:
    """Return the unit in which a metric is shown."""
    if metric.endswith("_ms"):
        return formatting.latency_scale(values)
    if metric.endswith("_bytes"):
        return formatting.memory_scale(values)
    if metric.endswith("_j"):
        return formatting.energy_scale(values)
    return formatting.throughput_scale(values) if metric.endswith("_per_s") else formatting.Scale("W", 1.0)


def title_of(metric: str, better: str, scale: formatting.Scale, *, mean: bool) -> str:
    """Return what an axis says: metric, unit and which way is better."""
    word = METRICS[metric]
    if metric == "latency_ms":
        word = "Latency mean" if mean else "Latency p50"
    return f"{word}, {scale.unit}, {better} is better"


def change_words(step: Row, metric: str, *, interval: bool = True) -> str:
    """Write a step of a value by its own size: `▼ 40 % longer (35–46 %)`; what is worse has a triangle down."""
    more, less = _DIRECTIONS.get(metric.rpartition("_")[2], ("more", "less"))
    glyph = {"worse": "▼", "better": "▲"}.get(step["state"], "≈")
    change = step.get("change")
    if change is None:
        return f"{glyph} {formatting.MISSING}"
    text = f"{glyph} {_percent(abs(change))} {more if change > 0 else less}"
    low, high = step.get("low"), step.get("high")
    if not interval or low is None or high is None:
        return text
    if low * high > 0:
        near, far = sorted((abs(low), abs(high)))
        return f"{text} ({near:.0%}–{far:.0%})".replace("%–", "–").replace("%)", f"{formatting.SPACE}%)")
    return f"{text} ({_signed(low)} to {_signed(high)})"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}{formatting.SPACE}%"


def _signed(share: float) -> str:
    return f"{'+' if share >= 0 else formatting.MINUS}{_percent(abs(share))}"


def parts_words(changed: Sequence[Row], most: int = 3) -> str:
    """Write what changed around a point: `driver 550.54 → 560.35 · torch 2.11.0 → 2.12.0`."""
    words = [
        f"{str(item['part']).removeprefix('library ').removeprefix('runtime ')} {_short(item['before'])} → {_short(item['after'])}"
        for item in _told_once(changed)
    ]
    rest = f" · {len(words) - most} more" if len(words) > most else ""
    return " · ".join(words[:most]) + rest


def _told_once(changed: Sequence[Row]) -> list[Row]:
    """Return the changes, driver and runtime first; a library that is the runtime as well is named once."""
    order = {"driver": 0, "runtime": 1, "library": 2}
    rows: dict[tuple[Any, ...], Row] = {}
    for item in sorted(changed, key=lambda entry: order.get(str(entry["part"]).partition(" ")[0], 3)):
        rows.setdefault((str(item["part"]).rpartition(" ")[2], item["before"], item["after"]), item)
    return list(rows.values())


def _short(value: Any) -> str:
    words = formatting.MISSING if value is None else str(value)
    return words if len(words) <= 24 else f"{words[:10]}…"


def steps(lane: Lane) -> list[dict[str, Any]]:
    """Return the points of a lane at which its value is worse or better than before, by the rules of `assay regressions`."""
    return [point for point in lane.points if (point.get("step") or {}).get("state") in ("worse", "better")]


def changes(lanes: Sequence[Lane], metric: str, zone: tzinfo | None) -> list[dict[str, Any]]:
    """Return one line a change of value or of environment, newest first: what, where, when, and what changed with it."""
    lines = []
    for lane in lanes:
        scale = scale_for(metric, [point["value"] for point in lane.points])
        values = {point["event_id"]: point["value"] for point in lane.points}
        for point in lane.points:
            step = point.get("step") or {}
            if not point["changed"] and step.get("state") not in ("worse", "better", "unclear"):
                continue
            lines.append(
                {
                    "When": point["time"] or point["recorded_at"],
                    "Configuration": lane.name,
                    "Change": change_words(step, metric) if step else "no change beyond 10 %",
                    "Before": scale.show(values.get(step.get("from"))) if step else formatting.MISSING,
                    "Now": scale.show(point["value"], point["low"], point["high"]),
                    "With it": parts_words(point["changed"]) or None,
                    "Why unclear": step.get("why"),
                    "Run": f"/runs?run={point['run_id']}" if point["run_id"] else None,
                }
            )
    lines.sort(key=lambda line: str(line["When"]), reverse=True)
    return [{**line, "When": formatting.date(line["When"], zone)} for line in lines]


def points_table(lane: Lane, metric: str, zone: tzinfo | None) -> list[dict[str, Any]]:
    """Return one line a point for people, oldest first."""
    scale = scale_for(metric, [point["value"] for point in lane.points])
    return [
        {
            "Measured": formatting.when(point["time"] or point["recorded_at"], zone),
            "Configuration": lane.name,
            METRICS[metric]: scale.show(point["value"], point["low"], point["high"])
            + (" (mean)" if point["is_mean"] and metric == "latency_ms" else ""),
            "n": point["n"],
            "Verdict": point["verdict"],
            "Origin": point["origin"],
            "Runtime": " ".join(str(part) for part in (point["runtime"], point["runtime_version"]) if part) or None,
            "Environment": point["environment"],
            "Run": f"/runs?run={point['run_id']}" if point["run_id"] else None,
        }
        for point in lane.points
    ]


def sentence(lanes: Sequence[Lane], metric: str, zone: tzinfo | None) -> str:
    """Return the answer in words: how many configurations stand worse or better than before, and the newest change."""
    moved = [(lane, steps(lane)[-1]) for lane in lanes if steps(lane)]
    noun = "1 configuration" if len(lanes) == 1 else f"{len(lanes)} configurations"
    if not any(len(lane.points) > 1 for lane in lanes):
        return f"{noun}, each measured once: nothing to compare yet."
    if not moved:
        return f"{noun}: no change beyond 10 % and the noise."
    states = Counter(point["step"]["state"] for _, point in moved)
    lane, point = max(moved, key=lambda item: str(item[1]["time"] or item[1]["recorded_at"]))
    changes = ", ".join(f"{states[state]} {state}" for state in ("worse", "better") if states[state])
    when = _day_of(point, zone)
    return (
        f"At the last change of {noun}: {changes}. Newest: {lane.name}, {change_words(point['step'], metric)}, {when}."
    )


def _day_of(point: Row, zone: tzinfo | None) -> str:
    moment = point["time"] or point["recorded_at"]
    fromisoformat = datetime.fromisoformat(str(moment)) if not isinstance(moment, datetime) else moment
    words = formatting.when(fromisoformat, zone).split(" ")
    return " ".join(words[:3])

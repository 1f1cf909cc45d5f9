"""How a metric went over time: which configurations are asked for, what each point says, and where a line breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

import msgspec

from dashboard import evidence
from dashboard.address import SCALES, Params, Read, one_of, position, positive, slugs, text, understood, yes_or_no
from dashboard.tables.result_table import Column, filled
from domain.comparison.regression import version_key
from domain.history.history import HistoryReport
from presentation import formatting
from presentation.answer_words import device_name, evidence_words
from presentation.charts.metrics import name_of
from presentation.loads import hardware_words

__all__ = [
    "AXES",
    "METRICS",
    "MOST",
    "Lane",
    "Trend",
    "alert_path",
    "change_columns",
    "change_words",
    "changes",
    "key_of",
    "lanes",
    "left_out",
    "metric_of",
    "numbered",
    "parts_words",
    "point_columns",
    "read_trend",
    "scale_for",
    "segmented",
    "sentence",
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
AXES = {"auto": "Automatic", "time": "Date", "version": "Software version", "order": "Order"}
"""What stands across; of itself dates, and the software's versions where dates are missing."""
DOUBTED = ("invalid", "simulated")
NOT_ACCEPTED = frozenset({"page", "simulated"})
"""Origins that answer nothing: simulated rows, and those of a page whose device no operator has accepted."""
"""Points that are left out unless they are asked for."""
MOST = 6
"""Configurations shown at once."""
_KEY = 12
"""Letters of a configuration's key in an address."""
_DIRECTIONS = {"ms": ("longer", "shorter"), "s": ("higher", "lower")}
"""Words for a greater and a smaller value, by the end of the metric's name."""
_DISTINCT = {
    "runtime": "",
    "browser": "",
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
    """What the page asks: a model's metric, which configurations (`rows`, keys) and which span; without a model the last days.

    `invalid`, `simulated` and `undated` measurements are left out unless they are asked for.
    """

    model: str = ""
    metric: str = "latency_ms"
    rows: tuple[str, ...] = ()
    hw: tuple[str, ...] = ()
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    x: str = "auto"
    scale: str = "auto"
    invalid: bool = False
    simulated: bool = False
    undated: bool = False
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
    "invalid": yes_or_no,
    "simulated": yes_or_no,
    "undated": yes_or_no,
    "since": _day,
    "until": _day,
    "days": positive,
    "as_of": position,
}


def read_trend(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(Trend, params, _READERS)


class Lane(NamedTuple):
    """One configuration under all versions of its runtime: `key` names it in addresses, `configurations` and `alike` to the API.

    `report` is what was found in its history, where it has levels.
    """

    key: str
    name: str
    platform: str
    hardware: str
    precision: str
    total: int
    configurations: tuple[str, ...]
    points: list[dict[str, Any]]
    alike: str = ""
    report: HistoryReport | None = None


def key_of(alike: str) -> str:
    """Return what stands in an address for a history that the API calls `alike`."""
    return alike.rpartition(":")[2][:_KEY]


def lanes(lines: Sequence[Row], along: str = "time") -> list[Lane]:
    """Return the lines put together by what they are alike in, those with the most points first; points in order of time or version."""
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
            points=_points(members, along),
            alike=alike,
        )
        for alike, members in together.items()
    ]
    return sorted(lanes, key=lambda lane: (-lane.total, lane.name))


def _names(first: Mapping[str, Row]) -> dict[str, str]:
    """Return a name for each lane; lanes of one name say in what else they differ."""
    named: dict[str, dict[str, Row]] = {}
    for alike, line in first.items():
        device = hardware_words(line, device_name(str(line["hardware"])))
        named.setdefault(name_of({**line, "subject": device}), {})[alike] = line
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


def left_out(lane: Lane, trend: Trend) -> tuple[Lane, dict[str, int]]:
    """Return a lane without the invalid and simulated points that are not asked for, and how many it has of each."""
    kinds = [
        "invalid" if point["verdict"] == "invalid" else "simulated" if point["origin"] in NOT_ACCEPTED else ""
        for point in lane.points
    ]
    kept = [point for point, kind in zip(lane.points, kinds, strict=True) if not kind or getattr(trend, kind)]
    return lane._replace(points=kept), {kind: kinds.count(kind) for kind in DOUBTED}


def _points(members: Iterable[Row], along: str) -> list[dict[str, Any]]:
    result = [
        {**point, "configuration": line["configuration"], "runtime": line["runtime"]}
        for line in members
        for point in line["points"]
    ]

    def order(point: Row) -> tuple[Any, ...]:
        moment = (str(point["time"] or point["recorded_at"]), point["position"])
        return (version_key(point["runtime_version"]), *moment) if along == "version" else moment

    return segmented(sorted(result, key=order))


def segmented(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number the stretches that a line may join.

    A stretch is of one configuration in one environment, unbroken by a change of its value.
    """
    segment, before = 0, None
    for point in points:
        if point["verdict"] == "invalid" or point["origin"] in NOT_ACCEPTED:
            point["segment"] = None
            continue
        step = (point.get("step") or {}).get("state")
        alike = ("configuration", "environment", "origin")
        if before is not None and (step in ("worse", "better") or any(before[name] != point[name] for name in alike)):
            segment += 1
        point["segment"] = segment
        before = point
    return points


def numbered(lanes: Sequence[Lane], x: str) -> tuple[dict[str, int], list[str]]:
    """Return the place of every point across, counted from 1, by its event, and the words of each place.

    By `version` a place is a version of the software, which all lanes share; by `order` each point has its own.
    """
    points = [point for lane in lanes for point in lane.points]
    if x == "version":
        versions = sorted({point["runtime_version"] or "" for point in points}, key=version_key)
        places = {version: at for at, version in enumerate(versions, 1)}
        words = [version or "not said" for version in versions]
        return {point["event_id"]: places[point["runtime_version"] or ""] for point in points}, words
    points.sort(key=lambda point: (str(point["time"] or point["recorded_at"]), point["position"]))
    return {point["event_id"]: at for at, point in enumerate(points, 1)}, []


def scale_for(metric: str, values: Sequence[float | None]) -> formatting.Scale:
    """Return the unit in which a metric is shown."""
    if metric.endswith("_ms"):
        return formatting.latency_scale(values)
    if metric.endswith("_bytes"):
        return formatting.memory_scale(values)
    if metric.endswith("_j"):
        return formatting.energy_scale(values)
    return formatting.throughput_scale(values) if metric.endswith("_per_s") else formatting.Scale("W", 1.0)


def metric_of(column: str) -> str:
    """Return the metric of this page that a figure, a column of the tables, is shown under."""
    return "latency_ms" if column in ("latency_p50_ms", "latency_mean_ms") else column


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


def changes(lanes: Sequence[Lane], *, every: bool = False) -> list[tuple[Lane, Row]]:
    """Return the points at which a value is worse or better than before, newest first, each with its lane.

    This is what the headline counts, the picture marks and the table lists. With `every` also those at which the environment
    changed, and changes that are unclear.
    """
    states = ("worse", "better", "unclear") if every else ("worse", "better")
    found = [
        (lane, point)
        for lane in lanes
        for point in lane.points
        if (point.get("step") or {}).get("state") in states or (every and point["changed"])
    ]
    return sorted(found, key=lambda each: str(each[1]["time"] or each[1]["recorded_at"]), reverse=True)


def change_columns(found: Sequence[tuple[Lane, Row]], metric: str, zone: tzinfo | None) -> list[Column]:
    """Return changes as the columns of a table: what, where, by how much, when, and what changed with it."""
    steps = [point.get("step") or {} for _, point in found]
    scales = [scale_for(metric, [point["value"] for point in lane.points]) for lane, _ in found]
    before = [
        step.get(
            "before", next((other["value"] for other in lane.points if other["event_id"] == step.get("from")), None)
        )
        for (lane, _), step in zip(found, steps, strict=True)
    ]
    points = [point for _, point in found]
    alerts = [step.get("alert") for step in steps]
    columns = [
        Column(head="Configuration", values=[lane.name for lane, _ in found], links=[_run(point) for point in points]),
        Column(
            head="Change",
            values=[step.get("change") for step in steps],
            shown=[change_words(step, metric) if step else "no change beyond 10 %" for step in steps],
        ),
        Column(
            head="Before",
            values=before,
            shown=[scale.show(value) for scale, value in zip(scales, before, strict=True)],
        ),
        Column(
            head="Now",
            values=[step.get("after", point["value"]) for step, point in zip(steps, points, strict=True)],
            shown=[
                scale.show(step["after"])
                if "after" in step
                else scale.show(point["value"], point["low"], point["high"])
                for scale, step, point in zip(scales, steps, points, strict=True)
            ],
        ),
        Column(
            head="With it",
            values=[
                step.get("causes") or parts_words(point["changed"]) or None
                for step, point in zip(steps, points, strict=True)
            ],
        ),
        _measured(points, zone),
        Column(
            head="Alert",
            values=[alert and alert[:8] for alert in alerts],
            links=[alert and alert_path(alert) for alert in alerts],
        ),
        Column(head="Why unclear", values=[step.get("why") for step in steps]),
    ]
    return filled(columns)


def alert_path(alert: str) -> str:
    """Return the address of the page that shows an alert, whatever its state and direction."""
    return f"regressions?state=all&direction=all&alert={alert}"


def _run(point: Row) -> str | None:
    return f"runs?run={point['run_id']}" if point["run_id"] else evidence.row_path(str(point["event_id"]))


def _measured(points: Sequence[Row], zone: tzinfo | None) -> Column:
    times = [point["time"] for point in points]
    return Column(
        head="Measured",
        values=[None if time is None else str(time) for time in times],
        shown=[formatting.when(time, zone) if time else formatting.MISSING for time in times],
    )


def point_columns(lanes: Sequence[Lane], metric: str, zone: tzinfo | None) -> list[Column]:
    """Return every point as the columns of a table."""
    pairs = [(lane, point) for lane in lanes for point in lane.points]
    points = [point for _, point in pairs]
    scales = {lane.key: scale_for(metric, [point["value"] for point in lane.points]) for lane in lanes}
    shown = [
        scales[lane.key].show(point["value"], point["low"], point["high"])
        + (" (mean)" if point["is_mean"] and metric == "latency_ms" else "")
        for lane, point in pairs
    ]
    columns = [
        Column(head="Configuration", values=[lane.name for lane, _ in pairs], links=[_run(point) for point in points]),
        Column(
            head=METRICS[metric],
            values=[point["value"] for point in points],
            shown=shown,
            low=[point["low"] for point in points],
            high=[point["high"] for point in points],
        ),
        Column(
            head="Software",
            values=[
                " ".join(str(part) for part in (point["runtime"], point["runtime_version"]) if part) or None
                for point in points
            ],
        ),
        _measured(points, zone),
        Column(head="n", values=[point["n"] for point in points]),
        Column(head="Verdict", values=[point["verdict"] for point in points]),
        Column(head="Source", values=[evidence_words(_source(point), point["origin"]) for point in points]),
        Column(head="Environment", values=[formatting.digest(point["environment"]) for point in points]),
    ]
    return [column for column in columns if any(value not in (None, formatting.MISSING) for value in column.values)]


def _source(point: Row) -> str:
    return "measured" if point["origin"] in ("measured", "simulated") else "imported"


def sentence(lanes: Sequence[Lane], metric: str, zone: tzinfo | None) -> str:
    """Return the answer in words: how many changes there are, by the rule of `changes`, and the newest of them."""
    noun = "1 configuration" if len(lanes) == 1 else f"{len(lanes)} configurations"
    if not any(len(lane.points) > 1 for lane in lanes):
        return f"{noun}, each measured once: nothing to compare yet."
    moved = changes(lanes)
    if not moved and all(lane.report for lane in lanes):
        odd = sum(bool(lane.report and lane.points[-1]["event_id"] in lane.report.suspect) for lane in lanes)
        return f"{noun}: no confirmed change{f'; the newest point of {odd} is suspect' if odd else ''}."
    if not moved:
        unclear = sum((point.get("step") or {}).get("state") == "unclear" for lane in lanes for point in lane.points)
        rest = f"; {unclear} beyond 10 % {'is' if unclear == 1 else 'are'} too close to call" if unclear else ""
        return f"{noun}: no change beyond 10 % and the noise{rest}."
    states = Counter(point["step"]["state"] for _, point in moved)
    lane, point = moved[0]
    counted = ", ".join(f"{states[state]} {state}" for state in ("worse", "better") if states[state])
    many = "1 change" if len(moved) == 1 else f"{len(moved)} changes"
    when = _day_of(point, zone)
    return f"{many} of {noun}: {counted}. Newest: {lane.name}, {change_words(point['step'], metric)}, {when}."


def _day_of(point: Row, zone: tzinfo | None) -> str:
    """Return the day of a point, or the software's version where it says no time."""
    if not point["time"]:
        return f"{point['runtime']} {point['runtime_version'] or 'of no known version'}"
    moment = point["time"]
    words = formatting.when(datetime.fromisoformat(str(moment)), zone).split(" ")
    return " ".join(words[:3])

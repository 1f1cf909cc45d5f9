"""What was tried of each model, on which platform: states, coverage, and the commands that would fill the gaps.

Everything here is a view of rows: models as the registry lists them, and the rows of the compatibility matrix (one a model,
platform and precision). A platform on which a model has no row was never tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from domain.catalogues.models import OWN_PREFIX, catalogue
from domain.vocabulary import CATEGORIES, PLATFORMS, PRECISIONS

__all__ = [
    "MEASURED_ON",
    "STATES",
    "best_measured",
    "coverage",
    "gaps",
    "missing",
    "platforms_of",
    "state_of",
    "untried",
]

Row = Mapping[str, Any]
State = Literal["verified", "measured", "failed", "missing"]
STATES: tuple[State, ...] = ("verified", "measured", "failed", "missing")
"""Best first. `verified`: outputs were compared and right. `measured`: it was timed, and outputs were not compared. `failed`:
it did not run, its outputs were wrong, or every measurement is invalid. `missing`: never tried, or only skipped."""
MEASURED_ON = ("cpu", "cuda", "rocm", "mps", "openvino", "qnn", "wasm", "webgpu", "webnn", "xpu")
"""Platforms that come with the runner; of the others there are imported rows, and those of platforms that were added."""
_NAMED = 10
"""Models that a cell names; the rest it counts."""
_IN_COMMAND = 3
_BEST = 5
_WORK = (
    "mode",
    "scenario",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
)
"""What of a workload makes two rows the same work; batch and concurrency are the machine's to choose."""


def state_of(row: Row) -> State:
    """Return the state that a row of the compatibility matrix tells of."""
    if row["verified"]:
        return "verified"
    if row["built"] is None:
        return "missing"  # A case that was skipped says nothing of what works.
    return "measured" if row["measured"] and row["verified"] is None else "failed"


def platforms_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one row a platform and precision of one model, in the order of platforms: its state and what it rests on."""
    result = [
        {
            "platform": row["platform"],
            "precision": row["precision"],
            "state": state_of(row),
            "verified": row["verified"],
            "measured": bool(row["measured"]),
            "measurements": row["measurements"],
            "hardware": list(row["hardware"] or []),
            "why_not": row["why_not"],
            "evidence": row["evidence"],
        }
        for row in rows
    ]
    return sorted(
        result, key=lambda item: (_place(item["platform"]), STATES.index(item["state"]), item["precision"] or "")
    )


def missing(rows: Iterable[Row], ran: Iterable[Row]) -> list[dict[str, str]]:
    """Return platform and precision of what was not tried of one model on the platforms on which it was tried.

    `ran` are the rows of all models: the precisions of a platform are those in which any model was tried there.
    """
    tried = {(row["platform"], row["precision"]) for row in rows if state_of(row) != "missing"}
    platforms = {platform for platform, _ in tried}
    anyone = {
        (row["platform"], row["precision"])
        for row in ran
        if row["platform"] in platforms and row["precision"] and state_of(row) != "missing"
    }
    order = {name: place for place, name in enumerate(PRECISIONS)}
    result = sorted(anyone - tried, key=lambda item: (_place(item[0]), order.get(item[1], len(order)), item[1]))
    return [{"platform": platform, "precision": precision} for platform, precision in result]


def untried(rows: Iterable[Row]) -> list[str]:
    """Return the platforms on which a model was never tried."""
    tried = {row["platform"] for row in rows if state_of(row) != "missing"}
    return [platform for platform in PLATFORMS if platform not in tried and platform != "other"]


def best_measured(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return up to five hardware × platform by their highest throughput at one and the same work, fastest first.

    Of several kinds of work it is the one that was measured on most hardware, named in `work`. Rows are those of the best
    measurements of one model; the throughput is tokens a second where only that is known, and `unit` says so.
    """
    by_work: dict[tuple[Any, ...], list[tuple[float, str, Row]]] = {}
    for row in rows:
        speed, unit = _speed(row)
        if speed is not None:
            by_work.setdefault((unit, *(row[name] for name in _WORK)), []).append((speed, unit, row))
    if not by_work:
        return []
    work, measured = max(
        by_work.items(), key=lambda item: (len({row["hardware_id"] for *_, row in item[1]}), len(item[1]), str(item[0]))
    )
    fastest: dict[tuple[str, str], tuple[float, str, Row]] = {}
    for entry in sorted(measured, key=lambda item: (-item[0], item[2]["position"])):
        fastest.setdefault((entry[2]["hardware_id"], entry[2]["platform"]), entry)
    values = {name: value for name, value in zip(_WORK, work[1:], strict=True) if value is not None}
    return [
        {
            "hardware": name,
            "hardware_count": row["hardware_count"],
            "platform": platform,
            "precision": row["precision"],
            "batch_size": row["batch_size"],
            "throughput": speed,
            "unit": unit,
            "latency_ms": row["latency_p50_ms"] or row["latency_mean_ms"],
            "origin": row["origin"],
            "work": values,
            "evidence": row["event_id"],
        }
        for (name, platform), (speed, unit, row) in list(fastest.items())[:_BEST]
    ]


def coverage(models: Iterable[Row], ran: Iterable[Row], platforms: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one row a family and platform: how many models there are, and how many were tried, with what outcome.

    A model counts once a platform, by the best of its precisions. `tried_share` is 0 to 1; `never_tried` names some of the
    models that no precision was tried of. Assay's own small variants stand for their family where they were tried, and are
    no gap where they were not. Families come by category, platforms in the order of the vocabulary.
    """
    states, precisions = _by_model(ran)
    wanted = platforms or _columns(states)
    rows: list[dict[str, Any]] = []
    for (category, family), names in _families(models).items():
        for platform in wanted:
            counted = [name for name in names if (name, platform) in states or not name.startswith(OWN_PREFIX)]
            counted = counted or names
            reached = [states.get((name, platform), "missing") for name in counted]
            never = [name for name, state in zip(counted, reached, strict=True) if state == "missing"]
            of_family = {item for name in counted for item in precisions.get((name, platform), ())}
            rows.append(
                {
                    "category": category,
                    "family": family,
                    "platform": platform,
                    "models": len(counted),
                    "tried": len(counted) - len(never),
                    "tried_share": round(1 - len(never) / len(counted), 4),
                    **{state: reached.count(state) for state in STATES},
                    "precisions": sorted(of_family),
                    "never_tried": never[:_NAMED],
                }
            )
    return rows


def gaps(
    ran: Sequence[Row],
    own: Collection[str],
    *,
    category: str | None = None,
    platforms: Sequence[str] = (),
    most: int = 5,
) -> list[dict[str, Any]]:
    """Return the largest gaps with the command that would begin to fill each: categories × platforms, best worth first.

    A gap is counted in families of the catalogue of which no model was tried on a platform. Platforms on which something
    was tried on hardware of one's `own` come first, and the processor, because a machine that has them is at hand; the
    command takes each family's smallest model. Platforms on which nothing of ours measures have no command and are left out.
    """
    states, _ = _by_model(ran)
    own_rows = (row for row in ran if state_of(row) != "missing" and set(own) & set(row["hardware"] or ()))
    here = {"cpu", *(row["platform"] for row in own_rows)}
    measurable = [entry for entry in platforms or _columns(states) if entry in here or entry in MEASURED_ON]
    rows: list[dict[str, Any]] = []
    for item in [category] if category else CATEGORIES:
        smallest = _smallest(item)
        members = _members(item)
        for platform in measurable:
            open_ = [
                smallest[family]
                for family, names in members.items()
                if all(states.get((name, platform), "missing") == "missing" for name in names)
            ]
            if open_:
                command = f"assay verify {' '.join(open_[:_IN_COMMAND])} --platform {platform}"
                rows.append(
                    {
                        "category": item,
                        "platform": platform,
                        "at_hand": platform in here,
                        "families": len(members),
                        "never_tried": len(open_),
                        "command": command,
                    }
                )
    rows.sort(key=lambda gap: (not gap["at_hand"], -gap["never_tried"], _place(gap["platform"])))
    return rows[:most]


def _speed(row: Row) -> tuple[float | None, str]:
    """The items a second of a row, as measured or by its latency; tokens a second where there is nothing else."""
    latency_ms = row["latency_p50_ms"] or row["latency_mean_ms"]
    if row["throughput_per_s"]:
        return row["throughput_per_s"], "items/s"
    if latency_ms and row["batch_size"]:
        return 1000.0 * row["batch_size"] / latency_ms, "items/s"
    return row["tokens_per_s"], "tokens/s"


def _by_model(ran: Iterable[Row]) -> tuple[dict[tuple[str, str], State], dict[tuple[str, str], list[str]]]:
    """The best state of each model and platform, and the precisions that were tried."""
    states: dict[tuple[str, str], State] = {}
    precisions: dict[tuple[str, str], list[str]] = {}
    for row in ran:
        place, state = (row["model_id"], row["platform"]), state_of(row)
        states[place] = min(state, states.get(place, state), key=STATES.index)
        if state != "missing" and row["precision"]:
            precisions.setdefault(place, []).append(row["precision"])
    return states, precisions


def _families(models: Iterable[Row]) -> dict[tuple[str | None, str | None], list[str]]:
    """The ids of each category and family, by category; what is not classified comes last."""
    names: dict[tuple[str | None, str | None], list[str]] = {}
    for model in models:
        names.setdefault((model["category"], model["family"]), []).append(model["id"])
    order = {name: place for place, name in enumerate(CATEGORIES)}
    return dict(sorted(names.items(), key=lambda item: (order.get(item[0][0] or "", len(order)), item[0][1] or "~")))


def _columns(states: Iterable[tuple[str, str]]) -> list[str]:
    seen = {platform for _, platform in states}
    return sorted({*(platform for platform in PLATFORMS if platform != "other"), *seen}, key=_place)


def _place(platform: str) -> tuple[int, str]:
    return PLATFORMS.index(platform) if platform in PLATFORMS else len(PLATFORMS), platform


def _members(category: str) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for model in catalogue():
        if model.category == category:
            names.setdefault(model.family, []).append(model.id)
    return names


def _smallest(category: str) -> dict[str, str]:
    """The family's variant that runs anywhere."""
    return {model.family: model.id for model in catalogue() if model.category == category and model.variant == "small"}

"""One model, arranged for a page: what the address asks, what it is, where it was tried, what its time goes into."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec
import pandas as pd

from assay.client.row_types import Match
from assay.client.row_types import Model as ModelRow
from dashboard.address import Params, Read, one_of, position, text, understood, whole
from domain.answers.model_profile import (
    Alternative,
    FamilyPlatform,
    FastestPlace,
    ModelIdentity,
    ModelProfile,
    ModelSizes,
    OperatorBreakdown,
    Sibling,
    TriedPlatform,
)
from domain.catalogues.registry import MEASURED_ON
from domain.vocabulary import CATEGORIES, MODES, PRECISIONS
from presentation import formatting
from presentation.answer_words import device_name
from presentation.palette import badge

__all__ = [
    "KNOWN",
    "OBJECTIVES",
    "TABS",
    "Model",
    "OperatorBar",
    "alternatives_table",
    "best_table",
    "bound_sentence",
    "commands",
    "facts",
    "family_table",
    "listed",
    "operators_table",
    "parts",
    "platforms_table",
    "read_model",
    "sentence",
    "siblings_table",
    "standing",
]

TABS = ("about", "hardware", "operators", "tests", "coverage")
KNOWN = ("measured", "all")
OBJECTIVES = ("throughput", "latency")
STATES = {"verified": "✓ verified", "measured": "measured", "failed": "✕ failed", "missing": "– missing"}
_BOUND = {"compute": "compute-bound", "memory": "memory-bound", "launch": "launch-bound", None: ""}


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What the models page asks: one by id and which part of it, or a list by a search and filters.

    `hw`, `platform`, `precision` and `batch` are of the operators' breakdown, `metric` of the ranking; empty is what was
    measured fastest.
    """

    id: str = ""
    tab: str = "about"
    search: str = ""
    category: str = ""
    family: str = ""
    known: str = "measured"
    hw: str = ""
    platform: str = ""
    precision: str = ""
    batch: int | None = None
    mode: str = "inference"
    metric: str = "throughput"
    as_of: int | None = None


class OperatorBar(msgspec.Struct, frozen=True, kw_only=True):
    """One operator as a bar: its share of the time, or of the bytes where no device is known, and its figures in words."""

    name: str
    share: float
    words: str
    brief: str
    detail: str


_READERS = {
    "id": text,
    "tab": one_of(TABS),
    "search": text,
    "category": one_of(CATEGORIES),
    "family": text,
    "known": one_of(KNOWN),
    "hw": text,
    "platform": text,
    "precision": text,
    "batch": whole,
    "mode": one_of(MODES),
    "metric": one_of(OBJECTIVES),
    "as_of": position,
}


def read_model(params: Params) -> Read:
    """Read a models page's parameters."""
    return understood(Model, params, _READERS)


def facts(document: ModelProfile) -> pd.DataFrame:
    """Return what a model is, one fact a line; what nobody knows is said to be unknown."""
    row, sizes = document.model, document.sizes
    measured = ", ".join(f"{kind} ({formatting.count(rows)} rows)" for kind, rows in row.weights_measured.items())
    lines = {
        "Category": ", ".join(filter(None, (row.category, row.task))) or "unknown",
        "Family": f"{row.family or 'unknown'}: {row.family_why}",
        "Parameters": _parameters(row),
        "One item": _work(sizes),
        "Weights": row.weights,
        "Licence": row.licence or "unknown",
        "Measured with": f"{measured} weights"
        if measured
        else "unknown weights"
        if row.measurements
        else "nothing yet",
        "Revisions": ", ".join(row.revisions) or "none named",
        "Also called": ", ".join(row.aliases) or "nothing else",
        "Architecture": formatting.digest(row.architecture, 12) if row.architecture else "not traced",
    }
    return pd.DataFrame(list(lines.items()), columns=["Fact", "What is known"])


def _parameters(row: ModelIdentity) -> str:
    source = f" ({row.parameters_source})" if row.parameters_source else ""
    if row.parameters:
        exact = ": ".join(filter(None, (formatting.count(row.parameters), row.parameters_source)))
        return f"{formatting.parameters(row.parameters)} ({exact})"
    return f"about {_about(row.parameters_about)}{source}" if row.parameters_about else "unknown"


def _about(value: float | None) -> str:
    return formatting.parameters(value)


def _work(sizes: ModelSizes) -> str:
    if sizes.flops:
        at = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in sizes.at.items())
        words = f"{formatting.si(sizes.flops, 'FLOP')} in {formatting.count(sizes.operators)} operators"
        return f"{words}, at {at}" if at else words
    if sizes.layers:
        active = f"{_about(sizes.active_parameters)} parameters work on each token"
        return f"{active}; {sizes.layers} layers of width {formatting.count(sizes.hidden_size)}"
    return "not traced"


def sentence(document: ModelProfile) -> str:
    """Say where the model is fastest among what was measured, at one and the same work."""
    row = document.model
    if not document.best:
        state = f"{formatting.count(row.measurements)} measurements" if row.measurements else "nothing was measured"
        return f"{row.id}: {state}, none with a throughput"
    best = document.best[0]
    work = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in best.work.items())
    origin = "measured" if best.origin == "measured" else "imported"
    return f"Fastest where it was measured ({work}): {place(best)}, {speed(best)} ({badge(origin, best.origin)})"


def place(row: FastestPlace) -> str:
    """Name one hardware × platform in the order in which all pages do."""
    hardware = device_name(str(row.hardware), row.hardware_count)
    batch = f"batch {row.batch_size}" if row.batch_size is not None else "batch unknown"
    return " · ".join([hardware, str(row.platform), row.precision or "precision unknown", batch])


def speed(row: FastestPlace) -> str:
    """Write a throughput in items or tokens a second."""
    if row.unit == "tokens/s":
        return f"{formatting.significant(row.throughput)}\u202ftokens/s"
    return formatting.throughput(row.throughput)


def best_table(rows: Sequence[FastestPlace]) -> pd.DataFrame:
    """Return the hardware on which the model was measured fastest, at one and the same work."""
    return pd.DataFrame(
        [
            {
                "Hardware": place(row).split(" · ")[0],
                "Throughput": speed(row),
                "How": " · ".join(place(row).split(" · ")[1:]),
                "Latency": formatting.latency(row.latency_ms),
                "Basis": badge("measured" if row.origin == "measured" else "imported", row.origin),
                "Evidence": f"/runs?row={row.evidence}",
            }
            for row in rows
        ]
    )


def siblings_table(rows: Sequence[Sibling]) -> pd.DataFrame:
    """Return the nearest models, with why each is near."""
    return pd.DataFrame(
        [
            {
                "Model": row.id,
                "Parameters": _about(row.parameters),
                "Why": row.why,
                "Measurements": row.measurements,
                "Tests": row.tests,
            }
            for row in rows
        ]
    )


def alternatives_table(rows: Sequence[Alternative]) -> pd.DataFrame:
    """Return the smaller models for the same task, as shares of this one's parameters and FLOPs."""
    return pd.DataFrame(
        [
            {
                "Model": row.id,
                "Task": row.task if row.same_task else f"{row.task}: another task",
                "Parameters": f"{_about(row.parameters)} ({formatting.share(row.parameters_ratio)})",
                "FLOPs": formatting.share(row.flops_ratio),
                "Licence": row.licence or "unknown",
                "Measurements": row.measurements,
            }
            for row in rows
        ]
    )


def platforms_table(rows: Sequence[TriedPlatform]) -> pd.DataFrame:
    """Return where the model was tried: state by platform and precision, on how much hardware, and why not where it is said."""
    frame = pd.DataFrame(
        [
            {
                "Platform": row.platform,
                "Precision": row.precision or "unknown",
                "State": STATES[row.state],
                "Measurements": row.measurements,
                "Hardware": len(row.hardware),
                "For example on": ", ".join(row.hardware[:3]) or formatting.MISSING,
                "Why not": row.why_not,
                "Evidence": f"/runs?row={row.evidence}" if row.evidence else None,
            }
            for row in rows
        ]
    )
    return frame.dropna(axis="columns", how="all")


def standing(rows: Sequence[TriedPlatform]) -> str:
    """Say how many platforms and precisions are in which state."""
    states = [row.state for row in rows]
    texts = [f"{formatting.count(states.count(state))} {state}" for state in STATES if state in states]
    cells = f"{formatting.count(len(rows))} platform × precision"
    return f"{cells}: {', '.join(texts)}" if rows else "It was never tried anywhere"


def commands(profile: ModelProfile) -> list[tuple[str, str]]:
    """Return what was not tried and the command that would try it here; what nothing of ours measures has none."""
    name = profile.model.id
    names: dict[str, list[str]] = {}
    for item in profile.missing:
        if item.precision not in PRECISIONS:
            continue
        names.setdefault(item.platform, []).append(item.precision)
    lines = [
        (
            f"{platform} in {', '.join(precisions)}",
            shlex.join(["assay", "bench", name, "--platform", platform, "--precision", ",".join(precisions)]),
        )
        for platform, precisions in names.items()
        if platform in MEASURED_ON
    ]
    never = [platform for platform in profile.never_tried if platform in MEASURED_ON]
    if never:
        words = f"{', '.join(never)}: never tried"
        lines.append((words, shlex.join(["assay", "verify", name, "--platform", ",".join(never)])))
    return lines


def family_table(rows: Sequence[FamilyPlatform]) -> pd.DataFrame:
    """Return what was tried of a family on each platform."""
    return pd.DataFrame(
        {
            "Platform": [row.platform for row in rows],
            "Tried": [100 * row.tried_share for row in rows],
            "Of": [row.models for row in rows],
            "✓ verified": [row.verified for row in rows],
            "measured": [row.measured for row in rows],
            "✕ failed": [row.failed for row in rows],
            "Never tried, for example": [", ".join(row.never_tried[:3]) or formatting.MISSING for row in rows],
        }
    )


def parts(document: OperatorBreakdown) -> list[OperatorBar]:
    """Return the operators as bars: `name`, `share` (of time, or of bytes where no device is known), and words."""
    parts = []
    for row in document.operators:
        rest = row.name == "rest"
        name = f"{row.operators} other operators" if rest else f"{row.name.removeprefix('aten.')} ({row.kind})"
        share = row.share if document.basis == "roofline" else row.bytes_share
        words = [formatting.share(share)]
        if row.ms is not None:
            words += [formatting.latency(row.ms), _BOUND[row.bound]]
        detail = f"{formatting.count(row.calls)} calls · {formatting.si(row.flops, 'FLOP')} · {formatting.si(row.bytes, 'B')} moved"
        parts.append(OperatorBar(name=name, share=share or 0.0, words=" · ".join(words), brief=words[0], detail=detail))
    return parts


def operators_table(document: OperatorBreakdown) -> pd.DataFrame:
    """Return the operators as they are read: calls, work, floor, and what bounds each."""
    rows = document.operators
    return pd.DataFrame(
        {
            "Operator": [row.name for row in rows],
            "Class": [row.kind for row in rows],
            "Calls": [row.calls for row in rows],
            "GFLOP": [row.flops / 1e9 for row in rows],
            "MB moved": [row.bytes / 1e6 for row in rows],
            "Least ms": [row.ms for row in rows],
            "Of the time, %": [None if row.share is None else 100 * row.share for row in rows],
            "Bound": [_BOUND[row.bound] or formatting.MISSING for row in rows],
        }
    ).astype({"Least ms": "float64", "Of the time, %": "float64"})


def bound_sentence(document: OperatorBreakdown) -> str:
    """Say which operator takes most, and what bounds most of the time."""
    first = max((row for row in document.operators), key=lambda row: row.share or row.bytes_share or 0.0)
    name = f"{first.name.removeprefix('aten.')} ({first.kind})"
    if document.basis != "roofline":
        return f"{name} moves {formatting.share(first.bytes_share)} of the bytes"
    by_bound: dict[str | None, float] = {}
    for row in document.operators:
        by_bound[row.bound] = by_bound.get(row.bound, 0.0) + (row.share or 0.0)
    bound = max(by_bound, key=lambda item: by_bound[item])
    words = f"{formatting.share(by_bound[bound])} of the least time is {_BOUND[bound]}"
    return f"{words}; most of it is {name} with {formatting.share(first.share)}"


def listed(rows: Sequence[ModelRow]) -> pd.DataFrame:
    """Return a list of models: what each is, and how much is known of it."""
    return pd.DataFrame(
        {
            "Model": [row.id for row in rows],
            "Family": [str(row.family or "unknown") for row in rows],
            "Category": [str(row.category or "unknown").replace("_", " ") for row in rows],
            "Parameters": [_about(row.parameters or row.parameters_about) for row in rows],
            "Measurements": [row.measurements for row in rows],
            "Tests": [row.tests for row in rows],
            "Traces": [row.traces for row in rows],
            "Licence": [str(row.licence or "unknown") for row in rows],
            "Found by": [_match(row.match) for row in rows],
        }
    )


def _match(match: Match | None) -> str:
    if not match:
        return formatting.MISSING
    how = {
        "owner_omitted": "its name without the owner",
        "typo": f"{match.edits} letter{'' if match.edits == 1 else 's'} off",
    }
    return f"{how.get(match.how, match.how)}: {match.name}"

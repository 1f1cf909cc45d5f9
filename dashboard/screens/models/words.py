"""One model, arranged for a page: what the address asks, what it is, where it was tried, what its time goes into."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from assay.client.row_types import Match, Scaling
from assay.client.row_types import Model as ModelRow
from dashboard.address import Params, Read, one_of, position, text, understood, whole
from dashboard.best_measured import MeasuredRow, best_of_each, how_known, how_run, size_words, speed_words
from dashboard.differences import EVIDENCE
from dashboard.evidence import about, row_path
from dashboard.tables.result_table import Column
from domain.answers import Recommendation, answer_document
from domain.answers.model_profile import (
    Alternative,
    FamilyPlatform,
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
from presentation.rank_scaling import efficiency_words, ranks_words

__all__ = [
    "KNOWN",
    "OBJECTIVES",
    "TABS",
    "Model",
    "OperatorBar",
    "alternatives_columns",
    "bound_sentence",
    "commands",
    "facts",
    "facts_line",
    "family_columns",
    "headline",
    "listed",
    "noted_rows",
    "operators_table",
    "parts",
    "platforms_columns",
    "ranks_columns",
    "read_model",
    "served_rows",
    "siblings_columns",
    "standing",
]

TABS = ("hardware", "estimates", "operators", "tests", "about")
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
    tab: str = "hardware"
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


def facts_line(row: ModelIdentity) -> str:
    """Return what a model is in one line: its kind, family, size, licence, and how much is known of it."""
    size = row.parameters or row.parameters_about
    counts = {"measurement": row.measurements, "test": row.tests}
    parts = [
        str(row.category or "").replace("_", " "),
        row.family or "",
        f"{formatting.parameters(size)} parameters" if size else "",
        row.licence or "",
        *(f"{formatting.count(count)} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count),
    ]
    return " · ".join(filter(None, parts)) or "nothing is known of it yet"


def served_rows(answer: Recommendation) -> list[MeasuredRow]:
    """Return what was measured of a model that is served, by the tokens a second of each device; no estimate is among it."""
    ranked: list[dict[str, Any]] = answer_document(answer)["ranked"]
    tokens = [
        {**row, "throughput_per_s": row["tokens_per_s"], "unit": "tokens/s"}
        for row in ranked
        if row.get("basis") in EVIDENCE and row.get("tokens_per_s")
    ]
    return best_of_each(tokens, "hardware")


def noted_rows(document: ModelProfile) -> list[MeasuredRow]:
    """Return the fastest places that the profile of a model names."""
    places = [
        {
            **msgspec.structs.asdict(place),
            "throughput_per_s": place.throughput,
            "basis": "measured" if place.origin == "measured" else "imported",
            "evidence": [place.evidence],
            **place.work,
        }
        for place in document.best
    ]
    return best_of_each(places, "hardware")


def headline(alike: Sequence[MeasuredRow]) -> tuple[str, str]:
    """Say where the model is fastest among rows of one size: the figure with its device, then how it was run and is known."""
    best = alike[0]
    many, several = len({row["hardware"] for row in alike}), (best.get("hardware_count") or 1) > 1
    first = f"Fastest{' per device' if several else ''} of {formatting.count(many)} devices"
    size = f" at {size_words(best)}" if size_words(best) else ""
    device = device_name(str(best["hardware"]), best.get("hardware_count"))
    where = first if many > 1 else "The only device measured"
    return f"{speed_words(best)} on {device}", f"{where}{size}: {how_run(best)} ({how_known(best)})"


def ranks_columns(rows: Sequence[Scaling]) -> list[Column]:
    """Return the table of trainings on ranks: the ranks lead to the measurement, its efficiency to that on one rank."""
    documents = [msgspec.to_builtins(row) for row in rows]
    return [
        Column(
            head="Ranks",
            values=[ranks_words(row) for row in documents],
            links=[row_path(row.event_id) for row in rows],
        ),
        Column(
            head="Efficiency",
            values=[row.efficiency for row in rows],
            shown=[efficiency_words(row) for row in documents],
            links=[row.baseline_event_id and row_path(row.baseline_event_id) for row in rows],
            help="Speed-up over one rank with the same batch, over the number of ranks",
        ),
        Column(
            head="Step",
            values=[row.latency_p50_ms for row in rows],
            shown=[formatting.latency(row.latency_p50_ms) for row in rows],
        ),
        Column(
            head="Communication",
            values=[row.exposed_communication_ms for row in rows],
            shown=[formatting.latency(row.exposed_communication_ms) for row in rows],
            help="What of a step no computing hid",
        ),
        Column(
            head="All-reduce",
            values=[row.all_reduce_ms for row in rows],
            shown=[formatting.latency(row.all_reduce_ms) for row in rows],
            help="Adding up the gradients' bytes with nothing else to do",
        ),
        Column(head="Batch", values=[row.batch_size for row in rows], help="Of all ranks together"),
        Column(head="Precision", values=[row.precision for row in rows]),
        Column(
            head="Hardware",
            values=[row.hardware_id for row in rows],
            links=[about("hardware", row.hardware_id) for row in rows],
        ),
    ]


def siblings_columns(rows: Sequence[Sibling]) -> list[Column]:
    """Return the nearest models, with why each is near."""
    return [
        _names(rows),
        _sizes([row.parameters for row in rows]),
        Column(head="Why", values=[row.why for row in rows]),
        Column(head="Measurements", values=[row.measurements for row in rows]),
        Column(head="Tests", values=[row.tests for row in rows]),
    ]


def alternatives_columns(rows: Sequence[Alternative]) -> list[Column]:
    """Return the smaller models for the same task, as shares of this one's parameters and FLOPs."""
    return [
        _names(rows),
        Column(head="Task", values=[row.task if row.same_task else f"{row.task}: another task" for row in rows]),
        _sizes([row.parameters for row in rows]),
        _shares("Of its parameters", [row.parameters_ratio for row in rows]),
        _shares("Of its FLOPs", [row.flops_ratio for row in rows]),
        Column(head="Licence", values=[row.licence for row in rows]),
        Column(head="Measurements", values=[row.measurements for row in rows]),
    ]


def _names(rows: Sequence[Sibling | Alternative]) -> Column:
    return Column(head="Model", values=[row.id for row in rows], links=[about("models", row.id) for row in rows])


def _sizes(values: Sequence[float | None]) -> Column:
    return Column(head="Parameters", values=values, shown=[_about(value) for value in values])


def _shares(head: str, values: Sequence[float | None]) -> Column:
    return Column(head=head, values=values, shown=[formatting.share(value) for value in values])


def platforms_columns(rows: Sequence[TriedPlatform]) -> list[Column]:
    """Return where the model was tried: state by platform and precision, on how much hardware, and why not where it is said."""
    columns = [
        Column(head="Platform", values=[row.platform for row in rows]),
        Column(head="Precision", values=[row.precision for row in rows]),
        Column(
            head="State",
            values=[STATES[row.state] for row in rows],
            links=[row_path(row.evidence) if row.evidence else None for row in rows],
            help="It leads to the newest event behind it",
        ),
        Column(head="Measurements", values=[row.measurements for row in rows]),
        Column(head="Devices", values=[len(row.hardware) for row in rows]),
        Column(head="For example on", values=[", ".join(map(device_name, row.hardware[:3])) or None for row in rows]),
        Column(head="Why not", values=[row.why_not for row in rows]),
    ]
    return columns if any(row.why_not for row in rows) else columns[:-1]


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


def family_columns(rows: Sequence[FamilyPlatform]) -> list[Column]:
    """Return what was tried of a family on each platform."""
    counts: dict[str, list[int]] = {
        "Of": [row.models for row in rows],
        "✓ verified": [row.verified for row in rows],
        "measured": [row.measured for row in rows],
        "✕ failed": [row.failed for row in rows],
    }
    return [
        Column(head="Platform", values=[row.platform for row in rows]),
        _shares("Tried", [row.tried_share for row in rows]),
        *(Column(head=head, values=values) for head, values in counts.items()),
        Column(head="Never tried, for example", values=[", ".join(row.never_tried[:3]) or None for row in rows]),
    ]


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


def listed(rows: Sequence[ModelRow], *, found: bool) -> list[Column]:
    """Return a list of models: what each is, and how much is known of it; `found` adds by which name each was found."""
    columns = [
        Column(head="Model", values=[row.id for row in rows], links=[about("models", row.id) for row in rows]),
        _sizes([row.parameters or row.parameters_about for row in rows]),
        Column(head="Measurements", values=[row.measurements for row in rows]),
        Column(head="Tests", values=[row.tests for row in rows]),
        Column(head="Category", values=[str(row.category).replace("_", " ") if row.category else None for row in rows]),
        Column(head="Family", values=[row.family for row in rows]),
    ]
    return [*columns, Column(head="Found by", values=[_match(row.match) for row in rows])] if found else columns


def _match(match: Match | None) -> str | None:
    if not match:
        return None
    how = {
        "owner_omitted": "its name without the owner",
        "typo": f"{match.edits} letter{'' if match.edits == 1 else 's'} off",
    }
    return f"{how.get(match.how, match.how)}: {match.name}"

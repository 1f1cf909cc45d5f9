"""Claims in the answers about compatibility: which are about a row, which cells are claimed alone, what stands beside each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypedDict, TypeVar, cast

import msgspec

from domain.answers.compatibility import ClaimEvidence, ClaimRow
from domain.catalogues.models import catalogue, find
from domain.compatibility.claims import Claim, claims
from domain.compatibility.contradictions import beside, opposed
from domain.compatibility.states import NOTHING_SEEN, place
from ingest.projection import Tables

__all__ = ["Cell", "CellFilters", "claim_rows", "with_claims"]


class Cell(TypedDict, total=False):
    """A row of `GET /v1/compatibility`: a model, family or category on a platform, and what was seen and is claimed of it.

    Which members it has depends on what a row is of, and on whether anything was seen.
    """

    model_id: str | None
    model: str | None
    hardware_id: str
    hardware: list[str] | str
    platform: str
    precision: str | None
    category: str | None
    family: str | None
    built: bool | None
    ran: bool | None
    verified: bool | None
    measured: bool | None
    why_not: str | None
    measurements: int
    tests: int
    failures: int
    outcome: str | None
    stage: str | None
    error: str | None
    message: str | None
    remedy: str | None
    evidence: str | None
    position: int
    last_seen: datetime | None
    runs: int | None
    fallback_share: float | None
    stopped_outcome: str | None
    stopped_stage: str | None
    stopped_error: str | None
    stopped_message: str | None
    stopped_remedy: str | None
    speedup: float | None
    speedup_best: float | None
    speedup_works: int
    speedup_evidence: list[str]
    evidence_ids: list[str]
    state: str
    level: str | None
    age_days: int | None
    stale: bool | None
    precisions: list[str]
    best_precision: str | None
    tries: int
    models: int
    working: int
    states: dict[str, int]
    stopped: str | None
    claimed: str | None
    claims: list[str]
    contradicted: bool


class CellFilters(msgspec.Struct, frozen=True, kw_only=True):
    """What cells are filtered by; None is any."""

    model: str | None = None
    family: str | None = None
    platform: str | None = None
    category: str | None = None


class _Subject(TypedDict, total=False):
    """What a claim may be about: a model with its family and category, a family with its category, or a category."""

    model_id: str | None
    family: str | None
    category: str | None


class _Figures(TypedDict):
    """A best measurement with the columns `_COLUMNS`, of which these are read here."""

    model_id: str
    platform: str


Placed = TypeVar("Placed", Cell, _Figures)
_COLUMNS = (
    "event_id",
    "model_id",
    "family",
    "category",
    "hardware_id",
    "platform",
    "precision",
    "mode",
    "batch_size",
    "sequence_length",
    "image_size",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "latency_p50_ms",
    "latency_mean_ms",
    "tokens_per_s",
    "realtime_factor",
    "first_run_ms",
    "preprocess_ms",
    "peak_memory_bytes",
    "origin",
    "position",
)


def claim_rows(
    tables: Tables, cells: Sequence[Cell], model: str | None, platform: str | None, verdict: str | None
) -> list[ClaimRow]:
    """Return one row a claim, in the order of the documents, filtered; `cells` are all judged cells."""
    subject = _subject(tables, model, cells) if model else None
    other = opposed(claims())
    wanted = [
        claim
        for claim in claims()
        if platform in (None, claim.platform) and (subject is None or claim.target.holds(subject))
    ]
    rows = [_row(claim, result, other.get(claim.id, [])) for claim, result in _beside(tables, wanted, cells)]
    return [row for row in rows if verdict in (None, row.verdict)]


def with_claims(
    tables: Tables, rows: Sequence[Cell], cells: Sequence[Cell], *, level: str, wanted: CellFilters
) -> list[Cell]:
    """Return the rows with `claimed` (in words), `claims` and `contradicted`, and after them the cells that are claimed alone.

    Of models and families those claims count that name models or families; claims about whole categories stand in rows of
    categories, and where one model is asked for.
    """
    model = _subject(tables, wanted.model, cells) if wanted.model else None
    about = [claim for claim in claims() if claim.target.categories or level != "category"]
    if level != "category" and model is None:
        about = [claim for claim in about if not claim.target.categories]
    verdicts = {claim.id: outcome.verdict for claim, outcome in _beside(tables, about, cells)}
    subjects = [model] if model else _subjects(level, cells, wanted)
    by_place: dict[tuple[str | None, str], list[Claim]] = {}
    for claim in about:
        for subject in subjects:
            if claim.target.holds(subject):
                by_place.setdefault((_key(subject, level), claim.platform), []).append(claim)
    result = [_claimed(row, by_place.get((_key(row, level), row["platform"]), []), verdicts) for row in rows]
    seen = {(_key(row, level), row["platform"]) for row in rows if row["state"] not in NOTHING_SEEN}
    alone: list[Cell] = []
    for subject in subjects:
        for platform in {name for key, name in by_place if key == _key(subject, level)}:
            if (_key(subject, level), platform) not in seen and wanted.platform in (None, platform):
                empty = cast("Cell", {**subject, "platform": platform, "state": "claimed", "level": None})
                alone.append(_claimed(empty, by_place[_key(subject, level), platform], verdicts))
    said = {(_key(row, level), row["platform"]) for row in alone}
    kept = [
        row for row in result if row["state"] not in NOTHING_SEEN or (_key(row, level), row["platform"]) not in said
    ]
    return [*kept, *sorted(alone, key=lambda row: (str(_key(row, level)), place(row["platform"])))]


def _claimed(row: Cell, about: Sequence[Claim], verdicts: Mapping[str, str]) -> Cell:
    words = dict.fromkeys(claim.says for claim in about if claim.says) or dict.fromkeys(
        str(claim.printed) for claim in about
    )
    return {
        **row,
        "claimed": "; ".join(map(str, words)) or None,
        "claims": [claim.id for claim in about],
        "contradicted": any(verdicts[claim.id] == "contradicted" for claim in about),
    }


def _beside(tables: Tables, wanted: Sequence[Claim], cells: Sequence[Cell]) -> list[tuple[Claim, ClaimEvidence]]:
    """Return each claim with what stands beside it; only cells and measurements of the models it is about are looked at."""
    subjects: dict[tuple[str | None, str | None, str | None], _Subject] = {}
    for cell in cells:
        subject = _subject_of(cell)
        subjects.setdefault((subject["model_id"], subject["family"], subject["category"]), subject)
    about = {
        target: sorted({str(subject["model_id"]) for subject in subjects.values() if target.holds(subject)})
        for target in {claim.target for claim in wanted}
    }
    figures = [claim for claim in wanted if claim.metric]
    models = sorted({name for claim in figures for name in about[claim.target]})
    rows: list[_Figures] = []
    if models:
        filters = {"model": models, "platform": sorted({claim.platform for claim in figures})}
        rows = tables.view("best_measurements", filters, columns=_COLUMNS).to_pylist()
    seen, measured = _by_place(cells), _by_place(rows)
    return [
        (
            claim,
            ClaimEvidence(
                **beside(
                    claim,
                    [cell for name in about[claim.target] for cell in seen.get((name, claim.platform), ())],
                    [row for name in about[claim.target] for row in measured.get((name, claim.platform), ())],
                )
            ),
        )
        for claim in wanted
    ]


def _by_place(rows: Iterable[Placed]) -> dict[tuple[str | None, str], list[Placed]]:
    by_place: dict[tuple[str | None, str], list[Placed]] = {}
    for row in rows:
        by_place.setdefault((row["model_id"], row["platform"]), []).append(row)
    return by_place


def _row(claim: Claim, evidence: ClaimEvidence, opposed_by: list[str]) -> ClaimRow:
    target = claim.target
    return ClaimRow(
        id=claim.id,
        name=claim.name,
        models=list(target.models),
        families=list(target.families),
        categories=list(target.categories),
        platform=claim.platform,
        says=claim.says,
        metric=claim.metric,
        value=claim.value,
        printed=claim.printed,
        sizes=dict(claim.sizes),
        simulated=claim.simulated,
        note=claim.note,
        document=claim.document,
        section=claim.section,
        **msgspec.structs.asdict(evidence),
        opposed_by=opposed_by,
    )


def _subject(tables: Tables, model: str, cells: Iterable[Cell]) -> _Subject:
    """Return the model with its family and category, by the catalogue or by its cells."""
    name = tables.resolve_model(model)
    existing = find(name)
    if existing is not None:
        return {"model_id": existing.id, "family": existing.family, "category": existing.category}
    cell: Cell = next((item for item in cells if item["model_id"] == name), Cell())
    return {"model_id": name, "family": cell.get("family"), "category": cell.get("category")}


def _subject_of(cell: Cell) -> _Subject:
    return {"model_id": cell["model_id"], "family": cell["family"], "category": cell["category"]}


def _subjects(level: str, cells: Iterable[Cell], wanted: CellFilters) -> list[_Subject]:
    """Return what claims may be about: models (families, categories) of the catalogue, of the cells, and of the claims alone."""
    rows: dict[str | None, _Subject] = {}
    for item in catalogue():
        _add(rows, {"model_id": item.id, "family": item.family, "category": item.category}, level)
    for cell in cells:
        _add(rows, _subject_of(cell), level)
    families = {row.get("family") for row in rows.values()}
    for claim in claims():
        for model in claim.target.models:
            _add(rows, {"model_id": model, "family": None, "category": None}, level)
        for family in claim.target.families:
            if family not in families:
                _add(rows, {"model_id": None, "family": family, "category": None}, level)
    return [
        row
        for row in rows.values()
        if wanted.family in (None, row.get("family")) and wanted.category in (None, row.get("category"))
    ]


def _add(rows: dict[str | None, _Subject], subject: _Subject, level: str) -> None:
    row: _Subject = subject if level == "model" else {"family": subject["family"], "category": subject["category"]}
    row = {"category": subject["category"]} if level == "category" else row
    key = _key(row, level)
    if key is not None:
        rows.setdefault(key, row)


def _key(row: Cell | _Subject, level: str) -> str | None:
    if level == "category":
        return row.get("category")
    return row.get("family") if level == "family" else row.get("model_id") or row.get("family")

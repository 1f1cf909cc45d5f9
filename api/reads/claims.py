"""Claims in the answers about compatibility: which are about a row, which cells are claimed alone, what stands beside each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain.catalogues.models import catalogue, find
from domain.compatibility.claims import Claim, claims
from domain.compatibility.contradictions import beside, opposed
from domain.compatibility.states import NOTHING_SEEN, place
from ingest.projection import Tables

__all__ = ["claim_rows", "with_claims"]

Row = dict[str, Any]
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
    tables: Tables, cells: Sequence[Row], model: str | None, platform: str | None, verdict: str | None
) -> list[Row]:
    """Return one row a claim, in the order of the documents, filtered; `cells` are all judged cells."""
    subject = _subject(tables, model, cells) if model else None
    other = opposed(claims())
    wanted = [
        claim
        for claim in claims()
        if platform in (None, claim.platform) and (subject is None or claim.target.holds(subject))
    ]
    rows = [
        {**_flat(claim), **result, "opposed_by": other.get(claim.id, [])}
        for claim, result in _beside(tables, wanted, cells)
    ]
    return [row for row in rows if verdict in (None, row["verdict"])]


def with_claims(
    tables: Tables, rows: Sequence[Row], cells: Sequence[Row], *, level: str, wanted: Mapping[str, Any]
) -> list[Row]:
    """Return the rows with `claimed` (in words), `claims` and `contradicted`, and after them the cells that are claimed alone.

    Of models and families those claims count that name models or families; claims about whole categories stand in rows of
    categories, and where one model is asked for.
    """
    model = _subject(tables, wanted["model"], cells) if wanted["model"] else None
    about = [claim for claim in claims() if claim.target.categories or level != "category"]
    if level != "category" and model is None:
        about = [claim for claim in about if not claim.target.categories]
    verdicts = {claim.id: outcome["verdict"] for claim, outcome in _beside(tables, about, cells)}
    subjects = [model] if model else _subjects(level, cells, wanted)
    by_place: dict[tuple[str | None, str], list[Claim]] = {}
    for claim in about:
        for subject in subjects:
            if claim.target.holds(subject):
                by_place.setdefault((_key(subject, level), claim.platform), []).append(claim)
    result = [_claimed(row, by_place.get((_key(row, level), row["platform"]), []), verdicts) for row in rows]
    seen = {(_key(row, level), row["platform"]) for row in rows if row["state"] not in NOTHING_SEEN}
    alone = []
    for subject in subjects:
        for platform in {name for key, name in by_place if key == _key(subject, level)}:
            if (_key(subject, level), platform) not in seen and wanted["platform"] in (None, platform):
                empty = {**subject, "platform": platform, "state": "claimed", "level": None}
                alone.append(_claimed(empty, by_place[_key(subject, level), platform], verdicts))
    said = {(_key(row, level), row["platform"]) for row in alone}
    kept = [
        row for row in result if row["state"] not in NOTHING_SEEN or (_key(row, level), row["platform"]) not in said
    ]
    return [*kept, *sorted(alone, key=lambda row: (str(_key(row, level)), place(row["platform"])))]


def _claimed(row: Row, about: Sequence[Claim], verdicts: Mapping[str, str]) -> Row:
    words = dict.fromkeys(claim.says for claim in about if claim.says) or dict.fromkeys(
        str(claim.printed) for claim in about
    )
    return {
        **row,
        "claimed": "; ".join(map(str, words)) or None,
        "claims": [claim.id for claim in about],
        "contradicted": any(verdicts[claim.id] == "contradicted" for claim in about),
    }


def _beside(tables: Tables, wanted: Sequence[Claim], cells: Sequence[Row]) -> list[tuple[Claim, Row]]:
    """Return each claim with what stands beside it; only cells and measurements of the models it is about are looked at."""
    words = ("model_id", "family", "category")
    subjects = {tuple(cell[name] for name in words) for cell in cells}
    about = {
        target: sorted(
            {str(subject[0]) for subject in subjects if target.holds(dict(zip(words, subject, strict=True)))}
        )
        for target in {claim.target for claim in wanted}
    }
    figures = [claim for claim in wanted if claim.metric]
    models = sorted({name for claim in figures for name in about[claim.target]})
    rows = []
    if models:
        filters = {"model": models, "platform": sorted({claim.platform for claim in figures})}
        rows = tables.view("best_measurements", filters, columns=_COLUMNS).to_pylist()
    seen, measured = _by_place(cells), _by_place(rows)
    return [
        (
            claim,
            beside(
                claim,
                [cell for name in about[claim.target] for cell in seen.get((name, claim.platform), ())],
                [row for name in about[claim.target] for row in measured.get((name, claim.platform), ())],
            ),
        )
        for claim in wanted
    ]


def _by_place(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    by_place: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_place.setdefault((row["model_id"], row["platform"]), []).append(row)
    return by_place


def _flat(claim: Claim) -> Row:
    target = claim.target
    return {
        "id": claim.id,
        "name": claim.name,
        "models": list(target.models),
        "families": list(target.families),
        "categories": list(target.categories),
        "platform": claim.platform,
        "says": claim.says,
        "metric": claim.metric,
        "value": claim.value,
        "printed": claim.printed,
        "sizes": dict(claim.sizes),
        "simulated": claim.simulated,
        "note": claim.note,
        "document": claim.document,
        "section": claim.section,
    }


def _subject(tables: Tables, model: str, cells: Iterable[Row]) -> Row:
    """Return the model with its family and category, by the catalogue or by its cells."""
    name = tables.resolve_model(model)
    existing = find(name)
    if existing is not None:
        return {"model_id": existing.id, "family": existing.family, "category": existing.category}
    cell: Mapping[str, Any] = next((item for item in cells if item["model_id"] == name), {})
    return {"model_id": name, "family": cell.get("family"), "category": cell.get("category")}


def _subjects(level: str, cells: Iterable[Row], wanted: Mapping[str, Any]) -> list[Row]:
    """Return what claims may be about: models (families, categories) of the catalogue, of the cells, and of the claims alone."""
    rows: dict[str | None, Row] = {}
    for item in catalogue():
        _add(rows, {"model_id": item.id, "family": item.family, "category": item.category}, level)
    for cell in cells:
        _add(rows, {name: cell[name] for name in ("model_id", "family", "category")}, level)
    families = {row.get("family") for row in rows.values()}
    for claim in claims():
        for model in claim.target.models:
            _add(rows, {"model_id": model, "family": None, "category": None}, level)
        for family in claim.target.families:
            if family not in families:
                _add(rows, {"model_id": None, "family": family, "category": None}, level)
    return [
        row for row in rows.values() if all(wanted[name] in (None, row.get(name)) for name in ("family", "category"))
    ]


def _add(rows: dict[str | None, Row], subject: Row, level: str) -> None:
    row = subject if level == "model" else {"family": subject["family"], "category": subject["category"]}
    row = {"category": subject["category"]} if level == "category" else row
    key = _key(row, level)
    if key is not None:
        rows.setdefault(key, row)


def _key(row: Mapping[str, Any], level: str) -> str | None:
    if level == "category":
        return row.get("category")
    return row.get("family") if level == "family" else row.get("model_id") or row.get("family")

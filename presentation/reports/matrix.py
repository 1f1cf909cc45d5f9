"""What builds, runs, is right and was measured where, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from domain.compatibility.remedies import failures
from domain.compatibility.states import NOTHING_SEEN
from domain.vocabulary import CATEGORIES, PLATFORMS
from presentation import formatting
from presentation.reports import levels
from presentation.reports.content import Chart, Column, Part, Row, Section, Table
from presentation.reports.evidence import counted, evidence_column
from presentation.reports.pairs import short_model
from presentation.reports.source import Source

__all__ = [
    "STATES",
    "compatibility",
    "counts_table",
    "matrix_chart",
    "matrix_facts",
    "matrix_table",
    "reasons_table",
    "state_of",
]

STATES = {
    "right": ("√", "verified: its outputs are right"),
    "ran": ("●", "ran, its outputs not verified"),
    "wrong": ("≠", "ran, and its outputs are wrong"),
    "fell": ("~", "ran elsewhere: another device or precision did the work"),
    "built": ("○", "was built and did not run"),
    "failed": ("×", "was tried and not built"),
    "claimed": ("?", "only claimed, tried by nobody"),
}
"""How far a case got: its glyph, one that plain fonts have, and what it means; what was never tried has none of them."""
MOST_MODELS = 60
_OF_CLAIMS = (
    "Claims were typed in from the documents of the earlier framework. None of them is evidence: no level, count or answer "
    "of Assay rests on one."
)
_FACTS = {"built": "Builds", "ran": "Runs", "verified": "Right", "measured": "Measured"}


def state_of(row: Row) -> str | None:
    """Return how far a case got; None where nothing was tried."""
    state = row.get("state")
    if state in NOTHING_SEEN:
        return "claimed" if state == "claimed" else None
    if state == "fell back":
        return "fell"
    if row["verified"] is not None and row["ran"]:
        return "right" if row["verified"] else "wrong"
    if row["ran"] or row["measured"]:
        return "ran"
    if row["built"]:
        return "built"
    return None if row["built"] is None else "failed"


def compatibility(source: Source) -> list[Section]:
    """Return the matrix as a picture, its counts, the reasons of what did not work, and every case."""
    apart = source.hardware is not None or bool(source.asked.precision)
    compatibility = sorted(
        source.compatibility(**({} if apart else {"by_precision": False, "claims": True})), key=_place
    )
    seen = [row for row in compatibility if row.get("state") != "claimed"]
    if not seen:
        return []
    there = {row["model_id"] for row in seen}
    failed = [row for row in seen if row["why_not"]]
    stopped = failures(source.compatibility()) if failed and not source.hardware else []
    reasons: list[Part] = [levels.failures_table(stopped)] if stopped else []
    return [
        Section(
            "At a glance",
            [matrix_chart([row for row in compatibility if row["model_id"] in there]), counts_table(seen)],
        ),
        Section(
            "What did not work", [*reasons, reasons_table(failed)] if failed else ["Nothing that was tried failed."]
        ),
        *([] if apart else [*_levelled(source, seen), *_claimed(source, compatibility)]),
        Section("Every case", [matrix_table(seen)]),
    ]


def _levelled(source: Source, seen: Sequence[Row]) -> list[Section]:
    """Return how good it is: model by model, and by family."""
    parts: list[Part] = [levels.levels_table(seen, "Levels of models")]
    if len({row["family"] for row in seen}) > 1:
        families = source.compatibility(level="family")
        parts.insert(0, levels.levels_table(families, "Levels of families", name="families")._replace(note=None))
    return [Section("How good it is", parts)]


def _claimed(source: Source, rows: Sequence[Row]) -> list[Section]:
    """Return what documents claim, apart from everything that was seen."""
    claims = source.claims
    measured = [row for row in claims if row["ours"] is not None]
    made = [levels.contradictions_table(claims), levels.figures_table(measured), levels.opposed_table(claims)]
    alone = [row for row in rows if row["state"] == "claimed"]
    if alone:
        made.append(levels.levels_table(alone, "Claimed, and seen by nobody here", name="claimed")._replace(note=None))
    parts: list[Part] = [_OF_CLAIMS, *(table for table in made if table.rows)]
    return [Section("What documents claim", parts)] if len(parts) > 1 else []


def matrix_facts(rows: Sequence[Row]) -> str:
    """Say how much was tried."""
    models, platforms = ({row[name] for row in rows} for name in ("model_id", "platform"))
    tried = sum(state_of(row) is not None for row in rows)
    return f"{counted(len(models), 'model')} on {counted(len(platforms), 'platform')}: {counted(tried, 'case')}"


def _place(row: Row) -> tuple[Any, ...]:
    category, platform = row.get("category"), row["platform"]
    return (
        CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES),
        str(row["model_id"]),
        PLATFORMS.index(platform) if platform in PLATFORMS else len(PLATFORMS),
        str(platform),
        str(row.get("hardware_id")),
        str(row.get("precision")),
    )


def matrix_chart(rows: Sequence[Row]) -> Chart:
    """Return model × platform as a picture: of each cell the furthest that any of its cases got."""
    order = list(STATES)
    best: dict[tuple[str, str], str] = {}
    for row in rows:
        state = state_of(row)
        cell = (str(row["model_id"]), str(row["platform"]))
        if state is not None and (cell not in best or order.index(state) < order.index(best[cell])):
            best[cell] = state
    models = list(dict.fromkeys(str(row["model_id"]) for row in rows))
    shown = set(models[:MOST_MODELS])
    names = Counter(short_model(model) for model in models)
    words = {(str(row["model_id"]), str(row["platform"])): levels.level_words(row) for row in rows if "state" in row}
    drawn = [
        {
            "model": model if names[short_model(model)] > 1 else short_model(model),
            "platform": platform,
            "state": state,
            "words": words.get((model, platform), "").partition("; ")[0],
        }
        for (model, platform), state in best.items()
        if model in shown
    ]
    counts = Counter(best.values())
    tried = [state for state in order if counts[state] and state != "claimed"]
    sentence = ", ".join(f"{counts[state]} {STATES[state][1]}" for state in tried)
    sentence += f". {counts['claimed']} more are only claimed by documents" if counts["claimed"] else ""
    rest = (
        f" The first {MOST_MODELS} of {formatting.count(len(models))} models are drawn."
        if len(models) > MOST_MODELS
        else ""
    )
    return Chart(
        "matrix", "Model by platform", f"Of {len(best) - counts['claimed']} cases: {sentence}.{rest}", "matrix", drawn
    )


def counts_table(rows: Sequence[Row]) -> Table:
    """Return one row a platform: how many models were tried on it, and how far they got."""
    result = []
    platforms = dict.fromkeys(str(row["platform"]) for row in sorted(rows, key=lambda row: _place(row)[2:4]))
    for platform in platforms:
        members = [row for row in rows if str(row["platform"]) == platform]
        counts = {fact: sum(bool(row[fact]) for row in members) for fact in _FACTS}
        wrong = sum(state_of(row) == "wrong" for row in members)
        models = len({row["model_id"] for row in members})
        result.append({"platform": platform, "models": models, "cases": len(members), **counts, "wrong": wrong})
    columns = (
        Column("platform", "Platform"),
        Column("models", "Models", lambda row: formatting.count(row["models"]), figures=True),
        Column("cases", "Cases", lambda row: formatting.count(row["cases"]), figures=True),
        *(Column(fact, title, _count(fact), figures=True) for fact, title in _FACTS.items()),
        Column("wrong", "Wrong", _count("wrong"), figures=True),
    )
    return Table(
        "platforms", "How far cases got, by platform", columns, result, "Simulated results prove nothing here."
    )


def _count(key: str) -> Any:
    return lambda row: formatting.count(row[key])


def reasons_table(rows: Sequence[Row]) -> Table:
    """Return one row a reason: how many cases it stopped, of which models, and what to do."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["platform"]), str(row["why_not"])), []).append(row)
    result = [
        {
            "platform": platform,
            "why_not": why,
            "cases": len(members),
            "models": sorted({str(row["model_id"]) for row in members}),
            "remedy": next((row["remedy"] for row in members if row.get("remedy")), None),
            "evidence": [row["evidence"] for row in members if row.get("evidence")],
        }
        for (platform, why), members in groups.items()
    ]
    columns = (
        Column("platform", "Platform"),
        Column("why_not", "Why not"),
        Column("cases", "Cases", lambda row: formatting.count(row["cases"]), figures=True),
        Column("models", "Models", lambda row: ", ".join(row["models"])),
        Column("remedy", "What to do", lambda row: row["remedy"] or formatting.MISSING),
        evidence_column(),
    )
    return Table("reasons", "Reasons", columns, sorted(result, key=lambda row: -row["cases"]))


def matrix_table(rows: Sequence[Row]) -> Table:
    """Return every case with its facts; `hardware` lists where it was tried."""
    result = [
        {
            **row,
            "model": row["model_id"],
            "state": state_of(row),
            "evidence": [row["evidence"]] if row["evidence"] else [],
        }
        for row in rows
    ]
    apart = any("hardware_id" in row for row in rows)
    columns = (
        Column("model", "Model"),
        Column("category"),
        Column("family"),
        Column("platform", "Platform"),
        *((Column("hardware_id", "Hardware"),) if apart else (Column("hardware"),)),
        *((Column("precision", "Precision"),) if any("precision" in row for row in rows) else (Column("precisions"),)),
        *(Column(fact, title, _fact(fact)) for fact, title in _FACTS.items()),
        Column("state"),
        Column("why_not", "Why not", lambda row: row["why_not"] or ""),
        Column("measurements"),
        Column("tests"),
        Column("failures"),
        Column("remedy"),
        evidence_column(),
        Column("position"),
    )
    return Table("matrix", "Every case", columns, result, f"{formatting.MISSING} stands where nothing was tried.")


def _fact(fact: str) -> Any:
    return lambda row: formatting.MISSING if row[fact] is None else "yes" if row[fact] else "no"

"""Models and hardware as lists: what the packaged catalogues know, with what the log knows laid over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from litestar.params import QueryParameter

from domain.catalogues import hardware, language_models, models
from domain.catalogues.classification import Classification, classified, families_by_operators, settled
from domain.catalogues.search import matches
from ingest.projection import Tables
from ingest.projection.names import Names, names_of

__all__ = ["Search", "Sort", "hardware_rows", "matching", "model_rows", "sorted_by"]

Row = dict[str, Any]
Search = Annotated[
    str | None,
    QueryParameter(max_length=500, description="Part of a name or alias, mistyped by two letters at the most."),
]
Sort = Annotated[Literal["id", "measurements"], QueryParameter(description="By id, or what was measured most first.")]
_COUNTS = ("measurements", "tests")
_SENT = "as it was sent; neither its config nor another model of its operators is known"


def _names(tables: Tables, kind: str) -> Names:
    """Return the names of a kind, read once: a query a catalogued name was most of the time of these lists."""
    declared = tables.aliases().select(["kind", "alias", "canonical"]).to_pylist()
    return names_of((row["kind"], row["alias"], row["canonical"]) for row in declared)[kind]


def sorted_by(sort: str, rows: list[Row]) -> list[Row]:
    """Return rows as they are (by id), or those with the most measurements first."""
    return rows if sort == "id" else sorted(rows, key=lambda row: (-row["measurements"], row["id"]))


def matching(text: str, rows: Iterable[Row], names: Mapping[str, Iterable[str]]) -> list[Row]:
    """Return the rows that a text may mean, best first, each with `match`; `names` are the other names of each id."""
    by_id = {row["id"]: row for row in rows}
    return [{**by_id[match.id], "match": msgspec.to_builtins(match)} for match in matches(text, names)]


def model_rows(tables: Tables) -> list[Row]:
    """Return one row a model, by id: its place in the vocabulary and why, its other names and how much is known of it.

    The family is that of the config or of the operators where they are known (`family_from`), whatever it was sent as.
    """
    names = _names(tables, "model")
    result = {names.resolve(name): row for name, row in _catalogued_models().items()}
    configs = {name: row.pop("config") for name, row in result.items()}
    for row in tables.models().to_pylist():
        name = row["model_id"]
        entry = result.setdefault(name, {"aliases": [], "catalogued": False})
        for column in ("category", "family", "task", "parameters", "architecture"):
            entry[column] = row[column] if row[column] is not None else entry.get(column)
        entry["aliases"] = sorted({*entry["aliases"], *(row["other_names"] or [])} - {name})
        entry |= {column: row[column] for column in (*_COUNTS, "traces", "first_position", "last_position")}
        sent = msgspec.json.decode(row["config"]) if row["config"] else None
        if isinstance(sent, dict) and classified(sent).family is not None:
            configs[name] = sent
    empty = {
        **dict.fromkeys((*_COUNTS, "traces"), 0),
        **dict.fromkeys(("variant", "licence", "parameters_about", "architecture", "first_position", "last_position")),
    }
    rows = [{"id": name, **empty, **result[name]} for name in sorted(result)]
    return _classified(rows, configs)


def _catalogued_models() -> dict[str, Row]:
    """The models of the catalogues by id; a served language model is known by its sizes alone."""
    rows: dict[str, Row] = {
        item.id: {
            "category": "text_generation",
            "family": item.family,
            "task": "text-generation",
            "parameters": None,
            "parameters_about": item.parameters,
            "licence": item.licence,
            "aliases": list(item.aliases),
            "catalogued": True,
            "variant": None,
            "config": {"model_type": item.family},
        }
        for item in language_models.catalogue().values()
    }
    for model in models.catalogue():
        rows[model.id] = {
            "category": model.category,
            "family": model.family,
            "task": model.task,
            "parameters": model.parameters,
            "parameters_about": model.parameters_about,
            "licence": model.licence,
            "aliases": list(model.aliases),
            "catalogued": True,
            "variant": model.variant,
            "config": {**model.config, "architectures": [model.class_name]},
        }
    return rows


def _classified(rows: list[Row], configs: Mapping[str, Row]) -> list[Row]:
    """Settle each row's family, category and task, and say by what."""
    families = {name: classified(config).family for name, config in configs.items()}
    digests = ((row["architecture"], families.get(row["id"])) for row in rows)
    by_operators = families_by_operators((digest, family) for digest, family in digests if digest and family)
    for row in rows:
        sent = Classification(family=row["family"], category=row["category"], task=row["task"], basis="said", why=_SENT)
        result = settled(
            config=configs.get(row["id"]),
            said=sent
            if sent.family
            else msgspec.structs.replace(Classification(), category=sent.category, task=sent.task),
            architecture=row["architecture"],
            by_operators=by_operators,
        )
        row |= {"family": result.family, "category": result.category, "task": result.task}
        row |= {"family_from": result.basis, "family_why": result.why}
    return rows


def hardware_rows(tables: Tables) -> list[Row]:
    """Return one row a hardware, by id: its specification (each figure with its source), and how it is known."""
    result: dict[str, Row] = {}
    names = _names(tables, "hardware")
    for item in hardware.catalogue().values():
        spec = msgspec.to_builtins(item)
        result[names.resolve(item.id)] = {**spec, "aliases": list(item.aliases), "catalogued": True}
    for row in tables.hardware().to_pylist():
        name = row["hardware_id"]
        entry = result.setdefault(name, {"aliases": [], "catalogued": False})
        entry["kind"] = row["hardware_kind"] or entry.get("kind")
        for column in ("name", "vendor"):
            entry[column] = row[column] if row[column] is not None else entry.get(column)
        entry["aliases"] = sorted({*entry["aliases"], *(row["other_names"] or [])} - {name})
        entry["count"] = row["hardware_count"]
        for column in ("platforms", "spec"):
            if row[column] is not None:
                entry["described_" + column] = msgspec.json.decode(row[column])
        entry |= {
            column: row[column]
            for column in (*_COUNTS, "kernels", "measured", "described", "first_position", "last_position")
        }
    empty = {
        **dict.fromkeys((*_COUNTS, "kernels", "measured"), 0),
        "described": False,
        "count": 1,
        "name": None,
        "vendor": None,
        "kind": None,
        "first_position": None,
        "last_position": None,
    }
    rows = [{**empty, **result[name], "id": name} for name in sorted(result)]
    return [{**row, "known": _how_known(row)} for row in rows]


def _how_known(row: Row) -> str:
    """Return `detected` (a runner described it or measured on it), `reported` (other rows tell of it) or `catalogued`."""
    if row["described"] or row["measured"]:
        return "detected"
    return "reported" if row["last_position"] is not None else "catalogued"

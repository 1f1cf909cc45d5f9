"""The registry of models: what each is and why, where it was tried and where not, and what stands beside it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from api.http.paging import DEPENDENCIES, At, Cursor, Flag, Page, Row, Text, by_offset, rows_response
from api.reads.catalogue import Search, Sort, matching, model_rows, sorted_by
from domain.catalogues import language_models, models, registry
from domain.catalogues.classification import classified
from domain.catalogues.search import matches, meant
from domain.errors import NotFound, UnknownModel
from ingest.projection import Tables
from predictor.answering.alternatives import beside

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["named", "router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=500)]
Platforms = Annotated[
    str | None, QueryParameter(max_length=500, description="Platforms between commas; all by default.")
]
_MEASURED = (
    "hardware_id",
    "hardware_count",
    "platform",
    "precision",
    "batch_size",
    "throughput_per_s",
    "tokens_per_s",
    "latency_p50_ms",
    "latency_mean_ms",
    "origin",
    "event_id",
    "position",
    "weights",
    "revision",
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
_STATE = ("model_id", "platform", "precision", "built", "verified", "measured")
_ITEM = ("sequence_length", "image_size")
_LANGUAGE_SIZES = ("layers", "hidden_size", "heads", "kv_heads", "vocabulary", "experts", "experts_per_token", "window")
QUALITY = "What alternatives were trained for (languages, data) and how good their outputs are is not compared."


@get("/v1/models", summary="Models: the catalogue and the log")
async def listed(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    category: Text = None,
    family: Text = None,
    search: Search = None,
    measured: Flag = False,
    sort: Sort = "id",
) -> Response[bytes]:
    """Return every model by id with what it is and how much is known of it; `measured` leaves out those without a
    measurement, `sort=measurements` gives what was measured most first. With `search` those that a text may mean, best first, each with `match`: how it fits, by which name.
    """

    container: Container = request.app.state.parts

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        rows = [
            row
            for row in _rows(container, tables)
            if category in (None, row["category"])
            and family in (None, row["family"])
            and (not measured or row["measurements"])
        ]
        rows = sorted_by(sort, rows)
        if search is not None:
            rows = matching(search, rows, {row["id"]: row["aliases"] for row in rows})
        return rows[offset : offset + count]

    return await by_offset(request, page, fetch)


@get("/v1/models/coverage", summary="What was tried of which family, and what never")
async def coverage(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    category: Text = None,
    family: Text = None,
    platform: Platforms = None,
) -> Response[bytes]:
    """Return one row a family and platform: how many models there are, were tried, verified, measured, failed.

    `gaps` are the largest ones of the catalogue, each with a command that begins to fill it.
    """

    container: Container = request.app.state.parts

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        matching_model_rows = [
            row
            for row in _rows(container, tables)
            if category in (None, row["category"]) and family in (None, row["family"])
        ]
        ran = tables.compatibility().to_pylist()
        platforms = list(dict.fromkeys(filter(None, (platform or "").split(","))))
        rows = registry.coverage(matching_model_rows, ran, platforms)
        kept = rows[page.offset : page.offset + page.limit]
        more = len(rows) > page.offset + page.limit
        following = Cursor(tables.position, page.offset + page.limit, tables.history).text() if more else None
        own = {row["hardware_id"] for row in tables.hardware().to_pylist() if row["described"] or row["measured"]}
        gaps = registry.gaps(ran, own, category=category, platforms=platforms)
        return kept, {"gaps": gaps, "next_cursor": following}

    return await rows_response(request, page.at, answer)


@get("/v1/models/{model_id:path}", summary="One model")
async def model(request: Request[Any, Any, Any], at: NamedDependency[At], model_id: Name) -> Response[bytes]:
    """Return one model by id, alias, or id without its owner: what it is and why, its sizes, where it was tried and where
    never, where it is fastest, its nearest siblings and smaller open alternatives, with its traces.
    """

    container: Container = request.app.state.parts

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        kept = container.kept(tables)
        rows = _rows(container, tables)
        row = named(tables, rows, model_id.strip("/"))
        name = row["id"]
        traces = tables.traces(model=name).drop_columns(["operators"]).to_pylist()
        ran = tables.compatibility(model=name).to_pylist()
        measured = tables.best({"model": name}, _MEASURED)
        for trace in traces:
            trace |= {"model": name, "id": trace["event_id"]}
        about = {
            "model": {**row, **_identity(name, measured)},
            "sizes": _sizes(name, row, traces),
            "config": _config(name, kept.of("configs", lambda: _sent(tables)).get(name)),
            "platforms": registry.platforms_of(ran),
            "missing": registry.missing(ran, kept.of("tried", lambda: _tried(tables))),
            "never_tried": registry.untried(ran),
            "best": registry.best_measured(measured),
            **beside(tables, name, rows),
            "quality": QUALITY,
            "compatibility": ran,
        }
        return traces, about

    return await rows_response(request, at, answer, key="traces")


def _rows(container: Container, tables: Tables) -> list[Row]:
    """Return the rows of all models, read once for a state of the tables; nobody may change them."""
    return container.kept(tables).of("models", lambda: model_rows(tables))


def named(tables: Tables, rows: list[Row], request: str) -> Row:
    """Return the row that a name means; NotFound with the nearest names for another, and for one that several bear."""
    by_id = {row["id"]: row for row in rows}
    resolved = tables.resolve_model(request)
    if resolved in by_id:
        return by_id[resolved]
    names = {row["id"]: row["aliases"] for row in rows}
    result = meant(request, names)
    # Assay's own variants have no publisher: where another model bears the name too, that one is meant.
    published = [name for name in result if not name.startswith(models.OWN_PREFIX)] or result
    if len(published) == 1:
        return by_id[published[0]]
    nearest = published or list(dict.fromkeys([match.id for match in matches(request, names)[:3]]))
    error = UnknownModel(request, nearest or models.nearest(request), field="model")
    raise NotFound(error.detail, field=error.field, remedy=error.remedy or "GET /v1/models lists them.")


def _identity(name: str, measured: list[Row]) -> Row:
    """What is known of a model's weights and revisions."""
    entry = models.find(name)
    entry = entry if entry is not None and entry.id == name else None
    weights = Counter(row["weights"] for row in measured if row["weights"])
    return {
        "parameters_source": entry.parameters_source or entry.parameters_reason if entry else None,
        "weights": _weights(name, entry),
        "weights_measured": dict(sorted(weights.items())),
        "revisions": sorted({row["revision"] for row in measured if row["revision"]}),
    }


def _weights(name: str, entry: models.CatalogueModel | None) -> str:
    if entry is None and language_models.find(name) is not None:
        return "published"
    if entry is None:
        return "not in the catalogue: whether its weights are published is not known"
    if name.startswith(models.OWN_PREFIX):
        return "none are published: it is built from its config with random ones"
    if entry.gated:
        return "published, to those whom the publisher lets have them"
    return f"published; built by {entry.requires}" if entry.requires else "published"


def _sizes(name: str, row: Row, traces: list[Row]) -> Row:
    """Parameters, and what one item takes: of the forward pass traced at the usual size, and of a served model's facts."""
    sizes: Row = {"parameters": row["parameters"], "parameters_about": row["parameters_about"]}
    forward = [item for item in traces if item["phase"] == "forward" and item["mode"] == "inference"]
    if forward:
        usual = models.default_workload(row["category"] or "")
        shown = min(forward, key=lambda item: sum(item[size] != getattr(usual, size) for size in _ITEM))
        totals = msgspec.json.decode(shown["totals"] or "{}")
        at = {size: shown[size] for size in _ITEM if shown[size] is not None}
        sizes |= {key: totals.get(key) for key in ("flops", "operators", "peak_activation_elements")}
        sizes |= {"traced_parameters": totals.get("parameters"), "at": at}
    for trace in traces:
        kept = msgspec.json.decode(trace["totals"] or "{}").get("kv_bytes_per_token")
        if kept:
            sizes["kv_bytes_per_token_fp32"] = kept
    facts = language_models.find(name)
    if facts is not None:
        sizes |= {size: getattr(facts, size) for size in _LANGUAGE_SIZES if getattr(facts, size)}
        sizes["active_parameters"] = facts.active_parameters
    return sizes


def _sent(tables: Tables) -> dict[str, str | None]:
    """The config that was sent of each model, as JSON."""
    models = tables.models(columns=["model_id", "config"])
    return dict(zip(models.column("model_id").to_pylist(), models.column("config").to_pylist(), strict=True))


def _tried(tables: Tables) -> list[Row]:
    """A row for each platform and precision that any model was tried in: `missing` asks no more of them."""
    rows = tables.compatibility(columns=_STATE).to_pylist()
    return list(
        {(row["platform"], row["precision"]): row for row in rows if registry.state_of(row) != "missing"}.values()
    )


def _config(name: str, sent: str | None) -> Row | None:
    """The config that was sent, where it says what it is of; else the catalogue's."""
    config = msgspec.json.decode(sent) if sent else None
    if isinstance(config, dict) and classified(config).family is not None:
        return config
    entry = models.find(name)
    return entry.config if entry is not None and entry.id == name else config


router = Router("/", route_handlers=[listed, coverage, model], dependencies=DEPENDENCIES, tags=["tables"])

"""The tools: what each asks, the answer as a structure, and the same in the words of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import rich_click as click

from assay.cli.agents import brief
from assay.cli.agents.arguments import (
    CompareArguments,
    FitArguments,
    MatrixArguments,
    PredictArguments,
    QueryArguments,
    RecommendArguments,
    input_schema,
    plain,
    read,
)
from assay.cli.ask.answer_text import tell_answer
from assay.cli.ask.asking import predict, recommend
from assay.cli.ask.comparing import best_rows, compare, tell_comparison
from assay.cli.ask.fit import fit, tell_fit
from assay.cli.ask.matrix import matrix
from assay.cli.ask.matrix_cells import terminal
from assay.cli.ask.prediction_text import prediction_lines, tell_faster
from assay.cli.ask.querying import query
from assay.cli.output import answers, captured
from assay.client import Client
from assay.offline import ADDRESS
from domain.answers import Faster, Recommendation, answer_document
from domain.compatibility.states import place
from domain.errors import PartMissing, UsageError
from presentation import formatting
from presentation.launch import snippet
from presentation.reports.levels import levels_table

__all__ = ["TOOLS", "Answer", "Tool", "require_service"]

MOST_CHARACTERS = 8000
"""Of the rows of a query, unless all are asked for."""


class Answer(NamedTuple):
    """What a tool answers: a structure that its output schema describes, and a short text."""

    document: dict[str, Any]
    text: str


class Tool(NamedTuple):
    """One tool: the verb that asks the same, its arguments, and how it is answered."""

    name: str
    title: str
    description: str
    verb: click.Command
    arguments: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    ask: Callable[[Client, Any, dict[str, Any]], Answer]

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return input_schema(self.arguments, self.verb)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the structure that it answers."""
        schema = msgspec.json.schema(self.answer)
        root = schema["$defs"].pop(schema["$ref"].rpartition("/")[2])
        whole: dict[str, Any] = plain({**root, "$defs": schema["$defs"]})
        return whole

    def call(self, client: Client, arguments: Mapping[str, Any] | None) -> Answer:
        """Return the answer to raw arguments. Raises an AssayError that names the field and the remedy."""
        request, given = read(arguments, self.arguments)
        return self.ask(client, request, given)


def require_service(client: Client) -> Client:
    """Return the client of a service. Raises PartMissing where what ships answers, which has no SQL."""
    if client.server != ADDRESS:
        return client
    raise PartMissing(
        "no service runs, and what ships with Assay is not queried.",
        field="server",
        remedy="Start one with `assay up` (pip install 'assay-bench[service]'), or name one with --server.",
    )


def _question(given: Mapping[str, Any], *own: str) -> dict[str, Any]:
    """Return what of the arguments goes to the service."""
    return {name: value for name, value in given.items() if name not in ("verbose", *own)}


def _footer(document: Mapping[str, Any], evidence: list[str] | None = None) -> str:
    parts = [f"position {document['position']}"]
    parts += [f"predictor {document['predictor']}"] if document.get("predictor") else []
    parts += [f"evidence of the first: {', '.join(evidence[: brief.EVIDENCE])}"] if evidence else []
    return "\n".join(parts)


def _text(tell: Callable[[], None], *after: str) -> str:
    with captured() as written:
        tell()
    lines = (line.rstrip() for line in written.getvalue().splitlines())
    return "\n".join([*lines, *after])


def _recommend(client: Client, request: RecommendArguments, given: dict[str, Any]) -> Answer:
    document = client.recommend(**{"top": request.top, **_question(given, "launch")})
    answer = msgspec.convert(document, Recommendation)
    result = brief.structured(document, brief.Recommendation, verbose=request.verbose)
    first = answer.ranked[0] if answer.ranked else None
    footer = _footer(document, first.evidence if first else None)
    text = _text(lambda: tell_answer(answer), footer)
    if request.launch is not None:
        try:
            result["launch"] = snippet(answer, request.launch)
        except UsageError as refused:
            # The answer stands, whether its first place can be launched or not.
            result["launch_problem"] = str(refused)
            text += f"\nno launch snippet: {refused}"
    return Answer(result, text)


def _predict(client: Client, request: PredictArguments, given: dict[str, Any]) -> Answer:
    document = client.predict(**_question(given))

    def tell() -> None:
        for line in prediction_lines(document):
            answers().print(line, markup=False)
        if document.get("faster"):
            tell_faster(msgspec.convert(document["faster"], Faster))

    result = brief.structured(document, brief.Prediction, verbose=request.verbose)
    return Answer(result, _text(tell, _footer(document, document.get("evidence"))))


def _fit(client: Client, request: FitArguments, given: dict[str, Any]) -> Answer:
    answer = client.fit(**_question(given, "limit"))
    document = answer_document(answer)
    count = len(answer.fits)
    shown = msgspec.structs.replace(answer, fits=answer.fits[: request.limit])
    document |= {
        "fits": document["fits"] if request.verbose else document["fits"][: request.limit],
        "fits_count": count,
    }
    result = brief.structured(document, brief.Fit, verbose=request.verbose)
    best = next((entry.best for entry in answer.fits if entry.best is not None), None)
    return Answer(result, _text(lambda: tell_fit(shown), _footer(document, best.evidence if best else None)))


def _compare(client: Client, request: CompareArguments, given: dict[str, Any]) -> Answer:
    filters = _question(given, "what", "subject", "limit")
    for name in ("platform", "precision"):
        if isinstance(filters.get(name), list):
            filters[name] = ",".join(filters[name])
    if request.what == "hardware":
        document = client.compare_hardware(request.subject, **filters)
    elif request.what == "models":
        document = client.compare_models(request.subject, **filters)
    else:
        document = client.compare_modes(
            request.subject, **{k: v for k, v in filters.items() if k not in ("mode", "metric")}
        )
    rows = document["rows"]
    best = rows if request.what == "modes" else best_rows(rows, "model" if request.what == "models" else "hardware")
    shown = best[: request.limit]

    def tell() -> None:
        if shown:
            tell_comparison(document, shown, request.metric)
        else:
            answers().print(f"Nothing was measured or imported for {request.subject}; recommend and predict estimate.")

    short = {
        "position": document["position"],
        "rows": shown,
        "rows_count": len(rows),
        "differ_in": sorted(document.get("differs") or ()),
    }
    whole = document if request.verbose else short
    result = brief.structured(whole, brief.Comparison, verbose=request.verbose)
    each = "" if request.what == "modes" else "the best of each, "
    count = f"{each}{len(shown)} of {formatting.count(len(rows))} rows"
    return Answer(result, _text(tell, count, _footer(document, shown[0]["evidence"] if shown else None)))


def _matrix(client: Client, request: MatrixArguments, given: dict[str, Any]) -> Answer:
    filters = {**_question(given, "limit", "platforms"), "by_precision": request.by_precision, "level": request.level}
    if request.level != "model":
        filters.pop("by_precision")
    wanted = request.platforms.split(",") if isinstance(request.platforms, str) else request.platforms
    rows = [row for row in client.compatibility(**filters) if not wanted or row["platform"] in wanted]
    rows.sort(key=lambda row: (str(row.get("model_id") or row.get("family") or "~"), place(row["platform"])))
    shown = rows if request.verbose else rows[: request.limit]
    document = {"cells": shown, "cells_count": len(rows)}

    def tell() -> None:
        if rows:
            answers().print(terminal(levels_table(rows[: request.limit], "What was seen of each")))
        else:
            answers().print("No test and no benchmark is known.")

    count = f"{min(len(rows), request.limit)} of {formatting.count(len(rows))} cells"
    result = brief.structured(document, brief.Matrix, verbose=request.verbose)
    return Answer(result, _text(tell, count))


def _query(client: Client, request: QueryArguments, given: dict[str, Any]) -> Answer:
    document = require_service(client).query(**{"limit": request.limit, **_question(given)})
    rows = document["rows"] if request.verbose else _within(document["rows"])
    truncated = bool(document.get("truncated")) or len(rows) < len(document["rows"])
    result = {
        "position": document["position"],
        "columns": document["columns"],
        "rows": rows,
        "truncated": truncated,
    }
    names = ", ".join(column["name"] for column in document["columns"])
    more = "; there are more: aggregate, or raise limit, or ask verbose" if truncated else ""
    table = "\n".join(msgspec.json.encode(row).decode() for row in rows)
    return Answer(result, f"{len(rows)} rows of {names}{more}\n{table}\n{_footer(document)}")


def _within(rows: list[list[Any]]) -> list[list[Any]]:
    """Return the first rows whose JSON stays below MOST_CHARACTERS."""
    room = MOST_CHARACTERS
    for index, row in enumerate(rows):
        room -= len(msgspec.json.encode(row))
        if room < 0:
            return rows[:index]
    return rows


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "recommend",
            "Recommend hardware for a model",
            "Rank hardware for a model, each device at its best platform, precision and batch size, with intervals, price "
            "and evidence. Use it to choose a device or an instance type. Read `abstained` first: where it is a sentence, "
            "nothing is recommended and the order means nothing. Each place has `basis` (measured, imported, reference, "
            "calibrated, predicted or roofline) and `interval_covered`: false means that no measurement checked the "
            "interval. Times are in ms of one call, memory in bytes, prices in US dollars.",
            recommend,
            RecommendArguments,
            brief.Recommendation,
            _recommend,
        ),
        Tool(
            "predict",
            "Predict one configuration",
            "Predict latency, throughput and memory of one model on one device, platform, precision and batch size, with "
            "an interval and its basis, what was measured of it, and what would make it faster.",
            predict,
            PredictArguments,
            brief.Prediction,
            _predict,
        ),
        Tool(
            "fit",
            "What fits in memory",
            "Return the largest and the best batch and the longest sequence that a device's memory holds, by platform and "
            "precision. Name `hardware`, or leave it out for the devices of this installation.",
            fit,
            FitArguments,
            brief.Fit,
            _fit,
        ),
        Tool(
            "compare",
            "Compare what was measured",
            "Put measured and imported figures side by side: a model on each hardware, models on a hardware, or inference "
            "beside training. Nothing is predicted.",
            compare,
            CompareArguments,
            brief.Comparison,
            _compare,
        ),
        Tool(
            "matrix",
            "What works where",
            "Return which models build, run, are right and were measured on which platform, and why not.",
            matrix,
            MatrixArguments,
            brief.Matrix,
            _matrix,
        ),
        Tool(
            "query",
            "Query the measurements with SQL",
            "Run one read-only SELECT (DuckDB) over the documented views, under limits of time and memory. Read the "
            "resource assay://views first for the views, and assay://views/NAME for the columns of one.",
            query,
            QueryArguments,
            brief.Rows,
            _query,
        ),
    )
}

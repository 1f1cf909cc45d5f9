"""The arguments of the tools: the API's own questions, described by the options of the command line.

The members come from the question structs that the API decodes; descriptions, choices and limits from the options of
the verb that asks the same. There is no second list to keep.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import rich_click as click

from domain.errors import UsageError
from domain.vocabulary import CATEGORIES, PLATFORMS, PRECISIONS
from predictor.answering.option import SIZE_NAMES
from predictor.answering.question import LIMITS, OBJECTIVES, TOP_LIMIT, PredictQuestion, Question
from predictor.capacity.question import FitQuestion
from presentation.launch import FORMS

__all__ = [
    "LEFT_OUT",
    "CompareArguments",
    "FitArguments",
    "MatrixArguments",
    "PredictArguments",
    "QueryArguments",
    "RecommendArguments",
    "input_schema",
    "plain",
    "read",
]

LEFT_OUT = frozenset({"record"})
"""Members of the API's questions that no tool takes: tools change nothing."""
USUAL_ROWS = 10
MOST_ROWS = 1000
Words = str | list[str]
AsOf = int | Annotated[str, msgspec.Meta(max_length=100)]
Rows = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
Launch = Literal[FORMS]  # type: ignore[valid-type]  # FORMS is the one list of them


class RecommendArguments(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay recommend`, and in which form its answer comes."""

    top: int = 5
    verbose: bool = False
    launch: Launch | None = None


class PredictArguments(PredictQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay predict`, and in which form its answer comes."""

    verbose: bool = False


class FitArguments(FitQuestion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay fit`, and in which form its answer comes."""

    limit: Rows = USUAL_ROWS
    verbose: bool = False


class CompareArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay compare`, and in which form its answer comes."""

    what: Literal["hardware", "models", "modes"]
    subject: str
    mode: Literal["inference", "training"] | None = None
    metric: str | None = None
    platform: Words = []
    precision: Words = []
    batch_size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    sequence_length: Annotated[int, msgspec.Meta(ge=1)] | None = None
    as_of: AsOf | None = None
    limit: Rows = USUAL_ROWS
    verbose: bool = False


class MatrixArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay matrix`, and in which form its answer comes."""

    model: str | None = None
    family: str | None = None
    category: Literal[CATEGORIES] | None = None  # type: ignore[valid-type]
    platforms: Words = []
    by_precision: bool = False
    level: Literal["model", "family", "category"] = "model"
    claims: bool = False
    no_evidence: bool = False
    as_of: AsOf | None = None
    limit: Rows = USUAL_ROWS
    verbose: bool = False


class QueryArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of `assay query`, and in which form its answer comes."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    limit: Rows = 100
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 10.0
    as_of: AsOf | None = None
    verbose: bool = False


_OWN = {
    "as_of": "Answer as of a position of the log, or of the name of a snapshot; the newest by default.",
    "config": "The content of a language model's own config.json, for a model that no catalogue has.",
    "faster": "Also say what would make it faster, which takes twice as long.",
    "images": "Images of one item.",
    "launch": "Also return a launch snippet for the first place, in this form.",
    "limit": "Rows of the answer at the most.",
    "model": "Id or name of the model, for example bert-base-uncased or meta-llama/Llama-3.1-8B.",
    "sql": "One SELECT over the documented views; the resource assay://views lists them.",
    "subject": "The model to compare on hardware or in modes, or the hardware whose models to compare.",
    "verbose": "The whole answer of the API, which may be long; else what decides.",
    "what": "hardware: a model on each device; models: each model on a device; modes: inference beside training.",
}
"""Of members that are no option of the verb, or that its option describes for a terminal."""
_WITHOUT_OPTION = {
    "mode": "Rows of one mode; of both by default.",
    "precision": "These precisions only.",
    "sequence_length": "Rows of this many tokens of one item only.",
}
_OPTION = re.compile(r"--([a-z][a-z-]*)")
_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "platform": PLATFORMS,
    "platforms": PLATFORMS,
    "precision": PRECISIONS,
    "hardware": ("own", "all", "nvidia-l4"),
}
"""Values of open lists."""


def input_schema(arguments: type[msgspec.Struct], verb: click.Command) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments: types of the struct, the rest from the options of the verb."""
    schema = msgspec.json.schema(arguments)
    definitions = schema["$defs"]
    root = definitions.pop(schema["$ref"].rpartition("/")[2])
    options = {option.name: option for option in verb.params}
    properties = {
        name: _described(name, plain(member), options.get(name), required=name in root.get("required", ()))
        for name, member in root["properties"].items()
        if name not in LEFT_OUT
    }
    return {
        "type": "object",
        "properties": properties,
        "required": root.get("required", []),
        "additionalProperties": False,
        **({"$defs": {name: plain(each) for name, each in definitions.items()}} if definitions else {}),
    }


def plain(schema: Any) -> Any:
    """Return a schema without null and without titles: a member that is not known or not asked for is absent."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = [plain(kind) for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {
        name: {key: plain(member) for key, member in value.items()} if name in ("properties", "$defs") else plain(value)
        for name, value in schema.items()
        if name not in ("anyOf", "title") and (name, value) != ("default", None)
    }
    if "enum" in rest:
        rest["enum"] = [value for value in rest["enum"] if value is not None]
    if not kinds:
        return rest
    return {**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}


def _described(name: str, member: dict[str, Any], option: click.Parameter | None, *, required: bool) -> dict[str, Any]:
    text = _OWN.get(name) or getattr(option, "help", None) or _WITHOUT_OPTION.get(name, "")
    text = _OPTION.sub(lambda match: match[1].replace("-", "_"), text)
    member = {**member, "description": text, **_bounds(name, option)}
    if isinstance(option, click.Option) and isinstance(option.type, click.Choice) and not required:
        member["enum"] = list(option.type.choices)
    if name in _EXAMPLES:
        member["examples"] = list(_EXAMPLES[name])
    if name == "objective":
        weights = {"type": "object", "propertyNames": {"enum": list(OBJECTIVES)}}
        member["anyOf"] = [
            {"type": "string", "enum": list(OBJECTIVES)},
            {**weights, "additionalProperties": {"type": "number", "minimum": 0}},
        ]
    return member


def _bounds(name: str, option: click.Parameter | None) -> dict[str, float]:
    """Return the limits of a number, from the option's range or from what the question checks."""
    kind = option.type if option is not None else None
    if name == "top":
        return {"minimum": 1, "maximum": TOP_LIMIT}
    if name == "confidence":
        return {"minimum": 0.5, "exclusiveMaximum": 1}
    if name == "max_quality_loss_pt":
        return {"minimum": 0, "maximum": 100}
    if name in LIMITS or name in SIZE_NAMES or name == "concurrency":
        return {"exclusiveMinimum": 0}
    if isinstance(kind, click.IntRange) and kind.min is not None and name != "limit":
        return {"minimum": kind.min}
    return {}


def read(arguments: Mapping[str, Any] | None, kind: type[msgspec.Struct]) -> tuple[Any, dict[str, Any]]:
    """Return a tool's arguments as its struct, and those that were given. Raises UsageError naming the field."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    names = tuple(name for name in kind.__struct_fields__ if name not in LEFT_OUT)
    for name in given:
        if name not in names:
            detail = "tools change nothing." if name in LEFT_OUT else "no argument has this name."
            near = difflib.get_close_matches(name, names, n=3)
            remedy = f"Did you mean {', '.join(near)}?" if near else f"There are {', '.join(names)}."
            raise UsageError(detail, field=name, remedy="Leave it out." if name in LEFT_OUT else remedy)
    try:
        return msgspec.convert(given, kind), given
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at ")
        field = path.strip("`").removeprefix("$").removeprefix(".")
        if not field and "missing required field" in detail:
            field = detail.rpartition("field ")[2].strip("`")
        remedy = _OWN.get(field) or "The input schema of the tool has the types."
        raise UsageError(f"{detail}.", field=field or None, remedy=remedy) from error

"""The open questions: what was asked and is not measured, with what is known of each configuration."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from domain.answers import RankedOption
from domain.catalogues import models
from domain.errors import TraceNeeded, UnknownModel
from domain.performance.roofline import OPERATOR_CLASSES, limits_of, roofline
from ingest.projection import Tables
from predictor.answering.facts import known_at
from predictor.answering.question import Question
from predictor.answering.recommendation import AnswerContext, answer
from predictor.artifact.artifact import Predictor
from predictor.artifact.coverage import op_mix
from predictor.features.dataset import minor_version
from predictor.features.devices import Devices
from predictor.features.table import Array
from predictor.suggesting.question import MODELS_LIMIT, SuggestQuestion

__all__ = ["Configuration", "QuestionSet", "gathered", "mixes", "targets"]

OPEN = ("reference", "calibrated", "predicted", "roofline")
"""Bases that a measurement would replace; an imported figure is evidence and stays."""
UNKNOWN = 0.7
"""Spread of the log error where nothing can be predicted: a factor of two either way."""
NORMAL_80 = 1.2816
RECENT = 50
_IRRELEVANT: dict[str, Any] = {
    "percentile": "p50",
    "max_latency_ms": None,
    "max_memory_mb": None,
    "max_usd_per_hour": None,
    "max_quality_loss_pt": None,
    "max_size_mb": None,
    "min_throughput_per_s": None,
    "max_ttft_ms": None,
    "max_tpot_ms": None,
    "min_tokens_per_s": None,
    "max_power_w": None,
    "devices": [],
    "count": None,
    "compiled": "usual",
    "per_hardware": False,
    "top": 1000,
    "record": False,
}
"""What a recorded question asks beyond its configurations: an answer that misses a limit by its error is open as well."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One configuration of a question. Without `mix` it has no trace; without `spread` it is measured."""

    model: str
    mode: str
    hardware: str
    platform: str
    precision: str
    batch_size: int
    sizes: dict[str, Any]
    runtime: str
    version: str
    compiled: bool
    basis: str
    own: bool
    method: str | None = None
    latency_ms: float | None = None
    spread: float | None = None
    weight: float = 0.0
    mix: Array | None = None
    balance: float = 0.0
    work: float = 0.0

    @property
    def software(self) -> tuple[str, ...]:
        """What is calibrated together; a model without a trace tells of nothing but itself."""
        if self.mix is None:
            return ("untraced", self.model, self.hardware)
        compiled = "compiled" if self.compiled else ""
        return (self.hardware, self.platform, self.runtime, self.precision, compiled, minor_version(self.version))


class QuestionSet(msgspec.Struct, frozen=True, kw_only=True):
    """The questions and whence they are: `asked`, `recorded` or `traced`; `notes` say what had to stay out."""

    source: str
    questions: list[Question]
    notes: list[str]


def targets(tables: Tables, suggest_question: SuggestQuestion) -> QuestionSet:
    """Return whose questions runs are chosen for: the models named, else what was recorded, else all that is traced."""
    if suggest_question.models:
        return _asked(
            "asked",
            suggest_question,
            [Question(model=name, mode=suggest_question.mode, call="forward") for name in suggest_question.models],
        )
    recorded = list(_recorded(tables, suggest_question.mode))
    if recorded:
        return _asked("recorded", suggest_question, recorded)
    traced = sorted({row["model_id"] for row in tables.traces(columns=["model_id"]).to_pylist()})
    # One model that a runner cannot build is one plan that it refuses.
    names = [name for name in traced if models.find(name) is not None][:MODELS_LIMIT]
    left = len(traced) - len(names)
    notes = (
        [f"{left} more models have a trace and are not of the catalogue; name them to ask about them."] if left else []
    )
    return _asked(
        "traced",
        suggest_question,
        [Question(model=name, mode=suggest_question.mode, call="forward") for name in names],
        notes,
    )


def _asked(
    source: str, suggest_question: SuggestQuestion, kept: list[Question], notes: list[str] | None = None
) -> QuestionSet:
    whole = [msgspec.structs.replace(suggest_question.about(item), **_IRRELEVANT).checked() for item in kept]
    return QuestionSet(source=source, questions=whole, notes=notes or [])


def _recorded(tables: Tables, mode: str) -> Iterator[Question]:
    """Yield the newest recorded questions of a mode, recommendations and predictions, each once."""
    page: dict[str, Any] = {"columns": ["position", "question"], "limit": 4 * RECENT, "descending": True}
    rows = [row for name in ("recommendation", "prediction") for row in tables.view(name, **page).to_pylist()]
    seen: set[bytes] = set()
    for row in sorted(rows, key=lambda row: -int(row["position"])):
        question = _question(json.loads(row["question"]))
        if question is None or question.mode != mode:
            continue
        name = msgspec.json.encode(question)
        if name not in seen and len(seen) < RECENT:
            seen.add(name)
            yield question


def _question(recorded: dict[str, Any]) -> Question | None:
    """Return what was asked, of any device; None where it was of another version of questions."""
    if "batch_size" in recorded:
        recorded = {**recorded, "batch_sizes": [recorded["batch_size"]]}
    values = {name: value for name, value in recorded.items() if name in Question.__struct_fields__}
    try:
        question = msgspec.convert(values, Question)
    except msgspec.ValidationError:
        return None
    return msgspec.structs.replace(question, **_IRRELEVANT, objective="latency", hardware="own", as_of=None)


def gathered(
    tables: Tables, request: QuestionSet, predictor: Predictor, notes: Sequence[str]
) -> tuple[list[Configuration], list[str]]:
    """Return the configurations of the questions, open and measured, each once, and what could not be asked.

    Every question weighs the same, whatever number of configurations it has. A model that was named and that nobody
    knows is an UnknownModel.
    """
    configurations: dict[tuple[Any, ...], Configuration] = {}
    lines: list[str] = list(request.notes)
    for question in request.questions:
        try:
            parts = _of_question(tables, question, predictor, notes)
        except UnknownModel as error:
            if request.source == "asked":
                raise
            lines.append(f"{question.model}: {error.detail}")
            continue
        for part in parts:
            key = (*part.software, part.model, part.mode, part.batch_size, tuple(sorted(part.sizes.items())))
            before = configurations.get(key)
            configurations[key] = (
                part if before is None else msgspec.structs.replace(part, weight=part.weight + before.weight)
            )
    return list(configurations.values()), lines


def _of_question(tables: Tables, question: Question, predictor: Predictor, notes: Sequence[str]) -> list[Configuration]:
    try:
        existing = known_at(tables, question, predictor, notes)
    except TraceNeeded:
        return _untraced(tables, question)
    entries = answer(question, existing, "").ranked
    open_ = sum(entry.basis in OPEN for entry in entries)
    return [_configuration(entry, question, existing, 1.0 / max(open_, 1)) for entry in entries]


def _untraced(tables: Tables, question: Question) -> list[Configuration]:
    """One run that makes the trace: the plainest that a device of the question can do."""
    devices = Devices(tables)
    names = devices.own(tables) if question.hardware in ("own", "all") else list(question.hardware)
    for name in names:
        spec = devices.spec(tables.resolve_hardware(name))
        platforms = [
            platform
            for platform in (spec.platforms if spec else ())
            if not question.platform or platform in question.platform
        ]
        if platforms:
            return [
                Configuration(
                    model=tables.resolve_model(question.model),
                    mode=question.mode,
                    hardware=name,
                    platform=platforms[0],
                    precision=question.precision[0] if question.precision else "fp32",
                    batch_size=question.batch_sizes[0],
                    sizes=question.sizes.stated(),
                    runtime="",
                    version="",
                    compiled=False,
                    basis="abstained",
                    own=name in devices.own(tables),
                    spread=UNKNOWN,
                    weight=1.0,
                )
            ]
    return []


def _configuration(entry: RankedOption, question: Question, context: AnswerContext, weight: float) -> Configuration:
    open_ = entry.basis in OPEN
    low, high = entry.latency_ms_low, entry.latency_ms_high
    spread = math.log(high / low) / 2 / NORMAL_80 if low and high else UNKNOWN
    mix, balance, work = _placed(entry, question, context)
    return Configuration(
        model=context.model,
        mode=question.mode,
        hardware=entry.hardware,
        platform=entry.platform,
        precision=entry.precision,
        batch_size=entry.batch_size or 1,
        sizes=context.call.run_sizes.stated(),
        runtime=entry.runtime or "",
        version=entry.runtime_version or "",
        compiled=bool(entry.compiled),
        basis=entry.basis,
        own=entry.hardware in context.own,
        method=entry.method,
        latency_ms=entry.latency_ms,
        spread=max(spread, 1e-3) if open_ else None,
        weight=weight if open_ else 0.0,
        mix=mix,
        balance=balance,
        work=work,
    )


def _placed(entry: RankedOption, question: Question, context: AnswerContext) -> tuple[Array | None, float, float]:
    """Where the configuration lies: its op mix, its balance and its work."""
    trace = context.trace
    if trace is None:
        return None, 0.0, 0.0
    spec = next((item for item in context.specs if item.id == entry.hardware), None)
    limits = None if spec is None else limits_of(spec, entry.precision, entry.platform)
    if limits is None:
        return op_mix(trace), 0.0, 0.0
    mode = "inference" if trace.phase == "training" else question.mode
    floor = roofline(trace.operators, limits, batch_size=entry.batch_size or 1, mode=mode)
    balance = math.log(max(floor.compute_ms, 1e-9) / max(floor.memory_ms, 1e-9))
    return op_mix(trace), balance, math.log(max(floor.latency_ms, 1e-9))


def mixes(configurations: Iterable[Configuration]) -> Array:
    """Return the op mixes, one row each; of what has no trace zeros."""
    return np.array(
        [
            np.zeros(len(OPERATOR_CLASSES)) if configuration.mix is None else configuration.mix
            for configuration in configurations
        ]
    )

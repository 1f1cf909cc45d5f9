"""Answers about the predictor in use: which one answers, how right it was, whether a newcomer may take its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from domain.answers import RankedOption
from domain.errors import AssayError, CorruptArtifact, NotFound
from ingest.projection import Tables
from predictor.answering.corrected_predictor import NEWEST, SHOTS, Shots, corrected
from predictor.answering.facts import known_at
from predictor.answering.option import SIZE_NAMES
from predictor.answering.question import PredictQuestion
from predictor.answering.recommendation import AnswerContext, answer
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor, load_shipped
from predictor.features.dataset import Row
from predictor.learning.building import Trained, train
from predictor.learning.machines import Machines
from predictor.live.drift import Drift, drift
from predictor.live.scored_predictions import Scored, given_out, scored_at
from predictor.live.shadow import Comparison, PredictedLatency, ScoredCase, compared, folds, learnt_by
from predictor.service import Answerer

__all__ = ["LiveAnswerer", "accuracy", "differences", "score", "shots", "since", "tried"]

Fit = Callable[[Sequence[Row]], Predictor]
"""Train on these rows."""
Correct = Callable[[Predictor, Sequence[Row]], Predictor]
"""Return a predictor as it answers where these rows are in the tables."""


def tried(tables: Tables, rows: Sequence[Row], old: Predictor, fit: Fit, correct: Correct) -> Comparison:
    """Return whether a predictor trained on rows of these tables is not worse than `old` on models held out of both.

    Both answer as they would be asked, corrected by what is in the tables but the models held out, and by the trace alone:
    what was measured of the model itself is hidden from them.
    """
    met = {item.measured_event_id for item in scored_at(tables)}
    cases: list[ScoredCase] = []
    held = folds(rows, old.card, met, learnt_by(load_shipped().card))
    for fold in held:
        shown = [row for row in rows if row.model not in fold.models]
        sides = correct(old, shown), correct(fit(shown), shown)
        # Of this fold alone: what is kept goes by a predictor's digest, and each fold corrects both anew.
        kept = Reading()
        cases += [case for row in fold.rows if (case := _case(tables, row, *sides, kept)) is not None]
    return compared(cases, old.digest, seen=any(fold.seen for fold in held))


def since(predictor: Predictor, rows: Sequence[Row]) -> list[Row]:
    """Return the newest valid measurements of ours after a predictor's training, in their order, as `current` takes them."""
    ours = [row for row in rows if row.origin == "measured" and row.verdict == "valid"][-NEWEST:]
    return [row for row in ours if row.position > predictor.card.position]


def shots(rows: Sequence[Row]) -> Shots:
    """Return the newest rows of each device, as `current` takes them to calibrate it."""
    by_device: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_device.setdefault((row.hardware, row.mode), []).append(row)
    newest = [row for members in by_device.values() for row in members[-SHOTS:]]
    return Shots(trees=[row for row in newest if row.mode == "inference"], general=newest)


def _case(tables: Tables, row: Row, old: Predictor, new: Predictor, kept: Reading) -> ScoredCase | None:
    """Return what both say of a measured row; None where one of them says nothing, or speaks of other software."""
    if row.latency_ms is None or row.batch_size is None:
        return None
    question = PredictQuestion(
        model=row.model,
        hardware=row.hardware,
        platform=row.platform,
        precision=row.precision,
        batch_size=row.batch_size,
        mode=row.mode,
        call="usual" if row.output_tokens or row.steps else "forward",
        concurrency=row.concurrency,
        **{name: getattr(row, name) for name in SIZE_NAMES},
    ).as_question()
    try:
        existing = known_at(tables, question, old, (), kept)
    except AssayError:
        return None  # Without a trace nothing is predicted: such a row tells nothing of either.
    sides = [_given(row, question, existing, item) for item in (old, new)]
    if sides[0] is None or sides[1] is None:
        return None
    return ScoredCase(model=row.model, measured=row.latency_ms, old=sides[0], new=sides[1])


def _given(row: Row, question: Any, context: AnswerContext, predictor: Predictor) -> PredictedLatency | None:
    blind = msgspec.structs.replace(context.blind(), predictor=predictor)
    ranked = answer(question, blind, "").ranked
    if not ranked or not _speaks_of(ranked[0], row):
        return None
    first = ranked[0]
    if first.latency_ms is None:
        return None
    return PredictedLatency(value=first.latency_ms, low=first.latency_ms_low, high=first.latency_ms_high)


def _speaks_of(entry: RankedOption, row: Row) -> bool:
    """Whether an answer is about what was measured: the same sizes, and no other software."""
    return (
        entry.latency_ms is not None
        and entry.runtime in (None, row.runtime)
        and bool(entry.compiled) == row.compiled
        and ((entry.layout or "").lower() in ("nhwc", "channels_last")) == row.channels_last
        and all(getattr(entry, name) == getattr(row, name) for name in SIZE_NAMES)
    )


MOST = 20
_LONGEST = 60


def differences(kept: Any, made: Any) -> list[str]:
    """Return by path what differs between the documents of two artifacts, at most 20 of them and how many more."""
    result = list(_differing(kept, made, ""))
    more = [f"and {len(result) - MOST} more"] if len(result) > MOST else []
    return [*result[:MOST], *more]


def _differing(kept: Any, made: Any, path: str) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(made, dict):
        for name in sorted({*kept, *made}):
            below = f"{path}.{name}" if path else name
            if name not in kept or name not in made:
                yield f"{below}: only in the {'new' if name not in kept else 'kept'} one"
            else:
                yield from _differing(kept[name], made[name], below)
    elif isinstance(kept, list) and isinstance(made, list) and len(kept) == len(made):
        for index, (item, other) in enumerate(zip(kept, made, strict=True)):
            yield from _differing(item, other, f"{path}[{index}]")
    elif isinstance(kept, str) and isinstance(made, str) and "\n" in kept:
        yield from _differing_text(kept.splitlines(), made.splitlines(), path)
    elif kept != made:
        yield f"{path}: {_short(kept)} was kept, {_short(made)} is made now"


def _differing_text(kept: list[str], made: list[str], path: str) -> Iterator[str]:
    lines = [number for number, (item, other) in enumerate(zip(kept, made, strict=False), 1) if item != other]
    if lines:
        yield f"{path}: line {lines[0]} and {len(lines) - 1} more"
    elif len(kept) != len(made):
        yield f"{path}: {len(kept)} lines were kept, {len(made)} are made now"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_GROUPS: dict[str, Callable[[Scored], str | None]] = {
    "by_basis": lambda item: item.basis,
    "by_hardware": lambda item: item.hardware,
    "by_family": lambda item: item.family,
    "by_predictor": lambda item: item.predictor,
}


def accuracy(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the scores of all, and by basis, hardware, family and predictor; what has no family is `unknown`.

    `macro_mape` is the mean of the models' own errors, so that a model with many measurements counts once.
    """
    document: dict[str, Any] = {"overall": score(scored)}
    for name, of in _GROUPS.items():
        groups: dict[str, list[Scored]] = {}
        for item in scored:
            groups.setdefault(of(item) or "unknown", []).append(item)
        document[name] = {group: score(groups[group]) for group in sorted(groups)}
    return document


def score(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the errors (shares: 0.08 is 8 %) and the share of intervals that held; None where nothing is to be said.

    `coverage_80` is of the 80 % intervals that measurement supports, `width_80` the mean of (high − low) ÷ predicted of
    those; `unsupported_80` the share of the others that held. `bias` is the median of ln(predicted ÷ measured).
    """
    if not scored:
        return {"rows": 0, "models": 0, **dict.fromkeys(_EMPTY)}
    errors = np.array([item.predicted / item.measured - 1 for item in scored])
    models = np.array([item.model for item in scored])
    absolute = np.abs(errors)
    intervals = [item for item in scored if item.within is not None and item.interval == 0.8]
    supported = [interval for interval in intervals if interval.supported]
    return {
        "rows": len(scored),
        "models": len(set(models.tolist())),
        "mape": _rounded(absolute.mean()),
        "macro_mape": _rounded(np.mean([absolute[models == name].mean() for name in np.unique(models)])),
        "median_ape": _rounded(np.median(absolute)),
        "within_10": _rounded(np.mean(absolute <= 0.1)),
        "within_20": _rounded(np.mean(absolute <= 0.2)),
        "bias": _rounded(np.median([item.log_error for item in scored])),
        "coverage_80": _held(supported),
        "width_80": _width(supported),
        "unsupported_80": _held([interval for interval in intervals if not interval.supported]),
    }


_EMPTY = (
    "mape",
    "macro_mape",
    "median_ape",
    "within_10",
    "within_20",
    "bias",
    "coverage_80",
    "width_80",
    "unsupported_80",
)


def _held(scored: Sequence[Scored]) -> float | None:
    return _rounded(np.mean([bool(item.within) for item in scored])) if scored else None


def _width(scored: Sequence[Scored]) -> float | None:
    widths = [
        (item.high - item.low) / item.predicted for item in scored if item.low is not None and item.high is not None
    ]
    return _rounded(np.mean(widths)) if widths else None


def _rounded(value: Any) -> float:
    return round(float(value), 6)


class LiveAnswerer(Answerer):
    """An Answerer that also tells of its predictors: those that were trained, those that answer, and how right they were."""

    def require(self, digest: str) -> None:
        """Raise NotFound or CorruptArtifact where the predictor of this digest cannot be read."""
        self._loaded(digest)

    def compare(self, as_of: int | None = None, machines: Machines | None = None) -> Comparison:
        """Return whether what `train` gives at a position is not worse than the predictor in force there, and why."""
        with self._tables(as_of) as tables:
            old, _ = self._predictor(tables)
            rows, book, devices = self._training_data(tables, mode=None, own=True)

            def fit(shown: Sequence[Row]) -> Predictor:
                trained = train(shown, book, devices.spec, load_shipped(), position=tables.position, machines=machines)
                return trained.predictor

            def correct(predictor: Predictor, shown: Sequence[Row]) -> Predictor:
                return corrected(predictor, since(predictor, shown), book, devices.spec, shots(shown))

            return tried(tables, rows, old, fit, correct)

    def replay(self, digest: str, position: int, machines: Machines | None = None) -> tuple[Trained, dict[str, Any]]:
        """Train again at a position; return what that gives, and whether it is the predictor of this digest bit for bit.

        `stored` says what is kept of it: whole, corrupt or missing. Only what is whole can be compared in `differences`.
        """
        made = self.train(position, machines)
        stored, kept = "whole", b""
        try:
            kept = self._load_artifact(digest)
        except CorruptArtifact:
            stored = "corrupt"
        except NotFound:
            stored = "missing"
        same = made.predictor.digest == digest
        document = {
            "digest": digest,
            "position": position,
            "same": same,
            "made": made.predictor.digest,
            "stored": stored,
        }
        differing = [] if same or not kept else differences(json.loads(kept), json.loads(made.content))
        return made, {**document, "differences": differing}

    def accuracy(self, target: str = "latency", as_of: int | None = None) -> dict[str, Any]:
        """Return how right the predictions given out were, by what was measured since, and whether that drifts."""
        with self._tables(as_of) as tables:
            scored = scored_at(tables)
            predictor, notes = self._predictor(tables)
            request = [item for item in scored if item.target == target]
            return {
                "position": tables.position,
                "predictor": predictor.digest,
                "target": target,
                "given": given_out(tables),
                "scored": len(request),
                **accuracy(request),
                "drift": msgspec.to_builtins(drift(scored, predictor.digest)),
                "notes": notes,
            }

    def drift(self) -> Drift:
        """Return whether the predictor in force misses more of its intervals than it promised."""
        with self._tables(None) as tables:
            return drift(scored_at(tables) if given_out(tables) else (), self._predictor(tables)[0].digest)

    def predictors(self, as_of: int | None = None) -> dict[str, Any]:
        """Return every predictor at a position, newest first, the shipped one last; `line` is what answers, in turn."""
        with self._tables(as_of) as tables:
            rows, line = tables.predictors().to_pylist(), tables.predictor_line()
            choices = tables.predictor_choices().to_pylist()
            position = tables.position
        return {
            "position": position,
            "line": ["shipped", *line],
            "items": [*(_told(row) for row in reversed(rows)), _shipped(in_force=not line)],
            "choices": [
                {name: row[name] for name in ("position", "digest", "chosen_by", "reason", "recorded_at")}
                for row in choices
            ],
        }


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a list of predictors says of one: all but what only its own card needs to."""
    card = json.loads(row["card"] or "{}")
    kept = ("digest", "position", "event_id", "trained_at_position", "accepted", "reason", "in_force", "recorded_at")
    comparison = json.loads(row["comparison"]) if row["comparison"] else None
    existing = {name: card.get(name) for name in ("name", "trees_from", "rows")}
    machines = (card.get("data") or {}).get("machines", 1)
    return {**{name: row[name] for name in kept}, **existing, "machines": machines, "comparison": comparison}


def _shipped(*, in_force: bool) -> dict[str, Any]:
    card = load_shipped().card
    return {
        "digest": load_shipped().digest,
        "position": 0,
        "event_id": None,
        "trained_at_position": 0,
        "accepted": True,
        "reason": "ships with Assay",
        "in_force": in_force,
        "recorded_at": None,
        "name": "shipped",
        "trees_from": card.trees_from,
        "rows": card.rows,
        "machines": 1,
        "comparison": None,
    }

"""Answers about the predictor in use: which one answers, how right it was, whether a newcomer may take its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from domain.errors import CorruptArtifact, NotFound
from predictor.answering.corrected_predictor import corrected
from predictor.artifact.artifact import Predictor, load_shipped
from predictor.features.dataset import Row
from predictor.learning.building import Trained, train
from predictor.live.accuracy import accuracy
from predictor.live.drift import Drift, drift
from predictor.live.replay import differences
from predictor.live.scored_predictions import given_out, scored_at
from predictor.live.shadow import Comparison
from predictor.live.trial import shots, since, tried
from predictor.service import Answerer

__all__ = ["LiveAnswerer"]


class LiveAnswerer(Answerer):
    """An Answerer that also tells of its predictors: those that were trained, those that answer, and how right they were."""

    def require(self, digest: str) -> None:
        """Raise NotFound or CorruptArtifact where the predictor of this digest cannot be read."""
        self._loaded(digest)

    def compare(self, as_of: int | None = None) -> Comparison:
        """Return whether what `train` gives at a position is not worse than the predictor in force there, and why."""
        with self._tables(as_of) as tables:
            old, _ = self._predictor(tables)
            rows, book, devices = self._training_data(tables, mode=None)

            def fit(shown: Sequence[Row]) -> Predictor:
                return train(shown, book, devices.spec, load_shipped(), position=tables.position).predictor

            def correct(predictor: Predictor, shown: Sequence[Row]) -> Predictor:
                return corrected(predictor, since(predictor, shown), book, devices.spec, shots(shown))

            return tried(tables, rows, old, fit, correct)

    def replay(self, digest: str, position: int) -> tuple[Trained, dict[str, Any]]:
        """Train again at a position; return what that gives, and whether it is the predictor of this digest bit for bit.

        `stored` says what is kept of it: whole, corrupt or missing. Only what is whole can be compared in `differences`.
        """
        made = self.train(position)
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
    return {**{name: row[name] for name in kept}, **existing, "comparison": comparison}


def _shipped(*, in_force: bool) -> dict[str, Any]:
    card = load_shipped().card
    return {
        "digest": load_shipped().digest, "position": 0, "event_id": None, "trained_at_position": 0, "accepted": True,
        "reason": "ships with Assay", "in_force": in_force, "recorded_at": None, "name": "shipped",
        "trees_from": card.trees_from, "rows": card.rows, "comparison": None,
    }  # fmt: skip

"""Answers for the API: recommend, predict, tell about the predictor, train and evaluate, each at one position."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import msgspec

from domain.answers import (
    AbstainedPrediction,
    Breakdown,
    CapacityAnswer,
    FleetPlan,
    Prediction,
    RankedOption,
    Recommendation,
    Suggestions,
)
from domain.answers.kernels import DeviceKernels
from domain.errors import CorruptArtifact, NotFound, ProjectionBehind
from domain.performance.roofline import limits_of, roofline
from ingest import evidence
from ingest.projection import Tables
from ingest.projection.statements import SCHEMA_VERSION
from predictor.advising.faster import faster
from predictor.answering.context import AnswerContext
from predictor.answering.corrected_predictor import current, state_of
from predictor.answering.facts import known_at, trace_from_row
from predictor.answering.question import PredictQuestion, Question, answer_id
from predictor.answering.ranked_entry import explanation_of
from predictor.answering.recommendation import answer, measured_options
from predictor.answering.table_cache import Reading, Readings
from predictor.artifact.artifact import Predictor, decode, load_shipped
from predictor.capacity.question import FitQuestion
from predictor.failure_rates.cases import read_cases
from predictor.features.dataset import Row, row_from_table, training_rows, without_runs
from predictor.features.devices import Devices
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import TraceBook
from predictor.fleet.question import FleetQuestion
from predictor.kernels.device_kernels import KernelQuestion, device_kernels
from predictor.learning.building import Trained, train
from predictor.learning.evaluation import evaluate
from predictor.learning.machines import Machines
from predictor.learning.routes import Evaluation, chosen, routed
from predictor.suggesting.question import SuggestQuestion
from predictor.suggesting.suggestion import suggest
from predictor.variants.evidence import read_variants

__all__ = ["Answerer"]

LoadArtifact = Callable[[str], bytes]
"""Return the bytes of an artifact by digest; raise NotFound or CorruptArtifact."""
KEPT_PREDICTORS = 4


_HEAD = ("id", "model", "position", "time", "predictor", "interval", "workload", "call", "excluded", "notes")
"""Members that a prediction shares with the recommendation that it is made of."""
_OF_THE_CONFIGURATION = tuple(
    name for name in RankedOption.__struct_fields__ if name not in ("rank", "tied_with", "explanation")
)


def _figures(value: float) -> float:
    return float(f"{value:.6g}")


class Answerer:
    """Answers from a projection and its artifacts. Safe from any thread; every call uses a cursor of its own."""

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], load_artifact: LoadArtifact) -> None:
        self._cursor = cursor
        self._load_artifact = load_artifact
        self._predictors: OrderedDict[str, Predictor] = OrderedDict()
        self._currents: OrderedDict[tuple[Any, ...], Predictor] = OrderedDict()
        self._readings = Readings()
        self._lock = threading.Lock()
        self._making = threading.Lock()

    def prepare(self, ending: Callable[[], bool]) -> None:
        """Make what answers at the newest position begin with, so that no question waits for it; stop where `ending()` is true."""
        with self._tables(None) as tables:
            predictor, _ = self._current(tables)
        predictor.own_rows.prepare(ending)

    def read_again(self) -> None:
        """Forget what was read of the tables, because traces were lent beside them."""
        self._readings = Readings()

    def recommend(self, question: Question) -> Recommendation:
        """Return the answer of design section 7. The same question at the same position gives the same document.

        Raises what `Question.checked` and `facts.known_at` raise, and ProjectionBehind for a position to come.
        """
        request = question.checked()
        with self._tables(request.at) as tables:
            predictor, notes = self._current(tables)
            reading = self._reading(tables)
            existing = known_at(tables, request, predictor, notes, reading)
            book = reading.of(
                ("variants", existing.model, request.mode),
                lambda: read_variants(tables, existing.model, request.mode),
            )
            existing = msgspec.structs.replace(existing, variants=book)
            identity = answer_id(request.identity(), existing.position, predictor.digest, SCHEMA_VERSION)
            return answer(request, existing, identity)

    def predict(self, question: PredictQuestion) -> Prediction | AbstainedPrediction:
        """Return the prediction for one configuration, beside what was measured of it, or why there is none."""
        request = question.as_question()
        with self._tables(request.at) as tables:
            predictor, notes = self._current(tables)
            existing = known_at(tables, request, predictor, notes, self._reading(tables))
            identity = answer_id(request.identity(), existing.position, predictor.digest, SCHEMA_VERSION)
            predicted = answer(request, existing.blind(), identity)
            # Without a measurement of the configuration both are one.
            measured = answer(request, existing, identity) if measured_options(request, existing) else predicted
            advice = faster(request, existing) if question.faster else None
        result = measured.ranked[0] if measured.ranked else None
        seen = result if result is not None and result.basis in ("measured", "imported") else None
        chosen = predicted.ranked[0] if predicted.ranked else seen
        head = {name: getattr(predicted, name) for name in _HEAD}
        head |= {"measured": seen, "breakdown": self._breakdown(request, existing)}
        if chosen is None:
            return AbstainedPrediction(**head, basis="abstained", explanation=None, abstained=predicted.abstained)
        reasons = explanation_of(chosen, existing, request.mode)
        figures = {name: getattr(chosen, name) for name in _OF_THE_CONFIGURATION}
        return Prediction(
            **head,
            **{**figures, "explanation": None if reasons is None else reasons.document()},
            faster=advice,
            abstained=None,
        )

    def suggest(self, question: SuggestQuestion) -> Suggestions:
        """Return the runs that would lower the error of open questions most within a budget, as plans."""
        request = question.checked()
        with self._tables(request.at) as tables:
            return suggest(tables, request, *self._current(tables))

    def fleet(self, question: FleetQuestion) -> FleetPlan:
        """Return the cheapest machines that serve several loads; see `predictor.fleet.deployment`."""
        from predictor.fleet.deployment import fleet  # The solver takes a while to load.

        request = question.checked()
        with self._tables(request.at) as tables:
            return fleet(tables, request, *self._current(tables), self._reading(tables))

    def fit(self, question: FitQuestion) -> CapacityAnswer:
        """Return which batches and lengths of a model fit where; see `predictor.capacity.fit`."""
        from predictor.capacity.fit import fit

        at = question.question().at
        with self._tables(at) as tables:
            return fit(tables, question, *self._current(tables), self._reading(tables))

    def kernels(self, tables: Tables, question: KernelQuestion) -> DeviceKernels:
        """Return what was timed of a device's kernels, under its roofs and beside estimates of the standard ones."""
        return device_kernels(tables, question, self._current(tables)[0])

    @staticmethod
    def _breakdown(question: Question, context: AnswerContext) -> Breakdown | None:
        """The roofline of the configuration in ms, by operator class and by what bounds it."""
        if context.trace is None or not context.specs:
            return None
        limits = limits_of(context.specs[0], question.precision[0], question.platform[0])
        if limits is None:
            return None
        floor = roofline(context.trace.operators, limits, batch_size=question.batch_sizes[0], mode=question.mode)
        return Breakdown(
            latency_ms=_figures(floor.latency_ms),
            compute_ms=_figures(floor.compute_ms),
            compute_bound_ms=_figures(floor.compute_bound_ms),
            memory_ms=_figures(floor.memory_ms),
            launch_ms=_figures(floor.launch_ms),
            by_class_ms={name: _figures(value) for name, value in sorted(floor.by_class_ms.items())},
            bound=floor.bound,
        )

    def in_force(self, as_of: int | None = None) -> tuple[str, bool]:
        """Return the digest of the predictor that answers at a position, and whether it is the one that ships."""
        with self._tables(as_of) as tables:
            digest = self._predictor(tables)[0].digest
        return digest, digest == load_shipped().digest

    def predictor_info(self, as_of: int | None = None, members: Collection[str] | None = None) -> dict[str, Any]:
        """Return what answers at a position are predicted with: digest, scores, widths, calibrations and limits.

        What rows of each device correct takes long where there are many: `members` without `own_rows` and `contradictions` leave it out.
        """
        with self._tables(as_of) as tables:
            predictor, notes = self._current(tables)
            position = tables.position
        card = predictor.card
        document = msgspec.to_builtins(card)
        document["coverage"] = {
            name: value for name, value in document["coverage"].items() if name not in ("op_mix", "architectures")
        } | {"architectures": len(card.coverage.architectures)}
        document.pop("features")
        document["calibrations"] = predictor.calibrations.document()
        if members is None or not {"own_rows", "contradictions"}.isdisjoint(members):
            document["own_rows"] = predictor.own_rows.document()
            document["contradictions"] = msgspec.to_builtins(
                [*predictor.calibrations.contradictions, *predictor.own_rows.contradictions()]
            )
        document["few"] = None if card.few is None else card.few.document()
        document["shares"] = None if card.shares is None else card.shares.document()
        return {
            **document,
            "digest": predictor.digest,
            "trained_at_position": card.position,
            "position": position,
            "shipped": predictor.digest == load_shipped().digest,
            "notes": notes,
        }

    def train(self, as_of: int | None = None, machines: Machines | None = None) -> Trained:
        """Return a predictor trained on the log up to a position; storing and recording it is the caller's part.

        `machines` train it together: each of them has to call this with the same position.
        """
        with self._tables(as_of) as tables:
            rows, book, devices = self._training_data(tables, mode=None, own=True)
            cases = read_cases(tables.view("outcomes"), tables.measurements())
            return train(
                rows, book, devices.spec, load_shipped(), position=tables.position, cases=cases, machines=machines
            )

    def evaluate(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return the scores on held-out rows of the log. Raises UsageError where there are too few, saying how many."""
        route = chosen(evaluation.route, evaluation.target)
        with self._tables(None if isinstance(evaluation.as_of, str) else evaluation.as_of) as tables:
            rows, book, devices = self._training_data(
                tables, evaluation.target, evaluation.mode, served=route != "operators"
            )
            taken = [row for row in rows if evaluation.takes(row)]
            table, method = routed(route, taken, book, devices.spec, evaluation.target)
            document = evaluate(
                table,
                method,
                evaluation.split,
                evaluation.target,
                shots=evaluation.shots,
                seed=evaluation.seed,
                points=evaluation.points,
            )
            return {**document, "route": route, "position": tables.position}

    @staticmethod
    def _training_data(
        tables: Tables,
        target: str = "latency",
        mode: str | None = "inference",
        *,
        served: bool = False,
        own: bool = False,
    ) -> tuple[list[Row], TraceBook, Devices]:
        """Return the rows that may teach; with `own` without what ships, of which the shipped predictor already knows."""
        measurements = without_runs(tables.measurements(), evidence.runs()) if own else tables.measurements()
        rows = training_rows(map(row_from_table, measurements.to_pylist()), target, mode, served=served)
        book = TraceBook(map(trace_from_row, traces_of(tables, {row.model for row in rows})))
        return rows, book, Devices(tables)

    @contextmanager
    def _tables(self, as_of: int | None) -> Iterator[Tables]:
        cursor = self._cursor()
        try:
            cursor.begin()  # All queries of one answer see the same log while the projector moves on.
            tables = Tables(cursor)
            if as_of is not None and as_of > tables.position:
                raise ProjectionBehind(
                    f"position {as_of} is asked, and the tables are at {tables.position}.",
                    field="as_of",
                    remedy="Ask again in a moment, or leave it out for the newest.",
                )
            yield tables if as_of in (None, tables.position) else Tables(cursor, as_of)
        finally:
            cursor.close()

    def _reading(self, tables: Tables) -> Reading:
        return self._readings.at((tables.history, tables.position))

    def _predictor(self, tables: Tables) -> tuple[Predictor, list[str]]:
        """Return the predictor in force, or the last good one before it, and a note for each that could not be read."""
        notes: list[str] = []
        for digest in reversed(self._reading(tables).of("line", tables.predictor_line)):
            try:
                return self._loaded(digest), notes
            except (CorruptArtifact, NotFound) as error:
                notes.append(f"predictor {digest} is passed over: {error.detail}")
        return load_shipped(), notes

    def _current(self, tables: Tables) -> tuple[Predictor, list[str]]:
        """Return the predictor in force with what was measured since, made once for each newest measurement."""
        predictor, notes = self._predictor(tables)
        key = (predictor.digest, tables.history, self._reading(tables).of("state", lambda: state_of(tables)))
        with self._lock:
            result = self._currents.get(key)
        if result is not None:
            return result, notes
        # Whoever asks meanwhile waits for the same instead of making it again.
        with self._making:
            with self._lock:
                result = self._currents.get(key)
            if result is None:
                result = current(predictor, tables)
                with self._lock:
                    self._currents[key] = result
                    while len(self._currents) > KEPT_PREDICTORS:
                        self._currents.popitem(last=False)
        return result, notes

    def _loaded(self, digest: str) -> Predictor:
        with self._lock:
            predictor = self._predictors.get(digest)
        if predictor is None:
            predictor = decode(self._load_artifact(digest), digest)
            with self._lock:
                self._predictors[digest] = predictor
                while len(self._predictors) > KEPT_PREDICTORS:
                    self._predictors.popitem(last=False)
        return predictor

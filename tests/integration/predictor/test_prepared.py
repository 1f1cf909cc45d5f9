"""Answers are prepared while nobody asks, siblings are found by DuckDB as in a table, and a row of one device leaves others as they are."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from api.background import preparation
from api.background.preparation import Preparation
from predictor.answering.corrected_predictor import current
from predictor.artifact.artifact import load_shipped
from predictor.features.dataset import Row, row_from_table, training_rows
from predictor.features.table import Table
from predictor.general import own_rows
from predictor.general.sibling_rows import siblings_of
from predictor.learning.siblings import Siblings
from tests.integration.predictor.test_own_rows import MODELS, NEW, OTHER, measured, predicted, rows_of

__all__ = ["measured"]

SOFTWARE = (NEW, "cuda", "fp16")


def bare(rows: list[Row]) -> Table:
    """A table of rows without features: what siblings are found by needs none."""
    ones = np.ones(len(rows))
    names = np.array([row.model for row in rows], dtype=str)
    return Table(
        target="latency", rows=rows, names=("x",), values=ones[:, None], prior=ones, measured=ones,
        subjects=[None] * len(rows), limits=[None] * len(rows), architecture=names, family=names,
    )  # fmt: skip


def drawn(build: Any, count: int) -> list[dict[str, Any]]:
    """Measurements of two models on three devices at random, among them some that may teach nothing."""
    random = np.random.default_rng(7)
    events = []
    for index in range(count):
        event = build.measurement(
            float(1 + index), model=f"acme/{random.integers(2)}", hardware=f"acme-{random.integers(3)}",
            precision=str(random.choice(["fp16", "fp32"])), batch_size=int(2 ** random.integers(7)),
        )  # fmt: skip
        event["data"]["execution"]["runtime"] = {"name": "torch", "version": str(random.choice(["2.4.1", "2.13.0"]))}
        match random.integers(10):
            case 0:
                event["data"]["validity"] = {"verdict": "suspect", "reasons": ["drifting"]}
            case 1:
                event["data"]["provenance"] = {"origin": "simulated"}
            case 2:
                event["data"]["provenance"] = {"origin": "imported", "source": "a table"}
        events.append(event)
    return events


def test_siblings_of_the_log_are_those_of_a_table_of_all_rows(service: Any, told: Any, build: Any) -> None:
    told(*drawn(build, 120))
    with service.projection.tables() as tables:
        end = tables.position
    for at in (end, end - 40):
        with service.projection.tables(at) as tables:
            rows = training_rows(map(row_from_table, tables.measurements().to_pylist()))
            found = siblings_of(tables, rows)
        every, few = Siblings(bare(rows)), Siblings(bare(found))
        pairs = [(every.nearest(row), few.nearest(row)) for row in rows]
        expected = [None if index is None else rows[index].event_id for index, _ in pairs]
        assert [None if index is None else found[index].event_id for _, index in pairs] == expected
        assert len({*expected} - {None}) > 10
        assert len(found) < len(rows)


def test_a_row_elsewhere_leaves_a_correction_as_it_is_unless_it_is_nearer(
    service: Any, told: Any, measured: Any
) -> None:
    def correction() -> Any:
        with service.projection.tables() as tables:
            return current(load_shipped(), tables).own_rows.at(NEW, "cuda")

    def elsewhere(batch: int) -> dict[str, Any]:
        return measured(3.0, MODELS[0], "nvidia-l40s", "cuda", "fp16", batch, "TensorRT")

    told(*rows_of(measured, 1.7, *SOFTWARE, "TensorRT"))
    alone = correction()
    told(elsewhere(8))
    beside = correction()
    assert beside is not alone
    told(elsewhere(8), elsewhere(4))
    assert correction() is beside
    told(measured(2.0, MODELS[0], NEW, "cuda", "fp16", 16, "TensorRT"))
    assert correction() is not beside


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices whose corrections are made, in turn."""
    devices: list[str] = []
    make = own_rows._corrected

    def counted(shots: Table, *others: Any) -> Any:
        devices.append(shots.rows[0].hardware)
        return make(shots, *others)

    monkeypatch.setattr(own_rows, "_corrected", counted)
    return devices


def looked(service: Any, *, moments: int) -> Preparation:
    """Look so many times in a row, and return what looked."""
    parts: Any = SimpleNamespace(
        projection=service.projection, tables=service.projection.tables, answerer=service.answers
    )
    task = Preparation(parts)

    async def look() -> None:
        for _ in range(moments):
            await task.look()

    asyncio.run(look())
    return task


def test_a_quiet_log_is_prepared_once_and_the_first_question_finds_it(
    service: Any, told: Any, measured: Any, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(*rows_of(measured, 1.7, *SOFTWARE, "TensorRT"))
    looked(service, moments=2)
    assert made == []  # Something came a moment ago.
    monkeypatch.setattr(preparation, "QUIET_S", 0.0)
    looked(service, moments=3)
    assert made == [NEW]
    assert predicted(service, OTHER, *SOFTWARE, 16)["basis"] == "calibrated"
    assert made == [NEW]


def test_nothing_is_prepared_beside_a_run_that_was_just_heard_of(
    service: Any, told: Any, build: Any, measured: Any, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "QUIET_S", 0.0)
    started = {
        "run_id": "run-under-way", "kind": "bench", "hardware": [{"id": NEW, "kind": "gpu", "count": 1}],
        "environment": {"fingerprint": "f" * 16}, "provenance": {"origin": "measured"},
    }  # fmt: skip
    told(build.event("assay.run.started.v1", started, time=datetime.now(UTC)))
    told(*rows_of(measured, 1.7, *SOFTWARE, "TensorRT"))
    looked(service, moments=2)
    assert made == []
    with monkeypatch.context() as later:
        later.setattr(preparation, "MEASURING_S", 0.0)
        looked(service, moments=1)
    assert made == [NEW]
    made.clear()
    ended = {"run_id": "run-under-way", "outcome": "completed", "measured": 1, "failed": 0, "tests": 0}
    told(
        build.event("assay.run.finished.v1", ended, time=datetime.now(UTC)),
        measured(2.0, MODELS[0], *SOFTWARE, 16, "TensorRT"),
    )
    looked(service, moments=1)
    assert made == [NEW]


def test_what_ends_while_it_prepares_stops_after_the_device_that_it_is_at(
    service: Any, told: Any, measured: Any, made: list[str]
) -> None:
    other = ("nvidia-t4", "cuda", "fp16")
    told(*rows_of(measured, 1.7, *SOFTWARE, "TensorRT"), *rows_of(measured, 1.7, *other, "TensorRT"))
    turns = itertools.count()
    service.answers.prepare(lambda: next(turns) > 0)
    assert len(made) == 1
    assert predicted(service, OTHER, *other, 16)["basis"] == "calibrated"

from typing import Any

import numpy as np
import pytest

from predictor.features.dataset import Row
from predictor.features.table import Table
from predictor.learning.method import Fitted, Prediction
from predictor.learning.siblings import Matched, Siblings


class Flat:
    """Something that learned the same of every row."""

    def __init__(self, by_hardware: dict[str, float]) -> None:
        self._by_hardware = by_hardware

    def predict(self, table: Table) -> Prediction:
        return Prediction.plain(np.array([self._by_hardware[row.hardware] for row in table.rows]))

    def adapted(self, shots: Table) -> Fitted:
        return self


LEARNED = Flat({"near": 0.1, "new": 0.5})


def row(hardware: str = "near", **over: Any) -> Row:
    given = {
        "model": "acme/net", "hardware": hardware, "platform": "cuda", "precision": "fp16", "batch_size": 64,
        "image_size": 224, "runtime": "torch", "runtime_version": "2.4", "latency_ms": 1.0,
    }  # fmt: skip
    return Row(**{**given, **over})


def table(rows: list[Row], times: list[float] | None = None) -> Table:
    ones = np.ones(len(rows))
    return Table(
        target="latency", rows=rows, names=("x",), values=ones[:, None], prior=ones,
        measured=np.array(times) if times else ones, subjects=[None] * len(rows), limits=[None] * len(rows),
        architecture=np.array([one.model for one in rows], dtype=str),
        family=np.array([one.model for one in rows], dtype=str),
    )  # fmt: skip


def match(known: list[Row], asked: Row, times: list[float] | None = None) -> Matched:
    return Siblings(table(known, times)).matched(table([asked]), LEARNED)


def test_the_residual_of_the_sibling_and_a_share_of_what_the_trees_see_differ() -> None:
    found = match([row()], row("new"), [2.0])
    assert found.found.tolist() == [True]
    assert found.residual_at(0.0)[0] == pytest.approx(np.log(2.0))
    assert found.residual_at(1.0)[0] == pytest.approx(np.log(2.0) + 0.4)
    assert found.take(np.array([0])).residual_at(0.5)[0] == pytest.approx(np.log(2.0) + 0.2)


@pytest.mark.parametrize(
    "other",
    [
        {"model": "acme/other"}, {"platform": "cpu"}, {"compiled": True}, {"layout": "nhwc"}, {"precision": "fp32"},
        {"image_size": 288}, {"mode": "training"}, {"batch_size": 1024}, {"hardware": "new"},
    ],
)  # fmt: skip
def test_other_work_or_software_or_the_device_itself_is_no_sibling(other: dict[str, Any]) -> None:
    assert not match([row(**other)], row("new")).found.any()


def test_the_nearest_in_version_and_batch_counts() -> None:
    known = [row(runtime_version="1.10"), row(runtime_version="2.3"), row(batch_size=16), row(runtime_version="2.9")]
    assert match(known, row("new"), [1.0, 2.0, 3.0, 4.0]).residual[0] == pytest.approx(np.log(2.0))


def test_nothing_known_is_nothing_found() -> None:
    found = match([], row("new"))
    assert not found.found.any()
    assert found.residual.tolist() == [0.0]

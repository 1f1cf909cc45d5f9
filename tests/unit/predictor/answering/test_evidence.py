"""What the log says of a model is read from few columns of wide rows: nothing that is used may be among those left out."""

from __future__ import annotations

from typing import Any

from domain.answers import Sizes
from predictor.answering import evidence
from predictor.features import dataset

OTHER_NAMES = {"model", "hardware", "runtime"}
"""What an event calls a column otherwise."""


class Told(dict[str, Any]):
    """A row that remembers what it was asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def told(**values: Any) -> Told:
    names = dict.fromkeys((*evidence.COLUMNS, *dataset.COLUMNS))
    plain = {"configuration": "c", "model_id": "m", "hardware_id": "h", "platform": "cpu", "position": 7}
    return Told({**names, **plain, "origin": "measured", "verdict": "suspect", **values})


def test_evidence_asks_for_no_column_that_is_not_read() -> None:
    rows = [told(), told(scenario="serving", concurrency=4, output_tokens=8, origin="imported", configuration="d")]
    assert len(evidence.options_from_rows(rows, Sizes(), "p50")) == 1
    assert len(evidence.options_from_rows(rows, Sizes(output_tokens=8), "p95")) == 1
    evidence.chosen_sizes(rows, Sizes(), Sizes())
    assert rows[0].asked | rows[1].asked <= {*evidence.COLUMNS, *evidence.OF_SIGNERS}


def test_training_asks_for_no_column_that_is_not_read() -> None:
    row = told()
    assert dataset.row_from_table(row) is not None
    assert row.asked - OTHER_NAMES <= {*dataset.COLUMNS}


def test_the_sizes_measured_most_are_chosen_among_those_that_agree() -> None:
    rows = [told(image_size=size, sequence_length=length) for size, length in [(224, None)] * 3 + [(384, None)] * 2]
    assert evidence.chosen_sizes(rows, Sizes(), Sizes()) == Sizes(image_size=224)
    assert evidence.chosen_sizes(rows, Sizes(image_size=384), Sizes()) == Sizes(image_size=384)
    assert evidence.chosen_sizes(rows, Sizes(image_size=512), Sizes(sequence_length=8)) == Sizes(
        image_size=512, sequence_length=8
    )

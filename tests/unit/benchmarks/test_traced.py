"""What `python -m research.traced` writes is what ships."""

from __future__ import annotations

import json

import pytest

from predictor.features.shipped_traces import shipped_rows
from research.traced import blaze, restoration, ssd, yolo
from research.traced.entry import lines


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (yolo, "architecture/yolov8n"),
        (ssd, "architecture/efficientdet-d0"),
        (restoration, "architecture/quicksrnet-small"),
        (blaze, "architecture/mediapipe-palm-detector"),
    ],
)
def test_an_architecture_traced_again_is_the_shipped_one(module: object, name: str) -> None:
    entries = [entry for entry in module.entries() if entry.id == name]  # type: ignore[attr-defined]
    shipped = {row["phase"]: row for row in shipped_rows([name])}
    traced = list(lines(entries))
    assert [data["workload"]["phase"] for data in traced] == sorted(shipped)
    for data in traced:
        row = shipped[data["workload"]["phase"]]
        assert data["operators"] == json.loads(row["operators"])
        assert data["model"]["architecture"] == row["architecture"]
        assert data["totals"] == json.loads(row["totals"])

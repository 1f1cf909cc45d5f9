"""Tables that followed the log step by step are the tables that are made of it in one go."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.projection.projector import Projection
from tests.torture.load import Sender


@pytest.mark.parametrize(
    ("steps", "events"), [(2, 2_000), pytest.param(10, 12_000, marks=pytest.mark.torture)], ids=["short", "long"]
)
def test_step_by_step_and_in_one_go(
    steps: int, events: int, database: Any, append: Any, build: Any, tmp_path: Any, assert_same_projection: Any
) -> None:
    """Measurements, tests, failures, aliases, and retractions of what came long before, in every step."""
    maker = Sender("", build, seed=5)
    with Projection(tmp_path / "followed", database) as followed:
        for _ in range(steps):
            batch = [maker.event() for _ in range(events)]
            append(batch)
            maker.acknowledged += [event["id"] for event in batch]
            followed.catch_up()
        with Projection(tmp_path / "anew", database) as anew:
            assert anew.catch_up() == followed.position
            assert_same_projection(followed, anew)
        with followed.tables() as tables:
            assert tables.retractions().num_rows > 0
            assert tables.dead_letters().num_rows == 0

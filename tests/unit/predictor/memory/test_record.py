import json
from typing import Any

import numpy as np
import pytest

from domain.errors import CorruptArtifact
from predictor.learning.dataset import Row
from predictor.learning.table import Table
from predictor.memory.facts import FACTS
from predictor.memory.method import MemoryMethod
from predictor.memory.record import recorded, restored


def table(count: int) -> Table:
    random = np.random.default_rng(0)
    rows = [
        Row(
            model=f"acme/net-{n}", hardware="acme-1", platform="cpu", runtime=("torch", "openvino")[n % 2],
            precision="fp32", batch_size=1, options={"artifact": "dlc"} if n % 3 else {},
        )
        for n in range(count)
    ]  # fmt: skip
    values = random.normal(loc=17, size=(count, len(FACTS)))
    prior = np.exp(values[:, 2])
    names = np.array([row.model for row in rows], dtype=str)
    return Table(
        target="memory", rows=rows, names=FACTS, values=values, prior=prior, measured=prior * random.uniform(1.5, 3, count),
        subjects=[None] * count, limits=[None] * count, architecture=names, family=names,
    )  # fmt: skip


def test_what_was_recorded_teaches_the_same_bits() -> None:
    before = table(30)
    after = restored(json.loads(json.dumps(recorded(before))))
    asked = table(40)
    once, again = (MemoryMethod().fit(one) for one in (before, after))
    assert once.predict(asked).residual.tobytes() == again.predict(asked).residual.tobytes()
    room = asked.prior * 2
    assert once.chance(asked, room).tobytes() == again.chance(asked, room).tobytes()


def test_nothing_is_recorded_and_restored_as_nothing() -> None:
    assert len(restored(recorded(table(0)))) == 0


@pytest.mark.parametrize(
    "damage",
    [
        {"facts": ["weights"]},
        {"values": [[1.0]]},
        {"rows": [{"model": 1}]},
        {"prior": "many"},
        {"measured": [1.0, 2.0]},
    ],
    ids=str,
)
def test_a_damaged_record_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(CorruptArtifact):
        restored(recorded(table(3)) | damage)


def test_a_record_without_a_part_is_refused() -> None:
    data = recorded(table(3))
    del data["measured"]
    with pytest.raises(CorruptArtifact, match="measured"):
        restored(data)

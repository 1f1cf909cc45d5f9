"""The floor of served predictions is how far repeats of a configuration lie apart."""

from __future__ import annotations

import pytest

from domain.catalogues import hardware
from predictor.features.dataset import Row
from predictor.llm_serving.table import tabulate
from research.serving_floor import apart


def row(version: str, tpot_ms: float) -> Row:
    return Row(
        model="meta-llama/Llama-3.1-70B", hardware="nvidia-h200-sxm", platform="cuda", precision="fp8", batch_size=32,
        scenario="serving", input_tokens=1024, output_tokens=1024, concurrency=32, runtime="vllm", count=4,
        runtime_version=version, tpot_ms=tpot_ms, parallelism={"tensor": 4},
    )  # fmt: skip


def test_each_row_is_predicted_by_the_others_of_its_group() -> None:
    table = tabulate([row("0.18.0", 20.0), row("0.18.0", 25.0), row("0.19.0", 40.0)], hardware.find)
    same = apart(table, [item.runtime_version for item in table.rows], other_software=False)
    assert same.tolist() == pytest.approx([0.25, 0.2])
    other = apart(table, ["one"] * 3, other_software=True)
    assert other.tolist() == pytest.approx([1.0, 0.6, 1 - (20 * 25) ** 0.5 / 40])

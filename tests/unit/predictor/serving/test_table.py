"""Rows become a table of what is known, and each row left out has its reason."""

import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.llm_serving.table import tabulate


def test_the_prior_is_in_seconds_and_near_what_was_measured(served) -> None:
    row = served(model="meta-llama/Llama-3.1-8B-Instruct", precision="bf16", parallelism={"tensor": 1}, tpot_ms=12.0)
    table = tabulate([row], hardware.find, "tpot")
    assert table.measured.tolist() == [0.012]
    assert 0.5 < table.prior[0] / table.measured[0] < 2
    assert np.isfinite(table.column("log_tpot")).all()
    assert table.architecture.tolist() == ["llama-32x4096x32-14336-128256"]


def test_throughput_counts_the_tokens_of_all_requests(served) -> None:
    row = served(scenario="offline", concurrency=None, batch_size=8, tokens_per_s=400.0)
    table = tabulate([row], hardware.find, "throughput")
    latency = tabulate([row], hardware.find, "tpot").prior[0] * 1023 + tabulate([row], hardware.find, "ttft").prior[0]
    assert table.measured[0] == pytest.approx(1 / 400)
    assert table.prior[0] == pytest.approx(latency / (8 * 1024))


def test_rows_that_cannot_be_placed_are_counted_by_reason(served) -> None:
    rows = [
        served(), served(model="nobody/nothing"), served(hardware="acme-9000"), served(tpot_ms=None),
        served(output_tokens=None), served(runtime_version="0.19.0"), served(tpot_ms=20.000001),
    ]  # fmt: skip
    table = tabulate(rows, hardware.find)
    assert len(table) == 1
    assert table.dropped == {
        "no facts of the language model": 1, "unknown hardware": 1, "no figure of the target": 1,
        "no token counts": 1, "repeated figures": 2,
    }  # fmt: skip


def test_the_same_figures_under_another_name_of_the_weights_count_once(served) -> None:
    rows = [served(model="deepseek-ai/DeepSeek-R1"), served(model="deepseek-ai/DeepSeek-V3")]
    assert tabulate(rows, hardware.find).dropped == {"repeated figures": 1}


def test_no_feature_is_a_figure_of_the_device(served) -> None:
    rows = [served(hardware=name, concurrency=1, output_tokens=2) for name in ("nvidia-gb200", "nvidia-gb300")]
    table = tabulate(rows, hardware.find)
    same = [name for name in table.names if not name.startswith(("log_fill", "widened", "usual_"))]
    assert all(table.column(name)[0] == pytest.approx(table.column(name)[1], nan_ok=True) for name in same)

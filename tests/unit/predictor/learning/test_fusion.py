import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.features.dataset import Row
from predictor.features.operators_route import as_run, tabulate
from predictor.features.traces import Trace, TraceBook, trace_from_data

HEADS, TOKENS, DEPTH = 12, 197, 64
SCORES = HEADS * TOKENS**2
TRACE = trace_from_data(
    {
        "model": {"id": "acme/net"},
        "workload": {"image_size": 224},
        "operators": [
            {
                "class": "attention", "count": 12, "flops": 4.0 * SCORES * DEPTH, "read_elements": 3e5,
                "write_elements": 1e5, "weight_elements": 0, "inner": DEPTH,
            },
            {
                "class": "mm", "count": 1, "flops": 1e9, "read_elements": 1e4, "write_elements": 1e4,
                "weight_elements": 1e6, "inner": 768,
            },
        ],
    }
)  # fmt: skip


def run_by(runtime: str, version: str, precision: str) -> Trace:
    row = Row(
        model="acme/net", hardware="dev", platform="cuda", precision=precision, batch_size=1, runtime=runtime,
        runtime_version=version,
    )  # fmt: skip
    return as_run([TRACE], [row])[0]


@pytest.mark.parametrize(("precision", "bytes_each", "passes"), [("amp-fp16", 2, 14), ("fp32", 4, 6)])
def test_before_torch_2_attention_moved_its_scores(precision: str, bytes_each: int, passes: int) -> None:
    more = run_by("torch", "1.13", precision).activations - TRACE.activations
    assert more[0] * bytes_each == pytest.approx(passes * SCORES * bytes_each)
    assert more[1] == 0


def test_what_was_fused_stays_as_it_was_traced() -> None:
    assert run_by("torch", "2.0", "amp-fp16") is TRACE
    assert run_by("torch", "2.13", "fp32") is TRACE
    assert run_by("torch", "", "fp32") is TRACE
    assert run_by("onnxruntime", "1.20", "fp32") is TRACE


def test_rows_of_one_software_share_one_trace() -> None:
    row = Row(
        model="acme/net",
        hardware="dev",
        platform="cuda",
        precision="fp16",
        batch_size=1,
        runtime="torch",
        runtime_version="1.10",
    )
    one, other = as_run([TRACE, TRACE], [row, row])
    assert one is other
    assert not np.array_equal(one.activations, TRACE.activations)


def test_tables_hold_what_ran() -> None:
    rows = [
        Row(
            model="acme/net", hardware="nvidia-rtx-3090", platform="cuda", precision="amp-fp16", batch_size=64,
            latency_ms=10.0, image_size=224, runtime="torch", runtime_version=version,
        )
        for version in ("1.13", "2.13")
    ]  # fmt: skip
    table = tabulate(rows, TraceBook([TRACE]), hardware.find)
    assert table.prior[0] > 1.5 * table.prior[1]
    assert table.subjects[1] is TRACE

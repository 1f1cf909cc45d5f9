"""The answer of `assay compress`: base, precisions and variants in rows, in a table of 100 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.cli.output import WIDTH, answers, captured
from assay.cli.variants.compressing import _reasons, _table, rows_of
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, QUALITY_MEASURED, TEST_REPORTED
from domain.variants.lineage import Form, Variant, VariantFile
from runner.compression.compress import Compressed
from runner.compression.contract import RecipeOutcome
from runner.protocol.tasks import Failed

BASE = "local/digits-vit"
DIGEST = "sha256:" + 64 * "a"


def variant(recipe: str) -> RecipeOutcome:
    file = VariantFile(path="onnx/model.onnx", bytes=155_397, digest=DIGEST)
    card = Variant(
        id=f"{BASE}+{recipe}.aaaaaaaa",
        base=BASE,
        source="digits-vit",
        recipe=recipe,
        forms=(Form(kind="onnx", precision="int8", files=(file,)),),
        digest=DIGEST,
        base_bytes=417_690,
    )
    return RecipeOutcome(recipe=recipe, variant=card, folder=Path("out"))


def event(kind: str, model: str, precision: str, **data: Any) -> dict[str, Any]:
    execution = {"platform": "cpu", "runtime": {"name": "onnxruntime"}, "precision": precision}
    return {"type": kind, "data": {"model": {"id": model}, "base": {"id": BASE}, "execution": execution, **data}}


def measured(model: str, precision: str, ms: float) -> dict[str, Any]:
    metrics = {"latency_ms": {"p50": ms}, "peak_memory_bytes": 83_200_000}
    return event(MEASUREMENT_RECORDED, model, precision, metrics=metrics)


def judged(model: str, precision: str, loss: float, low: float, high: float) -> dict[str, Any]:
    return event(QUALITY_MEASURED, model, precision, metric="accuracy", unit="pt", loss=loss, interval=[low, high])


RESULT = Compressed(
    base=BASE,
    made=[
        variant("int8-dynamic-onnx"),
        RecipeOutcome(
            recipe="int8-qat",
            failed=Failed(stage="resolve", outcome="unsupported", error="E", message="It needs labels.", remedy="Add."),
        ),
    ],
    events=[
        measured(BASE, "fp32", 0.1),
        measured(BASE, "int8", 0.05),
        judged(BASE, "int8", 0.25, -0.4, 0.9),
        event(MEASUREMENT_FAILED, BASE, "bf16", failure={"message": "no bf16 here."}),
        measured(f"{BASE}+int8-dynamic-onnx.aaaaaaaa", "int8", 0.2),
        judged(f"{BASE}+int8-dynamic-onnx.aaaaaaaa", "int8", 86.8, 83.8, 89.3),
        event(
            TEST_REPORTED, f"{BASE}+int8-dynamic-onnx.aaaaaaaa", "int8", outcome="failed", failure={"message": "far"}
        ),
    ],
)


def test_each_precision_of_the_model_itself_is_a_row_beside_its_fp32() -> None:
    fp32, int8, bf16, variant_row, unmade = rows_of(RESULT)
    assert (fp32.precision, fp32.latency_ratio, fp32.quality) == ("fp32", None, None)
    assert (int8.precision, int8.latency_ratio) == ("int8", 0.5) and int8.quality is not None
    assert (bf16.precision, bf16.failed) == ("bf16", "no bf16 here.")
    assert (variant_row.platform, variant_row.latency_ratio, variant_row.bytes) == ("onnxruntime", 2.0, 155_397)
    assert unmade.variant == "int8-qat" and unmade.failed == "It needs labels. Add."


def test_the_table_has_a_line_a_row_and_says_below_it_what_went_wrong() -> None:
    rows = rows_of(RESULT)
    with captured() as text:
        answers().print(_table(rows))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert len(lines) == 1 + len(rows) and max(map(len, lines)) <= WIDTH
    assert lines[2].endswith("+0.2 [-0.4, +0.9]") and lines[4].endswith("+86.8 [+83.8, +89.3]")
    assert "accuracy lost, pt" in lines[0] and lines[5].endswith("not made")
    reasons = list(_reasons(rows))
    assert len(reasons) == 3 and "It needs labels. Add." in reasons[2] and "far" in reasons[1]


def test_a_command_judges_a_variant_on_no_platform() -> None:
    name = f"{BASE}+int8-dynamic-onnx.aaaaaaaa"
    data = {**judged(name, "int8", 0.5, 0.1, 0.9)["data"], "execution": {"platform": "other"}}
    event_ = {"type": QUALITY_MEASURED, "data": data}
    alone = Compressed(base=BASE, made=RESULT.made[:1], events=[event_])
    _, row = rows_of(alone)
    assert (row.platform, row.quality) == (None, data)
    beside = Compressed(base=BASE, made=RESULT.made[:1], events=[measured(name, "int8", 0.2), event_])
    _, row = rows_of(beside)
    assert (row.platform, row.quality) == ("onnxruntime", data)

from __future__ import annotations

from typing import Any

import pytest

from presentation import formatting
from presentation.reports import families, likeness


@pytest.fixture
def rows(row: Any) -> list[dict[str, Any]]:
    half = {"platform": "openvino", "peak_memory_bytes": 250_000_000}
    return [
        row(10.0), row(5.0, **half), row(40.0, batch_size=8), row(10.0, batch_size=8, **half),
        row(3.0, model_id="acme/photo", family="vit", category="vision", platform="openvino"),
    ]  # fmt: skip


def best(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    table = families.best_by_family(rows, likeness.over_cpu(rows), likeness.scaling(rows))
    return {row["family"]: dict(zip([column.title for column in table.shown], table.words(row), strict=True)) | dict(row)
            for row in table.rows}  # fmt: skip


def test_a_family_has_its_best_hardware_improvement_memory_and_scaling(rows: list[dict[str, Any]]) -> None:
    bert = best(rows)["bert"]
    assert (bert["hardware"], bert["platform"], bert["wins"], bert["contests"]) == ("acme-one", "openvino", 2, 2)
    assert bert["factor"] == pytest.approx((2.0 * 4.0) ** 0.5)
    assert formatting.plain(bert["Over the CPU"]) == "× 2.83\n2.00–4.00, 2 pairs"
    assert formatting.plain(bert["Memory"]) == "250 MB\n× 0.500, 2 pairs"
    assert formatting.plain(bert["Batch scaling"]) == "50.0 %\nbatch 1 to 8, 1 series"


def test_the_improvement_of_a_family_is_that_of_its_best_hardware_alone(row: Any, rows: list[dict[str, Any]]) -> None:
    other = [row(9.0, precision="bf16"), row(8.0, precision="bf16", platform="openvino")]
    assert best([*rows, *other])["bert"]["pairs"] == 2


def test_a_family_that_ran_in_one_way_names_no_best(rows: list[dict[str, Any]]) -> None:
    vit = best(rows)["vit"]
    assert (vit["hardware"], vit["Best hardware"], vit["Over the CPU"]) == (None, "nothing ran in two ways", "—")


def test_a_suspect_row_makes_the_family_suspect(row: Any) -> None:
    rows = [row(10.0), row(5.0, platform="openvino", verdict="suspect")]
    assert best(rows)["bert"]["Origin"] == "● measured\n⚠ suspect"


def test_speedups_of_a_family_name_their_baselines(rows: list[dict[str, Any]]) -> None:
    table = families.speedup_by_family(likeness.over_cpu(rows))
    (found,) = table.rows
    assert (found["pairs"], found["models"], found["baselines"]) == (2, 1, ["acme-one · cpu · fp32"])


def test_a_compiled_way_stands_apart_from_the_same_way_without(row: Any) -> None:
    table = families.speedup_by_family(likeness.over_cpu([row(10.0), row(8.0, compiled=True)]))
    (words,) = (table.words(found) for found in table.rows)
    assert "acme-one · cpu · fp32 · compiled" in words


def test_scaling_of_a_family_is_told_by_stretch_of_batches(rows: list[dict[str, Any]]) -> None:
    table = families.scaling_by_family(likeness.scaling(rows))
    found = {row["platform"]: row for row in table.rows}
    assert (found["cpu"]["gain"], found["openvino"]["gain"]) == (pytest.approx(2.0), pytest.approx(4.0))
    words = dict(zip([column.title for column in table.shown], table.words(found["cpu"]), strict=True))
    assert (words["Batch"], formatting.plain(words["Gain"])) == ("1 to 8", "× 2.00\n1 series")

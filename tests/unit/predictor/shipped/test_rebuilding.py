"""The shipped predictor is made again from raw files by one command: its parts, their order, and what a check compares."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from predictor.artifact.artifact import load_shipped, read_folder
from predictor.features.shipped_traces import shipped_models, shipped_rows
from predictor.shipped.__main__ import main
from predictor.shipped.building import PARTS, Parts, Sources, differences, rebuild

DEVICES = {
    "b200_sxm": ("NVIDIA B200", 2000.0),
    "l40s": ("NVIDIA L40S", 300.0),
    "a100_sxm": ("NVIDIA A100-SXM4-80GB", 280.0),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of published data with a few products of three chips, and nothing else that the kernels are fitted on."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "kernels").mkdir()
    rows = [
        {
            "device": device, "device_name": name, "framework": "vllm", "version": "0.20.0", "kernel_source": "vllm_default",
            "dtype": "bfloat16", "m": m, "n": n, "k": k, "latency_ms": 2 * m * n * k / (0.7 * teraflops * 1e9) + 0.004,
        }
        for device, (name, teraflops) in DEVICES.items()
        for m in (1, 16, 128, 1024, 4096)
        for n in (1024, 4096, 8192)
        for k in (1024, 4096)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    for name in ("gemm", "attention", "neusight_ops"):
        # The others hold a product each: a file without rows has no format.
        parquet.write_table(table if name == "gemm" else table.slice(0, 1), folder / "kernels" / f"{name}.parquet")
    return folder


def test_a_part_is_made_anew_and_the_others_stay_as_they_ship(data: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    assert main(["--data", str(data), "--only", "kernels", "--out", str(tmp_path)], lines.append) == 0
    made, shipped = read_folder(tmp_path), load_shipped()
    assert lines[-1] == made.digest != shipped.digest
    assert made.card.kernels is not None and made.card.kernels.rows == {"product": 90}
    assert {device for device, _ in made.card.kernels.places} == {
        "nvidia-b200-sxm",
        "nvidia-l40s",
        "nvidia-a100-sxm-80gb",
    }
    changed = differences(Parts.of(made), Parts.of(shipped))
    assert changed["card.kernels"] == math.inf
    assert all(name.startswith("trees kernel.") for name in changed if name != "card.kernels")


def test_the_trees_are_made_anew_on_traces_that_ship_and_the_rest_stays(tmp_path: Path) -> None:
    header = "model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,param_count\n"
    works = shipped_rows(
        sorted(name for name in shipped_models() if name.startswith("timm/")), ("model_id", "totals", "image_size")
    )
    chosen = {row["model_id"]: row for row in works if row["image_size"] == 224}
    (tmp_path / "timm").mkdir()
    for device, teraflops in (("rtx3090", 30.0), ("rtx4090", 60.0)):
        rows = []
        for name in sorted(chosen)[::10]:
            rate = teraflops * 1e12 / (json.loads(chosen[name]["totals"])["flops"] + 1e9)
            rows.append(f"{name.removeprefix('timm/')},{rate:.2f},{256 / rate * 1e3:.3f},256,224,10\n")
        (tmp_path / "timm" / f"benchmark-infer-amp-nchw-pt240-cu124-{device}.csv").write_text(header + "".join(rows))
    shipped = load_shipped()
    made = rebuild(Sources.in_folder(tmp_path, commit="90cae8c5"), shipped, ("base",), lambda _: None)
    assert made.card.rows == 2 * len(sorted(chosen)[::10])
    assert made.card.coverage.hardware == ["nvidia-rtx-3090", "nvidia-rtx-4090"]
    assert made.card.data["sources"][0]["commit"] == "90cae8c5"
    kept = {"card.serving", "card.kernels", "card.general", "card.few", "card.tails", "card.shares", "card.memory"}
    changed = differences(made, Parts.of(shipped))
    assert "card.scores" in changed and not kept & set(changed)
    assert not any(name.startswith(("trees serving", "trees kernel", "trees general")) for name in changed)


def test_a_check_writes_nothing_and_names_what_differs(data: Path) -> None:
    first: list[str] = []
    second: list[str] = []
    for lines in (first, second):
        assert main(["--data", str(data), "--only", "kernels", "--check"], lines.append) == 1
    # The same files give the same digest.
    assert first == second
    assert any("differs from" in line and load_shipped().digest in line for line in first)
    assert "  card.kernels: differs" in first


def test_without_a_part_the_predictor_is_the_one_that_ships(data: Path) -> None:
    made = rebuild(Sources.in_folder(data), load_shipped(), (), lambda _: None)
    assert made.digest == load_shipped().digest
    assert differences(made, Parts.of(load_shipped())) == {}


def test_a_last_digit_is_told_from_a_difference() -> None:
    shipped = Parts.of(load_shipped())
    tails = shipped.card.tails
    assert tails is not None
    rounded = msgspec.structs.replace(tails, slope=tails.slope * (1 + 4e-16))
    other = msgspec.structs.replace(shipped, card=msgspec.structs.replace(shipped.card, tails=rounded, name="other"))
    changed = differences(other, shipped)
    assert changed.keys() == {"card.name", "card.tails"}
    assert 0 < changed["card.tails"] < 1e-15 and changed["card.name"] == math.inf


def test_files_that_are_not_there_are_named_before_anything_is_made(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--data", str(data), "--check"])
    error = capsys.readouterr().err
    assert str(data / "timm") in error and "silicon_sample.csv" in error and "gemm.parquet" not in error


def test_parts_are_made_in_their_order_whatever_the_order_they_are_named_in(data: Path) -> None:
    lines: list[str] = []
    sources = Sources.in_folder(data, measurements=())
    rebuild(sources, load_shipped(), ("kernels", "first-party"), lines.append)
    made = [line.removesuffix(" …") for line in lines if line.endswith(" …")]
    assert made == ["first-party", "kernels"] == [name for name in PARTS if name in made]

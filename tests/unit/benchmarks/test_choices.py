"""The benchmark of decisions on small tables in the formats of those it is made for."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.choices_devices import ranked
from benchmarks.choices_memory import EDGE, USUAL, shrunk
from benchmarks.choices_page import page, picture
from benchmarks.choices_served import BAR_OVERSPEND, Fold, choices, folds, price_of, reliability

MODELS = {"meta-llama/Llama-3.1-70B": 1.0, "openai/gpt-oss-120b": 0.4, "MiniMaxAI/MiniMax-M2.5": 0.6}
MACHINES = {("h100_sxm", 4): 1.0, ("h200_sxm", 4): 0.8, ("b200_sxm", 4): 0.45, ("b200_sxm", 8): 0.3}
LOADS = (4, 16, 64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Served tables where time falls with the machine and grows with the load, and a timm run that lowered batches."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "aiconfigurator").mkdir()
    random = np.random.default_rng(3)
    with (folder / "aiconfigurator" / "sample.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([
            "id", "silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode", "isl",
            "osl", "gemm_quant_mode", "moe_quant_mode", "batch_size", "tp_size", "pp_size", "attention_dp_size",
            "moe_tp_size", "moe_ep_size", "silicon_ttft_ms", "silicon_tpot_ms",
        ])  # fmt: skip
        for model, slow in MODELS.items():
            for (system, devices), time in MACHINES.items():
                for load in LOADS:
                    noise = 1 + 0.02 * random.normal()
                    ttft, tpot = 300 * slow * time * (1 + load / 32), 12 * slow * time * (1 + load / 64) * noise
                    writer.writerow([
                        "x", f"table; silicon_concurrency={load}; measured=2026-04-18T00:00:00.000Z", "vllm", "0.18.0", model,
                        system, "fp8", "agg", 1024, 1024, "fp8", "fp8", load, devices, 1, 1, devices, 1, ttft, tpot,
                    ])  # fmt: skip
    (folder / "timm").mkdir()
    (folder / "timm" / "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv").write_text(
        "model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,param_count\n"
        "resnet18,5000.0,204.8,1024,224,11.69\nresnet50,2500.0,307.2,768,224,25.56\nresnet101,1500.0,341.3,512,224,44.55\n"
        "odd,1.0,1000.0,1,224,1.0\n"
    )
    return folder


@pytest.fixture(scope="module")
def left_out(data: Path) -> list[Fold]:
    """Return each model left out."""
    return list(folds(data))


@pytest.fixture(scope="module")
def told(left_out: list[Fold]) -> dict[str, Any]:
    """Return the scores of every rule."""
    return choices(left_out)


def test_a_model_left_out_never_has_a_say(left_out: list[Fold]) -> None:
    assert len(left_out) == len(MODELS)
    for fold in left_out:
        assert {one.work.model for one in fold.works} == {fold.model}
        assert fold.model not in {one.work.model for one in fold.others}
        assert len(fold.works[0].work.machines) == len(MACHINES)
        assert not any(fold.works[0].beliefs.measured(load) for load in range(len(fold.works[0].work)))


def test_blind_measurements_are_known_and_the_rest_is_surer(left_out: list[Fold]) -> None:
    before, after = left_out[0].works[0].beliefs.tpot, left_out[0].shot[0].beliefs.tpot
    known = after.spread == 0
    assert known.sum() == 10
    assert (after.spread[~known] < before.spread[~known]).all()


def test_checks_lead_to_choices_that_hold_and_cost_little(left_out: list[Fold], told: dict[str, Any]) -> None:
    lines = told["lines"]
    checked = lines["ours, 3 checked"]
    assert checked["success"] >= 0.9
    assert checked["overspend"] <= BAR_OVERSPEND
    assert lines["random machine"]["overspend"] > checked["overspend"]
    assert set(told["rules"]["ours, nothing measured"]) == {fold.model for fold in left_out}
    assert checked["questions"] == lines["biggest GPU"]["questions"]


def test_the_page_tells_every_rule_and_says_where_a_bar_is_missed(left_out: list[Fold], told: dict[str, Any]) -> None:
    served = told | {"reliability": reliability(left_out)}
    text = page({"served": served})
    assert all(f"| {name} |" in text for name in served["lines"])
    assert b"<svg" in picture(served["lines"])
    poor = served["lines"] | {"ours, nothing measured": served["lines"]["ours, nothing measured"] | {"success": 0.5}}
    assert "| **no** (macro: yes) |" in page({"served": served | {"lines": poor}})


def test_prices_are_those_of_one_provider() -> None:
    assert price_of("nvidia-b200-sxm") > price_of("nvidia-h100-sxm") > 0


def test_a_lowered_batch_says_what_did_not_fit_and_what_is_needed(data: Path) -> None:
    just, tried = shrunk(data)
    edge = {(row.model, row.batch_size): fitted for row, fitted in tried[EDGE]}
    assert edge == {
        ("timm/resnet50", 768): True, ("timm/resnet50", 1024): False,
        ("timm/resnet101", 512): True, ("timm/resnet101", 768): False,
    }  # fmt: skip
    usual = {(row.model, row.batch_size): fitted for row, fitted in tried[USUAL]}
    assert usual["timm/resnet18", 512]
    assert all(fitted for (model, _), fitted in usual.items() if model == "timm/resnet18")
    need = {row.model: row.peak_memory_bytes for row in just}
    assert need["timm/resnet50"] == pytest.approx(24 * 2**30 * (3 / 4) ** 0.5)
    assert not any(row.model == "timm/odd" for row, _ in tried[USUAL])


def test_what_ranks_devices_never_saw_the_model() -> None:
    names = [f"d{place}" for place in range(8)]
    works = {
        ("a", "offline"): {name: 1.0 + place for place, name in enumerate(names)},
        ("b", "offline"): {name: 8.0 - place for place, name in enumerate(names)},
    }
    lost = ranked(works)["ours"]
    assert [(model, rank) for model, _, rank in lost] == [("a", 7), ("b", 7)]
    assert [round(share, 3) for _, share, _ in lost] == [0.875, 0.875]

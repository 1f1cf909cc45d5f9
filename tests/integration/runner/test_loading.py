"""How models are loaded in a run, and what its events then say: weights and why, low memory, pickles, phases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from domain.errors import UsageError
from runner.campaign.bench import run_plan
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.verify import run_verification
from runner.measure.stopping import Method
from runner.models.build import build, build_meta
from runner.models.checkpoints import check_shapes
from runner.models.sources import hub_problem, resolve

METHOD = Method(budget_s=0.2)
LLAMA = "assay/llama-small"


def plan(model: str, weights: str = "auto", **options: Any) -> Plan:
    how = {name: options.pop(name) for name in ("low_memory", "allow_pickle") if name in options}
    sizes = {"platforms": ("cpu",), "sequence_lengths": (16,), "threads": (1,), **options}
    return make_plan(Sweep(models=(model,), **sizes), method=METHOD, weights=weights, **how)


def told(plan: Plan, cache: Path) -> dict[str, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    run_plan(plan, events.append, cache=cache)
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault(event["type"].removeprefix("assay.").removesuffix(".v1"), []).append(event["data"])
    assert "measurement.failed" not in found, found["measurement.failed"]
    return found


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The hub switched off as a user would, here and in the children, and no cache of it."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_problem.cache_clear()
    yield
    hub_problem.cache_clear()


@pytest.mark.usefixtures("offline")
def test_why_weights_are_random_and_which_models_are_open_stands_in_the_row(tmp_path: Path) -> None:
    model = told(plan("sentence-transformers/all-MiniLM-L6-v2", sequence_lengths=(4,)), tmp_path)[
        "measurement.recorded"
    ][0]["model"]
    assert model["weights"] == "random"
    assert "HF_HUB_OFFLINE is set" in model["weights_reason"]
    assert "Smaller models that anyone may fetch: prajjwal1/bert-tiny." in model["weights_reason"]


def test_a_pickled_checkpoint_is_refused_until_it_is_allowed_by_name(tmp_path: Path) -> None:
    built = build(resolve(LLAMA, "random"))
    folder = tmp_path / "pickled"
    built.config.save_pretrained(folder)
    torch.save(built.module.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(UsageError) as caught:
        plan(str(folder))
    assert "--allow-pickle" in str(caught.value.remedy)
    row = told(plan(str(folder), allow_pickle=True), tmp_path)["measurement.recorded"][0]
    assert row["model"]["weights"] == "pretrained"


@pytest.mark.torture
def test_low_memory_measures_in_bf16_and_the_run_says_so(tmp_path: Path) -> None:
    found = told(plan(LLAMA, low_memory=True), tmp_path)
    row = found["measurement.recorded"][0]
    assert (row["execution"]["precision"], row["observed"]["requested"]["precision"]) == ("bf16", "bf16")
    assert found["run.started"][0]["plan"]["low_memory"] is True
    with pytest.raises(UsageError) as caught:
        run_plan(plan(LLAMA, low_memory=True, platforms=("openvino",)), lambda _: None, cache=tmp_path)
    assert (caught.value.field, caught.value.exit_code) == ("low_memory", 2)
    with pytest.raises(UsageError) as caught:
        run_verification(plan(LLAMA, low_memory=True), lambda _: None, cache=tmp_path)
    assert caught.value.field == "low_memory"


@pytest.mark.torture
def test_every_phase_of_the_plan_is_traced_once_and_gives_the_share_of_the_roofline(tmp_path: Path) -> None:
    sweeps = (
        Sweep(models=(LLAMA,), platforms=("cpu",), modes=("inference", "training"), sequence_lengths=(16,)),
        Sweep(models=(LLAMA,), platforms=("cpu",), input_tokens=(16,), output_tokens=(4,), batch_sizes=(1, 2)),
    )
    found = told(make_plan(*sweeps, method=METHOD, weights="random"), tmp_path)
    phases = sorted(data["workload"]["phase"] for data in found["model.traced"])
    assert phases == ["decode", "forward", "prefill", "training"]
    rows = found["measurement.recorded"]
    assert len(rows) == 4
    for row in rows:
        assert 0 < row["metrics"]["roofline_share"] < 1, row["workload"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_hidden_layers": 1}, r"left over: layers\.1\."),
        ({"num_hidden_layers": 3}, r"missing: layers\.2\."),
        ({"intermediate_size": 64}, r"of another shape: layers\.0\.mlp"),
    ],
)
def test_a_checkpoint_of_another_config_is_refused_before_it_is_read(
    tmp_path: Path, changes: dict[str, int], told: str
) -> None:
    build(resolve(LLAMA, "random")).module.save_pretrained(tmp_path)
    check_shapes(build_meta(resolve(str(tmp_path))).module, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(UsageError, match=told) as caught:
        check_shapes(build_meta(resolve(str(tmp_path))).module, tmp_path)
    assert caught.value.field == "model" and "--weights random" in str(caught.value.remedy)


def test_a_plan_with_such_a_checkpoint_tells_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    build(resolve(LLAMA, "random")).module.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    events: list[dict[str, Any]] = []
    with pytest.raises(UsageError, match="does not match its config") as caught:
        run_plan(plan(str(folder)), events.append, cache=tmp_path)
    assert (caught.value.field, caught.value.exit_code, events) == ("model", 2, [])

"""A variant's folder is a model: found, checked, measured and verified in the form that each platform takes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from domain.configuration import Workload
from domain.errors import UnsupportedPrecision, UnsupportedWorkload, UsageError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from domain.variants.lineage import Variant, variant_id
from runner.campaign.bench import run_plan
from runner.campaign.execution import convert
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.verify import run_verification
from runner.compression.folder import (
    check_variant,
    describe_form,
    form_taken,
    keep_examples,
    kept_examples,
    no_room,
    read_variant,
    require_room,
    staged_variant,
    variant_digest,
    weights_digest,
    write_card,
)
from runner.measure.prepared_case import built_for
from runner.measure.stopping import Method
from runner.models.sources import resolve
from runner.protocol.tasks import Case, Convert
from tests.integration.runner.workbench import Stages, failed, measured, verified

TAKEN_BY = {"openvino": "openvino", "onnx": "onnxruntime", "checkpoint": "cpu"}
KINDS = {"openvino": "model.xml", "onnx": "model.onnx", "checkpoint": "model.safetensors"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small vision transformer with random weights, saved as transformers does."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32, "num_hidden_layers": 1}
    config = ViTConfig(**sizes, num_attention_heads=2, intermediate_size=64, num_labels=10)
    folder = tmp_path_factory.mktemp("base") / "small-vit"
    ViTForImageClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def variants(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A variant for each form: int8 graphs by the runtimes' own quantizers, and a checkpoint rounded to bf16."""
    import torch

    from runner.models.build import build
    from runner.models.inputs import make_inputs
    from runner.platforms.base import Recipe
    from runner.platforms.onnx_export import export, quantize
    from runner.platforms.openvino import OpenVino

    out = tmp_path_factory.mktemp("variants")
    built = build(resolve(str(base)))
    inputs = make_inputs(built, Workload(mode="inference", batch_size=1))
    for kind in KINDS:
        (out / kind / kind).mkdir(parents=True)
    with warnings.catch_warnings():
        # Tracing is deprecated in torch, and what OpenVINO converts best.
        warnings.simplefilter("ignore")
        OpenVino().convert(built.module, inputs, out / "openvino" / "openvino", Recipe(precision="int8"))
        export(built.module, inputs, out / "plain.onnx", before_outputs="result/")
        quantize(out / "plain.onnx", out / "onnx" / "onnx" / "model.onnx")
    with torch.no_grad():
        for parameter in built.module.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    built.module.save_pretrained(out / "checkpoint" / "checkpoint")
    for kind in KINDS:
        _write(out / kind, kind, base, "fp32" if kind == "checkpoint" else "int8")
    return {kind: out / kind for kind in KINDS}


def _write(folder: Path, kind: Any, base: Path, precision: str) -> Variant:
    digest, size = weights_digest(base)
    card = Variant(
        id="x",
        base=resolve(str(base)).id,
        source=str(base),
        recipe=f"test-{kind}",
        forms=(describe_form(folder, kind, precision, "test" if precision == "int8" else None, kind),),
        digest="sha256:" + 64 * "0",
        base_digest=digest,
        base_bytes=size,
    )
    own = variant_digest(card)
    variant = msgspec.structs.replace(card, id=variant_id(card.base, card.recipe, own), digest=own)
    write_card(folder, variant)
    return variant


def _plan(*folders: Path, platforms: tuple[str, ...]) -> Plan:
    sweep = Sweep(models=tuple(map(str, folders)), platforms=platforms)
    return make_plan(sweep, method=Method(iterations=2, budget_s=0.2))


def _copied(folder: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder, to))


def test_a_folder_is_read_as_it_was_written(variants: dict[str, Path]) -> None:
    for kind, folder in variants.items():
        variant = check_variant(folder)
        assert variant.id == f"local/small-vit+test-{kind}.{variant.digest[7:15]}"
        assert variant.forms[0].bytes == sum(
            path.stat().st_size for path in (folder / kind).rglob("*") if path.is_file()
        )


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_missing_file_is_named(variants: dict[str, Path], tmp_path: Path, kind: str) -> None:
    folder = _copied(variants[kind], tmp_path / "copy")
    (folder / kind / KINDS[kind]).unlink()
    with pytest.raises(UsageError, match=f"{kind}/{KINDS[kind]} is missing"):
        resolve(str(folder))


def test_altered_weights_of_the_same_size_are_refused_before_anything_is_measured(
    variants: dict[str, Path], tmp_path: Path
) -> None:
    folder = _copied(variants["openvino"], tmp_path / "copy")
    weights = folder / "openvino" / "model.bin"
    content = bytearray(weights.read_bytes())
    content[100] ^= 0xFF
    weights.write_bytes(content)
    read_variant(folder)
    with pytest.raises(UsageError, match=r"openvino/model\.bin in .* was altered"):
        run_plan(_plan(folder, platforms=("openvino",)), lambda _: None)


def test_a_card_that_was_edited_is_refused(variants: dict[str, Path], tmp_path: Path) -> None:
    folder = _copied(variants["onnx"], tmp_path / "copy")
    card = json.loads((folder / "variant.json").read_text())
    (folder / "variant.json").write_text(json.dumps({**card, "recipe": "another"}))
    with pytest.raises(UsageError, match="was altered"):
        check_variant(folder)


def test_a_card_that_names_a_file_elsewhere_is_refused(variants: dict[str, Path], tmp_path: Path) -> None:
    folder = _copied(variants["onnx"], tmp_path / "copy")
    card = json.loads((folder / "variant.json").read_text())
    card["forms"][0]["files"][0]["path"] = "../../etc/passwd"
    (folder / "variant.json").write_text(json.dumps(card))
    with pytest.raises(UsageError, match="outside of its folder"):
        read_variant(folder)


def test_it_resolves_to_its_own_checkpoint_or_to_the_weights_of_its_base(variants: dict[str, Path], base: Path) -> None:
    own, graph = resolve(str(variants["checkpoint"])), resolve(str(variants["openvino"] / "variant.json"))
    assert own.location == variants["checkpoint"] / "checkpoint"
    assert graph.location == base
    assert own.family == graph.family == "vit"
    assert own.task == graph.task == "image-classification"
    assert graph.variant is not None and graph.id == graph.variant.id


def test_other_weights_of_the_base_are_refused(variants: dict[str, Path], base: Path, tmp_path: Path) -> None:
    moved = _copied(base, tmp_path / "small-vit")
    folder = _copied(variants["openvino"], tmp_path / "copy")
    card = json.loads((folder / "variant.json").read_text())
    (folder / "variant.json").write_text(json.dumps({**card, "source": str(moved)}))
    assert resolve(str(folder)).location == moved
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(UsageError, match="are others now"):
        resolve(str(folder))
    (moved / "config.json").unlink()
    with pytest.raises(UsageError, match="cannot be found"):
        resolve(str(folder))


def test_the_precision_is_that_of_the_form_and_no_other(variants: dict[str, Path]) -> None:
    graph, checkpoint = read_variant(variants["openvino"]), read_variant(variants["checkpoint"])
    kinds: Any = ("openvino", "checkpoint")
    assert form_taken(graph, kinds, platform="openvino", precision="int8").kind == "openvino"
    with pytest.raises(UnsupportedPrecision):
        form_taken(graph, kinds, platform="openvino", precision="bf16")
    with pytest.raises(UnsupportedWorkload, match="openvino"):
        form_taken(graph, ("checkpoint",), platform="cpu", precision="int8")
    with pytest.raises(UnsupportedWorkload, match="needs its checkpoint"):
        form_taken(graph, kinds, platform="openvino", precision="int8", purpose="generation")
    assert form_taken(checkpoint, kinds, platform="openvino", precision="bf16").kind == "checkpoint"
    assert {case.precision for case in _plan(variants["openvino"], platforms=("openvino",)).cases} == {"int8"}


def test_each_form_is_measured_and_verified_where_it_is_taken(variants: dict[str, Path], tmp_path: Path) -> None:
    for kind, platform in TAKEN_BY.items():
        precision = "fp32" if kind == "checkpoint" else "int8"
        case = _case(variants[kind], platform, precision)
        folder: str | None = None
        if kind != "checkpoint":
            (tmp_path / kind).mkdir()
            folder = str(tmp_path / kind)
            convert(Convert(case=case, folder=folder), Stages())
        row = measured(case, folder)
        assert row["options"]["form"] == kind and row["observed"]["precision"] == precision
        assert row["options"].get("quantization") == (None if kind == "checkpoint" else "test")
        assert not failed(verified(case, folder))


def _case(folder: Path, platform: str, precision: str, **sizes: Any) -> Case:
    workload = Workload(**{"mode": "inference", "batch_size": 1, "image_size": 8, **sizes})
    return Case(model=str(folder), platform=platform, precision=precision, workload=workload, threads=1)


@pytest.mark.torture
def test_forms_run_in_children_and_a_platform_that_takes_none_is_unsupported(
    variants: dict[str, Path], tmp_path: Path
) -> None:
    """Ten processes, each of which imports torch, take half a minute."""
    events: list[dict[str, Any]] = []
    cases = [case for kind, name in TAKEN_BY.items() for case in _plan(variants[kind], platforms=(name,)).cases]
    refused = _plan(variants["openvino"], platforms=("cpu",)).cases
    plan = msgspec.structs.replace(_plan(variants["onnx"], platforms=("cpu",)), cases=(*cases, *refused))
    report = run_plan(plan, events.append, cache=tmp_path)
    rows = {event["data"]["model"]["id"]: event["data"] for event in events if event["type"] == MEASUREMENT_RECORDED}
    for kind, folder in variants.items():
        row = rows[read_variant(folder).id]
        assert row["execution"]["options"]["form"] == kind
        assert row["execution"]["precision"] == ("fp32" if kind == "checkpoint" else "int8")
    (failure,) = (event["data"] for event in events if event["type"] == MEASUREMENT_FAILED)
    assert failure["outcome"] == "unsupported" and "--platform openvino" in failure["remedy"]
    assert (report.done, report.failed) == (3, 1)

    tests: list[dict[str, Any]] = []
    ids = [read_variant(folder).id for folder in variants.values()]
    run_verification(msgspec.structs.replace(plan, cases=plan.cases[:3]), tests.append, cache=tmp_path)
    outcomes = {e["data"]["model"]["id"]: e["data"]["outcome"] for e in tests if e["type"] == TEST_REPORTED}
    assert outcomes == dict.fromkeys(ids, "passed")


def test_a_variant_is_fed_with_the_examples_that_it_was_calibrated_with(
    variants: dict[str, Path], base: Path, tmp_path: Path
) -> None:
    folder = _copied(variants["openvino"], tmp_path / "copy")
    pixels = np.linspace(-1, 1, 20 * 64, dtype=np.float32).reshape(20, 1, 8, 8)
    kept = keep_examples(folder, {"pixel_values": pixels})
    write_card(folder, msgspec.structs.replace(read_variant(folder), examples=kept))
    chosen = pixels[[0, 3, 5, 8, 11, 14, 16, 19]]

    def fed(model: Path, batch_size: int) -> Any:
        case = _case(model, "openvino", "int8", batch_size=batch_size)
        return built_for(case, "float32", Stages())[1]["pixel_values"].numpy()

    assert (fed(folder, 2) == chosen[:2]).all()
    assert (fed(folder, 10) == np.concatenate([chosen, chosen[:2]])).all()
    assert (fed(variants["openvino"], 2) == fed(base, 2)).all()
    assert kept_examples(folder, {"pixel_values": np.zeros((2, 1, 16, 16))}) is None
    with (folder / "examples.npz").open("r+b") as file:
        file.seek(200)
        file.write(b"another")
    with pytest.raises(UsageError, match=r"examples\.npz in .* was altered"):
        check_variant(folder)


def test_nothing_stays_of_a_variant_that_was_not_finished(tmp_path: Path) -> None:
    with staged_variant(tmp_path / "out") as folder:
        (folder / "half").write_bytes(b"half")
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "out" / ".building-999999999-x").mkdir()
    with staged_variant(tmp_path / "out") as folder:
        folder.rename(tmp_path / "out" / "whole")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["whole"]


def test_a_full_disk_is_said_with_the_bytes_that_are_needed(tmp_path: Path) -> None:
    import errno

    with pytest.raises(Exception, match="1,000,000,000,000,000,000"):
        require_room(tmp_path, 10**18)
    full = no_room(OSError(errno.ENOSPC, "No space left on device"), tmp_path, 1234)
    assert full is not None and "1,234" in full.detail
    assert no_room(RuntimeError("safetensors: Io(Os { code: 27, message: File too large })"), tmp_path, 1) is not None
    assert no_room(ValueError("a shape"), tmp_path, 1) is None

"""What may be published beside the code: every rule refuses the line that breaks it, and names the member."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from domain.catalogues.models import find
from domain.events import MEASUREMENT_RECORDED, RUN_STARTED
from domain.vocabulary import CATEGORIES
from runner.campaign.plan_file import read_plan
from runner.campaign.publication import contents_of, problems_in, published_files, published_name

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
RUN = "01a2013a-ff13-753a-a06d-d9d8c80f7db4"


def event(type_: str, number: int) -> dict[str, Any]:
    golden = json.loads((GOLDEN / f"{type_}.json").read_text())
    return {**golden, "id": f"01a2013a-ff13-753a-a06d-{number:012x}"}


def started(number: int, *hardware: str) -> dict[str, Any]:
    begun = event(RUN_STARTED, number)
    begun["data"]["hardware"] = [{"id": each, "kind": "cpu", "count": 1} for each in hardware]
    return begun


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return [started(1, "intel-xeon-2c"), event(MEASUREMENT_RECORDED, 2), event(MEASUREMENT_RECORDED, 3)]


def written(folder: Path, events: list[dict[str, Any]], name: str = "a.ndjson.gz") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in events).encode()))
    return path


def fields(path: Path) -> list[tuple[int, str | None]]:
    return [(problem.line, problem.field) for problem in problems_in([path], names=("lovelace",))]


def test_what_a_runner_wrote_can_be_published(tmp_path, events):
    path = written(tmp_path, events)
    assert fields(path) == []
    contents = contents_of([path, written(tmp_path, [started(4, "a", "b")], "b.ndjson.gz")])
    assert (contents.events, contents.measurements, contents.failures) == (4, 2, 0)
    assert sum(contents.verdicts.values()) == 2
    assert contents.machines == ["intel-xeon-2c", "a+b"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda e: e.update(type="assay.dream.recorded.v1"), "type"),
        (lambda e: e["data"].update(mood="good"), "data.mood"),
        (lambda e: e["data"].pop("environment"), "data.environment"),
        (lambda e: e["data"].pop("validity"), "data.validity"),
        (lambda e: e["data"]["provenance"].update(origin="simulated"), "data.provenance.origin"),
        (lambda e: e["data"]["metrics"].update(throughput_per_s=-1), "data.metrics.throughput_per_s"),
        (lambda e: e["data"]["environment"].update(os="lovelace OS"), "data.environment.os"),
        (lambda e: e["data"]["environment"].update(os="/home/ada/linux"), "data.environment.os"),
        (lambda e: e["data"]["environment"].update(libraries={"/home/ada/torch": "2"}), "data.environment.libraries"),
        (lambda e: e.update(source="http://10.1.2.3/runner"), "source"),
        (lambda e: e.update(subject="ada@example.org"), "subject"),
        (lambda e: e.update(id=event("assay.run.started.v1", 1)["id"]), "id"),
        (lambda e: e.update(id=event("assay.run.started.v1", 9)["id"]), "id"),
    ],
)
def test_each_rule_names_line_and_member(tmp_path, events, change, field):
    change(events[1])
    found = fields(written(tmp_path, events))
    assert found
    assert {each for _, each in found} == {field}


def test_a_signature_is_not_searched_for_what_is_private(tmp_path, events):
    events[1] |= {
        "signer": "ed25519:00",
        "signature": "YWS2TNuu1m36U87n3MSyIs+uT425abeUml8689LX//XVRQyCEHX9KTDBNrb2bE66=",
    }
    assert "signature" not in {field for _, field in fields(written(tmp_path, events))}


def test_an_id_is_unique_over_all_files(tmp_path, events):
    paths = [written(tmp_path, events), written(tmp_path, events[2:], "b.ndjson.gz")]
    assert [(each.file, each.line, each.field) for each in problems_in(paths)] == [("b.ndjson.gz", 1, "id")]


def test_a_line_that_is_no_event_is_named_and_the_others_are_read(tmp_path, events):
    path = tmp_path / "a.ndjson"
    path.write_text("{\n" + json.dumps(events[0]) + "\n[]\n")
    assert fields(path) == [(1, None), (3, "$")]


def test_a_file_is_named_by_hardware_and_month():
    assert published_name(["intel-xeon-2c"], date(2026, 3, 9)) == "intel-xeon-2c-2026-03.ndjson.gz"
    assert published_name(["a", "b", "b"], date(2026, 11, 1)) == "a+b-2026-11.ndjson.gz"


def test_only_the_folder_with_the_plan_is_that_of_published_files(tmp_path, events):
    paths = [written(tmp_path, events, name) for name in ("b.ndjson.gz", "a.ndjson")]
    assert published_files(tmp_path) == published_files(tmp_path / "absent") == []
    (tmp_path / "plan.yaml").touch()
    assert published_files(tmp_path) == sorted(paths)


def test_every_file_that_comes_with_the_code_can_be_published():
    files = published_files(ROOT / "data")
    assert problems_in(files) == []
    assert all(contents_of([file]).measurements for file in files)


def test_the_plan_covers_every_category_on_both_platforms_and_in_training():
    cases = read_plan(ROOT / "data" / "plan.yaml").plan().cases
    covered = {(find(case.model).category, case.platform, case.workload.mode) for case in cases}
    for category in CATEGORIES:
        assert {(category, "cpu", "inference"), (category, "openvino", "inference")} <= covered
        # What denoises has no loss of its own in the catalogue: it is not trained here.
        assert ((category, "cpu", "training") in covered) is (category != "diffusion")
    assert {"fp32", "bf16", "int8", "amp-bf16"} <= {case.precision for case in cases}
    assert {case.weights for case in cases} == {"random"}


def test_the_plan_of_a_cuda_machine_covers_every_category_and_the_precisions_of_its_devices():
    cases = read_plan(ROOT / "data" / "cuda.yaml").plan().cases
    assert {find(case.model).category for case in cases} == set(CATEGORIES)
    assert {"fp32", "tf32", "fp16", "bf16", "fp8", "amp-bf16"} == {case.precision for case in cases}
    assert {case.workload.mode for case in cases} == {"inference", "training"}
    assert {(case.platform, case.weights) for case in cases} == {("cuda", "random")}


def test_the_plan_of_browsers_has_each_model_native_and_in_three_browsers():
    cases = read_plan(ROOT / "data" / "browsers.yaml").plan().cases
    asked = {(case.model, case.platform, *case.options) for case in cases if case.precision == "fp32"}
    models = {case.model for case in cases}
    assert {find(model).category for model in models} >= {"embedding", "vision", "audio"}
    for model in models:
        assert {(model, "cpu"), (model, "openvino"), (model, "onnxruntime")} <= asked
        assert {(model, "wasm", f"browser={engine}") for engine in ("chromium", "firefox", "webkit")} <= asked
        assert (model, "webnn", "browser=chromium") in asked

"""`assay model` against a real service: what is shown at 100 columns, what is found, and what exit codes say."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli import cli
from domain.errors import AssayError
from tests import variants


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["model", *arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout


@pytest.fixture
def asked(service: Any) -> Any:
    """Runs a verb of `assay model` against the service; returns the exit code and what went to stdout."""
    return lambda verb, *arguments: run(verb, "--server", service.url, *arguments)


@pytest.fixture
def model(client: Any, build: Any) -> str:
    """A model whose name says bert and whose config says vit, right on the processor and not converted for OpenVINO."""
    name = f"acme/bert-{uuid.uuid4().hex[:8]}"
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
    described = {
        "model": {"id": name, "family": "bert", "category": "embedding", "parameters": 10**9},
        "config": config,
    }
    answer = client.post_events(
        [
            build.measurement(model=name), build.test(model=name), build.failure(model=name, platform="openvino"),
            build.test(model="acme/other", precision="int4"),
            build.event("assay.model.described.v1", described),
        ]
    )  # fmt: skip
    client.wait_for(answer["last_position"])
    return name


def test_show_tells_what_a_model_is_and_why_where_it_ran_and_where_never(asked, model):
    code, text = asked("show", model)
    said = " ".join(text.split())
    assert code == 0
    assert max(map(len, text.splitlines())) <= 100
    assert "vit (vision, image-classification): its config says model_type vit" in said
    assert "though it was sent as bert" in said
    assert "cpu fp32 verified 1 acme-one" in said
    assert "openvino fp32 failed 0 acme-one unsupported at compile: no such operator" in said
    assert "Not tried, as other models were: cpu in" in said
    assert "int4" in said
    assert "Never tried on cuda, rocm" in said
    assert "Fastest, as measured" in said
    assert "Smaller open alternatives" in said
    assert "is not compared" in said
    code, text = asked("show", model, "--json")
    assert json.loads(text)["model"]["family_from"] == "config"


def test_show_puts_variants_beside_their_base_with_what_they_cost(asked, client, build):
    base = f"acme/vit-{uuid.uuid4().hex[:8]}"
    made = [
        variants.measured(build, base, "openvino", "fp32", 32.7),
        variants.variant(build, base=base),
        variants.measured(build, variants.name_of("int8-ptq", base), "openvino", "int8", 12.1),
        variants.quality(build, variants.name_of("int8-ptq", base), base=base),
    ]
    client.wait_for(client.post_events(made)["last_position"])
    code, text = asked("show", base)
    assert code == 0 and max(map(len, text.splitlines())) <= 100
    (line,) = [line for line in text.replace("\u202f", " ").splitlines() if line.startswith("int8-ptq")]
    assert [word for word in ("openvino", "12.1 ms", "88.4 MB", "0.1 pt (-0.2 – 0.4)") if word not in line] == []


def test_show_finds_a_model_without_its_owner_and_offers_what_is_near_to_a_mistyped_one(asked, model):
    assert model in asked("show", model.split("/")[1])[1]
    with pytest.raises(AssayError, match="openai/whisper-tiny"):
        asked("show", "wisper-tiny")


def test_show_tells_what_a_folder_holds_without_a_service(tmp_path):
    folder = tmp_path / "bert-base-uncased"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "vit", "architectures": ["ViTForImageClassification"]}')
    code, text = run("show", str(folder), "--json")
    assert code == 0
    assert json.loads(text)["family"] == "vit"
    assert "image-classification" in run("show", str(folder / "config.json"))[1]
    (folder / "config.json").write_text("{")
    for unreadable in (str(folder), "./no-such-folder"):
        with pytest.raises(AssayError, match="cannot be read"):
            run("show", unreadable)


def test_list_searches_the_catalogue_alone_or_everything_that_is_known(asked, model):
    code, text = run("list", "--search", "wisper-tiny")
    assert (code, "openai/whisper-tiny" in text) == (0, True)
    assert run("list", "--search", model)[0] == 1
    code, text = asked("list", "--known", "--search", model, "--json")
    (found,) = json.loads(text)
    assert (found["id"], found["family"], found["match"]["how"]) == (model, "vit", "id")
    assert len(run("list", "--category", "audio")[1].splitlines()) > 10


def test_coverage_is_a_table_of_families_and_platforms_with_the_commands_that_fill_the_gaps(asked, model):
    code, text = asked("coverage", "--category", "vision", "--platform", "cpu,openvino,tpu")
    assert code == 0
    assert max(len(line) for line in text.splitlines() if not line.startswith("  assay ")) <= 100
    said = " ".join(text.split())
    assert "category family models cpu openvino" in said
    (line,) = [line.split() for line in text.splitlines() if line.startswith("vision") and " vit " in line]
    assert line[-1].endswith("!"), "a model failed there"
    assert "nothing was tried: tpu" in said
    # Which models those are depends on what other tests have verified on this service.
    assert re.search(r"assay verify \S+/\S+ .*--platform openvino", said)
    told = json.loads(asked("coverage", "--category", "vision", "--json")[1])
    assert {row["category"] for row in told["items"]} == {"vision"}
    assert asked("coverage", "--family", "no-such-family")[0] == 1

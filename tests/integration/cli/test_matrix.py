"""`assay matrix` against a real service: the five facts of each model and platform, as a table, Markdown and JSON."""

from __future__ import annotations

import json
import uuid

import click
import pytest
from click.testing import CliRunner

from assay.cli import cli
from domain.catalogues.models import models_set


@pytest.fixture
def shown(service):
    """Runs `assay matrix` against the service; returns the exit code and what went to stdout."""

    def run(*arguments):
        result = CliRunner().invoke(cli, ["matrix", "--server", service.url, *arguments], standalone_mode=False)
        return result.return_value, result.stdout

    return run


@pytest.fixture
def model(client, build):
    """A model that is right on the processor in fp32, wrong in int8, and is not converted for OpenVINO."""
    name = f"acme/model-{uuid.uuid4().hex[:8]}"
    answer = client.post_events(
        [
            build.measurement(model=name), build.test(model=name), build.test("failed", model=name, precision="int8"),
            build.failure(model=name, platform="openvino"),
        ]
    )  # fmt: skip
    client.compatibility(model=name, min_position=answer["last_position"])
    return name


def test_a_line_a_platform_tells_the_best_of_all_precisions_and_why_not(shown, model):
    code, text = shown("--model", model)
    lines = [line.split() for line in text.splitlines()]
    assert code == 0
    assert max(map(len, text.splitlines())) <= 100
    assert lines[1] == ["model", "platform", "builds", "runs", "verified", "measured", "why", "not"]
    short = model.removeprefix("acme/")
    assert lines[2] == [short, "cpu", "yes", "yes", "yes", "yes"]
    assert lines[3][:7] == [short, "openvino", "no", "no", "—", "no", "fp32:"]
    assert "no such operator" in " ".join(text.split())


def test_a_row_whose_precision_nobody_said_is_shown(shown, client, build):
    name = f"acme/unsaid-{uuid.uuid4().hex[:8]}"
    event = build.measurement(model=name)
    event["data"]["provenance"] = {"origin": "imported", "source": "a table"}
    del event["data"]["execution"]["precision"]
    event["data"].pop("observed", None)
    client.compatibility(model=name, min_position=client.post_events([event])["last_position"])
    for form in ((), ("--by-precision",)):
        code, text = shown("--model", name, "--markdown", *form)
        assert code == 0 and name in text
    (row,) = (row for row in client.page("tables/matrix", limit=5000)["items"] if row["model_id"] == name)
    assert row["ran"] and row["precisions"] == []


def test_by_precision_the_wrong_one_has_its_line(shown, model):
    _, text = shown("--model", model, "--by-precision", "--platform", "cpu")
    rows = {line.split()[2]: line.split()[3:] for line in text.splitlines()[2:]}
    assert rows["fp32"] == ["yes", "yes", "yes", "yes"]
    assert rows["int8"] == ["yes", "yes", "no", "—", "failed", "at", "verify:", "cosine", "0.2"]


def test_markdown_is_a_table_with_whole_ids(shown, model):
    _, text = shown("--model", model, "--markdown")
    counted, empty, head, rule, *rows = text.splitlines()
    assert counted == "1 model on cpu, openvino: of 2 rows 1 build, 1 run, 1 were verified, 1 were measured."
    assert (empty, head.count("|"), set(rule)) == ("", rule.count("|"), set("|- "))
    assert rows[0] == f"| `{model}` | cpu | yes | yes | yes | yes | fp32, int8 |  |"
    assert rows[1] == (
        f"| `{model}` | openvino | no | no | — | no | — | fp32: unsupported at compile: no such operator |"
    )


def test_a_set_lists_what_was_never_tried(shown, client, build):
    first, *others = (one.id for one in models_set("key"))
    answer = client.post_events([build.measurement(model=first)])
    client.compatibility(model=first, min_position=answer["last_position"])
    code, text = shown("--models-set", "key", "--platform", "cpu,qnn", "--json")
    rows = {(row["model_id"], row["platform"]): row for row in json.loads(text)}
    assert code == 0
    assert set(rows) == {(name, platform) for name in (first, *others) for platform in ("cpu", "qnn")}
    assert (rows[first, "cpu"]["measured"], rows[first, "cpu"]["verified"]) == (True, None)
    assert (rows[first, "qnn"]["measured"], rows[first, "qnn"]["why_not"]) == (None, "not tried")


def test_a_category_leaves_the_others_out(shown, model):
    assert model in shown("--category", "embedding", "--json")[1]
    assert model not in shown("--category", "audio", "--json")[1]


def test_nothing_known_is_a_no(shown):
    assert shown("--model", "acme/nobody")[0] == 1


def test_one_model_is_told_platform_by_platform_with_what_to_try(shown, model):
    _, text = shown("--model", model)
    said = " ".join(text.split())
    assert "cpu: high, verified; 2 tries, last" in said
    assert "openvino: no level, unsupported; 1 try" in said
    assert "why: the runtime has no rule for an operator try: Use fp32. Try a newer runtime" in said


def test_levels_are_a_table_with_the_rules_below_it(shown, model):
    code, text = shown("--model", model, "--level", "model", "--by-precision")
    rows = {tuple(line.split()[1:3]): line.split() for line in text.splitlines() if line.startswith(model[:8])}
    assert code == 0
    assert max(map(len, text.splitlines())) <= 100
    assert rows["cpu", "fp32"][3:5] == ["high", "verified"]
    assert rows["cpu", "int8"][3:5] == ["low", "wrong"]
    assert "at least 2 times as fast as the plain CPU" in " ".join(text.split())


def test_claims_stand_beside_and_are_told_apart_by_their_word(shown, client, build):
    event = build.measurement(model="Salesforce/blip-image-captioning-base", platform="openvino")
    event["data"]["model"] |= {"category": "multimodal", "family": "blip"}
    client.compatibility(limit=1, min_position=client.post_events([event])["last_position"])
    code, text = shown("--family", "blip", "--claims")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert code == 0
    assert any(line.startswith("blip openvino low ran") for line in lines)
    assert any(line.startswith("blip mps claimed: unsupported") for line in lines)
    assert any(
        line.startswith("BLIP openvino claimed: unsupported 1 ran") and line.endswith("contradicted") for line in lines
    )
    assert max(map(len, text.splitlines())) <= 100
    told = json.loads(shown("--family", "blip", "--claims", "--format", "json")[1])
    assert {row["state"] for row in told["cells"]} == {"ran", "claimed"}
    assert {row["id"] for row in told["claims"]} >= {"not-on-openvino:BLIP:openvino"}
    assert all("claimed: unsupported" in line for line in shown("--family", "blip", "--claims", "--platform", "mps", "--format",
                                                                "markdown")[1].splitlines() if "| *mps* |" in line)  # fmt: skip


def test_what_was_only_claimed_is_a_no(shown):
    assert shown("--family", "audioldm", "--claims")[0] == 1
    code, text = shown("--model", "Qwen/Qwen3-VL-2B-Instruct", "--no-evidence", "--format", "json")
    assert (code, {row["state"] for row in json.loads(text)}) == (1, {"no evidence"})


def test_what_failed_most_has_its_cause_and_advice(shown, model):
    code, text = shown("--failures", "--model", model, "--format", "json")
    by = {(row["platform"], row["error"]): row for row in json.loads(text)}
    assert code == 0
    assert by["openvino", "NotImplementedError"]["cause"] == "the runtime has no rule for an operator"
    assert by["cpu", "Mismatch"]["of"] == [model]
    assert "What to try" in shown("--failures", "--model", model)[1].splitlines()[1]
    assert shown("--failures", "--model", "acme/nobody")[0] == 1


def test_csv_and_html_have_the_same_rows(shown, model):
    head, *lines = shown("--model", model, "--format", "csv")[1].splitlines()
    assert "state" in head.split(",")
    assert [line.split(",")[1] for line in lines] == ["cpu", "openvino"]
    html = shown("--model", model, "--format", "html")[1]
    assert html.startswith("<!doctype html>")
    assert "How good it is" in html and model.removeprefix("acme/") in html


def test_two_forms_at_once_are_refused():
    for given in (("--format", "csv", "--json"), ("--markdown", "--json"), ("--models-set", "key", "--claims")):
        result = CliRunner().invoke(cli, ["matrix", *given], standalone_mode=False)
        assert isinstance(result.exception, click.UsageError), given

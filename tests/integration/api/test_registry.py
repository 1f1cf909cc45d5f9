"""The registry over HTTP: what a model is, where it was tried and never, and what stands beside it."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from domain.errors import AssayError

VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}


def named(word: str = "model") -> str:
    return f"acme/{word}-{uuid.uuid4().hex[:8]}"


def posted(client: Any, *events: dict[str, Any]) -> int:
    answer = client.post_events(events)
    assert not answer["rejected"]
    return int(answer["last_position"])


def described(build: Any, name: str, config: dict[str, Any], **model: Any) -> dict[str, Any]:
    data = {"model": {"id": name, "category": "embedding", "family": "bert", **model}, "config": config}
    return build.event("assay.model.described.v1", data)


def traced(build: Any, name: str, layers: int, kind: str = "mm", **model: Any) -> dict[str, Any]:
    """A trace of `layers` equal operators."""
    operator = {
        "name": "aten.addmm", "class": kind, "count": layers, "flops": 1e8, "read_elements": 10_000,
        "write_elements": 10_000, "weight_elements": 100_000, "inner": 768, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    data = {
        "model": {"id": name, "category": "vision", "parameters": layers * 100_000, **model},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "image_size": 224},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": [operator],
        "totals": {"flops": layers * 1e8, "operators": layers, "parameters": layers * 100_000},
    }
    return build.event("assay.model.traced.v1", data)


def test_a_model_whose_name_says_bert_and_whose_config_is_a_vit_is_a_vit(client, build):
    name = named("bert-base")
    sent = posted(client, build.measurement(model=name))
    assert client.model(name, min_position=sent)["model"]["family"] == "bert"
    later = posted(client, described(build, name, VIT))
    told = client.model(name, min_position=later)["model"]
    assert (told["family"], told["category"], told["task"]) == ("vit", "vision", "image-classification")
    assert told["family_from"] == "config"
    assert told["family_why"].endswith("though it was sent as bert")
    assert client.model(name, as_of=sent)["model"]["family"] == "bert", "at that position nobody knew"
    assert name in {row["id"] for row in client.models(family="vit")}
    assert name not in {row["id"] for row in client.models(family="bert")}


def test_a_model_without_a_config_is_what_models_of_its_operators_are(client, build):
    digest = uuid.uuid4().hex * 2
    known, unknown = named("seen"), named("bare")
    position = posted(
        client,
        described(build, known, VIT, architecture=digest, family="vit", category="vision"),
        traced(build, unknown, 3, architecture=digest),
    )
    told = client.model(unknown, min_position=position)["model"]
    assert (told["family"], told["category"], told["family_from"]) == ("vit", "vision", "operators")


def test_coverage_follows_the_events(client, build):
    family = f"nova{uuid.uuid4().hex[:6]}"
    one, two = named("one"), named("two")
    config = {"model_type": family}
    before = posted(client, described(build, one, config), described(build, two, config))

    def cell(platform: str = "openvino", **at: Any) -> dict[str, Any]:
        (found,) = client.coverage(family=family, platform=platform, **at)["items"]
        return found

    assert (cell(min_position=before)["models"], cell()["tried"], cell()["never_tried"]) == (2, 0, sorted([one, two]))
    after = posted(client, build.test(model=one, platform="openvino", precision="int8"))
    told = cell(min_position=after)
    assert (told["tried"], told["tried_share"], told["verified"]) == (1, 0.5, 1)
    assert (told["precisions"], told["never_tried"]) == (["int8"], [two])
    failed = posted(client, build.failure(model=two, platform="openvino"))
    assert (cell(min_position=failed)["tried"], cell()["failed"]) == (2, 1)
    assert cell(as_of=before)["tried"] == 0
    assert cell("cuda")["tried"] == 0


def test_coverage_comes_in_pages_with_the_largest_gaps_and_their_commands(service, client):
    whole = client.coverage(category="audio")
    pages, cursor = [], None
    while True:
        page = httpx.get(
            f"{service.url}/v1/models/coverage", params={"category": "audio", "limit": 7} | ({"cursor": cursor} if cursor else {})
        ).json()  # fmt: skip
        pages += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == whole["items"]
    assert {row["category"] for row in pages} == {"audio"}
    assert whole["gaps"]
    assert all(gap["command"].startswith("assay verify ") for gap in whole["gaps"])
    table = httpx.get(f"{service.url}/v1/models/coverage", headers={"Accept": "text/csv"})
    assert table.status_code == 200
    assert table.text.splitlines()[0].startswith('"category","family","platform","models","tried"')


def test_one_model_is_told_with_its_platforms_and_where_it_is_fastest(client, build):
    name, other = named(), named("hw").replace("/", "-")
    position = posted(
        client,
        build.test(model=name),
        build.measurement(p50=4.0, model=name, batch_size=8),
        build.measurement(p50=1.0, model=name, batch_size=8, hardware=other, platform="openvino"),
        build.measurement(p50=0.5, model=name, batch_size=1, hardware=other, platform="openvino"),
        build.failure(model=name, platform="cuda", precision="fp16"),
        described(build, name, {"model_type": "bert"}),
    )
    told = client.model(name, min_position=position)
    states = {(one["platform"], one["precision"]): one["state"] for one in told["platforms"]}
    assert states == {("cpu", "fp32"): "verified", ("cuda", "fp16"): "failed", ("openvino", "fp32"): "measured"}
    (failed,) = [one for one in told["platforms"] if one["state"] == "failed"]
    assert failed["why_not"] == "unsupported at compile: no such operator"
    assert "rocm" in told["never_tried"]
    assert not {"cpu", "cuda", "openvino"} & set(told["never_tried"])
    assert [(one["hardware"], one["throughput"], one["batch_size"]) for one in told["best"]] == [
        (other, 8000.0, 8), ("acme-one", 2000.0, 8),
    ]  # fmt: skip
    assert told["best"][0]["work"] == {"mode": "inference", "scenario": "single_stream", "sequence_length": 128}
    assert told["config"] == {"model_type": "bert"}
    assert told["quality"].endswith("not compared.")


def test_siblings_are_of_the_family_nearest_in_size_and_operators(client, build):
    family = f"nova{uuid.uuid4().hex[:6]}"
    names = {word: named(word) for word in ("own", "near", "far", "other")}
    kinds = {"own": ("mm", 10), "near": ("mm", 12), "far": ("mm", 80), "other": ("conv", 10)}
    events = []
    for word, (kind, layers) in kinds.items():
        events += [
            described(build, names[word], {"model_type": family}, category="vision", family=family),
            traced(build, names[word], layers, kind),
        ]
    position = posted(client, *events)
    found = client.model(names["own"], min_position=position)["siblings"]
    assert found[0]["id"] == names["near"]
    assert {one["id"] for one in found} == {names["near"], names["far"], names["other"]}
    near, odd = found[0], next(one for one in found if one["id"] == names["other"])
    assert near["parameters_ratio"] == 1.2
    assert near["op_mix_cosine"] > 0.99 > odd["op_mix_cosine"]
    alone, only = named("alone"), f"nova{uuid.uuid4().hex[:6]}"
    sent = described(build, alone, {"model_type": only}, category="vision", family=only)
    later = posted(client, sent, traced(build, alone, 11))
    kin = client.model(alone, min_position=later)["siblings"]
    assert kin[0]["family"] != only
    assert "another family" in kin[0]["why"]


def test_alternatives_are_smaller_openly_licensed_and_for_the_same_task(client):
    found = client.model("whisper-small")["alternatives"]
    assert [one["id"] for one in found] == ["facebook/wav2vec2-base-960h", "openai/whisper-base", "openai/whisper-tiny"]
    assert all(one["licence"] == "apache-2.0" and one["same_task"] and one["parameters_ratio"] < 1 for one in found)
    assert client.model("openai/whisper-tiny")["alternatives"] == []
    of_llama = client.model("meta-llama/Llama-3.2-1B")["alternatives"]
    assert of_llama
    assert not {"facebook/opt-125m", "bigscience/bloom-560m"} & {one["id"] for one in of_llama}, "not openly licensed"
    assert not [one for one in of_llama if one["id"].startswith("assay/")], "nobody publishes these"


def test_a_model_is_found_without_its_owner_in_any_case_and_a_mistyped_one_is_not_guessed(service, client, build):
    name = named("Tiny-Thing")
    position = posted(client, build.measurement(model=name))
    bare = name.split("/")[1]
    assert client.model(bare.upper(), min_position=position)["model"]["id"] == name
    assert client.model("DISTILBERT-base-uncased")["model"]["id"] == "distilbert/distilbert-base-uncased"
    with pytest.raises(AssayError, match="whisper-tiny") as caught:
        client.model("wisper-tiny")
    assert caught.value.status == 404
    (best, *_) = client.models(search="wisper-tiny")
    assert (best["id"], best["match"]["how"], best["match"]["edits"]) == ("openai/whisper-tiny", "typo", 1)
    assert client.models(search="zzzzzzzzz") == []
    twice = named("twice").split("/")[1]
    later = posted(client, *(build.measurement(model=f"{owner}/{twice}") for owner in ("one", "two")))
    with pytest.raises(AssayError, match=f"one/{twice}"):
        client.model(twice, min_position=later)


def test_an_answer_that_the_asker_holds_is_not_sent_again(service, client):
    first = httpx.get(f"{service.url}/v1/models/bert-base-uncased")
    again = httpx.get(f"{service.url}/v1/models/bert-base-uncased", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert httpx.get(f"{service.url}/v1/models/bert-base-uncased").content == first.content

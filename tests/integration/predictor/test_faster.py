"""What would make a configuration faster, asked of a real log: gains, doubts, and what is never proposed."""

from __future__ import annotations

import math
import shlex
from typing import Any

import click
import pytest

from assay.cli import VERBS, cli
from domain.errors import UsageError
from predictor.advising.faster import GAIN, SHARED
from predictor.answering.objective import TOLD_APART
from predictor.answering.question import PredictQuestion

BERT = "google-bert/bert-base-uncased"
L4 = "nvidia-l4"
MODEL = "acme/net"
NORMAL_80 = 1.2816


def ask(service: Any, **asked: Any) -> dict[str, Any]:
    whole = {"model": BERT, "hardware": L4, "platform": "cuda", "precision": "fp32", "compiled": False, **asked}
    answer: dict[str, Any] = service.answers.predict(PredictQuestion(**whole))
    return answer


def every(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The changes that are proposed, by kind."""
    faster = answer["faster"]
    changes = [faster["best"], *faster["others"]] if faster["best"] else []
    return {change["kind"]: change for change in changes}


def parsed(command: str) -> dict[str, Any]:
    """What the command line makes of a command; it fails where a word is unknown."""
    assay, verb, *words = shlex.split(command)
    assert assay == "assay" and verb in VERBS
    found = cli.resolve_command(click.Context(cli), [verb])[1]
    assert found is not None
    return found.make_context(verb, words).params


@pytest.fixture
def traced(build: Any, make_trace: Any) -> dict[str, Any]:
    event: dict[str, Any] = build.event("assay.model.traced.v1", make_trace(MODEL, "net", "vision", 3))
    return event


@pytest.fixture
def measured(build: Any) -> Any:
    def made(p50: float, compiled: bool, precision: str = "bf16") -> Any:
        event = build.measurement(p50, model=MODEL, hardware=L4, platform="cuda", precision=precision)
        event["data"]["workload"] = {
            "mode": "inference", "scenario": "single_stream", "batch_size": 8, "image_size": 224,
        }  # fmt: skip
        event["data"]["execution"]["compiled"] = compiled
        return event

    return made


def test_every_change_gains_what_its_own_prediction_says(service: Any, told: Any) -> None:
    told()
    answer = ask(service, batch_size=32)
    changes = every(answer)
    assert {"precision", "compiled"} <= changes.keys()
    gains = [change["gain"] for change in (answer["faster"]["best"], *answer["faster"]["others"])]
    assert gains == sorted(gains, reverse=True)
    for change in changes.values():
        configuration = {name: change[name] for name in ("platform", "precision", "batch_size", "compiled")}
        itself = ask(service, **configuration)
        assert change["gain"] == pytest.approx(itself["throughput_per_s"] / answer["throughput_per_s"], rel=1e-3)
        assert change["gain"] >= GAIN
        assert change["probability"] >= TOLD_APART
        assert change["gain_low"] < change["gain"] < change["gain_high"]


def test_the_interval_is_that_of_the_ratio_and_not_of_two_strangers(service: Any, told: Any) -> None:
    told()
    answer = ask(service, batch_size=32)
    change = every(answer)["precision"]
    spread = math.log(change["gain_high"] / change["gain"]) / NORMAL_80
    assert spread == pytest.approx(SHARED["precision"], rel=1e-2)
    single = math.log(answer["latency_ms_high"] / answer["latency_ms_low"]) / 2 / NORMAL_80
    assert spread < math.hypot(single, single)


def test_a_change_of_precision_says_that_outputs_change_and_how_to_verify_it(service: Any, told: Any) -> None:
    told()
    changes = every(ask(service, batch_size=32))
    assert changes["precision"]["outputs_change"]
    assert parsed(changes["precision"]["verify"])["precisions"] == [changes["precision"]["precision"]]
    assert not changes["compiled"]["outputs_change"]
    assert changes["compiled"]["verify"] is None


def test_commands_ask_for_the_changed_configuration(service: Any, told: Any) -> None:
    told()
    for change in every(ask(service, batch_size=32)).values():
        asked = parsed(change["command"])
        names = ("precision", "batch_size", "compiled", "platform")
        assert {name: asked[name] for name in names} == {name: change[name] for name in names}
        assert (asked["model"], asked["hardware"]) == (BERT, L4)


def test_on_a_device_of_ones_own_the_command_measures(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced, measured(5.0, compiled=False))
    changes = every(ask(service, model=MODEL, batch_size=1, precision="fp16"))
    measurable = [change for change in changes.values() if change["kind"] in ("batch", "compiled")]
    assert measurable
    for change in measurable:
        assert change["command"].startswith(f"assay bench {MODEL} --platform cuda --precision fp16 --batch-sizes ")
        parsed(change["command"])


def test_a_runtime_that_was_measured_on_such_devices_is_another_change(service: Any, told: Any) -> None:
    told()
    answer = ask(service, batch_size=32, precision="fp16")
    tensorrt = ask(service, batch_size=32, precision="fp16", runtime="tensorrt", compiled=None)
    assert (tensorrt["runtime"], tensorrt["method"]) == ("tensorrt", "general")
    ratio = tensorrt["throughput_per_s"] / answer["throughput_per_s"]
    runtime = every(answer).get("runtime")
    assert (runtime is not None) == (ratio >= math.exp(0.8417 * SHARED["runtime"]))
    assert "runtime" not in every(tensorrt)
    # `assay verify` runs no TensorRT: it would compare the outputs of torch.
    narrower = every(tensorrt).get("precision")
    assert narrower is None or (narrower["outputs_change"] and narrower["verify"] is None)


def test_what_was_measured_decides_where_both_were(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced, measured(5.0, compiled=False), measured(8.0, compiled=True))
    assert "compiled" not in every(ask(service, model=MODEL, batch_size=8, precision="bf16"))
    told(measured(2.0, compiled=True))
    change = every(ask(service, model=MODEL, batch_size=8, precision="bf16"))["compiled"]
    assert (change["basis"], change["gain"]) == ("measured", pytest.approx(2.5))
    assert change["evidence"]
    assert change["probability"] > 0.99


def test_what_failed_there_is_not_proposed(service: Any, told: Any, build: Any) -> None:
    told()
    first = every(ask(service, batch_size=32))["precision"]["precision"]
    told(build.failure("unsupported", model=BERT, hardware=L4, platform="cuda", precision=first))
    assert every(ask(service, batch_size=32)).get("precision", {}).get("precision") != first


def test_what_does_not_fit_is_not_proposed(service: Any, told: Any) -> None:
    told()
    small = {"hardware": "nvidia-jetson-nano", "model": "google-bert/bert-large-uncased", "precision": "fp32"}
    beyond = ask(service, **small, batch_size=128)
    assert beyond["basis"] == "abstained"
    change = every(ask(service, **small, batch_size=1))["batch"]
    assert change["batch_size"] < 128
    assert ask(service, **small, batch_size=change["batch_size"])["latency_ms"] is not None


def test_where_nothing_gains_it_says_so(service: Any, told: Any) -> None:
    told()
    faster = ask(service, runtime="tensorrt", precision="int8", batch_size=128, compiled=None)["faster"]
    assert (faster["best"], faster["others"]) == (None, [])
    assert faster["considered"] > 0
    assert faster["why"].startswith("none of ")


def test_a_toss_up_is_not_proposed(service: Any, told: Any) -> None:
    told()
    answer = ask(service, batch_size=1)
    half = ask(service, batch_size=1, precision="fp16")
    ratio = half["throughput_per_s"] / answer["throughput_per_s"]
    # At batch 1 much of the time is launches, which no precision shortens: a gain, but not a sure one.
    assert 1.05 < ratio < math.exp(0.8417 * SHARED["precision"])
    assert "precision" not in every(answer)


def test_narrow_precisions_without_rows_of_their_software_are_no_advice(service: Any, told: Any) -> None:
    told()
    changes = every(ask(service, model="microsoft/resnet-50", precision="fp16", batch_size=64))
    assert changes.get("precision", {}).get("precision") not in ("int8", "fp8")


def test_of_served_requests_weights_and_engines_are_changes(service: Any, told: Any) -> None:
    told()
    asked = {
        "model": "meta-llama/Llama-3.1-8B", "hardware": "nvidia-h100-sxm", "precision": "bf16", "compiled": None,
        "input_tokens": 1024, "output_tokens": 256, "concurrency": 16,
    }  # fmt: skip
    answer = ask(service, **asked)
    change = every(answer)["precision"]
    assert change["precision"] in ("fp8", "int8", "int4")
    assert change["outputs_change"] and change["verify"] is None
    words = parsed(change["command"])
    assert (words["concurrency"], words["input_tokens"], words["output_tokens"]) == (16, 1024, 256)
    itself = ask(service, **{**asked, "precision": change["precision"], "runtime": change["runtime"]})
    assert change["gain"] == pytest.approx(itself["throughput_per_s"] / answer["throughput_per_s"], rel=1e-3)


def test_advice_can_be_left_out_and_changes_no_figure(service: Any, told: Any) -> None:
    told()
    with_advice, without = ask(service, batch_size=8), ask(service, batch_size=8, faster=False)
    assert without.pop("faster") is None
    assert with_advice.pop("faster") is not None
    assert with_advice == without


def test_a_runtime_runs_on_its_platforms_and_serves_no_requests(service: Any, told: Any) -> None:
    told()
    elsewhere = ask(
        service, hardware="apple-m2-ultra-gpu", platform="mps", runtime="tensorrt", precision="fp16", compiled=None
    )
    assert elsewhere["basis"] == "abstained"
    (left,) = elsewhere["excluded"]
    assert (left["rule"], left["platform"]) == ("not supported", "mps")
    with pytest.raises(UsageError) as refused:
        ask(service, runtime="tensorrt", concurrency=4)
    assert refused.value.field == "runtime"

"""Questions asked of a real log and its projection, with the shipped predictor."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from domain.errors import ProjectionBehind, TraceNeeded, UnknownHardware, UnknownModel, UnknownPlatform, UsageError
from domain.vocabulary import BASES
from predictor.answering.prices import prices_at
from predictor.answering.question import PredictQuestion, Question
from predictor.artifact.artifact import ARTIFACT_KIND, load_shipped

MODEL = "acme/net"
GPU = "nvidia-rtx-4090"
RANKED = {
    "rank", "configuration", "hardware", "platform", "precision", "batch_size", "basis", "origin", "latency_ms",
    "latency_ms_low", "latency_ms_high", "throughput_per_s", "peak_memory_bytes", "usd_per_hour", "evidence", "why",
}  # fmt: skip
ANSWER = {"id", "model", "position", "predictor", "interval", "ranked", "excluded", "abstained"}


@pytest.fixture
def trace_event(build: Any, make_trace: Any) -> Any:
    def made(model: str = MODEL, family: str = "net", category: str = "vision", seed: int = 3, **more: Any) -> Any:
        return build.event("assay.model.traced.v1", make_trace(model, family, category, seed, **more))

    return made


@pytest.fixture
def measured(build: Any) -> Any:
    """A measurement of an image model."""

    def made(
        p50: float, hardware: str = GPU, platform: str = "cuda", precision: str = "fp32", batch: int = 8, **more: Any
    ):
        data = build.measurement(p50, model=MODEL, hardware=hardware, platform=platform, precision=precision)
        workload = {"mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224}
        data["data"] |= {"workload": workload, **more}
        return data

    return made


def ask(service: Any, **asked: Any) -> dict[str, Any]:
    return service.answers.recommend(Question(**{"model": MODEL, "hardware": [GPU], "platform": "cuda", **asked}))


def test_an_answer_has_its_shape_and_the_same_bytes_twice(service: Any, told: Any, trace_event: Any) -> None:
    told(trace_event())
    one, two = (json.dumps(ask(service, hardware="all", platform=[], top=50)) for _ in range(2))
    assert one == two
    answer = json.loads(one)
    assert answer.keys() >= ANSWER
    assert answer["predictor"] == load_shipped().digest
    assert [entry["rank"] for entry in answer["ranked"]] == list(range(1, 51))
    shipped = prices_at([], None)
    for entry in answer["ranked"]:
        assert entry.keys() >= RANKED
        assert entry["basis"] in BASES
        assert entry["latency_ms_low"] < entry["latency_ms"] < entry["latency_ms_high"]
        assert entry["evidence"] == []
        assert (entry["usd_per_hour"] is not None) == (entry["hardware"] in shipped)
    assert any(one["rule"] == "no specification" for one in answer["excluded"])
    assert answer["suggestions"][0]["command"].startswith(f"assay bench {MODEL} --platform ")


def test_what_was_measured_takes_the_place_of_its_prediction(
    service: Any, told: Any, trace_event: Any, measured: Any
) -> None:
    told(trace_event())
    before = ask(service, precision="fp32", batch_sizes=[8])["ranked"][0]
    assert before["basis"] == "predicted"
    assert before["evidence"] == []
    event = measured(7.5)
    told(event)
    after = ask(service, precision="fp32", batch_sizes=[8])["ranked"]
    assert len(after) == 1
    assert (after[0]["basis"], after[0]["origin"], after[0]["evidence"]) == ("measured", "measured", [event["id"]])
    assert (after[0]["latency_ms"], after[0]["n"], after[0]["interval_covered"]) == (7.5, 60, True)
    assert after[0]["latency_ms_low"] == pytest.approx(7.425)


def test_a_retracted_row_vanishes_and_the_past_keeps_it(
    service: Any, told: Any, build: Any, trace_event: Any, measured: Any
) -> None:
    event = measured(7.5)
    told(trace_event(), event)
    then = service.projection.position
    answer = ask(service, precision="fp32", batch_sizes=[8])
    told(build.retraction(event["id"]))
    now = ask(service, precision="fp32", batch_sizes=[8])
    assert now["ranked"][0]["basis"] == "predicted"
    assert now["id"] != answer["id"]
    assert ask(service, precision="fp32", batch_sizes=[8], as_of=then) == answer
    with pytest.raises(ProjectionBehind):
        ask(service, as_of=then + 1000)


def test_simulated_and_invalid_rows_are_no_evidence(service: Any, told: Any, trace_event: Any, measured: Any) -> None:
    told(
        trace_event(),
        measured(0.001, provenance={"origin": "simulated"}),
        measured(0.002, validity={"verdict": "invalid", "reasons": ["clock"]}),
    )
    entry = ask(service, precision="fp32", batch_sizes=[8])["ranked"][0]
    assert (entry["basis"], entry["evidence"]) == ("predicted", [])


def test_an_imported_mean_is_said_to_be_one(service: Any, told: Any, measured: Any) -> None:
    metrics = {"latency_ms": {"mean": 4.0}, "throughput_per_s": 2000.0}
    told(measured(1.0, metrics=metrics, provenance={"origin": "imported", "source": "a table"}))
    entry = ask(service)["ranked"][0]
    assert (entry["basis"], entry["latency_ms"], entry["latency_is_mean"]) == ("imported", 4.0, True)
    assert (entry["latency_ms_low"], entry["interval_covered"]) == (None, False)
    assert "a table" in entry["why"]


def test_runs_of_one_configuration_give_the_interval_together(service: Any, told: Any, measured: Any) -> None:
    told(measured(10.0), measured(12.0))
    (entry,) = ask(service)["ranked"]
    assert (entry["latency_ms"], entry["runs"]) == (12.0, 2)
    assert (entry["latency_ms_low"], entry["latency_ms_high"]) == pytest.approx((9.9, 12.12))


def test_sizes_are_never_mixed(service: Any, told: Any, measured: Any) -> None:
    other = measured(1.0)
    other["data"]["workload"]["image_size"] = 64
    told(measured(5.0), measured(6.0, batch=16), other)
    assert {entry["image_size"] for entry in ask(service)["ranked"]} == {224}
    assert [entry["latency_ms"] for entry in ask(service, image_size=64)["ranked"]] == [1.0]


def test_an_unmeasured_model_is_answered_at_the_sizes_of_its_trace(
    service: Any, told: Any, build: Any, make_trace: Any
) -> None:
    data = make_trace(MODEL, "whisper", "audio", 3)
    data["workload"] |= {"image_size": None, "audio_seconds": 30.0}
    told(build.event("assay.model.traced.v1", data))
    answer = ask(service)
    assert answer["workload"] == {"mode": "inference", "audio_seconds": 30.0}
    assert answer["ranked"][0]["audio_seconds"] == 30.0


def test_what_nothing_meets_names_the_closest(service: Any, told: Any, measured: Any) -> None:
    told(measured(5.0), measured(50.0, batch=64))
    answer = ask(service, max_latency_ms=0.001)
    assert answer["ranked"] == []
    assert "max_latency_ms" in answer["abstained"]
    assert "5e+03 times over" in answer["abstained"]
    assert answer["excluded"][0]["rule"] == "max_latency_ms"
    assert "5 ms against 0.001" in answer["excluded"][0]["detail"]


def test_a_model_too_large_for_the_memory_is_left_out_with_its_figures(
    service: Any, told: Any, build: Any, make_trace: Any
) -> None:
    data = make_trace(MODEL, "net", "vision", 3)
    data["totals"]["parameters"] = 20e9
    told(build.event("assay.model.traced.v1", data))
    answer = ask(service, precision="fp32")
    (left,) = answer["excluded"]
    assert (left["rule"], left["hardware"]) == ("does not fit in memory", GPU)
    assert left["detail"].startswith("needs 81 GB (80 to ")
    assert answer["abstained"].startswith(
        f"Nothing fits in memory. The closest is cuda fp32 at batch 1 on {GPU}: needs"
    )
    assert "times what there is" in answer["abstained"]
    assert f"assay fit {MODEL}" in answer["abstained"]


def test_what_failed_is_not_recommended(service: Any, told: Any, build: Any, trace_event: Any) -> None:
    failure = build.failure(model=MODEL, hardware=GPU, platform="cuda", precision="fp32")
    told(trace_event(), failure)
    answer = ask(service, precision="fp32")
    assert answer["ranked"] == []
    assert (answer["excluded"][0]["rule"], answer["excluded"][0]["evidence"]) == ("failed", [failure["id"]])
    assert "unsupported at compile" in answer["excluded"][0]["detail"]


def test_prices_decide_cost(service: Any, told: Any, build: Any, trace_event: Any, measured: Any) -> None:
    told(trace_event(), measured(8.0), measured(10.0, hardware="nvidia-l4"))
    assert ask(service, objective="cost", hardware=[GPU, "nvidia-l4"], providers=["acme"])["ranked"] == []

    def price(hardware: str, usd: float) -> Any:
        body = {"hardware": {"id": hardware, "count": 1}, "provider": "acme", "usd_per_hour": usd, "date": "2026-01-01"}
        return build.event("assay.price.published.v1", body)

    told(price(GPU, 2.0), price("nvidia-l4", 0.5))
    asked = {"hardware": [GPU, "nvidia-l4"], "precision": "fp32", "batch_sizes": [8], "providers": ["acme"]}
    best = ask(service, objective="cost", **asked)["ranked"]
    assert [entry["hardware"] for entry in best] == ["nvidia-l4", GPU]
    assert best[0]["usd_per_million"] == pytest.approx(0.5 / 3600 / 800 * 1e6, rel=1e-4)
    assert [entry["hardware"] for entry in ask(service, max_usd_per_hour=1.0, **asked)["ranked"]] == ["nvidia-l4"]


def test_a_tail_is_measured_where_there_are_samples_and_predicted_elsewhere(
    service: Any, told: Any, trace_event: Any, measured: Any
) -> None:
    metrics = {"latency_ms": {"mean": 5.0, "p50": 5.0, "p95": 6.0, "n": 100}}
    told(trace_event(), measured(5.0, metrics=metrics), measured(4.0, batch=4))
    answer = ask(service, percentile="p95", precision="fp32", batch_sizes=[4, 8, 16], per_hardware=False)
    by_batch = {entry["batch_size"]: entry for entry in answer["ranked"]}
    assert (by_batch[8]["latency_ms"], by_batch[8]["basis"]) == (6.0, "measured")
    # What was measured without the samples is neither answered nor predicted in its own place.
    assert 4 not in by_batch
    assert {one["rule"] for one in answer["excluded"]} == {"no latency at this percentile"}
    median = ask(service, precision="fp32", batch_sizes=[16])["ranked"][0]
    assert by_batch[16]["latency_ms_low"] < by_batch[16]["latency_ms"] < by_batch[16]["latency_ms_high"]
    assert by_batch[16]["latency_ms"] > median["latency_ms"]
    assert "p95 is" in by_batch[16]["why"]


def test_own_is_what_a_runner_of_ours_has_seen(service: Any, told: Any, trace_event: Any, measured: Any) -> None:
    told(trace_event())
    assert "assay detect" in ask(service, hardware="own", platform=[])["abstained"]
    told(measured(9.0, hardware="nvidia-l4"))
    assert {entry["hardware"] for entry in ask(service, hardware="own", platform=[])["ranked"]} == {"nvidia-l4"}


def test_names_that_nobody_knows_are_named_with_the_nearest(service: Any, told: Any, trace_event: Any) -> None:
    told(trace_event())
    with pytest.raises(UnknownModel):
        ask(service, model="no-such-model")
    with pytest.raises(UnknownHardware) as caught:
        ask(service, hardware=["nvidia-rtx-4091"])
    assert GPU in caught.value.nearest
    with pytest.raises(UnknownPlatform):
        ask(service, platform="abacus")
    with pytest.raises(UsageError, match="precision"):
        ask(service, precision="fp33")


def test_a_model_without_trace_and_rows_needs_a_trace(service: Any, told: Any, trace_event: Any, measured: Any) -> None:
    with pytest.raises(TraceNeeded) as caught:
        ask(service, model="bert-base-uncased", sequence_length=77)
    assert "assay bench google-bert/bert-base-uncased --sequence-lengths 77" in str(caught.value)
    told(trace_event())
    with pytest.raises(TraceNeeded):
        ask(service, image_size=999)
    told(measured(3.0))
    assert [entry["basis"] for entry in ask(service, precision="fp32", batch_sizes=[8])["ranked"]] == ["measured"]
    with pytest.raises(TraceNeeded):
        ask(service, image_size=999)


def test_a_trace_that_ships_answers_until_the_log_holds_one(service: Any, told: Any, trace_event: Any) -> None:
    question = {
        "model": "microsoft/resnet-50",
        "precision": "fp16",
        "batch_sizes": [128],
        "hardware": ["nvidia-rtx-4090"],
    }
    shipped = ask(service, **question)["ranked"][0]
    assert shipped["basis"] in ("predicted", "roofline") and shipped["latency_ms"] > 1
    event = trace_event()
    event["data"]["model"] |= {"id": "microsoft/resnet-50"}
    for operator in event["data"]["operators"]:
        operator["count"] *= 10
    told(event)
    assert ask(service, **question)["ranked"][0]["latency_ms"] != shipped["latency_ms"]


def test_what_the_trees_do_not_cover_is_predicted_from_kernels_and_says_on_what_that_rests(
    service: Any, told: Any, trace_event: Any
) -> None:
    told(trace_event(category="embedding", family="bert"))
    (entry,) = ask(service, precision="amp-fp16", batch_sizes=[32])["ranked"]
    assert (entry["basis"], entry["method"], entry["interval_covered"]) == ("predicted", "general", True)
    assert "predicted from its kernels" in entry["why"] and "on this device" in entry["why"]
    amd = service.answers.recommend(Question(model=MODEL, hardware=["amd-mi300x"], platform="rocm"))
    assert {entry["method"] for entry in amd["ranked"]} == {"general"}
    assert all("on other AMD devices" in entry["why"] for entry in amd["ranked"])
    # Nothing of a TPU ever trained: there physics alone is left, at the width of software that was left out.
    tpu = service.answers.recommend(Question(model=MODEL, hardware=["google-tpu-v5e"]))
    assert all("nothing was measured with this software" in entry["why"] for entry in tpu["ranked"])


def test_far_from_what_trained_an_interval_is_not_covered(service: Any, told: Any, trace_event: Any) -> None:
    told(trace_event())
    (entry,) = ask(service, precision="fp32", batch_sizes=[32768])["ranked"] or [None]
    assert entry is None or entry["interval_covered"] is False


def test_local_measurements_calibrate_and_the_past_keeps_its_predictor(
    service: Any, told: Any, build: Any, trace_event: Any, law: Any, make_trace: Any
) -> None:
    device, events = "amd-epyc-7763", []
    for seed in range(8):
        model = f"acme/text-{seed}"
        events.append(
            trace_event(model=model, category="embedding", family=f"t{seed}", seed=50 + seed, sequence_length=128)
        )
        truth = law(events[-1]["data"], device, "cpu", "fp32", 4) * 3.0
        events.append(build.measurement(truth, model=model, hardware=device, batch_size=4))
    held = trace_event(model="acme/held", category="embedding", family="held", seed=99, sequence_length=128)
    told(*events, held)
    position = service.projection.position
    truth = law(held["data"], device, "cpu", "fp32", 4) * 3.0
    question = PredictQuestion(model="acme/held", hardware=device, platform="cpu", precision="fp32", batch_size=4)
    before = service.answers.predict(question)
    assert before["basis"] == "calibrated"

    made = service.answers.train()
    digest = service.artifacts.put(made.content, made.event_data["card"], ARTIFACT_KIND)
    assert digest == made.predictor.digest
    told(build.event("assay.predictor.trained.v1", made.event_data))
    after = service.answers.predict(question)
    assert (after["basis"], after["predictor"]) == ("calibrated", digest)
    assert after["latency_ms"] == pytest.approx(before["latency_ms"], rel=0.02)
    assert after["latency_ms_low"] < truth < after["latency_ms_high"]
    assert set(after["evidence"]) <= {event["id"] for event in events}
    assert service.answers.train(position).predictor.digest == digest
    told(held)
    assert (
        service.answers.recommend(Question(model="acme/held", hardware=[device], precision="fp32", as_of=position))[
            "predictor"
        ]
        == load_shipped().digest
    )
    assert service.answers.predictor_info()["digest"] == digest


def test_a_corrupted_predictor_is_passed_over_for_the_last_good_one(
    service: Any, told: Any, build: Any, trace_event: Any
) -> None:
    missing = "sha256:" + "0" * 64
    told(trace_event(), build.event("assay.predictor.trained.v1", {"digest": missing, "position": 1, "card": {}}))
    info = service.answers.predictor_info()
    assert info["digest"] == load_shipped().digest
    assert missing in info["notes"][0]
    assert missing in ask(service)["notes"][0]


def test_a_prediction_shows_what_was_measured_and_what_bounds_it(
    service: Any, told: Any, trace_event: Any, measured: Any
) -> None:
    told(trace_event(), measured(7.5))
    told_ = service.answers.predict(
        PredictQuestion(model=MODEL, hardware="rtx4090", platform="cuda", precision="fp32", batch_size=8)
    )
    assert (told_["hardware"], told_["basis"], told_["measured"]["latency_ms"]) == (GPU, "calibrated", 7.5)
    parts = told_["breakdown"]
    assert sum(parts["by_class_ms"].values()) == pytest.approx(parts["latency_ms"], rel=1e-4)
    assert parts["bound"] in ("compute", "memory", "launch")


def test_an_old_measurement_counts_and_says_that_it_is_old(
    service: Any, told: Any, trace_event: Any, measured: Any
) -> None:
    told(trace_event())
    told({**measured(7.5), "time": "2024-03-01T12:00:00+00:00"})
    entry = ask(service, precision="fp32", batch_sizes=[8])["ranked"][0]
    assert (entry["basis"], entry["stale"]) == ("measured", True)
    assert entry["age_days"] > 180
    assert f"{entry['age_days']} days old" in entry["why"]
    predicted = ask(service, precision="fp32", batch_sizes=[16])["ranked"][0]
    assert (predicted["age_days"], predicted["stale"]) == (None, False)


def test_a_generation_is_predicted_from_its_prompt_and_its_steps(
    service: Any, told: Any, build: Any, make_trace: Any
) -> None:
    for phase, seed in (("prefill", 3), ("decode", 4)):
        data = make_trace("acme/writer", "writer", "text_generation", seed)
        data["workload"] |= {"phase": phase, "input_tokens": 64, "image_size": None}
        told(build.event("assay.model.traced.v1", data))

    def latency(output_tokens: int) -> float:
        asked = {"model": "acme/writer", "input_tokens": 64, "output_tokens": output_tokens, "batch_sizes": [1]}
        return float(ask(service, precision="fp32", **asked)["ranked"][0]["latency_ms"])

    one, two, four = latency(1), latency(2), latency(4)
    assert one < two < four
    # Each further token costs one more step; what is learned beyond the kernels bends that a little.
    assert four - two == pytest.approx(2 * (two - one), rel=0.15)
    with pytest.raises(TraceNeeded, match="at these sizes"):
        ask(service, model="acme/writer", input_tokens=99, output_tokens=2)


def test_measurements_correct_predictions_before_anything_is_trained(
    service: Any, told: Any, build: Any, trace_event: Any, law: Any
) -> None:
    device, slower = "amd-epyc-7763", 3.0
    held = trace_event(model="acme/held", category="embedding", family="held", seed=99, sequence_length=128)
    truth = law(held["data"], device, "cpu", "fp32", 4) * slower
    question = PredictQuestion(model="acme/held", hardware=device, platform="cpu", precision="fp32", batch_size=4)
    told(held)
    before = service.answers.predict(question)
    first = service.projection.position
    for seed in range(6):
        model = f"acme/text-{seed}"
        trace = trace_event(model=model, category="embedding", family=f"t{seed}", seed=50 + seed, sequence_length=128)
        took = law(trace["data"], device, "cpu", "fp32", 4) * slower
        told(trace, build.measurement(took, model=model, hardware=device, batch_size=4))
    after = service.answers.predict(question)
    assert after["basis"] == "calibrated"
    assert after["predictor"] == before["predictor"] == load_shipped().digest
    assert abs(after["latency_ms"] - truth) < 0.3 * truth < abs(before["latency_ms"] - truth)
    assert after["latency_ms_low"] < truth < after["latency_ms_high"]
    assert len(after["evidence"]) == 6
    # The past answers as it did, byte for byte.
    then = service.answers.predict(msgspec.structs.replace(question, as_of=first))
    assert then == before


def test_the_same_model_on_a_sibling_device_is_a_reference(
    service: Any, told: Any, trace_event: Any, measured: Any, law: Any
) -> None:
    trace = trace_event()
    asked: dict[str, Any] = {"precision": "amp-fp16", "batch_sizes": [32], "hardware": ["nvidia-l4"], "compiled": False}
    told(trace)
    (before,) = ask(service, **asked)["ranked"]
    assert before["basis"] in ("predicted", "roofline")
    slower = 3.0
    runtime = {"name": "torch", "version": "2.9.1"}
    row = measured(law(trace["data"], GPU, "cuda", "amp-fp16", 32) * slower, precision="amp-fp16", batch=32)
    row["data"]["execution"] |= {"runtime": runtime, "compiled": False}
    told(row)
    (after,) = ask(service, **asked)["ranked"]
    assert (after["basis"], after["evidence"]) == ("reference", [row["id"]])
    # What made it slow there is expected here too.
    assert after["latency_ms"] > 1.05 * before["latency_ms"]


def test_an_instance_type_is_asked_for_as_its_hardware(service: Any, told: Any, trace_event: Any) -> None:
    told(trace_event())
    answer = ask(service, hardware=["aws:g6.xlarge"], precision="fp32", batch_sizes=[8], providers=["aws"])
    assert [entry["hardware"] for entry in answer["ranked"]] == ["nvidia-l4"]
    assert answer["ranked"][0]["usd_per_hour"] == pytest.approx(0.8048)
    with pytest.raises(UnknownHardware, match=r"aws:g6\.xlarge"):
        ask(service, hardware=["aws:g6.xlage"])

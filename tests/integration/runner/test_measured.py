"""Benchmarks and verification of real models on the processor, through torch and through OpenVINO."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from domain.canonical import digest
from domain.errors import PlatformUnavailable, UnsupportedPrecision, UsageError
from domain.events import decode_event, encode_event
from runner.campaign.bench import run_plan
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.resume import cases_in
from runner.campaign.run import RunReport
from runner.campaign.verify import run_verification
from runner.measure.stopping import Method
from runner.spool.event_file import EventFile

MODEL = "prajjwal1/bert-tiny"
Told = tuple[RunReport, list[dict[str, Any]]]


def plan(**options: Any) -> Plan:
    method = options.pop("method", Method(budget_s=0.5))
    chosen = {"platforms": ("cpu", "openvino"), "sequence_lengths": (32,), "threads": (1,), **options}
    how = {name: chosen.pop(name) for name in ("timeout_s", "memory_limit_bytes", "device", "limit") if name in chosen}
    return make_plan(Sweep(**{"models": ("bert-tiny",), **chosen}), method=method, weights="random", **how)


def tell(run: Callable[..., RunReport], plan: Plan, cache: Path, **options: Any) -> Told:
    events: list[dict[str, Any]] = []
    report = run(plan, events.append, cache=cache, **options)
    return report, events


def data_of(events: list[dict[str, Any]], word: str) -> list[dict[str, Any]]:
    return [event["data"] for event in events if event["type"] == f"assay.{word}.v1"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def measured(cache: Path) -> Told:
    """One run: two platforms × two precisions."""
    return tell(run_plan, plan(precisions=["fp32", "bf16"]), cache)


def test_every_event_passes_the_gate_without_a_warning(measured: Told) -> None:
    for event in measured[1]:
        assert decode_event(encode_event(event)).warnings == ()


def test_events_come_in_order_and_belong_to_one_run(measured: Told) -> None:
    report, events = measured
    types = [event["type"].removeprefix("assay.").removesuffix(".v1") for event in events]
    assert types[0] == "run.started" and types[-1] == "run.finished"
    assert types.index("hardware.described") < types.index("model.described") < types.index("model.traced")
    assert types.index("model.traced") < types.index("measurement.recorded")
    assert types.count("measurement.recorded") == types.count("samples.recorded") == report.done == 4
    assert types.count("model.traced") == 1
    assert report.exit_code == 0
    assert {event["data"]["run_id"] for event in events if "run_id" in event["data"]} == {report.run_id}
    assert data_of(events, "run.finished")[0]["measured"] == 4


def test_the_source_says_runner_and_nothing_private(measured: Told) -> None:
    sources = {event["source"] for event in measured[1]}
    assert len(sources) == 1
    assert sources.pop().startswith("assay-runner/0.1/")


def test_what_ran_is_observed_beside_what_was_asked(measured: Told) -> None:
    rows = data_of(measured[1], "measurement.recorded")
    seen = {}
    for row in rows:
        asked, observed = row["observed"]["requested"], row["observed"]
        assert observed["platform"] == row["execution"]["platform"] == asked["platform"]
        assert observed["precision"] == row["execution"]["precision"]
        assert 0 <= observed["fallback_share"] <= 1
        seen[asked["platform"], asked["precision"]] = observed["precision"]
    assert seen["cpu", "fp32"] == seen["openvino", "fp32"] == "fp32"
    assert seen["cpu", "bf16"] == seen["openvino", "bf16"] == "bf16"
    assert {row["observed"]["device"].lower() for row in rows} == {"cpu"}
    assert len({row["hardware"]["id"] for row in rows}) == 1
    assert all(row["execution"]["threads"] == 1 for row in rows)


def test_samples_carry_the_digest_that_the_row_names_and_give_its_numbers(measured: Told) -> None:
    samples = {item["measurement_id"]: item for item in data_of(measured[1], "samples.recorded")}
    for event in measured[1]:
        if event["type"] != "assay.measurement.recorded.v1":
            continue
        row, own = event["data"], samples[event["id"]]
        assert row["samples"] == {"digest": digest(own["values"]), "n": len(own["values"])}
        latency = row["metrics"]["latency_ms"]
        assert latency["p50"] == pytest.approx(statistics.median(own["values"]))
        assert latency["n"] == own["n"]
        assert ("p99" in latency) == (own["n"] >= 459)
        items = row["workload"]["batch_size"] * own["n"] / sum(own["values"]) * 1e3
        assert row["metrics"]["throughput_per_s"] == pytest.approx(items)
        assert own["warmup"]
        assert row["validity"]["metrics"]["latency_ms"]["verdict"] in ("valid", "suspect")


def test_stages_are_timed_apart_and_only_where_they_happened(measured: Told) -> None:
    for row in data_of(measured[1], "measurement.recorded"):
        metrics = row["metrics"]
        assert metrics["load_ms"] > 0 and metrics["first_run_ms"] > 0
        converts = row["execution"]["platform"] == "openvino"
        assert ("convert_ms" in metrics) == ("compile_ms" in metrics) == converts
        assert 50e6 < metrics["peak_memory_bytes"] < 3e9
        assert metrics["mean_memory_bytes"] <= metrics["peak_memory_bytes"] * 1.01


def test_the_model_is_described_with_what_was_built(measured: Told) -> None:
    for row in data_of(measured[1], "measurement.recorded"):
        assert row["model"]["id"] == MODEL
        assert row["model"]["weights"] == "random"
        assert row["model"]["parameters"] == 4_385_920
        assert len(row["model"]["architecture"]) == 64
        assert row["workload"]["sequence_length"] == 32


def test_a_file_with_all_rows_repeats_nothing(measured: Told, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ndjson"
    file = EventFile(out)
    for event in measured[1]:
        file.write(event)
    file.close()
    with out.open("ab") as handle:
        handle.write(b'{"specversion": "1.0", "id": "cut of')
    report, events = tell(run_plan, plan(precisions=["fp32", "bf16"]), cache, done=cases_in(out))
    assert (report.done, report.skipped, report.failed) == (0, 4, 0)
    assert not data_of(events, "measurement.recorded")
    again = EventFile(out, resume=True)
    again.write(events[0])
    again.close()
    lines = out.read_bytes().splitlines()
    assert len(lines) == len(measured[1]) + 1
    assert all(decode_event(line) for line in lines)


def test_an_absent_platform_and_a_silent_fallback_beside_a_good_one(plugin: Path, cache: Path) -> None:
    method = Method(iterations=7)
    report, events = tell(run_plan, plan(platforms=["rocm", "openvino", "pretending"], method=method), cache)
    assert (report.done, report.failed, report.exit_code) == (2, 1, 1)
    failure = data_of(events, "measurement.failed")[0]
    assert (failure["outcome"], failure["stage"]) == ("unsupported", "resolve")
    assert failure["execution"]["platform"] == "rocm" and failure["remedy"]
    good, fallen = data_of(events, "measurement.recorded")
    assert good["samples"]["n"] == 7
    assert not {"p90", "p95", "p99"} & good["metrics"]["latency_ms"].keys()
    assert fallen["execution"]["platform"] == "cpu"
    assert fallen["observed"]["requested"]["platform"] == "pretending"
    assert fallen["validity"]["verdict"] == "invalid"


@pytest.mark.parametrize(
    ("options", "error", "field", "exit_code"),
    [
        ({"platforms": ["rocm"]}, PlatformUnavailable, "platform", 3),
        ({"precisions": ["fp4"]}, UnsupportedPrecision, "precision", 2),
        ({"sequence_lengths": [513], "platforms": ["openvino"]}, UsageError, "sequence_length", 2),
    ],
)
def test_a_plan_that_can_never_work_tells_nothing(
    cache: Path, options: dict[str, Any], error: type[Exception], field: str, exit_code: int
) -> None:
    events: list[dict[str, Any]] = []
    with pytest.raises(error) as caught:
        run_plan(plan(**options), events.append, cache=cache)
    assert (caught.value.field, caught.value.exit_code) == (field, exit_code)  # type: ignore[attr-defined]
    assert not events


def test_an_event_that_cannot_be_kept_stops_the_benchmarks(cache: Path) -> None:
    class Full(Exception):
        pass

    kept: list[dict[str, Any]] = []

    def keep(event: dict[str, Any]) -> None:
        if len(kept) == 2:
            raise Full
        kept.append(event)

    with pytest.raises(Full):
        run_plan(plan(platforms=["openvino"]), keep, cache=cache)
    assert len(kept) == 2


def test_an_interrupt_is_recorded_and_passed_on(cache: Path, recorded_spans: Any) -> None:
    events: list[dict[str, Any]] = []

    def interrupt(progress: Any) -> None:
        if progress.stage == "run":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan(platforms=["openvino"]), events.append, interrupt, cache=cache)
    assert data_of(events, "measurement.failed")[0]["failure"]["error"] == "Interrupted"
    assert data_of(events, "run.finished")[0]["outcome"] == "interrupted"
    run, case = recorded_spans()["run"], recorded_spans()["case"]
    assert case.parent.span_id == run.context.span_id and case.attributes["error.type"] == "KeyboardInterrupt"
    assert run.attributes["assay.run"] == data_of(events, "run.finished")[0]["run_id"]
    assert case.attributes["assay.platform"] == "openvino"


def test_outputs_of_both_platforms_are_right_and_broken_ones_are_noticed(plugin: Path, cache: Path) -> None:
    platforms = ["cpu", "openvino", "corrupting", "pretending", "rocm"]
    report, events = tell(run_verification, plan(platforms=platforms), cache)
    reported = data_of(events, "test.reported")
    tests = {test["observed"]["requested"]["platform"]: test for test in reported if "observed" in test}
    for name in ("cpu", "openvino"):
        assert tests[name]["outcome"] == "passed" and tests[name]["stage"] == "verify"
        assert all(each["cosine"] > 0.9999 for each in tests[name]["checks"]["outputs"])
        assert tests[name]["checks"]["deterministic"]
    corrupted = tests["corrupting"]
    assert (corrupted["outcome"], corrupted["stage"]) == ("failed", "verify")
    assert corrupted["failure"]["error"] == "Mismatch" and corrupted["remedy"]
    pretended = tests["pretending"]
    assert (pretended["outcome"], pretended["failure"]["error"]) == ("failed", "Fallback")
    assert pretended["execution"]["platform"] == "cpu" and pretended["observed"]["fallback_share"] == 1.0
    absent = next(test for test in reported if test["execution"]["platform"] == "rocm")
    assert (absent["outcome"], absent["stage"]) == ("unsupported", "resolve")
    assert (report.done, report.failed) == (2, 3)
    assert data_of(events, "run.finished")[0]["tests"] == 5
    for event in events:
        assert decode_event(encode_event(event)).warnings == ()


@pytest.mark.torture
def test_bf16_outputs_stay_within_their_tolerance(cache: Path) -> None:
    report, events = tell(run_verification, plan(platforms=["openvino"], precisions=["bf16"]), cache)
    checks = data_of(events, "test.reported")[0]["checks"]
    assert report.done == 1
    # Equal to fp32 it would not have been computed in bf16 at all.
    assert any(each["max_absolute"] > 1e-5 for each in checks["outputs"])

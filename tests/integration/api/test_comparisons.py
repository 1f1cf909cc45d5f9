"""Comparisons and trends of energy, of loads, and of hardware that nobody saw."""

from __future__ import annotations

import uuid

import pytest

from domain.errors import UsageError

ENERGY = ("energy_j", "energy_per_item_j", "power_w")


@pytest.fixture
def model():
    return f"compared/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def drawn(build, model):
    """Makes a measurement with energy: so many joules an item, with that verdict, beside times that are suspect."""

    def made(each, verdict, **over):
        judged = {name: {"verdict": verdict, "reasons": ["why"]} for name in ENERGY}
        validity = {"verdict": "suspect", "metrics": {"latency_ms": {"verdict": "suspect"}, **judged}}
        event = build.measurement(model=model, validity=validity, **over)
        event["data"]["metrics"] |= {"energy_per_item_j": each, "energy_j": 8 * each, "power_w": 40.0}
        return event

    return made


def posted(client, *events) -> int:
    answer = client.post_events(events)
    assert answer["rejected"] == []
    return answer["last_position"]


def test_energy_orders_by_its_own_verdict_and_an_invalid_one_is_no_figure(client, model, drawn, build):
    position = posted(
        client, drawn(0.5, "suspect", hardware="one", p50=1.0), drawn(0.2, "valid", hardware="two", p50=9.0),
        drawn(0.1, "invalid", hardware="three", p50=2.0), build.measurement(model=model, hardware="four", p50=3.0),
    )  # fmt: skip
    rows = client.compare_hardware(model, metric="energy_per_item_j", min_position=position)["rows"]
    told = [(row["hardware"], row["energy_per_item_j"], row["energy_verdict"], row["best"]) for row in rows]
    assert told[:2] == [("two", 0.2, "valid", True), ("one", 0.5, "suspect", True)]
    assert sorted(told[2:]) == [("four", None, None, False), ("three", None, "invalid", False)]
    assert rows[0]["verdict"] == "suspect"
    assert [row["hardware"] for row in client.compare_hardware(model)["rows"]] == ["one", "three", "four", "two"]
    with pytest.raises(UsageError, match="orders no comparison"):
        client.compare_hardware(model, metric="load_ms")


def test_loads_and_stated_hardware_are_named_and_none_is_the_best_of_another(client, model, build):
    stated = {"device": "stated", "details": {"scenario": {"result": "invalid", "target_latency_ms": 15.0}}}
    plain = build.measurement(model=model, p50=1.0)
    rate, one = build.measurement(model=model, p50=2.0, observed=stated), build.measurement(model=model, p50=3.0)
    rate["data"]["workload"] |= {"scenario": "server", "arrival_rate_per_s": 4.0}
    one["data"]["workload"] |= {"scenario": "serving", "concurrency": 8}
    position = posted(client, plain, rate, one)
    answer = client.compare_hardware(model, min_position=position)
    assert {"scenario", "concurrency", "arrival_rate_per_s", "target_latency_ms", "hardware_stated"} <= answer[
        "differs"
    ].keys()
    assert [row["best"] for row in answer["rows"]] == [True, True, True]
    served = next(row for row in answer["rows"] if row["arrival_rate_per_s"])
    assert (served["hardware_stated"], served["target_latency_ms"], served["scenario_result"]) == (
        True,
        15.0,
        "invalid",
    )
    lines = client.trends(model, min_position=position)["lines"]
    assert {(line["concurrency"], line["arrival_rate_per_s"], line["hardware_stated"]) for line in lines} == {
        (None, None, False), (8, None, False), (None, 4.0, True),
    }  # fmt: skip


def test_a_point_of_energy_has_the_verdict_on_energy(client, model, drawn):
    position = posted(client, drawn(0.5, "valid"))
    (line,) = client.trends(model, metric="energy_per_item_j", min_position=position)["lines"]
    assert [(point["value"], point["verdict"]) for point in line["points"]] == [(0.5, "valid")]
    (line,) = client.trends(model, min_position=position)["lines"]
    assert [point["verdict"] for point in line["points"]] == ["suspect"]


def test_a_model_is_cut_to_what_a_picture_needs_and_counted_as_a_whole(client, model, drawn, build):
    plain = build.measurement(model=model, hardware="home", p50=8.0)
    quick = build.measurement(model=model, hardware="away", platform="cuda", precision="fp16", p50=2.0)
    wide = build.measurement(model=model, hardware="away", platform="cuda", precision="fp16", p50=6.0, batch_size=8)
    frugal = drawn(0.2, "valid", hardware="home", platform="openvino", p50=4.0)
    position = posted(client, plain, quick, wide, frugal)

    def told(**asked):
        answer = client.compare_hardware(model, min_position=position, **asked)
        return answer, [(row["platform"], row["batch_size"]) for row in answer["rows"]]

    everything, rows = told()
    assert rows == [("cuda", 8), ("cuda", 1), ("openvino", 1), ("cpu", 1)]
    assert everything["baselines"][0]["evidence"] == [plain["id"]]
    assert [row["speedup_over_cpu"] for row in everything["rows"]] == [None, 4.0, 2.0, 1.0]
    whole = everything["whole"]
    assert (whole["rows"], whole["metrics"]["energy_per_item_j"], whole["metrics"]["speedup_over_cpu"]) == (4, 1, 3)
    assert whole["hardware"] == [{"hardware": "away", "rows": 2}, {"hardware": "home", "rows": 2}]
    assert whole["batch_size"][0] == {"batch_size": 1, "rows": 3}
    answer, rows = told(per="call", limit=2)
    assert (rows, answer["total"], answer["whole"]) == ([("cuda", 1), ("openvino", 1)], 4, whole)
    assert answer["same"]["batch_size"] == 1
    answer, rows = told(metric="speedup_over_cpu", limit=1, platform="openvino,cpu")
    assert (rows, answer["total"], answer["baselines"]) == ([("openvino", 1)], 2, everything["baselines"])
    answer, rows = told(metric="energy_per_item_j", limit=9)
    assert (rows, answer["total"]) == ([("openvino", 1)], 1)
    answer, rows = told(limit=0, hardware="home", batch_size=1)
    assert (rows, answer["total"], answer["whole"]) == ([], 2, whole)
    assert [row["best"] for row in told(hardware="away", per="call")[0]["rows"]] == [True, False]


def test_the_lines_over_the_batch_are_those_with_most_batches_at_one_work(client, model, build):
    def made(batch, p50, **over):
        return build.measurement(model=model, hardware="home", batch_size=batch, p50=p50, **over)

    events = [made(1, 4.0), made(2, 6.0), made(4, 9.0), made(1, 2.0, precision="bf16"), made(16, 8.0, precision="bf16")]
    loaded = made(2, 1.0)
    loaded["data"]["workload"] |= {"scenario": "serving", "concurrency": 8}
    longer = made(8, 1.0)
    longer["data"]["workload"]["sequence_length"] = 999
    position = posted(client, *events, loaded, longer)
    told = client.compare_batches(model, lines=2, min_position=position)
    assert [(row["line"], row["precision"], row["batch_size"]) for row in told["rows"]] == [
        (0, "fp32", 1), (0, "fp32", 2), (0, "fp32", 4), (1, "bf16", 1), (1, "bf16", 16),
    ]  # fmt: skip
    assert (told["total"], told["batches"]) == (3, [1, 2, 4, 16])
    assert told["work"]["sequence_length"] == events[0]["data"]["workload"].get("sequence_length")
    one = client.compare_batches(model, hardware="home", precision="bf16,int8", min_position=position)
    assert {row["precision"] for row in one["rows"]} == {"bf16"}


def test_one_row_a_device_is_the_best_of_it_and_hardware_is_named_between_commas(client, model, build):
    one = [
        build.measurement(model=model, hardware="one", p50=p50, precision=name)
        for p50, name in ((2.0, "fp32"), (1.0, "bf16"))
    ]
    position = posted(
        client, *one, *(build.measurement(model=model, hardware=name, p50=3.0) for name in ("two", "three"))
    )
    answer = client.compare_hardware(model, min_position=position, per_hardware=True, per="call", limit=10)
    assert [(row["hardware"], row["latency_ms"]) for row in answer["rows"]] == [
        ("one", 1.0),
        ("two", 3.0),
        ("three", 3.0),
    ]
    assert answer["total"] == 4
    named = client.compare_hardware(model, hardware="one,three", per_hardware=True)
    assert [row["hardware"] for row in named["rows"]] == ["one", "three"]
    assert named["total"] == 3


def test_a_length_filters_and_what_a_model_has_is_counted(client, model, build):
    events = [build.measurement(model=model, p50=1.0), build.measurement(model=model, p50=4.0)]
    events[1]["data"]["workload"]["sequence_length"] = 384
    position = posted(client, *events)
    answer = client.compare_hardware(model, mode="inference", sequence_length=384, min_position=position)
    assert [row["latency_ms"] for row in answer["rows"]] == [4.0]
    assert {"sequence_length": 384, "rows": 1} in answer["whole"]["sequence_length"]
    assert answer["whole"]["precision"] == [{"precision": "fp32", "rows": 2}]
    batches = client.compare_batches(model, mode="inference", sequence_length=384)
    assert [row["latency_ms"] for row in batches["rows"]] == [4.0]
    models = client.compare_models(answer["rows"][0]["hardware"], sequence_length=384)
    assert all(row["sequence_length"] == 384 for row in models["rows"])


def in_a_browser(build, model, browser, platform="wasm", **over):
    event = build.measurement(model=model, platform=platform, **over)
    event["data"]["execution"]["options"] = {"browser": browser, "browser_version": "153.0"}
    if over.get("precision", "fp32") != "fp32":
        event["data"]["execution"]["options"] |= {"quantization": "onnxruntime.quantize_dynamic"}
    return event


def test_pages_are_told_apart_by_browser_and_web_is_all_of_their_platforms(client, model, build):
    position = posted(
        client,
        build.measurement(model=model, p50=1.0),
        in_a_browser(build, model, "chromium", p50=2.0),
        in_a_browser(build, model, "firefox", p50=3.0),
        in_a_browser(build, model, "chromium", "webnn", p50=1.5),
    )
    answer = client.compare_hardware(model, min_position=position)
    assert [(row["platform"], row["browser"]) for row in answer["rows"]] == [
        ("cpu", None),
        ("webnn", "chromium"),
        ("wasm", "chromium"),
        ("wasm", "firefox"),
    ]
    assert set(answer["differs"]["browser"]) == {None, "chromium", "firefox"}
    web = client.compare_hardware(model, min_position=position, platform="web")
    assert [row["platform"] for row in web["rows"]] == ["webnn", "wasm", "wasm"]
    ranked = client.recommend(model, platform="web", per_hardware=False)["ranked"]
    assert [(row["platform"], row["browser"], row["latency_ms"]) for row in ranked] == [
        ("webnn", "chromium", 1.5),
        ("wasm", "chromium", 2.0),
        ("wasm", "firefox", 3.0),
    ]


def test_a_precision_that_is_slower_than_fp32_is_said_with_both_figures(client, model, build):
    plain, slow = (
        in_a_browser(build, model, "chromium", precision=precision, p50=p50)
        for precision, p50 in (("fp32", 1.75), ("int8", 8.3))
    )
    position = posted(client, plain, slow)
    (slower,) = client.compare_hardware(model, min_position=position)["slower_precisions"]
    assert slower["ratio"] == pytest.approx(8.3 / 1.75)
    assert slower["evidence"] == [slow["id"], plain["id"]]
    answer = client.recommend(model, platform="web", per_hardware=False)
    assert slower["sentence"] in answer["notes"]
    assert client.compare_hardware(model, platform="cpu")["slower_precisions"] == []


def test_a_history_names_its_browser_and_goes_on_under_a_newer_one(client, model, build):
    events = [in_a_browser(build, model, name, p50=2.0) for name in ("chromium", "chromium", "firefox")]
    events[1]["data"]["execution"]["options"]["browser_version"] = "154.0"
    position = posted(client, *events)
    lines = client.trends(model, min_position=position)["lines"]
    assert [line["browser"] for line in lines] == ["chromium", "chromium", "firefox"]
    assert lines[0]["alike"] == lines[1]["alike"] != lines[2]["alike"]

"""One row of a run in words and pictures: stages, samples, percentiles, metrics, asked and actual."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dashboard.screens.runs import samples
from domain.answers.run import Fact
from domain.canonical import digest
from domain.payloads import SamplesRecorded
from domain.samples import Picture, picture
from presentation.charts import chart_files, samples_chart
from presentation.charts.frame import MAX_MARKS
from presentation.charts.stages_chart import stages


def fact(**more: Any) -> Fact:
    known = {
        "run_id": "run-1",
        "model": {"id": "acme/tiny"},
        "workload": {"mode": "inference", "batch_size": 8},
        "execution": {"platform": "openvino", "precision": "bf16"},
        "hardware": {"id": "acme-one"},
        "provenance": {"origin": "measured"},
        "metrics": {
            "latency_ms": {"p50": 1.2, "mean": 1.3, "ci95": {"p50": [1.19, 1.21]}, "n": 61},
            "throughput_per_s": 6612.0, "load_ms": 900.0, "first_run_ms": 80.0, "peak_memory_bytes": 512_000_000,
            "fallback_note": "none",
        },
        "validity": {"verdict": "suspect", "metrics": {"latency_ms": {"verdict": "suspect", "reasons": ["bimodal"]}}},
        "observed": {
            "device": "cpu", "platform": "openvino", "precision": "bf16", "fallback_share": 0.25,
            "requested": {"platform": "openvino", "precision": "int8"},
        },
        "conditions": {"steady": True, "stopped_by": "interval"},
    }  # fmt: skip
    return msgspec.json.decode(msgspec.json.encode({**known, **more}), type=Fact)


def drawn(n: int = 61, warmup: int = 3, most: int = 2000, far: float | None = None) -> Picture:
    values = [1.0 + at % 5 / 10 for at in range(n)]
    if far is not None:
        values[-1] = far
    made = SamplesRecorded(run_id="run-1", digest=digest(values), n=n, values=values, warmup=[5.0] * warmup)
    return picture(made, most)


def sent(shown: Picture) -> dict[str, Any]:
    return dict(msgspec.to_builtins(shown))


def test_a_row_is_said_with_interval_n_and_verdict() -> None:
    assert (
        samples.sentence(fact())
        == "tiny · openvino · bf16 · batch 8 · acme-one: 1.20\u202fms (1.19–1.21), n\u202f61, ⚠ suspect"
    )
    only_mean = fact(metrics={"latency_ms": {"mean": 2.0}}, validity=None)
    assert samples.sentence(only_mean).endswith("2.00\u202fms (mean), n\u202f—, · no verdict")
    assert samples.sentence(fact(metrics={"throughput_per_s": 12.0})).endswith("12.0/s, n\u202f—, ⚠ suspect")
    failed = fact(outcome="out_of_memory", stage="first_run")
    assert samples.sentence(failed).endswith("acme-one: out of memory at first run")


def test_stages_follow_each_other_and_one_that_was_not_recorded_is_not_zero() -> None:
    found = {one.stage: one for one in samples.stages(fact(), drawn())}
    assert list(found) == ["load", "convert", "compile", "first run", "warm-up", "steady"]
    assert (found["load"].start, found["load"].end, found["load"].took) == (0.0, 900.0, "900\u202fms")
    assert (found["convert"].end, found["convert"].took) == (None, "— not recorded")
    assert found["first run"].start == 900.0
    assert (found["warm-up"].start, found["warm-up"].end) == (980.0, 995.0)
    assert found["steady"].end == pytest.approx(995.0 + drawn().steady_ms)
    assert {one.end for one in samples.stages(fact(metrics={}), None)} == {None}


def test_a_percentile_that_is_not_supported_says_what_it_needs() -> None:
    told = samples.percentiles(drawn())
    assert told.startswith("p50 1.2")
    assert "p95 — (needs 90, has 61)" in told
    assert "p99 — (needs 459, has 61)" in told


def test_where_the_steady_state_begins_is_said_and_how_it_was_found() -> None:
    assert samples.steady(drawn(), fact()) == (
        "steady from call 4 by the test · 61 steady calls · ended because the interval of the median was narrow enough"
    )
    spent = samples.steady(drawn(), fact(conditions={"steady": False}))
    assert "not by the test: the time for warm-up was spent" in spent
    assert "no warm-up was kept" in samples.steady(drawn(warmup=0), fact())
    assert "1 call lies beyond the histogram, up to 90.0\u202fms" in samples.steady(drawn(far=90.0), fact())
    assert "do not give the digest" in samples.steady(msgspec.structs.replace(drawn(), intact=False), fact())


def test_a_file_of_samples_has_every_call_or_every_stretch() -> None:
    rows = samples.series(drawn(n=5, warmup=2)).to_dict("records")
    assert rows[1] == {"call": 2, "phase": "warm-up", "ms": 5.0}
    assert rows[2] == {"call": 3, "phase": "steady", "ms": 1.0}
    thinned = samples.series(drawn(n=400, most=50)).to_dict("records")
    assert thinned[0]["phase"] == "warm-up"
    assert thinned[-1]["last_call"] == 403
    assert set(thinned[0]) == {"phase", "first_call", "last_call", "low_ms", "median_ms", "high_ms"}


def test_metrics_have_units_verdicts_and_reasons() -> None:
    told = {row["Metric"]: row for row in samples.metrics(fact()).to_dict("records")}
    assert (told["latency p50"]["Value"], told["latency p50"]["Verdict"]) == ("1.20\u202fms (1.19–1.21)", "⚠ suspect")
    assert told["latency mean"]["Why"] == "bimodal"
    assert told["throughput"]["Value"] == "6,610/s"
    assert told["peak memory"]["Value"] == "512\u202fMB"
    assert told["load"]["Verdict"] == "· no verdict"
    assert told["fallback note"]["Value"] == "none"
    assert "Why" not in samples.metrics(fact(validity=None)).columns


def test_what_was_asked_stands_beside_what_did_the_work() -> None:
    told = {row["What"]: row for row in samples.asked(fact()).to_dict("records")}
    assert (told["platform"]["Asked"], told["platform"]["Same"]) == ("openvino", "✓ yes")
    assert (told["precision"]["Asked"], told["precision"]["Actual"], told["precision"]["Same"]) == (
        "int8",
        "bf16",
        "≠ no",
    )
    assert (told["device"]["Asked"], told["device"]["Same"]) == ("—", "—")
    assert told["share of the work done elsewhere"]["Actual"] == "25.0\u202f%"


def marks(chart: Any) -> list[Any]:
    return [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]


def test_a_dot_stands_for_a_call_and_a_line_for_a_stretch() -> None:
    few = samples_chart.samples(sent(drawn()), "openvino")
    assert marks(few) == ["rect", "rule", "text", "circle"]
    assert len(few.to_dict()["layer"][-1]["data"]["values"]) == 64
    many = samples_chart.samples(sent(drawn(n=5000)), "openvino")
    assert marks(many) == ["rect", "rule", "text", "rule", "circle"]
    assert 2 * len(many.to_dict()["layer"][-1]["data"]["values"]) <= MAX_MARKS
    assert marks(samples_chart.samples(sent(drawn(warmup=0)), "openvino")) == ["circle"]


def test_times_that_range_far_stand_on_a_log_axis_that_says_so() -> None:
    def title(chart: Any) -> str:
        return str(chart.to_dict()["layer"][-1]["encoding"]["y"]["axis"]["title"])

    assert (
        title(samples_chart.samples(sent(drawn()), "cpu"))
        == "time of a call, ms (linear, not from 0), smaller is better"
    )
    assert "(log)" in title(samples_chart.samples(sent(drawn(far=500.0)), "cpu"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_picture_can_be_saved(theme: Any) -> None:
    same = sent(drawn(n=10))
    same["histogram"] = [{"low": 1.0, "high": 1.0, "count": 10}]
    charts = [
        samples_chart.samples(sent(drawn()), "cpu", theme=theme, picture=True),
        samples_chart.samples(sent(drawn(n=3000)), "qnn", theme=theme, picture=True),
        samples_chart.times(sent(drawn()), "cuda", theme=theme, picture=True),
        samples_chart.times(same, "unheard-of", theme=theme, picture=True),
        stages(msgspec.to_builtins(samples.stages(fact(), drawn())), "cpu", theme=theme, picture=True),
    ]
    for chart in charts:
        assert chart_files.svg(chart).startswith(b"<svg")

"""The cleaning rules on literal drafts: each catches what it is for and leaves its neighbour alone, and the page states it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest.importers.draft import Draft
from ingest.importers.rules import ROW_RULES, TOGETHER_RULES, across_rows, judge, judge_together, rows
from ingest.importers.rules.rows import digits

PAGE = Path(__file__).parents[4] / "docs" / "importers.md"


def draft(model="acme/tiny", *, platform="cpu", hardware="acme-one", latency=None, workload=None, claims=None, **more):
    metrics = {**({"latency_ms": latency} if latency else {}), **more.pop("metrics", {})}
    return Draft(
        model={"id": model, **more.pop("said", {})},
        workload={"mode": "inference", "scenario": "single_stream", "batch_size": 1, **(workload or {})},
        execution={"platform": platform, **more.pop("execution", {})},
        hardware={"id": hardware, "kind": "gpu" if platform == "cuda" else "cpu", "count": 1},
        metrics=metrics,
        claims=claims or {},
        **more,
    )


def found(*drafts):
    for one in drafts:
        judge(one)
    judge_together(drafts)
    return [[finding.rule for finding in one.findings] for one in drafts]


@pytest.mark.parametrize(
    "flags",
    [
        {"is_simulated": True},
        {"implementation_type": "SIMULATION"},
        {"cpu_init": "Success (MOCK)"},
        {"note": "a fake row"},
    ],
)
def test_whatever_flag_says_simulated_wins(flags):
    one = draft(latency={"mean": 1.2345678}, claims={"flags": {**flags, "implementation": "REAL"}})
    assert found(one) == [["simulated-flag"]]
    assert one.findings[0].simulated and one.findings[0].verdict == "invalid"


@pytest.mark.parametrize("flags", [{"is_simulated": False}, {"implementation_type": "REAL"}, {"simulated": "no"}, {}])
def test_a_flag_that_denies_it_is_no_flag(flags):
    assert found(draft(latency={"mean": 1.2345678}, claims={"flags": flags})) == [[]]


@pytest.mark.parametrize(
    ("answer", "caught"),
    [
        ("(REAL) an answer", True), ("This is a mock transcription", True), ("Example generated text from T5", True),
        (["fine", "Simulated speech"], True), ("Real estate is dear", False), ("the cat sat", False), ([], False),
    ],
)  # fmt: skip
def test_an_answer_that_speaks_of_itself_was_written_by_the_author(answer, caught):
    assert found(draft(claims={"answer": answer})) == [["canned-answer"] if caught else []]


def test_an_answer_after_a_failed_start_came_from_a_stand_in():
    assert found(draft(claims={"start": "Failed CUDA initialization"})) == [["failed-start"]]


@pytest.mark.parametrize(
    ("clock", "caught"),
    [
        ([0.1], True),
        ([80, 480], True),
        ([0.2865, 342.5], True),
        ([0.1004452705], False),
        ([0.1, 0.3999999999], False),
        ([], False),
    ],
)
def test_figures_of_few_digits_were_typed_where_the_tool_writes_them_all(clock, caught):
    assert found(draft(claims={"clock": clock})) == [["typed-figures"] if caught else []]


def test_digits_are_counted_as_they_have_to_be_written():
    assert [digits(value) for value in (0.1, 80, 1e-05, 0.0005490779876708984, 300.0, -2.5)] == [1, 1, 1, 16, 1, 2]


@pytest.mark.parametrize(
    ("mean", "low", "high", "verdict"),
    [
        (52.345, 47.1105, 57.5795, "invalid"),
        (0.05, 0.045000000000000005, 0.05500000000000001, "invalid"),
        (10.0, 9.0, 11.0, "suspect"),
        (52.345, 47.1105, 57.6, None),
        (52.345, 47.0, 57.69, None),
    ],
)
def test_a_spread_that_is_round_to_the_last_digit_was_worked_out(mean, low, high, verdict):
    one = draft(latency={"mean": mean, "min": low, "max": high})
    assert found(one) == [["round-spread"] if verdict else []]
    assert [finding.verdict for finding in one.findings] == ([verdict] if verdict else [])


def test_no_call_is_faster_than_a_call_can_be():
    assert found(draft(latency={"mean": 0.0099})) == [["impossible-speed"]]
    assert found(draft(latency={"mean": 0.0123456})) == [[]]
    python = {"python_call": True}
    assert found(draft(metrics={"first_run_ms": 0.1234567}, claims=python)) == [["impossible-speed"]]
    assert found(draft(metrics={"first_run_ms": 0.2345678}, claims=python)) == [[]]


@pytest.mark.parametrize(
    ("metrics", "caught"),
    [
        ({"throughput_per_s": 2_000_000.0}, True),
        ({"throughput_per_s": 1_000.0}, False),
        ({"tokens_per_s": 100_000_000.0}, True),
        ({"tokens_per_s": 100_000.0}, False),
    ],
)
def test_nothing_is_faster_than_the_devices_peak(metrics, caught):
    said = {"parameters": 110_000_000, "category": "embedding"}
    one = draft(hardware="nvidia-rtx-3090", platform="cuda", workload={"sequence_length": 128}, said=said, metrics=metrics,
                execution={"precision": "fp16"})  # fmt: skip
    assert found(one) == [["impossible-speed"] if caught else []]
    unknown = draft(hardware="acme-one", said=said, metrics=metrics)
    assert found(unknown) == [[]]


def test_throughput_and_mean_latency_tell_of_one_batch():
    batch = {"batch_size": 4}
    assert found(draft(latency={"mean": 30.0}, metrics={"throughput_per_s": 300.0}, workload=batch)) == [
        ["inconsistent-rate"]
    ]
    assert found(draft(latency={"mean": 30.0, "p50": 20.0}, metrics={"throughput_per_s": 133.0}, workload=batch)) == [
        []
    ]
    served = {**batch, "scenario": "serving"}
    assert found(draft(latency={"mean": 30.0}, metrics={"throughput_per_s": 300.0}, workload=served)) == [[]]


def test_an_accelerator_without_counters_is_in_doubt():
    def counted(counters, platform="cuda"):
        return found(draft(platform=platform, latency={"mean": 1.2345678}, claims={"counters": counters}))

    assert counted(False) == counted({"memory_allocated": 0.0}) == [["no-device-counters"]]
    assert counted(True) == counted({"memory_allocated": 68e6}) == counted(None) == counted(False, "cpu") == [[]]


def test_work_that_was_done_elsewhere_is_suspect():
    assert found(draft(claims={"fallback": "ran on the CPU"})) == [["fell-back"]]


def test_a_first_call_inside_the_mean_is_seen():
    assert found(draft(claims={"samples_ms": [45.2, 20.3, 18.0, 20.2, 20.1]})) == [["warm-up-inside"]]
    assert found(draft(claims={"samples_ms": [20.2, 45.2, 18.0, 20.2, 20.1]})) == [[]]
    assert found(draft(claims={"samples_ms": [45.2, 20.3, 18.0]})) == [[]]


def test_a_zero_that_cannot_be_is_said():
    assert found(draft(claims={"zeros": ["memory_mb"]})) == [["zero-means-missing"]]


def test_a_mean_over_sizes_is_nobodys():
    one = draft(latency={"mean": 1780.2078}, claims={"averaged_over": ["batch sizes"]})
    assert found(one) == [["averaged-over"]]
    assert not one.findings[0].simulated


def test_one_latency_for_many_models_was_not_measured():
    same = [draft(f"acme/{name}", latency={"mean": 80.0}) for name in "abc"]
    assert found(*same) == [["constant-across-models"]] * 3
    assert found(*(draft(f"acme/{name}", latency={"mean": 80.0}) for name in "ab")) == [[], []]
    many = [draft(f"acme/m{number}", latency={"mean": float(number)}) for number in range(1, 8)]
    rounded = [draft(f"acme/{name}", latency={"mean": 80.0}) for name in "abc"]
    assert found(*rounded, *many) == [[]] * 10, "a table that rounds has such by chance"
    exact = [draft(f"acme/{name}", latency={"mean": 80.123456}) for name in "abc"]
    assert found(*exact, *many)[:3] == [["constant-across-models"]] * 3


def test_a_platform_as_slow_as_the_cpu_ran_on_it():
    def run(platform, factor):
        return [draft(platform=platform, hardware=f"{platform}-one", latency={"mean": (10.0 + size) * factor}, workload={"batch_size": size})
                for size in (1, 4, 8)]  # fmt: skip

    assert found(*run("cpu", 1.0), *run("cuda", 1.02)) == [[]] * 3 + [["equal-to-cpu"]] * 3
    assert found(*run("cpu", 1.0), *run("cuda", 0.3)) == [[]] * 6
    assert found(*run("cpu", 1.0)[:2], *run("cuda", 1.0)[:2]) == [[]] * 4, "two pairs say too little"
    assert found(*run("cpu", 1.0), *run("openvino", 1.0)) == [[]] * 6, "the processors are not the same"


def test_the_same_configuration_much_slower_is_suspect():
    rows_ = [
        draft(latency={"mean": 3.1415}),
        draft(latency={"mean": 44.0}),
        draft("acme/other", latency={"mean": 50.0}),
    ]
    assert found(*rows_) == [[], ["slower-elsewhere"], []]


def test_figures_that_stand_in_two_configurations_were_copied():
    figures = {"latency": {"mean": 12.3456789}, "metrics": {"throughput_per_s": 81.0}}
    assert found(draft(**figures), draft(platform="openvino", **figures)) == [["identical-rows"]] * 2
    assert found(draft(**figures), draft(**figures)) == [[], []], "the same row again is the same fact"
    coarse = {"latency": {"mean": 12.0}, "metrics": {"throughput_per_s": 83.0}}
    assert found(draft(**coarse), draft(platform="openvino", **coarse)) == [[], []]


def test_rows_without_claims_ask_only_the_rules_that_need_none(monkeypatch):
    asked = []
    for name, rule in list(ROW_RULES.items()):
        monkeypatch.setitem(ROW_RULES, name, lambda one, name=name, rule=rule: asked.append(name) or rule(one))
    judge(draft())
    assert asked == ["round-spread", "impossible-speed", "inconsistent-rate"]
    asked.clear()
    judge(draft(claims={"flags": {}}))
    assert asked == list(ROW_RULES)


def test_the_page_states_every_rule_in_its_own_words():
    section = PAGE.read_text().partition("## The cleaning rules")[2].partition("\n## ")[0]
    stated = {found[1]: found[0] for found in re.finditer(r"^\| `([a-z-]+)` \|.*$", section, re.MULTILINE)}
    every = {**ROW_RULES, **TOGETHER_RULES}
    assert list(stated) == list(every)
    for name, rule in every.items():
        assert " ".join((rule.__doc__ or "").split()).rstrip(".") in stated[name], name
    constants = {**vars(rows), **vars(across_rows)}
    for constant in re.findall(r"`([A-Z_]{4,})`", section):
        assert constant in constants

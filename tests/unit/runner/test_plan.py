"""Plans: what they hold, and what is refused before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.configuration import Workload
from domain.errors import UnknownModel, UnknownPlatform, UnsupportedPrecision, UsageError
from runner.campaign import bench, verify
from runner.campaign.bench import Growth
from runner.campaign.plan import Plan, Sweep, in_browsers, make_plan
from runner.measure.stopping import Method
from runner.models.sources import hub_problem
from runner.protocol.tasks import Case
from runner.spool import post, spool

WHOLE = ("weights", "method", "limit", "timeout_s", "low_memory")


def plan(*models: str, **options: Any) -> Any:
    chosen = {"platforms": ("cpu",), "models": models or ("bert-tiny",), **options}
    how = {name: chosen.pop(name) for name in WHOLE if name in chosen}
    return make_plan(Sweep(**chosen), **{"weights": "random", **how})


def test_the_product_is_complete_and_each_case_is_there_once() -> None:
    made = plan(
        *("bert-tiny", "vit-tiny-patch16-224", "bert-tiny"),
        platforms=("cpu", "openvino"),
        precisions=("fp32", "bf16"),
        batch_sizes=(1, 2, 2),
    )
    assert len(made.cases) == len(set(made.cases)) == 2 * 2 * 2 * 2
    assert made.models == ("bert-tiny", "vit-tiny-patch16-224")
    assert plan("bert-tiny", "gpt2", limit=1).models == ("bert-tiny",)


def test_without_platforms_every_known_one_is_asked() -> None:
    made = plan(platforms=None)
    assert not made.platforms_named
    assert {"cpu", "cuda", "openvino", "webnn", "qnn"} <= set(made.platforms)


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"models": ("bert-tinny",)}, UnknownModel, "model"),
        ({"models": ()}, UsageError, "model"),
        ({"platforms": ("opnvino",)}, UnknownPlatform, "platform"),
        ({"platforms": ()}, UsageError, "platforms"),
        ({"precisions": ("fp33",)}, UnsupportedPrecision, "precision"),
        ({"batch_sizes": (0,)}, UsageError, "batch_sizes"),
        ({"batch_sizes": (4, -1)}, UsageError, "batch_sizes"),
        ({"sequence_lengths": (0,)}, UsageError, "sequence_lengths"),
        ({"limit": 0}, UsageError, "limit"),
        ({"timeout_s": 0.0}, UsageError, "timeout"),
        ({"modes": ("sleeping",)}, UsageError, "mode"),
        ({"optimizers": ("lion",), "modes": ("training",)}, UsageError, "optimizer"),
        ({"modes": ("training",), "output_tokens": (4,)}, UsageError, "output_tokens"),
        ({"audio_seconds": (0.0,)}, UsageError, "audio_seconds"),
        ({"weights": "some"}, UsageError, "weights"),
        ({"low_memory": True, "precisions": ("fp32", "int8")}, UsageError, "low_memory"),
        ({"method": Method(iterations=0)}, UsageError, "iterations"),
        ({"method": Method(percentile="p50.5")}, UsageError, "percentile"),
        ({"method": Method(budget_s=0.0)}, UsageError, "budget"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(options: dict[str, Any], error: type[UsageError], field: str) -> None:
    with pytest.raises(error) as caught:
        plan(**options)
    assert caught.value.field == field
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_the_nearest_names_are_offered() -> None:
    with pytest.raises(UnknownPlatform) as caught:
        plan(platforms=("opnvino",))
    assert "openvino" in caught.value.nearest


def test_planning_imports_nothing_heavy() -> None:
    code = (
        f"import sys, {', '.join(module.__name__ for module in (bench, verify, post, spool))}\n"
        f"from {Sweep.__module__} import Sweep, make_plan\n"
        "make_plan(Sweep(models=('bert-tiny',), platforms=('cpu', 'openvino')), weights='random')\n"
        "heavy = {'torch', 'transformers', 'openvino', 'numpy', 'litestar', 'duckdb', 'streamlit', 'lightgbm'}\n"
        "sys.exit(','.join(sorted(heavy & sys.modules.keys())) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sizes_multiply_and_training_has_its_own() -> None:
    made = plan("gpt2", input_tokens=(8, 16), output_tokens=(4,), batch_sizes=(1, 2))
    assert [(case.workload.batch_size, case.workload.input_tokens) for case in made.cases] == [
        (1, 8), (1, 16), (2, 8), (2, 16),
    ]  # fmt: skip
    assert {case.workload.output_tokens for case in made.cases} == {4}
    both = plan(modes=("inference", "training"), optimizers=("adamw", "sgd"), gradient_checkpointing=(False, True))
    told = [(case.workload.mode, case.workload.optimizer, case.workload.gradient_checkpointing) for case in both.cases]
    assert told == [
        ("inference", None, None), ("training", "adamw", None), ("training", "adamw", True),
        ("training", "sgd", None), ("training", "sgd", True),
    ]  # fmt: skip


def test_low_memory_measures_in_sixteen_bits_what_would_begin_in_fp32() -> None:
    made = plan(precisions=("fp32", "bf16", "fp16"), low_memory=True)
    assert [case.precision for case in made.cases] == ["bf16", "fp16"]
    assert made.low_memory


def test_automatic_weights_stay_automatic_and_carry_why_the_hub_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_problem.cache_clear()
    try:
        published, own, none = (
            plan(model, weights=weights).cases[0]
            for model, weights in (("gpt2", "auto"), ("assay/llama-small", "auto"), ("gpt2", "random"))
        )
    finally:
        hub_problem.cache_clear()
    assert published.weights == "auto" and "HF_HUB_OFFLINE" in str(published.unreachable)
    assert (own.weights, own.unreachable) == ("auto", None)
    assert (none.weights, none.unreachable) == ("random", None)


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        ("patrickvonplaten/wav2vec2-tiny-random", "assay/wav2vec2-small"),
        ("hf-internal-testing/tiny-random-bert", "prajjwal1/bert-tiny"),
        ("someone/whisper-finetuned", "openai/whisper-tiny"),
        ("google/flan-t5-small", "google-t5/t5-small"),
        ("microsoft/DialoGPT-small", "assay/gpt2-small"),
        ("distilbert/distilroberta-base", "FacebookAI/roberta-base"),
        ("someone/nothing-known", None),
    ],
)
def test_without_the_hub_the_catalogues_model_of_the_same_design_stands_for_an_unknown_id(
    monkeypatch: pytest.MonkeyPatch, asked: str, measured: str | None
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_problem.cache_clear()
    try:
        for weights in ("auto", "random"):
            if measured is None:
                with pytest.raises(UnknownModel):
                    plan(asked, weights=weights)
                continue
            made = plan(asked, weights=weights)
            assert [(case.model, case.weights) for case in made.cases] == [(measured, "random")]
            (note,) = made.notes
            assert asked in note and measured in note and "random weights" in note
        with pytest.raises(UnknownModel):
            plan(asked, weights="pretrained")
    finally:
        hub_problem.cache_clear()


def test_a_case_that_two_sweeps_name_runs_once() -> None:
    one, two = (Sweep(models=("bert-tiny",), platforms=("cpu",), batch_sizes=sizes) for sizes in ((1, 2), (2, 4)))
    assert [case.workload.batch_size for case in make_plan(one, two, weights="random").cases] == [1, 2, 4]


def test_a_sweep_stops_growing_where_memory_ran_out_and_says_where() -> None:
    made = plan(batch_sizes=(1, 8, 32), sequence_lengths=(64, 128), platforms=("cpu", "openvino"))
    cases = {(case.platform, case.workload.batch_size, case.workload.sequence_length): case for case in made.cases}
    growth = Growth()
    growth.ran_out(cases["cpu", 8, 128])
    refused = {key for key, case in cases.items() if growth.refusal(case)}
    assert refused == {("cpu", 8, 128), ("cpu", 32, 128)}
    told = growth.refusal(cases["cpu", 32, 128])
    assert told is not None
    assert told.outcome == "skipped"
    assert "batch_size 8, sequence_length 128" in told.message


def test_options_are_one_more_list_and_only_those_of_the_platform() -> None:
    plan = make_plan(
        Sweep(models=("prajjwal1/bert-tiny",), platforms=("cuda",), options=((), ("cuda-graphs",), ("streams=2",)))
    )
    assert [case.options for case in plan.cases] == [(), ("cuda-graphs",), ("streams=2",)]
    with pytest.raises(UsageError) as refused:
        make_plan(Sweep(models=("prajjwal1/bert-tiny",), platforms=("cpu",), options=(("cuda-graphs",),)))
    assert refused.value.field == "options" and "cpu has no option 'cuda-graphs'" in str(refused.value)


def test_browsers_multiply_only_the_platforms_that_run_in_them():
    sweep = Sweep(models=("bert-tiny",), platforms=("cpu", "wasm", "webnn"))
    plan = make_plan(*in_browsers(sweep, ["chromium", "firefox"], headed=False), weights="random")
    assert [(case.platform, case.options) for case in plan.cases if case.platform == "cpu"] == [("cpu", ())]
    in_them = {(case.platform, case.options) for case in plan.cases if case.platform != "cpu"}
    assert in_them == {
        (platform, (f"browser={browser}",)) for platform in ("wasm", "webnn") for browser in ("chromium", "firefox")
    }


def test_a_browser_without_platforms_means_all_that_run_in_one():
    (sweep,) = in_browsers(Sweep(models=("bert-tiny",)), ["firefox"], headed=True)
    assert sweep.platforms == ("wasm", "webgpu", "webnn")
    assert sweep.options == (("browser=firefox", "headed"),)


@pytest.mark.parametrize(("browsers", "field"), [(["firefox"], "browser"), ([], "headed")])
def test_a_browser_without_a_platform_that_runs_in_one_is_refused(browsers, field):
    with pytest.raises(UsageError) as raised:
        in_browsers(Sweep(models=("bert-tiny",), platforms=("cpu",)), browsers, headed=not browsers)
    assert raised.value.field == field and "wasm" in raised.value.remedy


@pytest.mark.parametrize("browser", ["safari", "/nowhere/chrome"])
def test_what_is_no_browser_is_refused_before_anything_runs(browser):
    with pytest.raises(UsageError) as raised:
        in_browsers(Sweep(models=("bert-tiny",), platforms=("wasm",)), ["chromium", browser], headed=False)
    assert raised.value.field == "browser" and raised.value.remedy


@pytest.mark.parametrize("option", ["browser", "browser="])
def test_an_option_browser_needs_a_name(option):
    with pytest.raises(UsageError) as raised:
        make_plan(Sweep(models=("bert-tiny",), platforms=("wasm",), options=((option,),)), weights="random")
    assert raised.value.field == "options"


def test_q4_is_another_word_for_int4():
    plan = make_plan(Sweep(models=("bert-tiny",), platforms=("wasm",), precisions=("q4",)), weights="random")
    assert [case.precision for case in plan.cases] == ["int4"]


COUNTS = st.lists(st.integers(1, 12), min_size=1, max_size=8).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.integers(1, sum(sizes)))
)


def dealt(sizes: list[int], count: int) -> tuple[Plan, list[Plan]]:
    """A plan with so many cases of each model, two of its sweeps interleaved, and its parts."""
    cases = [
        Case(model=f"m{index}", platform="cpu", precision="fp32", workload=Workload(mode="inference", batch_size=batch))
        for batch in range(1, max(sizes) + 1)
        for index, size in enumerate(sizes)
        if batch <= size
    ]
    whole = Plan(cases=tuple(cases), timeout_s=7)
    return whole, [whole.part(number, count) for number in range(1, count + 1)]


@given(COUNTS)
def test_the_parts_together_are_the_plan_and_each_case_is_in_one(drawn: tuple[list[int], int]) -> None:
    whole, parts = dealt(*drawn)
    cases = [case for part in parts for case in part.cases]
    assert len(cases) == len(whole.cases) and set(cases) == set(whole.cases)
    assert all(part.timeout_s == 7 for part in parts)


@given(COUNTS)
def test_parts_are_of_about_equal_size_and_none_is_empty(drawn: tuple[list[int], int]) -> None:
    whole, parts = dealt(*drawn)
    even = len(whole.cases) / len(parts)
    assert all(max(1, even / 2 - 1) <= len(part.cases) <= even * 1.5 + 1 for part in parts)


@pytest.mark.parametrize(
    ("sizes", "count", "parts"),
    [
        ([3, 3], 2, [{"m0"}, {"m1"}]),
        ([4, 5, 3], 3, [{"m0"}, {"m1"}, {"m2"}]),
        ([8], 2, [{"m0"}, {"m0"}]),
        ([1, 7], 2, [{"m0", "m1"}, {"m1"}]),
        ([2, 2], 1, [{"m0", "m1"}]),
    ],
)
def test_cases_of_a_model_stay_in_one_part_unless_the_parts_became_uneven(
    sizes: list[int], count: int, parts: list[set[str]]
) -> None:
    assert [set(part.models) for part in dealt(sizes, count)[1]] == parts


def test_smaller_sizes_of_a_model_stay_before_larger_ones() -> None:
    for part in dealt([5, 4, 6], 2)[1]:
        for model in part.models:
            sizes = [case.workload.batch_size for case in part.cases if case.model == model]
            assert sizes == sorted(sizes)


@pytest.mark.parametrize(("number", "count"), [(0, 2), (3, 2), (-1, 2), (1, 5), (1, 0)])
def test_part_that_cannot_be_is_refused(number: int, count: int) -> None:
    with pytest.raises(UsageError) as refused:
        plan(batch_sizes=(1, 2)).part(number, count)
    assert refused.value.field == "part" and refused.value.remedy

"""A plan split into jobs: every case once, each with the needs that it states."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import UsageError
from domain.jobs.needs import Needs, read_needs
from runner.campaign.plan_file import Entry, PlanFile
from runner.campaign.splitting import code_of_others, combined_needs, split


def some(*values):
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(tuple)


OFF_OR_ON = some(False, True)
INFERENCE = st.builds(
    Entry,
    models=some("bert-tiny", "bert-base-uncased"),
    platforms=some("cpu", "openvino", "cuda", "onnxruntime"),
    precisions=some("fp32", "bf16", "int8"),
    batch_sizes=some(1, 3, 8),
    sequence_lengths=st.one_of(st.just(()), some(16, 128)),
    threads=st.one_of(st.just(()), some(1, 2)),
    compiled=OFF_OR_ON,
    scenario=st.sampled_from(["single_stream", "offline"]),
)
TRAINING = st.builds(
    Entry,
    models=some("bert-tiny"),
    platforms=some("cpu", "cuda"),
    modes=st.just(("training",)),
    optimizers=some("adamw", "sgd"),
    gradient_checkpointing=OFF_OR_ON,
)
SERVER = st.builds(
    Entry,
    models=some("bert-tiny"),
    platforms=some("cpu"),
    scenario=st.just("server"),
    target_qps=some(0.5, 20.0),
)
PLANS = st.builds(
    PlanFile,
    assay=st.just(1),
    sweeps=st.lists(st.one_of(INFERENCE, TRAINING, SERVER), min_size=1, max_size=3).map(tuple),
    weights=st.sampled_from(["auto", "random"]),
    budget_s=st.sampled_from([0.5, 5.0]),
    iterations=st.sampled_from([None, 7]),
    percentile=st.sampled_from(["p50", "p90"]),
    limit=st.sampled_from([None, 1]),
    timeout_s=st.sampled_from([60.0, 600.0]),
    memory_limit_bytes=st.sampled_from([None, 4_000_000_000]),
    verify=st.booleans(),
    trust_remote_code=st.booleans(),
)


@settings(max_examples=15, deadline=None)
@given(PLANS)
def test_jobs_together_make_exactly_the_cases_of_the_plan(plan_file):
    whole = plan_file.plan()
    jobs = split(plan_file)
    # A document goes over the wire and into a file before it is read again.
    files = [msgspec.json.decode(msgspec.json.encode(job.document), type=PlanFile) for job in jobs]
    assert [case for file in files for case in file.plan().cases] == list(whole.cases)
    for file in files:
        plan = file.plan()
        assert len(plan.cases) == 1
        assert (plan.method, plan.timeout_s, plan.memory_limit_bytes) == (
            whole.method,
            whole.timeout_s,
            whole.memory_limit_bytes,
        )
        assert (file.verify, file.benchmark) == (plan_file.verify, plan_file.benchmark)


def test_title_and_needs_say_what_is_measured_where():
    plan = PlanFile(
        assay=1, sweeps=(Entry(models=("bert-base-uncased",), platforms=("onnxruntime-cuda",), batch_sizes=(8,)),)
    )
    (job,) = split(plan)
    assert job.title == "bert-base-uncased on onnxruntime-cuda, fp32, batch 8"
    assert job.needs == Needs(platforms=("onnxruntime-cuda",))


def test_each_rank_needs_a_device():
    plan = PlanFile(assay=1, sweeps=(Entry(models=("gpt2",), platforms=("cuda",), options=(("tensor-parallel=2",),)),))
    assert split(plan)[0].needs.devices == 2


def test_low_memory_is_kept():
    plan = PlanFile(assay=1, low_memory=True, sweeps=(Entry(models=("bert-tiny",), platforms=("cpu",)),))
    (job,) = split(plan)
    assert msgspec.convert(job.document, PlanFile).plan().cases == plan.plan().cases


def test_sweep_without_platforms_takes_those_that_workers_have():
    plan = PlanFile(assay=1, sweeps=(Entry(models=("bert-tiny",)),))
    with pytest.raises(UsageError) as refused:
        split(plan)
    assert refused.value.field == "platforms"
    assert [job.case.platform for job in split(plan, ("cpu", "openvino"))] == ["cpu", "openvino"]


def test_model_in_a_folder_of_this_machine_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    plan = PlanFile(assay=1, sweeps=(Entry(models=(str(tmp_path),), platforms=("cpu",)),))
    with pytest.raises(UsageError) as refused:
        split(plan)
    assert refused.value.field == "model"


def test_stated_needs_are_added_and_contradictions_refused():
    both = combined_needs(read_needs("cuda,memory=2GB"), read_needs("memory=16GB,label=lab,os=linux"))
    assert both == read_needs("cuda,memory=16GB,os=linux,label=lab")
    with pytest.raises(UsageError, match="nvidia-l4 and nvidia-t4"):
        combined_needs(read_needs("hardware=nvidia-l4"), read_needs("hardware=nvidia-t4"))


@pytest.mark.parametrize(
    ("members", "option", "asks"),
    [
        ({"trust_remote_code": True}, (), ["trust_remote_code"]),
        ({"allow_pickle": True}, (), ["allow_pickle"]),
        ({}, ("browser=/tmp/program",), ["browser=/tmp/program"]),
        ({}, ("browser=firefox",), []),
    ],
)
def test_plans_that_run_code_of_others_need_a_worker_that_allows_it(members, option, asks):
    plan = PlanFile(assay=1, sweeps=(Entry(models=("bert-tiny",), platforms=("wasm",), options=(option,)),), **members)
    assert code_of_others(plan) == asks
    assert split(plan)[0].needs.labels == (("allow-code",) if asks else ())

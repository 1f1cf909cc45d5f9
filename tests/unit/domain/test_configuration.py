"""The name of a configuration: what is part of it, and that it never moves."""

import msgspec
import pytest

from domain.configuration import Configuration, Execution, Hardware, Model, Parallelism, Runtime, Workload

BASE = Configuration(
    model=Model(id="google-bert/bert-base-uncased", weights="random", parameters=109_482_240),
    workload=Workload(mode="inference", scenario="single_stream", batch_size=8, sequence_length=128),
    execution=Execution(
        platform="cuda", runtime=Runtime(name="torch", version="2.13.0"), precision="fp16", compiled=False
    ),
    hardware=Hardware(id="nvidia-h200-sxm", kind="gpu", count=1),
)


def test_the_key_is_pinned() -> None:
    """A change of this key renames every configuration in every log."""
    assert BASE.canonical() == (
        '{"execution":{"compiled":false,"platform":"cuda","precision":"fp16","runtime":{"name":"torch","version":"2.13.0"}},'
        '"hardware":{"count":1,"id":"nvidia-h200-sxm"},"model":{"id":"google-bert/bert-base-uncased"},'
        '"workload":{"batch_size":8,"mode":"inference","scenario":"single_stream","sequence_length":128}}'
    )
    assert BASE.key == "317ec4455a8da36d2499ea5841974c11"


def test_the_key_of_ranks_is_pinned_and_another() -> None:
    options = {"strategy": "fsdp2", "nodes": 2, "backend": "nccl", "local_batch_size": 4}
    execution = msgspec.structs.replace(BASE.execution, parallelism=Parallelism(data=2), options=options)
    on_ranks = msgspec.structs.replace(BASE, execution=execution)
    assert on_ranks.key == "ff653c64e2ab77b1b9c6a1a274f40d2e"
    others = ({**options, "strategy": "ddp"}, {**options, "nodes": 1}, {**options, "backend": "gloo"})
    keys = {
        msgspec.structs.replace(BASE, execution=msgspec.structs.replace(execution, options=other)).key
        for other in others
    }
    assert len({BASE.key, on_ranks.key, *keys}) == 5


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(BASE, model=Model(id="google-bert/bert-base-uncased", weights="pretrained")),
        msgspec.structs.replace(BASE, hardware=Hardware(id="nvidia-h200-sxm", count=1)),
    ],
    ids=["weights", "kind"],
)
def test_what_does_not_change_speed_does_not_change_the_key(other: Configuration) -> None:
    assert other.key == BASE.key


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(BASE, model=Model(id="google-bert/bert-large-uncased")),
        msgspec.structs.replace(BASE, workload=msgspec.structs.replace(BASE.workload, batch_size=9)),
        msgspec.structs.replace(BASE, workload=msgspec.structs.replace(BASE.workload, sequence_length=None)),
        msgspec.structs.replace(BASE, execution=msgspec.structs.replace(BASE.execution, compiled=True)),
        msgspec.structs.replace(BASE, execution=msgspec.structs.replace(BASE.execution, options={"graph": True})),
        msgspec.structs.replace(BASE, hardware=Hardware(id="nvidia-h200-sxm", count=2)),
    ],
    ids=["model", "batch", "sequence", "compiled", "options", "count"],
)
def test_what_changes_the_work_changes_the_key(other: Configuration) -> None:
    assert other.key != BASE.key
